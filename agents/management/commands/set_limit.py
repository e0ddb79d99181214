"""Set up to what amount a reviewer may grant a refund."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from agents import operations
from agents.core.money import BadAmount, format_money
from agents.management.asked import (
    ACTOR,
    BAD_USAGE,
    limit_of,
    refusals,
    user_named,
    workspace_named,
)
from agents.sdk.desk import DESKS
from agents.sdk.values import Money


class Command(BaseCommand):
    help = "Set a reviewer's limit. Exit code: 0 set, 3 refused, 2 bad usage."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workspace", help="its short name")
        parser.add_argument("user", help="the person's user name")
        parser.add_argument("limit", help='such as 800.00, or "none" for any amount')
        parser.add_argument("--desk", help="of this desk, instead of refunds in USD")
        parser.add_argument("--currency", help="of its amounts, such as EUR")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["desk"] or options["currency"]:
            self.stdout.write(_set_desk_limit(options))
            return
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


def _set_desk_limit(options: dict[str, Any]) -> str:
    """Set the limit of a declared desk. Return what was set. Raises CommandError."""
    desk, currency, text = options["desk"], options["currency"], options["limit"]
    if desk not in DESKS or not currency:
        known = ", ".join(DESKS) or "none"
        message = f"--desk and --currency go together; the desks are {known}."
        raise CommandError(message, returncode=BAD_USAGE)
    try:
        money = None if text == "none" else Money.of(text, currency)
    except (BadAmount, ArithmeticError) as error:
        raise CommandError(f"The limit: {error}.", returncode=BAD_USAGE) from None
    with refusals():
        part = operations.set_desk_limit(
            workspace=workspace_named(options["workspace"]),
            user=user_named(options["user"]),
            desk=desk,
            currency=currency,
            limit_minor=money.minor if money else None,
            at=timezone.now(),
            actor=ACTOR,
        )
    return f"{part}, may grant {f'at most {money}' if money else f'any amount in {currency}'}"
