"""Try the model servers now, through the same operation as the browser."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from agents import operations
from agents.management.command_arguments import refusals, user_named


class Command(BaseCommand):
    help = (
        "Call the models' servers now that runs wait for, instead of after their rest. "
        "Exit code: 0 done, 3 refused."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--as", dest="actor", required=True, help="an operator or admin")

    def handle(self, *args: Any, **options: Any) -> None:
        with refusals():
            woken = operations.try_models(by=user_named(options["actor"]), at=timezone.now())
        self.stdout.write(f"Waiting runs that try again now: {woken}.")
