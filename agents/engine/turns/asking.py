"""Ask a model on behalf of a run: within its budgets, and across outages of the model's server.

A fault of the server or of our settings costs the run neither time nor tokens; the run waits
without a worker until the server answers any run again (decision 4).
"""

import asyncio
import json
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from agents import llm
from agents.core.checkpoints import printable_text
from agents.core.limits import ATTEMPTS, LONGEST_WAIT, Limits, exceeded_budget, pause_before
from agents.core.requests import Ask, Json, Reply, RunState
from agents.engine.desk.registry import simulated_pause
from agents.engine.drive import Later
from agents.engine.journal import Journal
from agents.engine.redaction import redact
from agents.engine.runtime.crashpoints import crashpoint
from agents.engine.runtime.database import database_time, in_database
from agents.engine.runtime.dispatch import hasten
from agents.engine.tools.attention import owes_letter
from agents.llm.prompts import TOOL_FORM
from agents.llm.tool_calls import is_ready
from agents.models import Endpoint, Run, Step
from agents.models.runs import pseudonyms_of
from agents.sdk.desk import DESKS
from agents.tools import descriptions_of

log = logging.getLogger(__name__)

JSON, UNKNOWN = "json", ""  # forms of a question, besides TOOL_FORM
MAX_CLAIMS = 20  # in a row without progress; then the run itself is at fault
PATIENCE = 5.0  # seconds that a retry may wait here; for longer waits the run is queued
_LONGEST_PAUSE = 10  # rests, for a run whose own question keeps failing
_MAX_MODEL, MAX_CALL = 100, 500  # characters kept of a model's name, and of an unrequested call
_MAX_WORD = 40  # characters kept of a server's unknown word for the end of an answer
_ANSWER_TOKENS = 256  # reserved for an answer of unknown length


async def ask(key: str, request: Ask, journal: Journal, limits: Limits) -> Reply:
    """Ask a model, retrying where that may help. Raises Later if the run has to wait."""
    leave = await permit_to_ask()  # first, as a step that has not begun uses no attempt
    step = journal.begin(key, request)
    journal.active_time.assume(step, simulated_pause(journal.run, request.role))
    over = exceeded_budget(journal.spending(), limits)
    if over and not (over == "max_seconds" and _is_heard_late(request.role, journal, limits)):
        return journal.finish(step, Reply(failed=over))
    form = _form_of(request, journal, leave)
    question = _question(request, journal.run, form)
    calls = 0
    while True:
        reserve = _estimate(question)
        # Counted as used before the call: an answer that never comes may still cost.
        journal.reserve(step, reserve)
        if leave.address:  # the demo model is in this process and free
            await journal.flush()
        calls += 1
        try:
            answer = await _answer(step, question, leave, journal, limits)
        except llm.ModelFailed as error:
            if question.is_probe and not error.outage:  # it does not take such a request
                journal.reserve(step, -reserve)
                question = await _told_form(False, request, question, journal, leave)
                continue
            if _is_outlasted(error, leave, limits):
                journal.reserve(step, -reserve)
                reason = await _wait(step, error, leave, calls, journal)
            else:
                reason = await _retry_or_reason(step, error, journal, limits)
            if reason:
                if error.word and reason == error.reason:  # masked before truncation, as below
                    word = redact(" ".join(error.word.split()), limits, pseudonyms_of(journal.run))
                    reason += f":{printable_text(word)[:_MAX_WORD]}"
                return journal.finish(step, Reply(failed=reason), **_ignored(error.ignored))
            leave = await permit_to_ask()
            continue
        step.tokens_lost -= reserve
        step.tokens_in += answer.tokens_in
        step.tokens_out += answer.tokens_out
        step.cost_micro_usd = _sum(step.cost_micro_usd, answer.cost_micro_usd)
        if question.is_probe:
            knows = is_ready(answer.tool_calls)
            question = await _told_form(knows, request, question, journal, leave)
            continue
        # Masked before truncation: half a key would not be recognised.
        names = pseudonyms_of(journal.run)
        others = answer.more or answer.tool_calls
        written = [names.heal(text) for text in (answer.text, *others)]
        model, text, *others = redact([answer.model, *written], limits, names)
        step.model = model[:_MAX_MODEL]
        answered: Json = {"text": text, "demo": answer.demo}
        if answer.cached:
            answered["cached_tokens"] = answer.cached
        if question.offer:
            answered |= {"form": TOOL_FORM, **({"more": others} if others else {})}
        elif others:
            answered |= {"tool_calls": [call[:MAX_CALL] for call in others]}
        return journal.finish(step, Reply(answered), **_ignored(answer.ignored))


def _ignored(calls: int) -> dict[str, Json]:
    """Return the fact that a model sent tool calls that nobody had offered."""
    return {"ignored_tool_calls": calls} if calls else {}


def _form_of(request: Ask, journal: Journal, leave: "Permit") -> str:
    """Return the form of a question: TOOL_FORM, JSON, or UNKNOWN until the server was probed.

    A run keeps the form of its first question to an agent that may call tools.
    """
    if request.dialogue is None or not leave.address:
        return JSON
    for step in journal.steps.values():
        if step.kind == "ask" and step.reply and "schema" in step.asked.get("guide", {}):
            return str(step.reply.get("form", JSON))
    if settings.OPENAI_TOOL_CALLS != "auto":
        return TOOL_FORM if settings.OPENAI_TOOL_CALLS == "on" else JSON
    model = llm.model_of(llm.Question(request.role, None, True, model=journal.run.model))
    known = leave.tool_calls.get(model, {})
    if known.get("day") != _today():
        return UNKNOWN
    return TOOL_FORM if known["knows"] else JSON


def _today() -> str:
    return timezone.now().date().isoformat()


async def _told_form(
    knows: bool, request: Ask, probe: llm.Question, journal: Journal, leave: "Permit"
) -> llm.Question:
    """Store the probe's result, and return the question in the form that follows."""
    about = leave.address, llm.model_of(probe)
    keep = partial(Endpoint.record_tool_calls, *about, day=_today(), knows=knows)
    await in_database(keep)
    return _question(request, journal.run, TOOL_FORM if knows else JSON)


def _estimate(question: llm.Question) -> int:
    """Return how many tokens a call may use, if its answer never comes."""
    parts = [question.inputs, question.offer.turns if question.offer else None]
    return len(json.dumps(parts)) // 4 + _ANSWER_TOKENS


def _sum(before: int | None, cost: int | None) -> int | None:
    return cost if before is None or cost is None else before + cost


def _question(request: Ask, run: Run, form: str) -> llm.Question:
    """Return the model call for a request, prompt included.

    The constant parts come first, so that a server can reuse its reading of them.
    """
    question = llm.Question(request.role, request.inputs, request.as_json, model=run.model)
    question = replace(question, is_verbatim=run.limits.profile == "reference")
    if form == UNKNOWN:
        return replace(question, is_probe=True)
    guide = request.guide or {}
    more = {name: guide[name] for name in ("desk", "more_tools") if name in guide}
    inputs, schema = request.inputs, guide.get("schema")
    if more:
        inputs = {**more, **inputs}
    if "desk" in more and not run.simulation:
        inputs["desk"] = {**more["desk"], "today": _today()}
    turns = request.dialogue["turns"] if form == TOOL_FORM else []
    if run.desk in DESKS and DESKS[run.desk].shows_domains:
        inputs, turns = pseudonyms_of(run).with_domains([inputs, turns])
    if form == JSON:
        return replace(question, inputs=inputs, schema=schema)
    descriptions = descriptions_of(run.desk, request.dialogue.get("only", run.limits.proposable))
    offer = llm.ToolOffer(descriptions, turns, required=request.dialogue["required"])
    return replace(question, inputs=inputs, schema=schema, offer=offer)


async def permit_to_ask() -> "Permit":
    """Return a permit to call the model's server. Raises Later while its circuit is open."""
    if not llm.address():
        return Permit("")  # the demo model is in this process
    try:
        return await in_database(request_permit)
    except CircuitOpen as resting:
        raise Later(resting.pause + _part_of(resting.spread), RESTS) from None


def _is_heard_late(role: str, journal: Journal, limits: Limits) -> bool:
    """Tell whether a role may still be asked after the run's time is up."""
    return role in limits.late or owes_letter(journal, limits)


def _is_outlasted(error: llm.ModelFailed, leave: "Permit", limits: Limits) -> bool:
    """Tell whether the run should wait for a failure to pass."""
    return error.outage and bool(leave.address) and limits.outlasts_outages


def _part_of(spread: timedelta) -> timedelta:
    return spread * random.random()  # noqa: S311 - spreads runs, guards nothing


async def _answer(
    step: Step, question: llm.Question, leave: "Permit", journal: Journal, limits: Limits
) -> llm.ModelAnswer:
    """Make one timed call, and record its outcome on the server's row."""
    crashpoint("model.before_call")
    async with journal.soon():
        try:
            with journal.active_time.measure(step) as timer:
                try:
                    timeout = _seconds_for(question, leave, journal, limits)
                    noting = partial(_note_tokens, step)
                    answer = await llm.ask(replace(question, on_progress=noting), timeout=timeout)
                except llm.ModelFailed as error:
                    timer.counts = not _is_outlasted(error, leave, limits)
                    raise
        except llm.ModelFailed as error:
            if error.outage:
                await in_database(record_failure, leave, error)
            else:
                await _record_answer(leave)
            raise
        finally:
            crashpoint("model.after_call")
        await _record_answer(leave)
    return answer


async def _note_tokens(step: Step, tokens: int) -> None:
    """Record how much a model has written so far, for viewers; never the text."""
    open_step = Step.objects.filter(run=step.run_id, key=step.key, ended_at=None)
    await in_database(partial(open_step.update, tokens_out=tokens))


def _seconds_for(
    question: llm.Question, leave: "Permit", journal: Journal, limits: Limits
) -> float:
    """Return how many seconds a call may take.

    A run that outlasts outages allows each call its full time: a call cut short by the run's
    remaining time would say nothing about the server and would end the run.
    """
    longest: float = settings.OPENAI_TIMEOUT_SECONDS
    waits = leave.address and limits.outlasts_outages
    if waits or limits.reference.late_calls or _is_heard_late(question.role, journal, limits):
        return longest
    return min(longest, max(limits.max_seconds - journal.spending().seconds, 0.01))


async def _record_answer(leave: "Permit") -> None:
    if leave.failures:
        await in_database(record_answer, leave)


async def _wait(
    step: Step, error: llm.ModelFailed, leave: "Permit", calls: int, journal: Journal
) -> str:
    """Return "" once the next call may be made here, or raise Later: an outage ends no run.

    Return a reason for a question that keeps failing while the server answers others: that is
    the run's own fault.
    """
    if error.retry and calls < ATTEMPTS and not leave.probe:
        await _pause(step, error, calls + 1, journal)
        return ""
    run = journal.run
    if error.is_suspect and not leave.probe and await _answers_others(leave, step):
        if run.attempts >= MAX_CLAIMS:
            return error.reason
        pause = _REST * min(run.attempts, _LONGEST_PAUSE)
        raise Later(pause, error.reason, is_fruitless=True)
    hint = timedelta(seconds=min(error.retry_after or 0, LONGEST_WAIT))
    raise Later(max(_REST, hint) + _part_of(SPREAD[0]), error.reason)


async def _answers_others(leave: "Permit", step: Step) -> bool:
    return await in_database(Endpoint.has_answered_since, leave.address, step.begun_at)


async def _retry_or_reason(
    step: Step, error: llm.ModelFailed, journal: Journal, limits: Limits
) -> str:
    """Return why the step fails, or "" when it may be tried again."""
    over = exceeded_budget(journal.spending(), limits)
    if over or not error.retry or step.attempts >= ATTEMPTS:
        return over or error.reason
    await _pause(step, error, step.attempts + 1, journal)
    return ""


async def _pause(step: Step, error: llm.ModelFailed, attempt: int, journal: Journal) -> None:
    """Wait before the next attempt. Raises Later if that takes long."""
    journal.count_retry(step, error.reason)
    jitter = random.random()  # noqa: S311 - spreads retries, guards nothing
    pause = pause_before(attempt, hint=error.retry_after, jitter=jitter)
    if pause > PATIENCE:
        raise Later(timedelta(seconds=pause), error.reason)
    await asyncio.sleep(pause)


# A circuit breaker for each model server: after repeated failures it rests for a while. Its state
# is a row that all workers share. A run that may not ask goes back to the queue and occupies no
# worker. After the rest one probe is made; if it is answered, all waiting runs are woken.


FAILURES = 5  # in a row, over all runs; one run alone makes fewer
_REST = timedelta(seconds=30)
_LONGEST_REST = timedelta(minutes=5)  # if the server itself asks for longer than _REST
_WOKEN = 3  # runs a second that check whether a rest is over: each check adds an event
SPREAD = timedelta(seconds=5), timedelta(minutes=10)  # shortest and longest span of these checks
RESTS = "model_server_rests"  # the recorded reason why a run waits
_SETTLING = timedelta(seconds=5)  # allowed after a call's deadline for recording its outcome


@dataclass(frozen=True)
class Permit:
    """Permission for one call. `address` is "" for the demo model, whose failures do not count."""

    address: str
    failures: int = 0  # in a row, when it was given
    probe: bool = False
    tool_calls: Mapping[str, Json] = field(default_factory=dict)  # from its row


class CircuitOpen(Exception):
    """The server is at rest; ask again after `pause`, or up to `spread` later."""

    def __init__(self, pause: timedelta, spread: timedelta) -> None:
        super().__init__(str(pause))
        self.pause, self.spread = pause, spread


def request_permit() -> Permit:
    """Return a permit to ask the configured model. Raises CircuitOpen."""
    address = llm.address()
    known = Endpoint.objects.filter(address=address).first()
    if known is None:
        return Permit(address)
    if known.rests_until is None:
        return Permit(address, known.failures, tool_calls=known.tool_calls)
    longest = timedelta(seconds=settings.OPENAI_TIMEOUT_SECONDS)
    if Endpoint.probe(address, within=longest + _SETTLING):
        return Permit(address, known.failures, probe=True, tool_calls=known.tool_calls)
    least, most = SPREAD
    waiting = Run.objects.filter(state=RunState.QUEUED, wake_at__gt=Now()).count()
    # A probe may return long before its deadline, so nobody waits longer than a rest.
    pause = min(max(known.rests_until - database_time(), timedelta()), _LONGEST_REST)
    raise CircuitOpen(pause, min(max(least, timedelta(seconds=waiting / _WOKEN)), most))


def record_answer(given: Permit) -> None:
    """Record that a failing server answered, and wake the runs that waited for it."""
    if Endpoint.record_recovery(given.address):
        log.info("The model's server %s answers again", given.address)
        wake_runs(Run.objects.all())


def wake_runs(runs: QuerySet[Run]) -> int:
    """Make those of these runs that wait for a time claimable now. Return their number.

    A job queue announces them at once.
    """
    woken = runs.filter(state=RunState.QUEUED, wake_at__gt=Now()).update(wake_at=Now())
    if woken:
        hasten()
    return woken


def wake_if_rest_is_over(run_id: UUID) -> None:
    """Wake a run that was queued while its server rested, if the rest is already over.

    Call after that commit: an answer in between has woken every run but this one, and a later
    answer finds it waiting. So it is woken in either order, without a lock.
    """
    if not Endpoint.objects.resting().filter(address=llm.address()).exists():
        wake_runs(Run.objects.filter(pk=run_id))


def record_failure(given: Permit, error: llm.ModelFailed) -> None:
    """Record that the server failed, or cannot answer with these settings."""
    if not given.address:
        return
    asked_for = timedelta(seconds=min(error.retry_after or 0, _LONGEST_REST.total_seconds()))
    rest = max(_REST, asked_for)
    with transaction.atomic():
        rests = Endpoint.count_failure(
            given.address, fault=str(error), most=FAILURES, rest=rest, probe=given.probe
        )
    if rests:
        log.warning("%s %s is not called for %s", error, given.address, rest)
