"""Create a workspace with a book and a strict policy, without members."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from agents import operations
from agents.management.command_arguments import ACTOR, refusals
from agents.management.exit_codes import BAD_USAGE
from agents.sdk.desk import DESKS


class Command(BaseCommand):
    help = (
        "Make a workspace whose strict policy has the desks that it is for. "
        "Exit code: 0 made, 3 refused, 2 bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slug", help="its short name, such as eu-support")
        parser.add_argument("--name", required=True, help="what people see")
        parser.add_argument(
            "--desk",
            action="append",
            choices=list(DESKS),
            help="a desk that it starts with; again for another one",
        )
        parser.add_argument("--demo", action="store_true", help="with the demo's books")

    def handle(self, *args: Any, **options: Any) -> None:
        desks = options["desk"] or list(DESKS)
        if len(desks) > 1 and not options["desk"]:
            raise CommandError(
                f"Say with --desk which it starts with: {', '.join(desks)}.", returncode=BAD_USAGE
            )
        with refusals():
            workspace = operations.add_workspace(
                slug=options["slug"],
                name=options["name"],
                desks=desks,
                is_demo=options["demo"],
                at=timezone.now(),
                actor=ACTOR,
            )
        self.stdout.write(f"workspace {workspace.slug} made; next, give it an admin:")
        self.stdout.write(f"  manage.py add_member {workspace.slug} NAME admin")
