"""Say what became of a call of unknown outcome whose run has ended."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from agents import operations
from agents.management.command_arguments import refusals, user_named


class Command(BaseCommand):
    help = "Say what became of a lost call of an ended run. Exit code: 0 recorded, 3 refused."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("key", help="the call's key, as on the page of its run")
        answer = parser.add_mutually_exclusive_group(required=True)
        answer.add_argument("--took-effect", action="store_true")
        answer.add_argument("--no-effect", action="store_true")
        parser.add_argument("--reason", required=True, help="where you looked")
        parser.add_argument("--as", dest="actor", required=True, help="the reviewer's user name")

    def handle(self, *args: Any, **options: Any) -> None:
        with refusals():
            call = operations.settle_call(
                key=options["key"],
                by=user_named(options["actor"]),
                took_effect=options["took_effect"],
                comment=options["reason"],
                at=timezone.now(),
            )
        self.stdout.write(f"call {call.key} {call.state}")
