"""Give the calls that an agent proposed to the slots of its run that listen.

Slots read facts side by side, so calls are given out one at a time, in the order of proposal: the
next once the one before is answered or waits for a person, unless their agent says that they may
run side by side. A run left with a call to give is
queued again, so that none is lost that came while it was driven. Nobody takes what is allowed once
the agent has said its last words: it is taken back, and so is what a person is asked about first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from itertools import takewhile
from operator import attrgetter

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from agents.core.requests import TAKE, Json, label_of
from agents.core.states import EscalationState, RunState
from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import Pending
from agents.db.inserts import insert_rows, update_row
from agents.engine.commit import Commit
from agents.engine.ending import end_run, is_open_earlier
from agents.engine.journal import AWAIT, USE
from agents.engine.people.approvals import close_approvals, turn_of
from agents.engine.turns.answering import withdraw
from agents.engine.withdrawal import LAST_WORDS, UNTAKEN, has_ended
from agents.models import AgentCall, Escalation, Run, Step
from agents.tools import is_by_agent

SILENT = "agent_silent"  # the end of a run whose agent does not come back


def is_listening(step: Step) -> bool:
    """Tell whether a step is a slot that waits for a call."""
    return step.kind == AWAIT and step.ended_at is None and label_of(step.key) != TAKE


def is_untaken(step: Step) -> bool:
    """Tell whether a step is a call that is allowed and that its agent has not taken."""
    return step.kind == AWAIT and step.ended_at is None and label_of(step.key) == TAKE


def _asks_for_agent(step: Step) -> bool:
    """Tell whether a step waits for a person about a call that its agent would execute."""
    if step.kind != "escalate" or step.ended_at is not None:
        return False
    action = step.asked["action"]
    return action["kind"] == "tool" and is_by_agent(action["name"])


def is_out(step: Step) -> bool:
    """Tell whether its agent has the call of a step: to take it, or to report what came of it."""
    is_taken = step.kind == USE and step.ended_at is None and is_by_agent(step.asked["tool"])
    return is_taken or is_untaken(step)


def slots_of(run: Run, steps: Iterable[Step]) -> int:
    """Return how many slots a session needs: `at_once`, and one for each call that is out.

    Once opened a slot stays. Pass all steps of the run.
    """
    known, had = list(steps), {_slot(step) for step in steps if step.kind == AWAIT}
    return max(run.limits.at_once + len(_slots_out(known)), len(had))


def _slot(step: Step) -> str:
    return "/".join(step.key.split("/", 2)[:2])


def _slots_out(steps: Iterable[Step]) -> set[str]:
    """Return the slots whose call is out, but for those that have gone on without a report."""
    out, listening = filter(is_out, steps), filter(is_listening, steps)
    return {_slot(step) for step in out} - {_slot(step) for step in listening}


def take_back(commit: Commit, waiting: Sequence[Step]) -> bool:
    """Take back what of these steps its agent was to take. Return whether there was any.

    What a person is asked about goes too: nobody would take it after a yes. What was taken is out
    with somebody and stays. Call with the run locked.
    """
    untaken = [step for step in waiting if is_untaken(step)]
    asking = [step for step in waiting if _asks_for_agent(step)]
    for step in (*untaken, *asking):
        mine = AgentCall.objects.filter(run=commit.run.pk, step=f"{turn_of(step.key)}call")
        mine.update(withdrawn_at=commit.at)
        commit.tell(close_approvals(commit.run, why=UNTAKEN, turn=turn_of(step.key)))
    for step in untaken:
        answer_await(step, {"withdrawn": True}, commit)
    keys = [step.key for step in asking]  # one that is new in this commit has no number yet
    asked = Escalation.objects.filter(run=commit.run.pk, state=EscalationState.OPEN)
    for one in asked.filter(step__key__in=keys).select_related("step") if keys else ():
        withdraw(one, commit, why=UNTAKEN)
    return bool(untaken or asking)


def take_back_at_end(commit: Commit, waiting: Sequence[Step]) -> bool:
    """Do so if the agent has said its last words, in whichever run of the session."""
    if not any(is_untaken(step) or _asks_for_agent(step) for step in waiting):
        return False
    return has_ended(commit.run) and take_back(commit, waiting)


def fetch_waiting(run: Run) -> Pending[list[AgentCall]]:
    """Fetch the oldest calls that no slot has, one for each slot, in an open pipeline if any."""
    return _waiting(run.limits.at_once).fetch(run=run.pk)


@cache
def _waiting(most: int) -> CompiledSelect[AgentCall]:
    def query() -> QuerySet[AgentCall]:
        waiting = AgentCall.objects.filter(run=Param("run"), step="")
        return waiting.order_by("is_end", "pk")[:most]

    return CompiledSelect(query)


def assign_call(commit: Commit, steps: Sequence[Step], waiting: Sequence[AgentCall]) -> bool:
    """Give the oldest waiting call to a slot that listens, if there are both. Return if so.

    `steps` are the run's open ones. At most `at_once` slots have a call that is not out with its
    agent. With a call go those that follow, as long as their agent says of all that they run side
    by side. The end goes to all that listen, once no call is out or unknown; a slot whose call
    waits for a person gets it afterwards, and all of them once the session's earlier runs have
    ended. A call that is given is stored as that, a new one in its first row. Call with the run
    locked.
    """
    slots = sorted(filter(is_listening, steps), key=attrgetter("position"))
    if not (slots and waiting):
        return False
    first, *others = waiting
    if first.key == LAST_WORDS and is_open_earlier(commit.run):
        return False
    if first.is_end and any(step.kind == USE for step in steps):
        return False
    if first.is_end:
        for step in slots:
            answer_await(step, {"end": first.asked}, commit)
        return True
    busy = {_slot(step) for step in steps} - {_slot(step) for step in slots} - _slots_out(steps)
    room = max(commit.run.limits.at_once - len(busy), 0)
    more = takewhile(attrgetter("side_by_side"), others) if first.side_by_side else ()
    for step, call in zip(slots[:room], (first, *more), strict=False):
        gone, asked = {"withdrawn": True} if call.withdrawn_at else {}, call.asked or {}
        call.step, call.asked = step.key, None
        if call.pk is None:
            insert_rows(call)
        else:
            update_row(call, "step", "asked")
        answer_await(step, {"call": call.pk, **gone, **asked}, commit)
    return room > 0


def answer_await(step: Step, reply: Json, commit: Commit) -> None:
    """Answer what a slot waits for."""
    step.reply, step.ended_at = reply, commit.at
    commit.update(step, "reply", "ended_at")
    commit.say("step.done", {"key": step.key})


def end_silent(*, most: int, at: datetime) -> int:
    """Stop runs whose agents have not called for too long. Return their number."""
    idle = Run.objects.filter(state=RunState.WAITING, idle_until__lte=Now())
    due = idle.exclude(escalations__state=EscalationState.OPEN).order_by("idle_until", "pk")
    count = 0
    for pk in list(due.values_list("pk", flat=True)[:most]):
        with transaction.atomic():
            run = Run.objects.select_for_update(of=("self",)).get(pk=pk)
            if run.state != RunState.WAITING or run.idle_until is None or run.idle_until > at:
                continue
            with Commit(run, at=at) as commit:
                end_run(commit, RunState.STOPPED, stop_reason=SILENT, facts={"stop_reason": SILENT})
            count += 1
    return count
