"""Advance a run as far as possible: to its end, or until a person must decide."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from uuid import UUID

from django.db import DatabaseError, transaction
from django.utils import timezone

from agents import patterns, tools
from agents.core import requests
from agents.core.decisions import EFFECT_UNKNOWN
from agents.core.json_forms import sha256
from agents.core.limits import EXTERNAL, Limits
from agents.core.requests import AFTER_BLOCK, ENDED, RunState, result_kind
from agents.core.reviews import Touch
from agents.db.compiled import CompiledSelect, Param
from agents.engine import lease
from agents.engine.commit import WITHDRAWN, Commit, close_approvals, end_run, is_withdrawn, turn_of
from agents.engine.deciders import open_escalation
from agents.engine.desk.facts import steps_before
from agents.engine.desk.registry import tools_of
from agents.engine.desk.subjects import bound_arguments, figures_of
from agents.engine.drive import Later, NotHere, WaitsForPerson, drive
from agents.engine.journal import AWAIT, USE, Journal
from agents.engine.runtime.database import database_time, in_database, retry_transient
from agents.engine.runtime.dispatch import ring
from agents.engine.tools import gateway
from agents.engine.tools.admission import review_here, review_proposal
from agents.engine.turns import asking
from agents.engine.turns.answering import (
    assign_call,
    fetch_waiting,
    is_listening,
    is_out,
    slots_of,
    take_back_at_end,
)
from agents.engine.turns.asking import MAX_CLAIMS
from agents.models import Escalation, LostRun, Run, Step
from agents.models.runs import ValuesLocked, pseudonyms_of
from agents.patterns.external import ANSWERED, NOT_EXECUTED, UNKNOWN
from agents.sdk.desk import DESKS, tells_plain_numbers, tools_at
from agents.tools import is_by_agent

log = logging.getLogger(__name__)

_AFTER_DATABASE_ERROR = timedelta(seconds=1)  # doubled with each fruitless claim
_WITHOUT_KEY = timedelta(minutes=1)  # before a run whose values cannot be read is tried again
_LONGEST_DATABASE_PAUSE = timedelta(minutes=1)
_ENDED_STEPS = CompiledSelect(
    lambda: Step.objects.filter(run=Param("run"), ended_at__isnull=False).only("pk")
)


async def run_once(run_id: UUID, *, outlasts_outages: bool = True) -> RunState | None:
    """Claim a run and drive it. Safe to call at any time, any number of times.

    Return the resulting state, or None if it could not be claimed. With `outlasts_outages` false,
    for callers that wait, an outage of the model stops it after a few tries.
    """
    journal = await in_database(_claim, run_id, _WAITING.pop(run_id, None))
    if journal is None:
        return None
    with lease.driving(run_id):
        return await _run_claimed(journal.run, journal, outlasts_outages)


def begin(commit: Commit, steps: Sequence[Step]) -> Journal:
    """Take a run whose slot has a call by now, and drive it to that call's intent.

    All in the caller's transaction, which sends the commit: nothing may be awaited under its locks.
    `steps` are all of the run. Raises NotHere.
    """
    run = commit.run
    if run.question_version > patterns.QUESTION_VERSION:
        raise NotHere
    commit.move(RunState.QUEUED, attempts=0)
    lease.take(commit, owner=lease.OWNER)
    journal = Journal(run, steps=steps)
    brief = brief_in(journal)
    flow = patterns.PATTERNS[run.pattern](brief, patterns.Notes())
    driving = drive(flow, _ExecutorHere(journal, brief.limits))
    try:
        driving.send(None)
        raise RuntimeError("a drive awaited something under a transaction's locks")
    except StopIteration as end:
        journal.strand = end.value
    finally:
        driving.close()
    if not journal.admitted:
        raise NotHere
    commit.take(journal.take_draft())
    return journal


async def go_on(journal: Journal) -> RunState | None:
    """Go on with a run that `begin` took, once that is committed."""
    with lease.driving(journal.run.pk):
        return await _run_claimed(journal.run, journal, outlasts_outages=True)


async def _run_claimed(run: Run, journal: Journal, outlasts_outages: bool) -> RunState | None:
    fence = run.fence
    try:
        return await _drive_claimed(run, journal, outlasts_outages)
    except LostRun:
        await in_database(journal.flush_unfenced)
        return None  # its new owner continues
    except Later as later:
        # Waiting is no failure: only fruitless claims mark a run as poisonous.
        counted = {} if later.is_fruitless else {"attempts": 0}
        left = await _leave_run(run, fence, _requeue_end(later.pause, later.why, **counted))
        if left and later.why == asking.RESTS:
            await in_database(asking.wake_if_rest_is_over, run.pk)
        return left
    except ValuesLocked as missing:
        log.error("Run %s waits: %s", run.pk, missing)
        return await _leave_run(run, fence, _requeue_end(_WITHOUT_KEY, str(missing), attempts=0))
    except DatabaseError:
        log.exception("Run %s met a database error and is tried again", run.pk)
        await in_database(journal.flush_unfenced)
        # A table locked for a quarter of an hour must not make a run count as poisonous.
        pause = min(_LONGEST_DATABASE_PAUSE, _AFTER_DATABASE_ERROR * 2 ** (run.attempts - 1))
        return await _leave_run(run, fence, _requeue_end(pause))
    except Exception as error:  # our own bug: a retry would only repeat it
        log.exception("Run %s failed", run.pk)
        await in_database(journal.flush_unfenced)
        reason = "diverged" if isinstance(error, requests.Diverged) else "internal_error"
        facts = {"stop_reason": reason, "error": type(error).__name__}
        return await _leave_run(run, fence, _End(RunState.FAILED, {"stop_reason": reason}, facts))


def _claim(run_id: UUID, kept: Journal | None = None) -> Journal | None:
    run = lease.claim(run_id, owner=lease.OWNER, lease=lease.length(), at=timezone.now())
    if run is None:
        return None
    # An answer moves the run, and so does the claim; anything more was somebody else.
    is_ours = kept is not None and kept.run.fence + 2 == run.fence
    # The claim is not repeated: it cannot be made twice.
    return retry_transient(Journal, run, kept if is_ours else None)


# What this process left waiting, oldest first. After an answer it goes on there: reading and
# replaying the steps would cost more with each pause of a long run. Only the event loop uses it.
_WAITING: dict[UUID, Journal] = {}
_MOST_KEPT = 5_000  # steps, of all of them: some 30 MB


def _keep_waiting(journal: Journal, strand: requests.Strand) -> None:
    journal.strand = strand
    _WAITING[journal.run.pk] = journal
    while sum(len(one.steps) for one in _WAITING.values()) > _MOST_KEPT:
        del _WAITING[next(iter(_WAITING))]


def brief_of(run: Run) -> patterns.Brief:
    """Return the brief with which a run was launched. Raises BadPolicy."""
    extra = run.simulation.get("tool_arg_types", {})
    of_run = tools_of(run)
    known = {name: tool.spec for name, tool in of_run.items()}
    limits, by_agent = limits_in(run), {name for name, tool in of_run.items() if tool.by_agent}
    declared, inputs = run.workflow.get("document"), run.workflow.get("inputs", {})
    return patterns.Brief(
        goal=run.goal,
        limits=limits,
        specs={**tools.specs(run.desk), **known, **extra},
        reads={name for name, tool in of_run.items() if tool.touch is Touch.READ},
        by_agent=by_agent,
        bound=bound_arguments(run),
        more_tools=tools.usage_of(run.desk, limits.proposable),
        desk=_told_of(run),
        question_version=run.question_version,
        in_model_units=tells_plain_numbers(run.desk),
        scope=run.scope,
        before=run.before,
        figures=figures_of(run),
        workflow=declared,
        inputs=inputs,
    )


def limits_in(run: Run, limits: Limits | None = None) -> Limits:
    """Return limits, by default the run's, as they hold for its agent. Raises BadPolicy."""
    limits = limits or run.limits
    by_agent = {name for name, tool in tools_of(run).items() if tool.by_agent}
    # No agent could. Without such tools, all such runs get these limits.
    if run.pattern != EXTERNAL and by_agent.intersection(limits.proposable):
        offered = tuple(name for name in limits.proposable if name not in by_agent)
        limits = replace(limits, proposable=offered)
    return limits


def brief_in(journal: Journal) -> patterns.Brief:
    """Return the brief of a run, with the slots of an external agent's session."""
    run, brief = journal.run, brief_of(journal.run)
    is_session = run.pattern == EXTERNAL
    return replace(brief, slots=slots_of(run, journal.steps.values())) if is_session else brief


def _told_of(run: Run) -> requests.Json:
    """Return the guide for a declared desk's model: its brief, and the subject's key."""
    desk = DESKS.get(run.desk)
    if desk and desk.has_prompts:  # its prompts have it
        return None
    about = {desk.subject.kind: run.subject_key} if desk and run.subject_key else {}
    return desk and {"name": desk.name, "brief": desk.brief, "about": about}


async def _drive_claimed(run: Run, journal: Journal, outlasts_outages: bool) -> RunState:
    """Drive a claimed run; commit pending writes together with its move."""
    if run.attempts > MAX_CLAIMS:
        raise RuntimeError(f"claimed {run.attempts} times without an end")
    if run.has_values:
        await in_database(pseudonyms_of, run)
    brief = brief_in(journal)
    limits = brief.limits
    if limits.outlasts_outages and not outlasts_outages:
        limits = replace(limits, outlasts_outages=False)
    executor = RunExecutor(journal, limits)
    flow, left = patterns.PATTERNS[run.pattern](brief, patterns.Notes()), journal.strand
    # Under other code the recorded steps are replayed, which notices what differs.
    strand = await drive(left if left and left.has_code_of(flow) else flow, executor)

    def move(commit: Commit) -> RunState:
        end = _end_of(journal, strand, commit, slots=brief.slots)
        end.move(commit)
        return end.to

    state = await journal.transact(move)
    # An agent elsewhere adds slots to its flow, which only a replay sees.
    if state == RunState.WAITING and run.pattern != EXTERNAL:
        _keep_waiting(journal, strand)
    return state


# The state of a run after a drive.


@dataclass(frozen=True)
class _End:
    """The state in which a worker leaves a run."""

    to: RunState
    columns: dict[str, requests.Json]
    facts: dict[str, requests.Json]
    asked_people: bool = True  # False: no approval can exist
    pause: timedelta | None = None  # before it may be claimed again

    def move(self, commit: Commit) -> None:
        """Move the run there. Raises LostRun."""
        columns, facts = self.columns, self.facts
        if self.to in ENDED:
            end_run(commit, self.to, facts=facts, asked_people=self.asked_people, **columns)
            return
        if self.pause is not None:
            at = database_time() + self.pause
            columns, facts = {**columns, "wake_at": at}, {"until": at.isoformat(), **facts}
        commit.move(self.to, facts=facts, **columns)
        if self.to == RunState.QUEUED:
            ring(commit.run.pk, at=columns.get("wake_at"))


def _end_of(journal: Journal, strand: requests.Strand, commit: Commit, *, slots: int = 0) -> _End:
    """Return the state to leave a driven run in. Call under its lock, with its new steps."""
    has_asked = any(step.kind == "escalate" for step in journal.steps.values())
    if strand.outcome and strand.outcome.stopped:
        stopped = {"stop_reason": strand.outcome.stopped}
        kept = {name: kept for name, kept in strand.details.items() if name == AFTER_BLOCK}
        if not kept:
            return _End(RunState.STOPPED, stopped, stopped, has_asked)
        facts = {**stopped, "outcome_sha256": sha256(kept)}
        return _End(RunState.STOPPED, {**stopped, "outcome": kept}, facts, has_asked)
    if strand.outcome:
        outcome = _with_what_came(journal, strand.outcome.value)
        done = {"stop_reason": "success", "outcome": outcome}
        facts = {"stop_reason": "success", "outcome_sha256": sha256(outcome)}
        return _End(RunState.DONE, done, facts, has_asked)
    # A person may have answered while siblings ran: then the run can go on.
    if journal.has_turned_away:
        return _End(RunState.QUEUED, {}, {})
    waiting = [step for step in journal.steps.values() if step.ended_at is None]
    # A slot gets its call when a worker leaves the run, or while the run waits.
    held = {s.pk for s in waiting if s.key not in commit.new_keys and not is_listening(s)}
    answered = held and held.intersection(pk for (pk,) in _ENDED_STEPS.tuples(run=journal.run.pk))
    if answered:
        return _End(RunState.QUEUED, {}, {})
    if journal.run.pattern != EXTERNAL:
        return _End(RunState.WAITING, {}, {})
    lacks_slots = slots_of(journal.run, journal.steps.values()) > slots
    if lacks_slots or _is_asked_about(journal, waiting) or take_back_at_end(commit, waiting):
        return _End(RunState.QUEUED, {"attempts": 0}, {})
    calls = fetch_waiting(journal.run).get() if any(map(is_listening, waiting)) else []
    if assign_call(commit, waiting, calls):
        return _End(RunState.QUEUED, {"attempts": 0}, {})
    # A remaining call waits for people's answers about others, or for earlier runs or calls.
    is_idle = not calls and all(step.kind == AWAIT for step in waiting)
    idle_until = commit.at + timedelta(seconds=journal.run.limits.idle_seconds) if is_idle else None
    entry = {"listens": True} if is_idle else {}
    return _End(RunState.WAITING, {"attempts": 0, "idle_until": idle_until}, entry)


def _is_asked_about(journal: Journal, waiting: Sequence[Step]) -> bool:
    """Tell whether a person was asked, during the drive, about a call that is out."""
    out = [step.pk for step in waiting if step.kind == USE and is_out(journal.run, step)]
    out = [pk for pk in out if pk not in journal.escalated]
    return bool(out) and Escalation.objects.filter(step__in=out).exists()


def _with_what_came(journal: Journal, outcome: requests.Json) -> requests.Json:
    """Return a run's outcome with the outcome of its goal; the reference has no such field."""
    limits = journal.run.limits
    if limits.profile == "reference" or not isinstance(outcome, dict):
        return outcome
    writes = {name for name, tool in tools_at(journal.run.desk).items() if tool.writes}
    before = steps_before(journal.run, USE, "review")
    used = [*journal.uses, *(step for step in before if step.kind == USE)]
    calls = [step for step in used if step.asked["tool"] in writes]
    has_written = any((step.reply or {}).get("status") == "ok" for step in calls)
    possible = writes.intersection(limits.proposable)
    # Other runs with blocked calls are stopped, so they have no such outcome.
    steps = (*before, *journal.steps.values())
    reviews = [step.reply for step in steps if step.kind == "review"]
    is_blocked = journal.run.pattern == EXTERNAL and any(
        review and review["decision"] == "block" for review in reviews
    )
    kind = result_kind(outcome, has_written=has_written, writes=possible, is_blocked=is_blocked)
    return {**outcome, "came_of": kind}


def _requeue_end(pause: timedelta, why: str = "", **columns: requests.Json) -> _End:
    return _End(RunState.QUEUED, columns, {"why": why} if why else {}, pause=pause)


async def _leave_run(run: Run, fence: int, end: _End) -> RunState | None:
    """Move a run whose drive failed; steps that were not committed are done again."""

    def move() -> RunState | None:
        run.state, run.fence = RunState.RUNNING, fence  # a failed commit left the object moved
        try:
            with transaction.atomic():
                run.assert_lease()
                with Commit(run, at=timezone.now()) as commit:
                    end.move(commit)
        except LostRun:
            return None
        return end.to

    return await in_database(move)


# Execute a pattern's requests, and record the replies.


# For a call that its agent took and did not report: its slot continues, while a person is asked.
_LEFT = requests.Reply(failed=EFFECT_UNKNOWN.stored)


class RunExecutor:
    """The executor of one claimed run."""

    def __init__(self, journal: Journal, limits: Limits) -> None:
        self.journal, self.limits = journal, limits

    def recall(self, key: str, request: requests.Request) -> requests.Reply | None:
        """Return the recorded reply; _LEFT if a call's slot has gone on without one."""
        if not isinstance(request, requests.Use):
            return self.journal.recall(key, request)
        try:
            recorded = self.journal.recall(key, request)
        except WaitsForPerson:
            if not is_by_agent(self.journal.run.desk, request.tool):
                raise
            return _LEFT
        answer = self.journal.steps.get(f"{turn_of(key)}answer")
        last_words = answer.asked if answer else {}
        has_left = last_words.get("kind") == ANSWERED and last_words["facts"]["status"] == UNKNOWN
        return _LEFT if has_left else recorded

    async def keep(self) -> None:
        await self.journal.flush()

    async def do(self, key: str, request: requests.Request) -> requests.Reply:
        """Answer one request. Raises WaitsForPerson, Later, LostRun."""
        match request:
            case requests.Ask():
                return await asking.ask(key, request, self.journal, self.limits)
            case requests.Review():
                return await review_proposal(key, request, self.journal, self.limits)
            case requests.Escalate():
                return await self._escalate(key, request)
            case requests.Use():
                return await gateway.use(key, request, self.journal, self.limits)
            case requests.Await():
                self.journal.begin(key, request)
                raise WaitsForPerson(key)
            case requests.Say():
                return self._say(key, request)
            case requests.Together():
                raise TypeError("the loop itself runs flows side by side")

    def _say(self, key: str, request: requests.Say) -> requests.Reply:
        """Record a line; one that ends an approved call unexecuted closes its approval."""
        turn, escalations = (
            turn_of(key),
            [s for s in self.journal.steps.values() if s.kind == "escalate"],
        )
        facts = request.facts
        is_undone = request.kind == ANSWERED and facts["status"] == NOT_EXECUTED
        if is_undone and any(step.key.startswith(turn) for step in escalations):
            self.journal.under_lock(partial(_close, why=facts["reason"], turn=turn))
        return self.journal.say(key, request)

    async def _escalate(self, key: str, request: requests.Escalate) -> requests.Reply:
        """Put an action into the inbox; the commit comes with the run's move."""
        self.journal.under_lock(partial(self._open, self.journal.begin(key, request), request))
        raise WaitsForPerson(key)

    def _open(self, step: Step, request: requests.Escalate, commit: Commit) -> None:
        """Open the request, or answer its step at once if nobody is to be asked."""
        if is_withdrawn(self.journal.run, turn_of(step.key)):
            return self.journal.turn_away(WITHDRAWN, step, commit)
        full = open_escalation(
            commit,
            step=step,
            kind=request.kind,
            action=request.action,
            review=request.review,
            limits=self.limits,
        )
        if full:
            self.journal.turn_away(f"too_many_open_requests:{full}", step, commit)
        return None


class _ExecutorHere(RunExecutor):
    """Goes as far as an allowed call's intent, in an open transaction."""

    async def do(self, key: str, request: requests.Request) -> requests.Reply:
        """Answer a review, and stop where the call is to be made. Raises NotHere."""
        if key in self.journal.admitted:
            raise WaitsForPerson(key)
        if isinstance(request, requests.Review) and not request.granted:
            reply = review_here(key, request, self.journal, self.limits, timezone.now())
            if reply and self.journal.admitted:
                return reply
        raise NotHere


def _close(commit: Commit, *, why: str, turn: str) -> None:
    commit.tell(close_approvals(commit.run, why=why, turn=turn))
