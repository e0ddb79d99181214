"""Take somebody out of a workspace."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from agents import operations
from agents.management.command_arguments import ACTOR, refusals, user_named, workspace_named


class Command(BaseCommand):
    help = (
        "Take a member out of a workspace and end their sessions. Requests that they held are "
        "anybody's again. Exit code: 0 removed, 3 refused, 2 bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workspace", help="its short name")
        parser.add_argument("user", help="the person's user name")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace, user = workspace_named(options["workspace"]), user_named(options["user"])
        with refusals():
            count = operations.remove_member(
                workspace=workspace, user=user, at=timezone.now(), actor=ACTOR
            )
        self.stdout.write(
            f"{user} is no longer in {workspace}. Requests that are anybody's again: {count}"
        )
