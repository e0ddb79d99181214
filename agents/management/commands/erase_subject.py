"""Erase a desk's subject, as the law or the person demands."""

from __future__ import annotations

from typing import Any

from django.utils.text import capfirst

from agents.audit import erasing
from agents.core.money import with_unit
from agents.management.operation_command import WORKSPACE, OperationCommand, argument, desk_of


class Command(OperationCommand):
    help = (
        "Erase every text about a desk's subject; amounts, keys and the record's chain stay. "
        "This cannot be undone. It lists the places that it cannot reach. Exit code: 0 erased, "
        "3 refused, 2 bad usage."
    )

    arguments = (
        WORKSPACE,
        argument("key", help="the desk's own key, such as a number"),
        argument("--desk", help="desk (default: the workspace's first)"),
        argument("--reason", required=True, help="reason without names: it is kept"),
    )

    def act(self, options: dict[str, Any], **given: Any) -> str:
        done = erasing.erase_subject(
            **given,
            desk=desk_of(given["workspace"], options["desk"]),
            key=options["key"],
            reason=options["reason"],
        )
        earlier = f" Erased before: {done.before}." if done.before else ""
        runs = with_unit(done.runs, "runs")
        lines = [f"{capfirst(done.subject)} is forgotten, with {runs}.{earlier}"]
        if done.beyond:
            lines.append("\nThis it could not reach, so look there yourself:")
            lines.extend(f"  {line}" for line in done.beyond)
        return "\n".join(lines)
