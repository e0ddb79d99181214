"""Create a team of a workspace, or change its name and members."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from agents import operations
from agents.management.command_arguments import ACTOR, refusals, user_named, workspace_named


class Command(BaseCommand):
    help = (
        "Make a team that requests can be assigned to, or change it. Exit code: 0 set, 3 refused, "
        "2 bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workspace", help="its short name")
        parser.add_argument("team", help="the team's short name, such as leads")
        parser.add_argument("--name", default="", help="as people read it; a new team needs one")
        for what in ("add", "remove"):
            parser.add_argument(f"--{what}", action="append", default=[], metavar="USER")

        parser.add_argument("--lead", metavar="USER", help="who sees how it decides, or none")

    def handle(self, *args: Any, **options: Any) -> None:
        lead = options["lead"]
        with refusals():
            team = operations.set_team(
                workspace=workspace_named(options["workspace"]),
                slug=options["team"],
                name=options["name"],
                add=[user_named(name) for name in options["add"]],
                remove=[user_named(name) for name in options["remove"]],
                lead=user_named(lead) if lead and lead != "none" else None,
                has_no_lead=lead == "none",
                at=timezone.now(),
                actor=ACTOR,
            )
        people = team.members.order_by("user__username").values_list("user__username", flat=True)
        led = f", led by {team.lead.user.get_username()}" if team.lead else ""
        self.stdout.write(f"{team.name} ({team.slug}): {', '.join(people) or 'nobody'}{led}")
