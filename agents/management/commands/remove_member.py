"""Remove a member from a workspace."""

from __future__ import annotations

from typing import Any

from agents.management.operation_command import PERSON, WORKSPACE, OperationCommand
from agents.people import members


class Command(OperationCommand):
    help = (
        "Remove a member from a workspace and end their sessions, claims and assignments. Exit "
        "code: 0 removed, 3 refused, 2 bad usage."
    )
    arguments = (WORKSPACE, PERSON)

    def act(self, options: dict[str, Any], **given: Any) -> str:
        count = members.remove_member(**given)
        out = f"{given['user']} is no longer in {given['workspace']}"
        return f"{out}. Requests that are anybody's again: {count}"
