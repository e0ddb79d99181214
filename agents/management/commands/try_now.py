"""Try the model servers now, through the same operation as the browser."""

from __future__ import annotations

from typing import Any

from agents.management.operation_command import OperationCommand, acting
from agents.runs import outage


class Command(OperationCommand):
    help = (
        "Call the failing model servers now, instead of after their rest. "
        "Exit code: 0 done, 3 refused."
    )
    arguments = (acting("an operator or admin"),)

    def act(self, options: dict[str, Any], **given: Any) -> str:
        return f"Waiting runs that try again now: {outage.try_models(**given)}."
