"""End a run, close its approvals, and wake what waits for its end."""

from django.db.models import Exists, OuterRef, QuerySet

from agents.core.decisions import INQUIRY, KINDS
from agents.core.requests import ENDED, GRANTED, EffectState, EscalationState, Json, RunState
from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import Pending
from agents.engine.commit import Commit
from agents.engine.runtime.dispatch import ring
from agents.models import AgentCall, Effect, Escalation, Run, Step
from agents.models.record import Entry
from agents.patterns.routing import NO_SPECIALIST
from agents.sdk.desk import tools_at


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
    """End a run, and close approvals that were not executed. Raises LostRun.

    Without `asked_people` there can be none. Call with the run locked.
    """
    if asked_people:
        commit.tell(close_approvals(commit.run, why=stop_reason))
    commit.move(to, facts=facts, actor=actor, stop_reason=stop_reason, **columns)
    if commit.run.agent_id is not None:
        _wake_last_run(commit)


def is_open_earlier(run: Run, *, but: Run | None = None) -> bool:
    """Tell whether an earlier run of an external agent's session is open, except `but`.

    Call with the run locked. A transaction that ends a run locks the newest after it, so it is seen
    here or wakes the newest.
    """
    earlier = [pk for pk in run.earlier_runs() if but is None or pk != but.pk]
    return bool(earlier) and Run.objects.filter(pk__in=earlier).exclude(state__in=ENDED).exists()


def _wake_last_run(commit: Commit) -> None:
    """Queue the run of the session whose end waits for the earlier ones."""
    run = commit.run
    session = Run.objects.filter(agent=run.agent_id, reference=run.reference)
    ending = session.filter(calls__key=LAST_WORDS, calls__step="").exclude(pk=run.pk)
    # A driven run may be about to wait.
    for last in ending.exclude(state__in=ENDED).select_for_update(of=("self",)):
        if last.state == RunState.WAITING and not is_open_earlier(last, but=run):
            with Commit(last, at=commit.at) as later:
                later.move(RunState.QUEUED, attempts=0)
                ring(last.pk)


# Approvals that were not executed. An approval ends in its effect or with a reason: on its row, for
# pages, and as an event of its run. Code that does one of these calls `close_approvals`: ends a
# run, asks a person again about the same action, admits another amount, records a tool's refusal,
# or tells an external agent that its call was not executed.


# Kinds whose approval the run executes; for an unknown effect the answer itself is the end.
CARRIED_OUT = tuple(dict.fromkeys(kind.stored for kind in KINDS.values() if not kind.settles_call))
OWN_ENDS = ("success", NO_SPECIALIST)  # ends of a run that did what was allowed
ASKED_AGAIN, AMOUNT_CHANGED, REFUSED = "asked_again", "amount_changed", "refused"


def turn_of(key: str) -> str:
    """Return the common prefix of a proposal's steps: ``2/`` for ``2/person#2``."""
    return f"{key.rpartition('/')[0]}/"


def close_approvals(run: Run, *, why: str, turn: str = "", but: int | None = None) -> list[Entry]:
    """Close the approvals of a run, or of one turn, that were not executed. Return their events.

    Call with the run's row locked. `why` is a code such as a stop reason, whose quotation is cut
    off. `but` is an approval that is being executed.
    """
    code = ":".join(why.split(":")[:2])[:120]
    entries = []
    for escalation in _APPROVALS.all(run=run.pk):
        if escalation.pk == but or (turn and not escalation.step.key.startswith(turn)):
            continue
        is_call = escalation.action["kind"] == "tool"
        if is_call and _is_read(escalation):
            continue
        # An approval of anything but a call can fail only with its run.
        if not is_call and (turn or why == REFUSED or _is_heeded(escalation, why)):
            continue
        Escalation.objects.filter(pk=escalation.pk).update(not_carried_out=code)
        facts = {"escalation": escalation.pk, "key": escalation.step.key, "reason": code}
        entries.append(Entry("escalation.not_carried_out", facts))
    return entries


# Read at the end of a run that asked people, and at every intent. A call that took effect, or may
# have, was executed.
_APPROVALS = CompiledSelect(
    lambda: (
        Escalation.objects.filter(
            run=Param("run"), kind__in=CARRIED_OUT, state__in=GRANTED, not_carried_out=""
        )
        .exclude(
            Exists(
                Effect.objects.filter(escalation=OuterRef("pk")).exclude(state=EffectState.REFUSED)
            )
        )
        .order_by("pk")
        .only("action", "kind", "run", "state", "step")
    )
)


def _is_heeded(escalation: Escalation, why: str) -> bool:
    """Tell whether an ending run followed a decision that allows no call.

    An approval counts as followed if the run ended by itself, a correction once the agent was asked
    again.
    """
    if why in OWN_ENDS or escalation.kind == INQUIRY.stored:
        return True
    if escalation.state == EscalationState.ADJUSTED:
        own = Step.objects.filter(run=escalation.run_id, kind="ask")
        turn = turn_of(escalation.step.key)
        later = own.filter(key__startswith=turn, position__gt=escalation.step.position)
        return later.exists()
    return False


def _is_read(escalation: Escalation) -> bool:
    """Tell whether the allowed call was made by a tool that reads, which leaves no effect."""
    tool = tools_at(escalation.run.desk).get(escalation.action["name"])
    if tool is None or tool.writes:
        return False
    steps = Step.objects.filter(run=escalation.run_id, key__startswith=turn_of(escalation.step.key))
    by_key = {step.key: step for step in steps}
    return any(
        step.kind == "use"
        and not step.failed
        and by_key[step.asked["allowed_by"]].asked["granted"] == escalation.step.key
        for step in by_key.values()
    )


# Calls that an external agent withdrew: none of them begins.


WITHDRAWN = "withdrawn"  # the reason for not executing such a call
UNTAKEN = "untaken"  # the same, if its session's end withdrew it
LAST_WORDS = "end"  # the key of the call that ends a session


def why_withdrawn(run: Run, turn: str, *, by_agent: bool) -> str:
    """Return why a turn's withdrawn call is not executed.

    The end of a session withdraws what its agent would execute (`by_agent`).
    """
    mine = AgentCall.objects.filter(run=run, step=f"{turn}call")
    ended_at = _end_of(run).values("proposed_at")
    is_by_end = by_agent and mine.filter(withdrawn_at__gte=ended_at).exists()
    return UNTAKEN if is_by_end else WITHDRAWN


def has_ended(run: Run) -> bool:
    """Tell whether an agent has said its last words, in any run of the session."""
    return _end_of(run).exists()


def _end_of(run: Run) -> QuerySet[AgentCall]:
    session = AgentCall.objects.filter(agent=run.agent_id, reference=run.reference or "")
    return session.filter(key=LAST_WORDS)


def is_withdrawn(run: Run, turn: str) -> bool:
    """Tell whether an agent has withdrawn the call of a turn. Call with the run locked."""
    return fetch_withdrawn(run, turn).get()


def fetch_withdrawn(run: Run, turn: str) -> Pending[bool]:
    """Fetch the answer of `is_withdrawn`, in an open pipeline if any."""
    if run.agent_id is None:
        return Pending(lambda: False)
    pending = _WITHDRAWN.fetch_tuples(run=run.pk, step=f"{turn}call")
    return Pending(lambda: bool(pending.get()))


_WITHDRAWN = CompiledSelect(
    lambda: AgentCall.objects.filter(
        run=Param("run"), step=Param("step"), withdrawn_at__isnull=False
    ).only("pk")
)
