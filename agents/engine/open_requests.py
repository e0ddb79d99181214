"""How much may wait for people at the same time, so that nobody fills the inbox."""

from __future__ import annotations

from agents.core.limits import Limits
from agents.core.states import EscalationState
from agents.models import Escalation

TOO_MANY = "too_many_open_requests"
LAUNCHER, CUSTOMER = "launcher", "customer"


def full_of(
    *, workspace: int, launcher: int, book: int, customer: int | None, limits: Limits
) -> str:
    """Return whose requests fill the inbox, launcher or customer; "" where there is room.

    Nothing is locked for it: where several open at the same moment there may be a few more.
    """
    waiting = Escalation.objects.filter(workspace=workspace, state=EscalationState.OPEN)
    theirs = waiting.filter(run__launched_by=launcher)
    about = waiting.filter(run__book=book, customer=customer)
    most = limits.open_per_launcher
    if most is not None and theirs[:most].count() >= most:
        return LAUNCHER
    most = limits.open_per_customer
    if most is not None and customer is not None and about[:most].count() >= most:
        return CUSTOMER
    return ""
