"""Forget a customer as a person, where the law or they ask for it."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from agents import operations
from agents.management.asked import ACTOR, refusals, workspace_named


class Command(BaseCommand):
    help = (
        "Erase every text about a customer; amounts and the record's chain stay. It cannot be "
        "undone. Exit code: 0 erased, 3 refused, 2 bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workspace", help="its short name")
        parser.add_argument("number", type=int, help="the customer's number")
        parser.add_argument("--reason", required=True, help="why; it stays, so it names nobody")

    def handle(self, *args: Any, **options: Any) -> None:
        number = options["number"]
        with refusals():
            done = operations.erase_customer(
                workspace=workspace_named(options["workspace"]),
                number=number,
                reason=options["reason"],
                at=timezone.now(),
                actor=ACTOR,
            )
        earlier = f" {done.before} were erased before." if done.before else ""
        self.stdout.write(f"Customer {number} is forgotten, with {done.runs} runs.{earlier}")
