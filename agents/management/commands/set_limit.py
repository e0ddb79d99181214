"""Set up to what amount a reviewer may grant a refund."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from agents import operations
from agents.core.money import format_money
from agents.management.asked import ACTOR, limit_of, refusals, user_named, workspace_named


class Command(BaseCommand):
    help = "Set a reviewer's limit. Exit code: 0 set, 3 refused, 2 bad usage."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workspace", help="its short name")
        parser.add_argument("user", help="the person's user name")
        parser.add_argument("limit", help='in USD, such as 800.00, or "none" for any amount')

    def handle(self, *args: Any, **options: Any) -> None:
        limit = limit_of(options["limit"])
        with refusals():
            part = operations.set_limit(
                workspace=workspace_named(options["workspace"]),
                user=user_named(options["user"]),
                refund_limit_minor=limit,
                at=timezone.now(),
                actor=ACTOR,
            )
        granted = "any amount" if limit is None else f"at most {format_money(limit)}"
        self.stdout.write(f"{part}, may grant {granted}")
