"""Stop a run, or stop a workspace from writing anything."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction

from agents.core.states import ENDED, EscalationState, RunState
from agents.models import Escalation, LostRun, Role, Run, Workspace
from agents.models.event import Entry, append
from agents.operations.refusal import Refused, check_text, member

MAX_REASON = 500  # characters


def cancel(*, run_id: UUID, by: User, reason: str, at: datetime) -> Run:
    """Stop a run for good. What is under way is still recorded; nothing new begins.

    Raises Refused where the run has ended or the person may not.
    """
    check_text(reason, most=MAX_REASON)
    with transaction.atomic():
        run = Run.objects.select_for_update().select_related("workspace").get(pk=run_id)
        member(run.workspace, by, Role.OPERATOR, Role.REVIEWER, Role.ADMIN)
        if run.state in ENDED:
            raise Refused("ended", f"The run has ended already: it is {run.state}.")
        open_ones = Escalation.objects.filter(run=run, state=EscalationState.OPEN)
        open_ones.update(state=EscalationState.CANCELLED)
        facts = {"stop_reason": "cancelled", "why": reason}
        try:
            run.move(
                RunState.STOPPED,
                at=at,
                facts=facts,
                actor=by.get_username(),
                stop_reason="cancelled",
            )
        except LostRun:
            raise Refused("moved", "The run moved on just now. Look again.") from None
        return run


def kill(*, workspace: Workspace, by: User, reason: str, at: datetime) -> None:
    """Throw the workspace's kill switch: no write starts after this commits. Raises Refused."""
    _switch(workspace, by, "kill_switch.on", reason, at, killed_at=at)


def release(*, workspace: Workspace, by: User, reason: str, at: datetime) -> None:
    """Let the workspace write again; runs that were stopped stay stopped. Raises Refused."""
    _switch(workspace, by, "kill_switch.off", reason, at, killed_at=None)


def _switch(
    workspace: Workspace, by: User, kind: str, reason: str, at: datetime, **columns: object
) -> None:
    if not reason.strip():
        raise Refused("no_reason", "Say why; everybody will see it.")
    with transaction.atomic():
        Workspace.objects.select_for_update().get(pk=workspace.pk)
        member(workspace, by, Role.ADMIN)
        Workspace.objects.filter(pk=workspace.pk).update(**columns)
        said = Entry(kind, {"why": reason.strip()[:500]}, by.get_username())
        append([said], workspace_id=workspace.pk, at=at)
