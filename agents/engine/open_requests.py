"""How much may wait for people at the same time, so that nobody fills the inbox."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, QuerySet

from agents.core.limits import Limits
from agents.core.states import EscalationState
from agents.db.compiled import CompiledSelect, Param
from agents.models import Escalation

TOO_MANY = "too_many_open_requests"
LAUNCHER, CUSTOMER = "launcher", "customer"


def full_of(
    *, workspace: int, launcher: int, book: int, customer: int | None, limits: Limits
) -> str:
    """Return whose requests fill the inbox, launcher or customer; "" where there is room.

    Nothing is locked for it: where several open at the same moment there may be a few more.
    """
    most = limits.open_per_launcher
    if most is not None:
        theirs = _OF_LAUNCHER.tuples(workspace=workspace, launcher=launcher)
        if _count_of(theirs) >= most:
            return LAUNCHER
    most = limits.open_per_customer
    if most is None or customer is None:
        return ""
    about = _ABOUT_CUSTOMER.tuples(workspace=workspace, book=book, customer=customer)
    return CUSTOMER if _count_of(about) >= most else ""


def _count_of(found: list[tuple[Any, ...]]) -> int:
    return next((count for (count,) in found), 0)


def _count_open(**those: object) -> CompiledSelect[Escalation]:
    """Count open requests of a workspace; grouped by their state, so no row is none."""

    def build() -> QuerySet[Any]:
        waiting = Escalation.objects.filter(
            workspace=Param("workspace"), state=EscalationState.OPEN, **those
        )
        counts = waiting.order_by().values("state").annotate(count=Count("pk"))
        return counts.values_list("count")

    return CompiledSelect(build)


# Asked at each launch and at each request.
_OF_LAUNCHER = _count_open(run__launched_by=Param("launcher"))
_ABOUT_CUSTOMER = _count_open(run__book=Param("book"), customer=Param("customer"))
