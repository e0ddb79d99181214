"""Record the outcome of a call that is unknown and whose run has ended."""

from __future__ import annotations

from typing import Any

from agents.management.operation_command import OperationCommand, acting, argument, one_of
from agents.requests import deciding


class Command(OperationCommand):
    help = "Record the outcome of a lost call of an ended run. Exit code: 0 recorded, 3 refused."
    arguments = (
        argument("key", help="the call's key, as on the page of its run"),
        one_of(
            argument("--took-effect", action="store_true"),
            argument("--no-effect", action="store_true"),
            required=True,
        ),
        argument("--reason", required=True, help="where you looked"),
        acting("the reviewer's user name"),
    )

    def act(self, options: dict[str, Any], **given: Any) -> str:
        call = deciding.settle_call(
            **given,
            key=options["key"],
            took_effect=options["took_effect"],
            comment=options["reason"],
        )
        return f"call {call.key} {call.state}"
