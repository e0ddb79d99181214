"""Add an external agent, or change it and its keys."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction

from agents.external import keys
from agents.management.operation_command import (
    WORKSPACE,
    OperationCommand,
    argument,
    one_of,
    user_named,
)
from agents.shell import refusal


class Command(OperationCommand):
    help = (
        "Add an external agent, change its owner, pause it, and create or revoke its keys. A "
        "change of owner revokes them. Exit code: 0 set, 3 refused, 2 bad usage."
    )
    arguments = (
        WORKSPACE,
        argument("agent", help="the agent's short name, such as mail-triage"),
        argument("--desk", default="", help="its desk; required for a new agent"),
        argument("--owner", metavar="USER", help="user name of its owner"),
        one_of(
            argument("--pause", action="store_true", help="refuse its sessions and calls"),
            argument("--resume", action="store_true"),
        ),
        argument(
            "--new-key",
            type=int,
            metavar="DAYS",
            help="create a key valid for DAYS days and print it; needs --as",
        ),
        argument(
            "--as",
            dest="person",
            metavar="USER",
            help="your user name; who sees a key cannot decide its requests",
        ),
        argument("--revoke", metavar="KEY", help="revoke the key with this prefix"),
    )

    @transaction.atomic  # a refused key leaves no agent behind
    def act(self, options: dict[str, Any], **given: Any) -> str:
        if options["new_key"] is not None and not options["person"]:
            sentence = "Say with --as USER who runs this: the key is shown to them."
            raise refusal.Refused("no_person", sentence)
        if options["person"]:
            given["actor"] = user_named(options["person"]).get_username()
        who = {name: given[name] for name in ("at", "actor")}
        agent = keys.set_agent(
            **given,
            name=options["agent"],
            desk=options["desk"],
            owner=user_named(options["owner"]) if options["owner"] else None,
            is_paused=True if options["pause"] else False if options["resume"] else None,
        )
        if options["revoke"]:
            keys.revoke_key(home=agent, prefix=options["revoke"], **who)
        paused = ", paused" if agent.paused_at else ""
        text = f"{agent.name}: {agent.desk}, of {agent.owner.get_username()}{paused}"
        if options["new_key"] is None:
            return text
        lasts = timedelta(days=options["new_key"])
        _, token = keys.make_key(home=agent, lasts=lasts, **who)
        return f"{text}\nIts key, which is not shown again:\n{token}"
