"""Ask the business behind a run's desk for the facts of a review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from agents.core.actions import Action
from agents.core.facts import Facts
from agents.core.limits import Limits
from agents.core.requests import Json
from agents.db.driver import Pending
from agents.db.locks import send_lock
from agents.engine.desk import simulation
from agents.engine.desk.fresh_lookup import LookedUp
from agents.engine.desk.gathering import gather_facts, read_asked
from agents.engine.desk.ledger import DeskLedger
from agents.engine.desk.past_calls import EFFECTS
from agents.engine.desk.rejections import rejection_of
from agents.engine.desk.repeats import comparable, repeats_of
from agents.models import Run, Step
from agents.sdk.fact_sources import EarlierReview
from agents.tools import TOOLS


def calls_before(run: Run, action: Action) -> list[Step]:
    """Return the calls of the session's earlier runs, on which a review rests as on the run's own.

    None for what merely reads. Call outside a pipeline.
    """
    tool = TOOLS.get(str(action.get("name")))
    if tool is not None and not tool.writes:
        return []
    return steps_before(run, "use")


def steps_before(run: Run, *kinds: str) -> list[Step]:
    """Return the finished steps of these kinds of an agent's session's earlier runs."""
    earlier = run.earlier_runs() if run.agent_id and run.again_of_id else []
    if not earlier:
        return []
    made = Step.objects.filter(run__in=earlier, kind__in=kinds, failed="", ended_at__isnull=False)
    return list(made.order_by("begun_at", "pk"))


def fetch_facts(
    run: Run,
    action: Action,
    limits: Limits,
    steps: Sequence[Step],
    *,
    at: datetime,
    lock: bool,
    is_attended: bool = False,
    done: Mapping[int, Json] | None = None,
    ahead: LookedUp | None = None,
    turn: str = "",
    before: EarlierReview | None = None,
) -> Pending[tuple[Facts, str]]:
    """Fetch the facts for reviewing `action`, in an open pipeline if any.

    The answer is the facts, and the desk's key of the resource that the action uses, or "".
    `lock` holds the resource, and the sums that the review rests on, until the transaction ends;
    caps of a day are none of them where a person approved the action (`is_attended`). `done` are
    results that the ledger is about to be told, by the key of their step; `ahead` is what was
    looked up before. `turn` is the prefix of the keys of its own steps, where it is proposed;
    `before` is the review on which this one rests. Its answer raises StaleLookup.
    """
    asked = read_asked(run, action, limits, steps, at)
    resource = asked.resource
    if lock:
        _lock(asked)
    asked.locks, asked.is_attended = lock, is_attended
    asked.found, asked.done, asked.before = ahead, done or {}, before
    _send(asked, limits)

    def answer() -> tuple[Facts, str]:
        facts = gather_facts(asked, action)
        if turn and run.agent_id:
            asked.lock_sums()  # its other sessions may propose the same
        used = asked.fetched.resource if asked.desk.send else resource
        if turn and (earlier := repeats_of(run, action, steps, turn, at=at)):
            facts = replace(facts, repeats=earlier)
        if turn and (no := rejection_of(run, action, used, limits, at=at)):
            facts = replace(facts, rejected=no)
        return facts, used

    return Pending(answer)


def _send(asked: DeskLedger, limits: Limits) -> None:
    """Send for what a desk wants of its own, and for what the run has done."""
    desk, run, tool = asked.desk, asked.run, asked.declared
    if desk.send:  # first, because it may lock what later answers are about
        asked.sent = desk.send(run.subject_key, asked)
    if desk.numbers:
        moves = tool and tool.amount and not tool.letter and limits.caps_of(desk.name)
        asked.sums = asked.send_for_unattended(desk.numbers) if moves else Pending(dict)
    # A run's effects all come from its steps.
    registered = simulation.registry(run)
    called = {step.asked["tool"] for step in asked.steps if step.kind == "use"}
    if any(name not in registered or registered[name].writes for name in called):
        asked.acted = EFFECTS.fetch(run=run.pk)


def hold_resource(run: Run, action: Action, limits: Limits, *, at: datetime) -> Pending[str]:
    """Lock what a call uses, as its review before the call does, and fetch the desk's key of it."""
    asked = read_asked(run, action, limits, (), at)
    asked.locks = True
    _lock(asked)
    if asked.desk.send:
        asked.sent = asked.desk.send(run.subject_key, asked)
    return Pending(lambda: asked.fetched.resource if asked.desk.send else asked.resource)


def _lock(asked: DeskLedger) -> None:
    resource = asked.resource
    spelled = str(comparable(resource)) if asked.has_spellings else resource
    lock_resource(asked.run, spelled)


def lock_resource(run: Run, resource: str) -> None:
    """Send for a lock on a call's resource until the transaction ends.

    Call with the run's row and its workspace's writes locked.
    """
    if resource:
        send_lock(f"{run.desk}:{run.book_id}:{resource}")
