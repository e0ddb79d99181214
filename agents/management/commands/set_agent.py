"""Add an agent that runs elsewhere, or change it and its keys."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from agents import operations
from agents.management.command_arguments import ACTOR, refusals, user_named, workspace_named


class Command(BaseCommand):
    help = (
        "Add an agent that runs elsewhere, or change its owner, pause it, and make or revoke its "
        "keys. Exit code: 0 set, 3 refused, 2 bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workspace", help="its short name")
        parser.add_argument("agent", help="the agent's short name, such as mail-triage")
        parser.add_argument("--desk", default="", help="where it proposes; a new agent needs one")
        parser.add_argument("--owner", metavar="USER", help="who answers for it")
        state = parser.add_mutually_exclusive_group()
        state.add_argument("--pause", action="store_true", help="it opens and proposes nothing")
        state.add_argument("--resume", action="store_true")
        parser.add_argument(
            "--new-key",
            type=int,
            metavar="DAYS",
            help="make a key for so long, and print it",
        )
        parser.add_argument("--revoke", metavar="KEY", help="revoke the key that begins like this")

    def handle(self, *args: Any, **options: Any) -> None:
        who: dict[str, Any] = {"at": timezone.now(), "actor": ACTOR}
        with refusals():
            agent = operations.set_agent(
                workspace=workspace_named(options["workspace"]),
                name=options["agent"],
                desk=options["desk"],
                owner=user_named(options["owner"]) if options["owner"] else None,
                is_paused=True if options["pause"] else False if options["resume"] else None,
                **who,
            )
            if options["revoke"]:
                operations.revoke_key(home=agent, prefix=options["revoke"], **who)
            paused = ", paused" if agent.paused_at else ""
            self.stdout.write(
                f"{agent.name}: {agent.desk}, of {agent.owner.get_username()}{paused}"
            )
            if options["new_key"] is not None:
                lasts = timedelta(days=options["new_key"])
                _, token = operations.make_key(home=agent, lasts=lasts, **who)
                self.stdout.write(f"Its key, which is not shown again:\n{token}")
