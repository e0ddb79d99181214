"""Take a person's second factor away who lost it, where no admin can."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from agents import operations
from agents.management.command_arguments import ACTOR, refusals, user_named


class Command(BaseCommand):
    help = (
        "Take a person's second factor and recovery codes away and end their sessions. Where their "
        "role needs a factor, they set up another one as they sign in. Exit code: 0 reset, "
        "3 refused, 2 bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="the person's user name")

    def handle(self, *args: Any, **options: Any) -> None:
        user = user_named(options["user"])
        with refusals():
            operations.reset_factor(user=user, by=None, at=timezone.now(), actor=ACTOR)
        self.stdout.write(f"{user.get_username()} signs in with the password alone now.")
