"""Change a member's role in a workspace."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from agents import operations
from agents.management.command_arguments import ACTOR, refusals, user_named, workspace_named
from agents.models import Role


class Command(BaseCommand):
    help = "Change what a member may do. Exit code: 0 changed, 3 refused, 2 bad usage."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workspace", help="its short name")
        parser.add_argument("user", help="the person's user name")
        parser.add_argument("role", choices=[role.value for role in Role])

    def handle(self, *args: Any, **options: Any) -> None:
        with refusals():
            part = operations.set_role(
                workspace=workspace_named(options["workspace"]),
                user=user_named(options["user"]),
                role=Role(options["role"]),
                at=timezone.now(),
                actor=ACTOR,
            )
        self.stdout.write(str(part))
