"""Press a kill switch from the command line, through the same operation as the browser."""

from __future__ import annotations

from typing import Any

from agents.management.operation_command import SWITCH, OperationCommand, switch_of
from agents.runs import kill_switch


class Command(OperationCommand):
    help = (
        "Stop all writes of a workspace, pattern, tool or agent. Exit code: 0 pressed, 3 refused."
    )
    arguments = SWITCH

    def act(self, options: dict[str, Any], **given: Any) -> str:
        switch = kill_switch.kill(**given, **switch_of(options))
        return f"{switch} is stopped: none of its writes starts."
