"""Create a workspace with a book and a strict policy, without members."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from agents import operations
from agents.management.command_arguments import ACTOR, refusals


class Command(BaseCommand):
    help = "Make a workspace with a strict policy. Exit code: 0 made, 3 refused."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slug", help="its short name, such as eu-support")
        parser.add_argument("--name", required=True, help="what people see")
        parser.add_argument("--demo", action="store_true", help="with the demo's books")

    def handle(self, *args: Any, **options: Any) -> None:
        with refusals():
            workspace = operations.add_workspace(
                slug=options["slug"],
                name=options["name"],
                is_demo=options["demo"],
                at=timezone.now(),
                actor=ACTOR,
            )
        self.stdout.write(f"workspace {workspace.slug} made; next, give it an admin:")
        self.stdout.write(f"  manage.py add_member {workspace.slug} NAME admin")
