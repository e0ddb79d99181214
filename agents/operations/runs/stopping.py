"""Stop a run."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction

from agents.core.states import ENDED, EscalationState, RunState
from agents.engine.commit import Commit
from agents.engine.ending import end_run
from agents.engine.redaction import redact_words
from agents.models import Escalation, Role, Run
from agents.shell.refusal import Refused, check_text, require_member

MAX_REASON = 500  # characters


def cancel(*, run_id: UUID, by: User, reason: str, at: datetime) -> Run:
    """Stop a run for good. Open calls are still recorded; nothing new begins.

    Raises Refused if the run has ended or the person may not stop it.
    """
    check_text(reason, most=MAX_REASON)
    with transaction.atomic():
        run = Run.objects.select_for_update(of=("self",)).select_related("workspace").get(pk=run_id)
        require_member(run.workspace, by, Role.OPERATOR, Role.REVIEWER, Role.ADMIN)
        if run.state in ENDED:
            raise Refused("ended", f"The run has ended already: it is {run.state}.")
        open_ones = Escalation.objects.filter(run=run, state=EscalationState.OPEN)
        open_ones.update(state=EscalationState.CANCELLED)
        facts = {"stop_reason": "cancelled", "why": redact_words(run, reason)}
        who = by.get_username()
        with Commit(run, at=at) as commit:
            end_run(commit, RunState.STOPPED, stop_reason="cancelled", facts=facts, actor=who)
        return run
