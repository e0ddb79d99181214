"""Why an approval was not carried out, in words: the half of a sentence that follows a colon."""

from __future__ import annotations

from agents.core.budget import BUDGETS
from agents.core.states import ENDED, EscalationState
from agents.engine.approvals import CARRIED_OUT, OWN_ENDS
from agents.models import Effect, Escalation

_ALLOWED = (EscalationState.APPROVED, EscalationState.ADJUSTED)
_WHY = {
    "asked_again": "the policy had a new reason to ask, so it was put as a new request",
    "amount_changed": "the amount that could be paid had changed, and the policy allowed that one",
    "refused": "the system of record refused it",
    "killed": "a kill switch stopped the run",
    "cancelled": "the run was cancelled",
    "human_rejected": "a later request of the run was rejected",
    "escalation_expired": "nobody answered a later request of the run in time",
    "supervisor_block:review_does_not_settle": "what is known of the charge kept changing",
    "success": "the run went on without it",
    "internal_error": "the run failed by a fault of the console",
    "diverged": "the run failed by a fault of the console",
}


def why_not(code: str) -> str:
    """Return the words for a code of `Escalation.not_carried_out`; "" for none."""
    if not code or code in _WHY:
        return _WHY.get(code, "")
    kind, _, about = code.partition(":")
    about = about.replace("_", " ")
    if kind == "supervisor_block":
        return f"the policy no longer allowed it ({about})"
    if kind == "loop_detected" or kind in BUDGETS or kind in ("max_steps", "max_tool_calls"):
        return f"the run had reached a limit ({kind})"
    if kind in ("tool_error", "tool_timeout", "tool_bad_result"):
        return f"the call of {about.replace(' ', '_')} failed and took no effect"
    return f"the run ended first ({code})"


def came_to_nothing(escalation: Escalation, effect: Effect | None) -> str:
    """Return why what was allowed was not done, or "" where it was, or still may be.

    A run that is over pays nothing any more, also where nobody kept the reason.
    """
    if escalation.state not in _ALLOWED or escalation.kind not in CARRIED_OUT:
        return ""
    if escalation.not_carried_out:
        return why_not(escalation.not_carried_out)
    is_call, reason = escalation.action.get("kind") == "tool", escalation.run.stop_reason
    is_approved = escalation.state == EscalationState.APPROVED
    is_undone = effect is None if is_call else is_approved and reason not in OWN_ENDS
    if escalation.run.state in ENDED and is_undone:
        return why_not(reason or "unknown")
    return ""
