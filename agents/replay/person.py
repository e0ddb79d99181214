"""A program that plays the person in demos and recorded cases; the record shows that."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_DOWN, Decimal

from agents.core.decisions import Decision
from agents.core.money import MAX_MINOR, BadAmount, minor_of_number, to_model_units
from agents.core.requests import Json
from agents.models import Escalation, Role
from agents.people.workspaces import ensure_simulated_person
from agents.requests.deciding import decide
from agents.shell.refusal import Refused


@dataclass(frozen=True)
class Human:
    """The simulated person's behaviour for every escalated payment."""

    approve: bool
    cap_minor: int | None = None  # grants at most this; None: the full amount
    revised_action: Json = None  # wants this action instead
    comment: str = ""


def read_human(said: Json) -> Human:
    """Read a recorded case's "human"; absent is the reference's cap of 800. Raises Refused."""
    said = {"decision": "approve", "cap_usd": 800.0} if said is None else said
    if not isinstance(said, dict) or said.get("decision") not in ("approve", "reject"):
        raise Refused("bad_human", 'human has a "decision", which is "approve" or "reject".')
    comment = str(said.get("comment", ""))
    if said["decision"] == "reject":
        return Human(False, comment=comment)
    if "cap_usd" in said:
        return Human(True, _cap(said["cap_usd"]), comment=comment)
    return Human(True, revised_action=said.get("revised_action"), comment=comment)


def _cap(value: Json) -> int:
    """Return a cap in minor units, without fractions of a cent (sup-005)."""
    if isinstance(value, float) and abs(value) < MAX_MINOR:
        return int((Decimal(repr(value)) * 100).to_integral_value(ROUND_DOWN))
    return _amount(value)


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
    try:
        return decide(
            escalation_id=escalation.pk,
            by=by,
            at=at,
            wanted=Decision(
                approve=approve,
                patch=None if amount is None else {"amount_minor": amount},
                comment=comment,
            ),
        )
    except Refused as no:
        refused = f"the decision was refused: {no}"
        return decide(
            escalation_id=escalation.pk,
            by=by,
            at=at,
            wanted=Decision(approve=False, comment=refused),
        )


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


def _revision(escalation: Escalation, human: Human) -> tuple[bool, int | None, str]:
    """Return a revision as a lowered amount, the only one a person may make. Raises Refused."""
    asked = to_model_units(escalation.action)
    wanted = human.revised_action
    amount = wanted.get("args", {}).get("amount_usd") if isinstance(wanted, dict) else None
    same = wanted == {**asked, "args": {**asked["args"], "amount_usd": amount}}
    try:
        granted = _amount(amount) if same else 0
    except Refused:
        granted = 0
    if granted < 1:
        return False, None, "revision_refused: a person may lower the amount and nothing else"
    return True, granted, human.comment or "ok"
