"""Set a person's email address."""

from __future__ import annotations

from typing import Any

from agents.management.operation_command import PERSON, WORKSPACE, OperationCommand, argument
from agents.notifications.channels import mail


class Command(OperationCommand):
    help = (
        "Set the address that a member's notifications go to; without an address, they get none. "
        "Exit code: 0 set, 3 refused, 2 bad usage."
    )
    arguments = (
        WORKSPACE,
        PERSON,
        argument("email", nargs="?", default="", help="such as rita@example.com"),
    )

    def act(self, options: dict[str, Any], **given: Any) -> str:
        mail.set_email(**given, email=options["email"])
        where = f"goes to {options['email']}" if options["email"] else "is not sent"
        return f"Mail for {given['user'].get_username()} {where}."
