"""Caps on waiting requests, so that nobody can flood the inbox."""

from __future__ import annotations

from django.db.models import Count, Subquery
from django.db.models.functions import Coalesce

from agents.core.limits import Limits
from agents.core.states import EscalationState
from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import Pending
from agents.models import Escalation, Run, Workspace

LAUNCHER, SUBJECT = "launcher", "subject"  # as stored


def fetch_full(run: Run, limits: Limits) -> Pending[str]:
    """Ask whose requests fill the inbox, maybe together with other things.

    The answer is LAUNCHER or SUBJECT, or "" where there is room. It holds as long as the
    workspace's row is locked: whoever opens a request locks it first.
    """
    by_launcher, about_subject = limits.open_per_launcher, limits.open_per_subject
    if by_launcher is None and (about_subject is None or not run.subject_key):
        return Pending(str)
    counted = _OPEN.fetch_tuples(
        workspace=run.workspace_id,
        launcher=run.launched_by_id,
        desk=run.desk,
        book=run.book_id,
        subject=run.subject_key,
    )

    def answer() -> str:
        [(theirs, about)] = counted.get()
        if by_launcher is not None and theirs >= by_launcher:
            return LAUNCHER
        is_filled = about_subject is not None and run.subject_key and about >= about_subject
        return SUBJECT if is_filled else ""

    return Pending(answer)


def _count_open(**those: object) -> Coalesce:
    """Count open requests of a workspace."""
    waiting = Escalation.objects.filter(
        workspace=Param("workspace"), state=EscalationState.OPEN, **those
    )
    counts = waiting.order_by().values("state").annotate(count=Count("pk"))
    return Coalesce(Subquery(counts.values("count")), 0)


# Asked at each launch and at each request: both in one statement, each by its own index.
_OPEN = CompiledSelect(
    lambda: Workspace.objects.filter(pk=Param("workspace")).values_list(
        _count_open(run__launched_by=Param("launcher")),
        _count_open(run__desk=Param("desk"), run__book=Param("book"), subject_key=Param("subject")),
    )
)
