"""Read a recorded case: its "config", limits and a simulation, and its "human", who is played."""

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import ROUND_DOWN, Decimal
from functools import partial
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from agents.core.compat_0_2 import RECORDED_LIMITS
from agents.core.decisions import Decision
from agents.core.json_forms import canonical
from agents.core.limits import OF_DESK, BadPolicy, Limits, read_limits
from agents.core.money import MAX_MINOR, BadAmount, minor_of_number, to_model_units
from agents.core.requests import Json
from agents.models import Escalation, Role
from agents.people.workspaces import ensure_simulated_person
from agents.requests.deciding import decide
from agents.sdk.desk import DESKS
from agents.shell.refusal import Refused

_OWN_NAMES = {key: key for key in ("max_steps", "max_tool_calls", "max_seconds")}
_BUDGETS = {  # names of a pattern's budgets in a case, and in a policy
    "supervisor": _OWN_NAMES,
    "routing": {
        "max_route_attempts": "max_steps",
        "max_delegations": "max_tool_calls",
        "max_seconds": "max_seconds",
    },
    "orchestrator": {
        "max_tasks": "max_steps",
        "max_parallel": "at_once",
        "max_retries_per_task": "call_attempts",
        "max_dispatches": "max_tool_calls",
        "task_timeout_seconds": "call_seconds",
        "max_seconds": "max_seconds",
    },
    "workflow": {"max_reorient_attempts": "max_reorients", **_OWN_NAMES},
}
_SIMULATED = ("faults", "registry_remove", "registry_add", "tool_arg_types")
_PAUSE = "aggregate_sleep_s"  # seconds between the last task and the brief
_SWITCHES = ("inbox", "judge")  # whether there are people to ask, and a judge


class _Worker(BaseModel):
    """A worker that a case adds: at least what it returns."""

    returns: Json


class _Config(BaseModel, extra="forbid"):
    """A case's config. A pattern knows its budgets, and the desk its limits."""

    budget: dict[str, Json] = {}
    policy: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = {}
    human: Json = None
    allowed_policy: list[str] = []
    allowed_execution: list[str] = []
    faults: list[Json] = []
    registry_remove: Json = None
    registry_add: dict[str, _Worker] = {}
    tool_arg_types: dict[str, Json] = {}
    inbox: Json = None
    judge: Json = None
    workflow: Json = None
    inputs: dict[str, Json] = {}
    aggregate_sleep_s: Annotated[float, Field(ge=0)] = 0


def read_config(config: Json, *, pattern: str, desk: str) -> tuple[Limits, dict[str, Json]]:
    """Return the limits and the simulation of a case's config. Raises Refused.

    What it does not say is as in the desk's profile `reference`.
    """
    try:
        _Config.model_validate_json(canonical(config), strict=True)
    except ValidationError as error:
        wrong = error.errors()[0]
        place = ".".join(map(str, wrong["loc"])) or "The config"
        raise _bad(f"{place} cannot be {wrong['input']!r}: {wrong['msg']}.") from None
    reference = DESKS[desk].policy
    if reference is None:
        raise Refused("no_profile", f"The desk {desk!r} has no policy for recorded cases.")
    budgets, base = _BUDGETS.get(pattern, _OWN_NAMES), reference.of(pattern, desk)
    budget, of_case = config.get("budget", {}), config.get("policy", {})
    for part, known in ((budget, budgets), (of_case, RECORDED_LIMITS)):
        for key in part:
            if key not in known:
                raise _bad(f"There is no {key!r} there; there is {', '.join(known)}.")
    changed = {budgets[key]: _budget(key, value) for key, value in budget.items()}
    changed |= {key: config[key] for key in _SWITCHES if key in config}
    own = {key: base.desks[desk][key] for key in OF_DESK if key in base.desks[desk]}
    tools = [*config.get("allowed_policy", base.proposable), *config.get("tool_arg_types", {})]
    runs = config.get("allowed_execution", base.executable)
    own |= {"tools": tools, "off": [name for name in tools if name not in runs]}
    in_cents = {RECORDED_LIMITS[key]: _cents(value) for key, value in of_case.items()}
    own |= {"limits": {**own["limits"], **in_cents}, "patterns": {pattern: {}}}
    document = {**base.as_json(), "desks": {desk: own}, **changed}
    try:
        limits = read_limits(document)
    except (BadPolicy, TypeError) as error:
        raise _bad(str(error)) from None
    simulation = {key: config[key] for key in _SIMULATED if key in config}
    if _PAUSE in config:
        simulation["pauses"] = {"reporter": config[_PAUSE]}
    for fault in simulation.get("faults", ()):
        _check_fault(fault)
    return replace(limits, profile="reference"), simulation


def _budget(key: str, value: Json) -> Json:
    """Return a budget as our limit: retries are attempts after the first.

    No attempt to reorient counts as one (svc-042).
    """
    if key == "max_retries_per_task" and isinstance(value, int):
        return value + 1
    if key == "max_reorient_attempts" and isinstance(value, int):
        return value if value > 0 else 1
    return value


def _cents(value: float) -> int:
    """Return a limit in minor units, without fractions of a cent."""
    return int((Decimal(str(value)) * 100).to_integral_value(ROUND_DOWN))


def _check_fault(fault: Json) -> None:
    """Refuse a fault that the simulation does not know. Raises Refused."""
    if not isinstance(fault, dict) or not isinstance(fault.get("target"), str):
        raise _bad('A fault names its "target", a tool.')
    if fault.get("do") not in (None, "raise", "return"):
        raise _bad('What a fault does is "raise" or "return".')
    if fault.get("do") == "raise" and not isinstance(fault.get("exc"), str):
        raise _bad('A fault that raises names the exception in "exc".')
    if fault.get("do") == "return" and "value" not in fault:
        raise _bad('A fault that returns has a "value".')


def _bad(sentence: str) -> Refused:
    return Refused("bad_config", sentence)


# The simulated person, in demos too. The record shows that it was one.


@dataclass(frozen=True)
class Human:
    """The simulated person's behaviour for every escalated payment."""

    approve: bool
    cap_minor: int | None = None  # grants at most this; None: the full amount
    revised_action: Json = None  # wants this action instead
    comment: str = ""


def read_human(answer: Json) -> Human:
    """Read a recorded case's "human"; absent is the reference's cap of 800. Raises Refused."""
    answer = {"decision": "approve", "cap_usd": 800.0} if answer is None else answer
    if not isinstance(answer, dict) or answer.get("decision") not in ("approve", "reject"):
        raise Refused("bad_human", 'human has a "decision", which is "approve" or "reject".')
    comment = str(answer.get("comment", ""))
    if answer["decision"] == "reject":
        return Human(False, comment=comment)
    if "cap_usd" in answer:
        return Human(True, _cap(answer["cap_usd"]), comment=comment)
    return Human(True, revised_action=answer.get("revised_action"), comment=comment)


def _cap(value: Json) -> int:
    """Return a cap in minor units, without fractions of a cent (sup-005)."""
    is_small = isinstance(value, float) and abs(value) < MAX_MINOR
    return _cents(value) if is_small else _amount(value)


def _amount(value: Json) -> int:
    """Return an amount as minor units. Raises Refused if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused("bad_human", f"What a person grants is a number, not {value!r}.")
    try:
        return minor_of_number(value)
    except BadAmount as error:
        raise Refused("bad_human", f"{error}.") from None


def decide_simulated(escalation: Escalation, human: Human, *, at: datetime) -> Escalation:
    """Decide as the simulated person would, rejecting what they may not approve. Raises Refused."""
    if not escalation.workspace.is_demo:
        raise Refused("simulated", "A simulated person decides only in a demo workspace.")
    by = ensure_simulated_person(workspace=escalation.workspace, role=Role.REVIEWER, at=at)
    approve, amount, comment = _intends(escalation, human)
    told = partial(decide, escalation_id=escalation.pk, by=by, at=at)
    try:
        patch = None if amount is None else _patch(escalation, amount)
        return told(wanted=Decision(approve=approve, patch=patch, comment=comment))
    except Refused as no:
        refused = f"the decision was refused: {no}"
        return told(wanted=Decision(approve=False, comment=refused))


def _intends(escalation: Escalation, human: Human) -> tuple[bool, int | None, str]:
    """Return approval, amount and comment, in the reference's words."""
    requested = escalation.amount_minor
    if not human.approve:
        return False, None, human.comment or "rejected"
    if human.revised_action is not None:
        return _revision(escalation, human)
    if human.cap_minor is None:
        return True, None, human.comment or "ok"
    if requested is None:
        return True, None, human.comment or "approved_by_human"
    granted = min(requested, human.cap_minor)
    if granted < 1:
        return False, None, "invalid_requested_amount"
    return True, granted, human.comment or f"approved_with_cap:{granted / 100}"


def _patch(escalation: Escalation, minor: int) -> dict[str, Json]:
    """Return the change of an amount as its tool writes it."""
    tool = DESKS[escalation.run.desk].tools[escalation.action["name"]]
    if tool.is_plain:
        return {tool.amount: minor}
    args = tool.read(escalation.action["args"])
    changed = replace(args, **{tool.amount: replace(getattr(args, tool.amount), minor=minor)})
    return {tool.amount: tool.arguments.write(changed)[tool.amount]}


def _revision(escalation: Escalation, human: Human) -> tuple[bool, int | None, str]:
    """Return a revision as a lowered amount, the only one a person may make. Raises Refused."""
    action = to_model_units(escalation.action)
    wanted = human.revised_action
    amount = wanted.get("args", {}).get("amount_usd") if isinstance(wanted, dict) else None
    same = wanted == {**action, "args": {**action["args"], "amount_usd": amount}}
    granted = 0
    with suppress(Refused):
        granted = _amount(amount) if same else 0
    if granted < 1:
        return False, None, "revision_refused: a person may lower the amount and nothing else"
    return True, granted, human.comment or "ok"
