"""Set the highest amount that a reviewer may grant at a desk."""

from __future__ import annotations

from typing import Any

from agents.core.money import format_money
from agents.management.operation_command import (
    PERSON,
    WORKSPACE,
    OperationCommand,
    argument,
    currency_of,
    desk_of,
    limit_of,
)
from agents.people import members


class Command(OperationCommand):
    help = "Set a reviewer's limit. Exit code: 0 set, 3 refused, 2 bad usage."
    arguments = (
        WORKSPACE,
        PERSON,
        argument("limit", help='amount, such as 800.00; "none" removes the limit'),
        argument("--desk", help="desk (default: the workspace's first)"),
        argument("--currency", help="currency (default: the desk's own)"),
    )

    def act(self, options: dict[str, Any], **given: Any) -> str:
        desk = desk_of(given["workspace"], options["desk"])
        currency = currency_of(desk, options["currency"])
        limit = limit_of(options["limit"], currency)
        part = members.set_limit(**given, desk=desk, currency=currency, limit_minor=limit)
        own = part.own_limits(desk)
        granted = "any amount" if own is None else f"at most {format_money(limit or 0, currency)}"
        if own is not None and currency not in own:
            limited = ", ".join(format_money(most, name) for name, most in sorted(own.items()))
            granted = f"nothing in {currency} (limited: {limited or 'every desk'})"
        return f"{part}, may grant {granted}"
