"""Encrypt the values behind names with the newest key."""

from __future__ import annotations

from typing import Any

from agents.audit import erasing
from agents.core.money import with_unit
from agents.management.operation_command import OperationCommand


class Command(OperationCommand):
    help = (
        "Encrypt stored values with OPSCONSOLE_VALUE_KEY, so that old keys can be removed. "
        "Exit code: 0 done, 3 a key is missing."
    )

    def act(self, options: dict[str, Any], **given: Any) -> str:
        return f"{with_unit(erasing.rotate_values(), 'values')} encrypted with the newest key."
