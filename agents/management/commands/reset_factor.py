"""Remove a lost second factor, where no admin can."""

from __future__ import annotations

from typing import Any

from agents.management.operation_command import PERSON, OperationCommand
from agents.people import second_factor


class Command(OperationCommand):
    help = (
        "Remove a person's second factor and recovery codes, and end their sessions. If their "
        "role needs a factor, they set up a new one at the next sign-in. Exit code: 0 reset, 3 "
        "refused, 2 bad usage."
    )
    arguments = (PERSON,)

    def act(self, options: dict[str, Any], **given: Any) -> str:
        second_factor.reset_factor(**given, by=None)
        return f"{given['user'].get_username()} signs in with the password alone now."
