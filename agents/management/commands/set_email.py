"""Set a person's email address."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from agents import operations
from agents.management.command_arguments import ACTOR, refusals, user_named, workspace_named


class Command(BaseCommand):
    help = (
        "Set the address that a member's notifications go to; without an address, they get none. "
        "Exit code: 0 set, 3 refused, 2 bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workspace", help="its short name")
        parser.add_argument("user", help="the person's user name")
        parser.add_argument("email", nargs="?", default="", help="such as rita@example.com")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace, user = workspace_named(options["workspace"]), user_named(options["user"])
        with refusals():
            operations.set_email(
                workspace=workspace,
                user=user,
                email=options["email"],
                at=timezone.now(),
                actor=ACTOR,
            )
        where = f"goes to {options['email']}" if options["email"] else "is not sent"
        self.stdout.write(f"Mail for {user.get_username()} {where}.")
