"""Release a kill switch from the command line, one stage at a time."""

from __future__ import annotations

from typing import Any

from agents.management.operation_command import SWITCH, OperationCommand, argument, switch_of
from agents.models import SwitchStage
from agents.runs import kill_switch

STAGES = {"new-runs": SwitchStage.TRIAL, "all-runs": SwitchStage.OFF}
SAID = {
    SwitchStage.TRIAL: "runs launched from now on may write; older ones may not yet.",
    SwitchStage.OFF: "released; runs that were stopped stay stopped.",
}


class Command(OperationCommand):
    help = (
        "Allow new runs to write again, and after that all runs. Exit code: 0 released, 3 refused."
    )
    arguments = (*SWITCH, argument("--for", dest="stage", choices=STAGES, required=True))

    def act(self, options: dict[str, Any], **given: Any) -> str:
        to = STAGES[options["stage"]]
        switch = kill_switch.release(**given, **switch_of(options), to=to)
        return f"{switch}: {SAID[to]}"
