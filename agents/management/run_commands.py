"""Commands that stop writes, settle calls, and do at once what would wait."""

from typing import Any

from agents.audit import erasing
from agents.core.money import with_unit
from agents.management.operation_command import (
    SWITCH,
    OperationCommand,
    acting,
    argument,
    one_of,
    switch_of,
)
from agents.models import SwitchStage
from agents.requests import deciding
from agents.runs import kill_switch, outage
from agents.shell.formats import WORDS


class Kill(OperationCommand):
    help = (
        "Stop all writes of a workspace, pattern, tool or agent. Exit code: 0 pressed, 3 refused."
    )
    arguments = SWITCH

    def act(self, options: dict[str, Any], **given: Any) -> str:
        switch = kill_switch.kill(**given, **switch_of(options))
        return f"{switch} is stopped: none of its writes starts."


STAGES = {"new-runs": SwitchStage.TRIAL, "all-runs": SwitchStage.OFF}


class Release(OperationCommand):
    help = (
        "Allow new runs to write again, and after that all runs. Exit code: 0 released, 3 refused."
    )
    arguments = (*SWITCH, argument("--for", dest="stage", choices=STAGES, required=True))

    def act(self, options: dict[str, Any], **given: Any) -> str:
        to = STAGES[options["stage"]]
        switch = kill_switch.release(**given, **switch_of(options), to=to)
        return f"{switch}: {WORDS['released'][to]}"


class SettleCall(OperationCommand):
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


class TryNow(OperationCommand):
    help = (
        "Call the failing model servers now, instead of after their rest. "
        "Exit code: 0 done, 3 refused."
    )
    arguments = (acting("an operator or admin"),)

    def act(self, options: dict[str, Any], **given: Any) -> str:
        return f"Waiting runs that try again now: {outage.try_models(**given)}."


class RotateValues(OperationCommand):
    help = (
        "Encrypt stored values with OPSCONSOLE_VALUE_KEY, so that old keys can be removed. "
        "Exit code: 0 done, 3 a key is missing."
    )

    def act(self, options: dict[str, Any], **given: Any) -> str:
        return f"{with_unit(erasing.rotate_values(), 'values')} encrypted with the newest key."
