"""Set the highest amount that a reviewer may grant at a desk."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from agents import operations
from agents.core.money import format_money
from agents.management.command_arguments import (
    ACTOR,
    currency_of,
    desk_of,
    limit_of,
    refusals,
    user_named,
    workspace_named,
)


class Command(BaseCommand):
    help = "Set a reviewer's limit. Exit code: 0 set, 3 refused, 2 bad usage."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workspace", help="its short name")
        parser.add_argument("user", help="the person's user name")
        parser.add_argument("limit", help='such as 800.00, or "none" to take it away')
        parser.add_argument("--desk", help="of this desk; else the workspace's first")
        parser.add_argument("--currency", help="of these amounts; else the desk's own")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = workspace_named(options["workspace"])
        desk = desk_of(workspace, options["desk"])
        currency = currency_of(desk, options["currency"])
        limit = limit_of(options["limit"], currency)
        with refusals():
            part = operations.set_limit(
                workspace=workspace,
                user=user_named(options["user"]),
                desk=desk,
                currency=currency,
                limit_minor=limit,
                at=timezone.now(),
                actor=ACTOR,
            )
        granted = "any amount" if limit is None else f"at most {format_money(limit, currency)}"
        if limit is None and (others := part.desk_limits.get(desk)):
            limited = ", ".join(format_money(most, name) for name, most in sorted(others.items()))
            granted = f"nothing in {currency} (limited: {limited})"
        self.stdout.write(f"{part}, may grant {granted}")
