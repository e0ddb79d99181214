"""End a run, and let go on what waits for its end."""

from __future__ import annotations

from agents.core.requests import Json
from agents.core.states import ENDED, RunState
from agents.engine.commit import Commit
from agents.engine.people.approvals import close_approvals
from agents.engine.runtime.dispatch import ring
from agents.engine.withdrawal import LAST_WORDS
from agents.models import Run


def end_run(
    commit: Commit,
    to: RunState,
    *,
    stop_reason: str,
    facts: Json,
    actor: str = "",
    asked_people: bool = True,
    **columns: object,
) -> None:
    """End a run. Approvals that were not carried out are closed with it. Raises LostRun.

    Without `asked_people` there can be none. Call with the run locked.
    """
    if asked_people:
        commit.tell(close_approvals(commit.run, why=stop_reason))
    commit.move(to, facts=facts, actor=actor, stop_reason=stop_reason, **columns)
    if commit.run.agent_id is not None:
        _wake_last_run(commit)


def is_open_earlier(run: Run, *, but: Run | None = None) -> bool:
    """Tell whether an earlier run of an agent's session has not ended, `but` one that ends now.

    Call with the run locked. What ends one locks the newest after it, so that it is seen here or
    wakes the newest.
    """
    earlier = [pk for pk in run.earlier_runs() if but is None or pk != but.pk]
    return bool(earlier) and Run.objects.filter(pk__in=earlier).exclude(state__in=ENDED).exists()


def _wake_last_run(commit: Commit) -> None:
    """Queue the run of the session whose end waits for the earlier ones."""
    run = commit.run
    session = Run.objects.filter(agent=run.agent_id, reference=run.reference)
    ending = session.filter(calls__key=LAST_WORDS, calls__step="").exclude(pk=run.pk)
    # One that is driven may be about to wait.
    for last in ending.exclude(state__in=ENDED).select_for_update(of=("self",)):
        if last.state == RunState.WAITING and not is_open_earlier(last, but=run):
            with Commit(last, at=commit.at) as later:
                later.move(RunState.QUEUED, attempts=0)
                ring(last.pk)
