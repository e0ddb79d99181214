"""How much may wait for people at the same time, so that nobody fills the inbox."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, QuerySet

from agents.core.former import SUBJECT
from agents.core.limits import Limits
from agents.core.states import EscalationState
from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import Pending
from agents.models import Escalation, Run

NOBODYS: Pending[list[tuple[Any, ...]]] = Pending(list)  # the answer where nothing is asked
LAUNCHER = "launcher"  # as stored, as is SUBJECT


def fetch_full(run: Run, limits: Limits) -> Pending[str]:
    """Ask whose requests fill the inbox, maybe together with other things.

    The answer is LAUNCHER or SUBJECT, or "" where there is room. It holds as long as the
    workspace's row is locked: whoever opens a request locks it first.
    """
    workspace = run.workspace_id
    theirs = about = NOBODYS
    if limits.open_per_launcher is not None:
        theirs = _OF_LAUNCHER.fetch_tuples(workspace=workspace, launcher=run.launched_by_id)
    if limits.open_per_subject is not None and run.subject_key:
        about = _ABOUT_SUBJECT.fetch_tuples(
            workspace=workspace, desk=run.desk, book=run.book_id, subject=run.subject_key
        )

    def answer() -> str:
        if _is_reached(limits.open_per_launcher, theirs):
            return LAUNCHER
        return SUBJECT if _is_reached(limits.open_per_subject, about) else ""

    return Pending(answer)


def _is_reached(most: int | None, counted: Pending[list[tuple[Any, ...]]]) -> bool:
    return most is not None and next((count for (count,) in counted.get()), 0) >= most


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
_ABOUT_SUBJECT = _count_open(
    run__desk=Param("desk"), run__book=Param("book"), subject_key=Param("subject")
)
