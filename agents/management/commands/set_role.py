"""Change a member's role in a workspace."""

from __future__ import annotations

from typing import Any

from agents.management.operation_command import PERSON, WORKSPACE, OperationCommand, argument
from agents.models import Role
from agents.people import members


class Command(OperationCommand):
    help = "Change what a member may do. Exit code: 0 changed, 3 refused, 2 bad usage."
    arguments = (WORKSPACE, PERSON, argument("role", choices=[role.value for role in Role]))

    def act(self, options: dict[str, Any], **given: Any) -> str:
        return str(members.set_role(**given, role=Role(options["role"])))
