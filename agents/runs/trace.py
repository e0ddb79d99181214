"""The trace of a run: its steps as proposal, ruling, person and execution, and how it ended.

Everything is derived from the run's rows and independent of the reader, so that one rendering
serves every viewer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone
from django.utils.safestring import SafeString

from agents import results
from agents.core.calls import Touch
from agents.core.limits import ATTEMPTS, Limits, Spent, active
from agents.core.money import PRICED_IN, format_largest, format_money, format_sums, with_unit
from agents.core.request_kinds import EFFECT_UNKNOWN
from agents.core.requests import Json
from agents.core.states import ENDED, EffectState, EscalationState, RunState
from agents.engine.ending import turn_of
from agents.engine.tools.letters import failed_letter, is_told_of, letters_sent, untold_effects
from agents.engine.turns.answering import is_untaken
from agents.models import Effect, Escalation, KillSwitch, Run, Step
from agents.policies.words import end_sentence
from agents.results import agent_words, answer_after_block, words_after_block
from agents.runs.listing import Closing, chip_of, closings, waits_of
from agents.runs.outage import outage_of_run
from agents.runs.pattern_parts import ABOVE
from agents.runs.turns import RunTurn, busy_since, cost_of, turns_of
from agents.sdk.desk import DESKS, tool_title, tools_at
from agents.shell.event_words import stopped_by_hand, with_islands, with_name
from agents.shell.formats import EMAIL_FAILED, as_html, duration, thousands, why_untold
from agents.tools import ask_in_words, call_in_words

_TURNS = 25  # on one page, and in one live update
_BAD_ENDS = frozenset({RunState.STOPPED, RunState.FAILED})
_NOT_COUNTED = frozenset({"done", "running"})


def run_page(run: Run, *, before: int | None = None) -> dict[str, Json]:
    """Return the template context for the live part of a run's page; `before` as in `trace`."""
    page = trace(run, before=before)
    part, read = ("", None) if run.is_emptied else ABOVE.get(run.pattern, ("", None))
    waits = run.state == RunState.QUEUED and run.wake_at
    return {
        "run": run,
        "page": page,
        "has_ended": run.state in ENDED,
        "is_older": bool(page.shown) and page.shown[-1].number < len(page.turns),
        "newer": run.launched_again.first() if run.state in ENDED else None,
        "outage": outage_of_run() if waits else None,
        "part": part,
        "above": read(page.steps, timezone.now()) if read else {},
    }


@dataclass(frozen=True)
class _Trace:
    """A run with everything it recorded."""

    run: Run
    steps: Sequence[Step]  # in order
    turns: Sequence[RunTurn]
    shown: Sequence[RunTurn]  # TURNS of them
    meters: Sequence[_Meter]
    end: str  # why it ended badly, as a sentence, or ""
    counts: Sequence[tuple[str, str, int]]  # role, word and number of turns shown, by state
    result: Json
    ending: _RunEnding
    waiting: Escalation | None
    waits: str  # for what it waits, if not for a person; "" for nothing
    moved: str  # "" for nothing
    lost: Sequence[tuple[Effect, str]]  # calls that no request asks about, and what to find out
    untold: tuple[str, str]  # sums that no letter states, once the run is over, and why
    proposed: str  # the proposed payment; "" for none
    tokens: int
    cost: str
    seconds: float
    busy_since: datetime | None  # of the working time, while a call is under way
    waited: float  # seconds spent waiting for people
    waiting_since: datetime | None  # the same, while it waits for one
    pending: _PendingCall | None  # the call that has not answered yet
    chip: tuple[str, str]  # role and word of its state


def trace(run: Run, *, at: datetime | None = None, before: int | None = None) -> _Trace:
    """Return a run with its steps, escalations and effects, in at most five queries.

    Shows its newest turns, or those before the turn number `before`.
    """
    now = at or timezone.now()
    steps = list(run.steps.order_by("position"))
    people = ("decided_by", "claimed_by", "approval__by")
    held = {e.step_id: e for e in run.escalations.select_related(*people)}
    for step in steps:
        if step.pk in held:
            held[step.pk].step = step  # read already
    effects = {effect.step_id: effect for effect in run.effects.all()}
    limits = run.limits
    summary = results.result(run, steps)
    turns = (
        []
        if run.is_emptied
        else turns_of(
            run.desk,
            steps,
            held,
            effects,
            now,
            blocks=summary.get("blocks", []),
            stopped=_stopped_turns(run, steps),
            is_over=run.state in ENDED,
            errors_fail=limits.reference.errors_fail,
        )
    )
    spent = _spending(steps)
    open_ones = [e for e in held.values() if e.state == EscalationState.OPEN]
    amounts = [turn.money for turn in turns if turn.money]
    acts = [turn for turn in turns if turn.writes]
    closed, is_busy = closings([run]), run.state == RunState.RUNNING
    waited = sum(_wait_seconds(one, now) for one in held.values())
    on_page = turns[: before - 1 if before and 1 < before <= len(turns) else None][-_TURNS:]
    return _Trace(
        run=run,
        steps=steps,
        turns=turns,
        shown=on_page,
        meters=[] if run.is_emptied else _meters(limits, steps, spent, turns),
        end=_end(run, turns, closed) if run.state in _BAD_ENDS else "",
        counts=_counts(on_page),
        result=summary,
        ending=_ending_of(run, turns),
        waiting=open_ones[0] if open_ones else None,
        waits="" if open_ones else waits_of([run]).get(run.pk, ""),
        moved=moved_sums(effects.values()) or _letters(effects.values()),
        lost=_lost(effects.values(), run),
        untold=_untold(run, effects.values()) if run.state in ENDED else ("", ""),
        proposed="" if run.is_emptied else _asked_text(amounts, acts),  # its steps had the amount
        tokens=spent.tokens,
        cost=cost_of(steps),
        seconds=spent.seconds,
        busy_since=busy_since(steps) if is_busy else None,
        waited=waited,
        waiting_since=now - timedelta(seconds=waited) if open_ones else None,
        pending=_pending(steps) if is_busy else None,
        chip=chip_of(run, closed),
    )


@dataclass(frozen=True)
class _Meter:
    """How much of a budget is used."""

    name: str
    used: str
    most: str
    percent: float
    is_time: bool = False  # it ticks while a call is under way


@dataclass(frozen=True)
class _PendingCall:
    """A call that a run waits for."""

    who: str
    step: Step

    @property
    def again(self) -> str:
        """Return the number of repeats, as the end of a sentence; "" for none."""
        again = self.step.attempts - 1
        if not again:
            return ""
        return f"; asked again, {again}" + (f" of {ATTEMPTS - 1}" if again < ATTEMPTS else "")


def _stopped_turns(run: Run, steps: Sequence[Step]) -> set[str]:
    """Return the prefixes of turns whose call a kill switch keeps from its agent."""
    untaken = {turn_of(step.key) for step in steps if is_untaken(step)}
    if not untaken or run.state in ENDED:
        return set()
    switches = list(KillSwitch.objects.standing().filter(workspace=run.workspace_id))
    calls = (step for step in steps if step.kind == "review" and turn_of(step.key) in untaken)
    return {
        turn_of(step.key)
        for step in calls
        if any(switch.stops(run, step.asked["action"]["name"]) for switch in switches)
    }


def _pending(steps: Sequence[Step]) -> _PendingCall | None:
    """Return the newest call without an answer."""
    calls = [step for step in steps if step.kind in ("ask", "use") and step.ended_at is None]
    if not calls:
        return None
    tool = calls[-1].asked.get("tool") or "a call"
    return _PendingCall(
        "the model" if calls[-1].kind == "ask" else tool_title(str(tool)), calls[-1]
    )


def _wait_seconds(escalation: Escalation, now: datetime) -> float:
    """Return how many seconds a request waited: at most until it expired or its run ended."""
    end = escalation.decided_at or now
    if end == now and escalation.state != EscalationState.OPEN:
        end = min(escalation.expires_at, escalation.run.ended_at or now)
    return (end - escalation.created_at).total_seconds()


def _asked_text(amounts: Sequence[tuple[str, int]], acts: Sequence[RunTurn]) -> str:
    return _proposed_text(amounts) if amounts or not acts else f"of {len(acts)} proposed"


def _proposed_text(amounts: Sequence[tuple[str, int]]) -> str:
    """Return the largest proposed payment in words, as proposals may repeat each other.

    Amounts in two currencies are not compared: the largest of each is named.
    """
    if not amounts:
        return "no payment or change proposed"
    largest = format_largest(amounts)
    return (
        f"of {largest} proposed"
        if len(amounts) == 1
        else f"largest of {len(amounts)} proposals: {largest}"
    )


def moved_sums(effects: Iterable[Effect]) -> str:
    """Return the sums paid by the ledger, else the number of calls that changed something."""
    done = _done_effects(effects)
    sums = format_sums((e.currency, e.amount_minor) for e in done if e.amount_minor)
    return sums or _calls(len(done))


def _untold(run: Run, effects: Iterable[Effect]) -> tuple[str, str]:
    """Return the sums of this run, or of one that repeats it, that no letter states, and why."""
    written = {(e.amount_minor, e.currency) for e in effects if _is_letter(e)}
    paid = [e for e in _done_effects(effects) if is_told_of(e.tool)]
    if all((e.amount_minor, e.currency) in written for e in paid):
        return "", ""
    untold = untold_effects(since=run.created_at).filter(run=run)
    left = list(untold.values_list("currency", "amount_minor", failed_letter()))
    if not left:
        return "", ""
    code = EMAIL_FAILED if any(has_failed for *_, has_failed in left) else run.stop_reason
    sums = format_sums((currency, minor) for currency, minor, _ in left if minor is not None)
    return sums or _calls(len(left)), why_untold(code, letters_sent({run.pk}).get(run.pk, ()))


def _done_effects(effects: Iterable[Effect]) -> list[Effect]:
    return [e for e in effects if e.state == EffectState.DONE and not _is_letter(e)]


def _letters(effects: Iterable[Effect]) -> str:
    count = sum(map(_is_letter, effects))
    return with_unit(count, "emails") if count else ""


def _calls(count: int) -> str:
    return with_unit(count, "calls") if count else ""


def _is_letter(effect: Effect) -> bool:
    tool = tools_at(effect.run.desk).get(effect.tool)  # None: its desk is not installed
    return effect.state == EffectState.DONE and bool(tool and tool.letter)


def _lost(effects: Iterable[Effect], run: Run) -> list[tuple[Effect, str]]:
    """Return the calls of unknown outcome that an ended run can no longer ask about."""
    lost = [e for e in effects if e.state == EffectState.UNKNOWN and run.state in ENDED]
    return [(effect, _question(effect, run.subject_label)) for effect in lost]


def _question(effect: Effect, subject: str) -> str:
    action = {"kind": "tool", "name": effect.tool, "args": effect.args}
    amount = format_money(effect.amount_minor, effect.currency) if effect.amount_minor else ""
    return ask_in_words(
        effect.run.desk,
        EFFECT_UNKNOWN.stored,
        action,
        amount=amount,
        subject=subject or "nobody",
    )


def _end(run: Run, turns: Sequence[RunTurn], closed: Mapping[UUID, Closing]) -> str:
    """Return why a run ended badly, in our words or else those of the blocking rule."""
    if by_hand := stopped_by_hand(run):
        return by_hand
    code = run.stop_reason.partition(":")[2]
    rulings = [ruling for turn in turns for ruling in (turn.ruling, turn.again) if ruling]
    sentences = [str(ruling["sentence"]) for ruling in rulings if ruling["reason"] == code]
    closing = closed[run.pk].sentence if run.pk in closed else ""
    # A blocked call does not end an external agent's run, so the reason of the end names none.
    blocked = [turn for turn in turns if turn.ruling and turn.ruling["verdict"] == "block"]
    calls = sum(turn.writes for turn in blocked) if run.agent_id else 0
    before = f" Before that, the policy blocked {with_unit(calls, 'calls')}." if calls else ""
    return f"{end_sentence(run.stop_reason, sentences[-1] if sentences else '')}{before}{closing}"


def _spending(steps: Sequence[Step]) -> Spent:
    return Spent(
        seconds=active(step.span for step in steps),
        tokens=sum(s.tokens_in + s.tokens_out + s.tokens_lost for s in steps),
        cost_micro_usd=sum(step.cost_micro_usd or 0 for step in steps),
    )


def _meters(
    limits: Limits, steps: Sequence[Step], spent: Spent, turns: Sequence[RunTurn]
) -> list[_Meter]:
    calls = sum(step.kind == "use" for step in steps)
    turned = [turn for turn in turns if turn.name.isdigit()]
    told_of: list[tuple[str, Any, Any, Callable[[Any], str]]] = [
        *([("Steps", len(turned), limits.max_steps, thousands)] if turned else []),
        ("Tool calls", calls, limits.max_tool_calls, thousands),
        ("Working time", spent.seconds, limits.max_seconds, duration),
        ("Tokens", spent.tokens, limits.max_tokens, thousands),
        (f"Cost in {PRICED_IN}", spent.cost_micro_usd, limits.max_cost_micro_usd, _usd),
    ]
    return [
        _Meter(
            name, form(used), form(most), round(min(100 * used / most, 100), 1), form is duration
        )
        for name, used, most, form in told_of
        if most
    ]


def _usd(micro: int) -> str:
    return f"{micro / 1_000_000:,.3f}"


def _counts(turns: Sequence[RunTurn]) -> list[tuple[str, str, int]]:
    stands = Counter(
        (turn.role, turn.word.lower() + _by(turn))
        for turn in turns
        if turn.role not in _NOT_COUNTED
    )
    return [(role, words, n) for (role, words), n in stands.items()]


def _by(turn: RunTurn) -> str:
    """Return who decided a turn: " by policy", " by mara"."""
    held = turn.escalation
    if turn.role == "revise" and held and held.decided_by:
        return f" by {held.decided_by.get_username()}"
    return {"human": " by a person", "approve": " by policy", "revise": " by policy"}.get(
        turn.role, ""
    )


# How a run ended: the console's record, then the agent's words, and its sources.
LONGEST = 6000  # characters shown of the agent's words


@dataclass(frozen=True)
class _RunEnding:
    """The two parts of a run's end, each "" if there is none, and its sources."""

    record: str
    is_after_block: bool  # the agent answered after a block: that is no result
    note: str  # of a desk that shows no agent's words next to the record
    approved_by: str
    words: SafeString | str
    cut_at: int | None  # the turn that has the whole text; None: all of it is shown
    read: Sequence[_StepRead]


@dataclass(frozen=True)
class _StepRead:
    """A step that only read, and whether its result has words of an outsider."""

    number: int
    title: str
    about: str  # its arguments besides the subject, in words
    is_outside: bool


def _ending_of(run: Run, turns: Sequence[RunTurn]) -> _RunEnding:
    """Return how a run ended, from its row and its turns."""
    after_block = answer_after_block(run)
    answer = after_block or (run.outcome if isinstance(run.outcome, dict) else {})
    words = agent_words(run) or words_after_block(run)
    is_cut = len(words) > LONGEST and turns
    return _RunEnding(
        record=with_islands(with_name(str(answer.get("answer", "")), run)),
        is_after_block=bool(after_block),
        note="" if words else str(answer.get("note", "")),
        approved_by=str(answer.get("approved_by", "")),
        words=as_html(f"{words[:LONGEST]} …" if len(words) > LONGEST else words),
        cut_at=turns[-1].number if is_cut else None,
        read=list(_read(run, turns)) if words else (),
    )


def _read(run: Run, turns: Sequence[RunTurn]) -> Iterator[_StepRead]:
    desk = DESKS[run.desk]
    for turn in turns:
        for step in turn.steps:
            if step.kind != "use" or step.failed or not isinstance(step.reply, dict):
                continue
            name = str(step.asked["tool"])
            known, declared = desk.all_tools.get(name), desk.tools.get(name)
            if known is None or known.touch is not Touch.READ:
                continue
            args = call_in_words(run.desk, {"name": name, "args": step.asked["args"]})
            about = [args[key] for key in args if not declared or key != declared.subject]
            yield _StepRead(
                turn.number, turn.title, ", ".join(about), bool(declared and declared.outside)
            )
