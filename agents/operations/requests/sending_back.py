"""Check whether a request may go back to its agent, which may then propose something else."""

from __future__ import annotations

from django.db.models import QuerySet

from agents.core.request_kinds import SEND_BACK
from agents.core.states import EscalationState
from agents.models import Escalation, Run
from agents.patterns import PROPOSE_AGAIN
from agents.shell.refusal import Refused
from agents.tools import request_of

UNHEARD = "This request cannot be sent back: its agent would propose nothing else."
ELSEWHERE = (
    "This request cannot be sent back: its agent runs elsewhere. Reject it instead: the agent "
    "reads your reason and may propose something else."
)


def sent_back_in(run: Run) -> QuerySet[Escalation]:
    """Return the requests of a run that were sent back to its agent."""
    return Escalation.objects.filter(run=run.pk, state=EscalationState.SENT_BACK)


def check_send_back(escalation: Escalation, before: int | None = None) -> None:
    """Refuse to send back what pattern or policy do not allow. Raises Refused.

    Call with the run locked, so that nobody else sends back meanwhile. `before` is the number sent
    back in the run so far, if known.
    """
    run, kind = escalation.run, request_of(escalation.kind, escalation.action)
    if kind.answer(SEND_BACK) is None or run.pattern not in PROPOSE_AGAIN:
        raise Refused("no_send_back", ELSEWHERE if run.agent_id else UNHEARD)
    most = run.limits.max_send_backs
    if (sent_back_in(run).count() if before is None else before) >= most:
        raise Refused("max_send_backs", _limit_in_words(most))


def _limit_in_words(most: int) -> str:
    if not most:
        return "The policy of this run lets no request be sent back. Decide this one."
    times = "once" if most == 1 else f"{most} times"
    return f"This run was sent back {times}, as often as its policy allows. Decide this one."
