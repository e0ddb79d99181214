"""The turns of a run: each proposal with everything that followed from it.

One file: each function adds one part of a turn, in the order of the page.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from agents.core.limits import active
from agents.core.money import PRICED_IN
from agents.core.requests import EffectState, Json
from agents.models import Effect, Escalation, Step
from agents.patterns.steps import REPEATED, TOO_MANY, UNREADABLE, reports_error
from agents.runs.changes import (
    ActionStage,
    ChangedArgument,
    amount_of,
    changes,
    closed_by,
    executor_of,
    is_write,
    lead_in_words,
    patch_of,
    reply_of,
    stages,
)
from agents.runs.messages import ignored_calls, is_output_of_step, note_of, summary_of, title_of
from agents.sdk.desk import tool_title
from agents.shell.event_words import with_islands
from agents.shell.formats import HELD, RULING_ROLES, standing_of
from agents.tools import request_of

# Rules of blocks without a review.
_UNREVIEWED = (UNREADABLE, REPEATED, TOO_MANY)
_QUOTED = 200  # characters shown of an unusable reply that is a text


@dataclass(frozen=True)
class RunTurn:
    """One proposal with everything that followed from it."""

    number: int  # from 1, as people count them
    name: str  # 2, dispatch/sales, finalize
    title: str
    proposed: str  # the main argument as proposed: an amount, else a date or a choice
    final: str  # the same as it ran or may run
    money: tuple[str, int] | None  # currency and minor units of the proposed payment
    writes: bool  # it proposes a call that changes something
    summary: str
    note: str  # the agent's own words beside an answer, or ""
    ignored: Sequence[str]  # tool calls that a model sent unasked
    role: str  # a ruling's or the step's own: running, failed, waiting
    word: str
    steps: Sequence[Step]
    ruling: Json  # the first review's deciding ruling; None: nothing was reviewed
    rulings: Sequence[Json]
    again: Json  # the ruling after a person's decision
    escalation: Escalation | None
    effect: Effect | None
    stages: Sequence[ActionStage]
    changes: Sequence[ChangedArgument]
    bars: "Sequence[tuple[Bar, str]]"  # with the role of each call's outcome
    wait: "Bar | None"
    seconds: float
    since: datetime | None  # when its unfinished call began, less its seconds before
    cost: str

    @property
    def calls_in_words(self) -> str:
        """Return the models asked, how often, and with how many tokens: to them + from them."""
        by_model: dict[str, list[Step]] = {}
        for step in self.steps:
            if step.model:
                by_model.setdefault(step.model, []).append(step)
        return " ".join(_calls_in_words(model, calls) for model, calls in by_model.items())

    @property
    def expires(self) -> str:
        """Return what happens if nobody answers the turn's request in time; "" without one."""
        held = self.escalation
        return request_of(held.run.desk, held.kind, held.action).expires if held else ""

    @property
    def closed_by(self) -> str:
        """Return what closed the turn's request before a decision; "" without one."""
        return closed_by(self.escalation) if self.escalation else ""

    @property
    def executor(self) -> str:
        """Return who executed its call, if not the console, once it is settled."""
        is_done = self.effect is not None and self.effect.state == EffectState.DONE
        return executor_of(self.effect) if self.effect and is_done else ""

    @property
    def did(self) -> str:
        """Return what a person did with the turn's request, once somebody decided it."""
        held = self.escalation
        if held is None or held.decided_by is None:
            return ""
        kind = request_of(held.run.desk, held.kind, held.action)
        return kind.what_was_done(held.state, held.granted, held.asked)

    @property
    def opens(self) -> bool:
        """Tell whether there is more to show than a line."""
        return bool(self.escalation or self.changes or len(self.rulings) > 1)


def turns_of(
    desk: str,
    steps: Sequence[Step],
    held: Mapping[int, Escalation],
    effects: Mapping[int, Effect],
    now: datetime,
    *,
    blocks: Sequence[Json],
    stopped: Collection[str],
    is_over: bool,
    errors_fail: bool,
) -> list[RunTurn]:
    """Return the turns of a run; `blocks` are the blocked proposals it ended with.

    `stopped` are the prefixes of turns whose call a kill switch keeps from its agent.
    """
    spans = {step.pk: _span(step, now) for step in steps if step.kind in ("ask", "use")}
    waits = {pk: (_clock(e.created_at), _clock(e.decided_at or now)) for pk, e in held.items()}
    scale = axis(list(spans.values()))
    unreviewed = _unreviewed(steps, blocks)
    return [
        _turn(
            desk,
            number,
            name,
            own,
            block=unreviewed.get(name),
            # An earlier one may have been replaced.
            escalation=next((held[s.pk] for s in reversed(own) if s.pk in held), None),
            effect=next((effects[s.pk] for s in own if s.pk in effects), None),
            bars=[(scale.bar(*spans[s.pk]), _role_of_call(s)) for s in own if s.pk in spans],
            wait=next((scale.bar(*waits[s.pk]) for s in own if s.pk in waits), None),
            is_held=f"{name}/" in stopped,
            is_over=is_over,
            errors_fail=errors_fail,
        )
        for number, (name, own) in enumerate(_groups(steps).items(), start=1)
    ]


def _groups(steps: Sequence[Step]) -> dict[str, list[Step]]:
    """Return the steps of each turn, in order."""
    groups: dict[str, list[Step]] = {}
    for step in steps:
        if step.kind not in ("say", "await"):  # a listening slot is not a step
            groups.setdefault(_group(step.key), []).append(step)
    return groups


def _group(key: str) -> str:
    """Return the turn a step belongs to: 2/review#2 is of 2, finalize/review of finalize."""
    head, slash, _ = key.rpartition("/")
    return head if slash else key.partition("#")[0]


def steps_of_turn(steps: Sequence[Step], number: int) -> list[Step]:
    """Return the steps of a turn by its number; none if there is no such turn."""
    groups = list(_groups(steps).values())
    return groups[number - 1] if 0 < number <= len(groups) else []


def _turn(
    desk: str,
    number: int,
    name: str,
    steps: Sequence[Step],
    *,
    block: Json,
    escalation: Escalation | None,
    effect: Effect | None,
    bars: "Sequence[tuple[Bar, str]]",
    wait: "Bar | None",
    is_held: bool,
    is_over: bool,
    errors_fail: bool,
) -> RunTurn:
    reviews = [s for s in steps if s.kind == "review" and s.reply]
    uses = [s for s in steps if s.kind == "use"]
    first = reply_of(reviews[0]) if reviews else None
    action = reviews[0].asked["action"] if reviews else None
    ran = uses[-1].asked["args"] if uses else None
    decision = _decision(reviews[0]) if reviews else ""
    role, word = (
        HELD if is_held else _standing(steps, decision, escalation, errors_fail=errors_fail)
    )
    called = block.get("action") if block and not action else None
    if block and role == "done":
        role, word = "block", "Blocked" if called else "Not usable"
    is_output = bool(action) and is_output_of_step(name, action)
    text = summary_of(steps, action, is_output=is_output)
    if text and decision == "block" and action and action["kind"] == "final":
        text = f"Not accepted: “{text}”"
    if called:
        text = f"{block['sentence']} {text}"
    elif block and role == "block" and not action:
        is_prose = len(text) <= _QUOTED and not text.lstrip().startswith(("{", "`"))
        text = f"{block['sentence']} It was: {text}" if is_prose and text else block["sentence"]
    return RunTurn(
        number=number,
        name=name,
        title=tool_title(called["name"]) if called else title_of(name, steps, action),
        proposed=lead_in_words(desk, action),
        final=lead_in_words(desk, action, ran or patch_of(escalation)),
        money=amount_of(desk, action),
        writes=is_write(desk, action or called),
        summary=with_islands(text),
        note="" if is_output else note_of(steps),
        ignored=ignored_calls(steps),
        role=role,
        word=word,
        steps=steps,
        ruling=first["deciding"] if first else None,
        rulings=first["rulings"] if first else [],
        again=reply_of(reviews[-1])["deciding"] if len(reviews) > 1 else None,
        escalation=escalation,
        effect=effect,
        stages=stages(desk, reviews, escalation, effect, is_over=is_over),
        changes=changes(desk, reviews, escalation, uses, effect, is_over=is_over),
        bars=bars,
        wait=wait,
        seconds=active(step.span for step in steps),
        since=None if is_over else busy_since(steps),
        cost=cost_of(steps),
    )


def _calls_in_words(model: str, calls: Sequence[Step]) -> str:
    attempts = sum(step.attempts for step in calls)
    often = f" in {len(calls)} calls" if len(calls) > 1 else ""
    again = f", {attempts} attempts" if attempts > len(calls) else ""
    tokens_in, tokens_out = sum(s.tokens_in for s in calls), sum(s.tokens_out for s in calls)
    return f"{model}, {tokens_in:,} + {tokens_out:,} tokens{often}{again}."


def _decision(review: Step) -> str:
    """Return a review's decision; a step's output that is kept as its note is approved."""
    reply, action = reply_of(review), review.asked["action"]
    is_kept = "note" in (reply["action"] or {})
    is_approved = is_kept and reply["allows"] and is_output_of_step(_group(review.key), action)
    return "approve" if is_approved else str(reply["decision"])


def _standing(
    steps: Sequence[Step], decision: str, escalation: Escalation | None, *, errors_fail: bool
) -> tuple[str, str]:
    """Return role and word of a turn's state; a failure counts before a ruling.

    An earlier call that failed was repeated.
    """
    calls = [step for step in steps if step.kind in ("ask", "use")]
    if calls and _is_stopped(calls[-1]):
        return "block", "Stopped"  # a person said no; nothing failed
    if calls and (calls[-1].failed or (errors_fail and _is_error(calls[-1]))):
        return "failed", "Failed"
    if escalation:
        return standing_of(escalation)
    if decision == "escalate" and not any(step.kind == "escalate" for step in steps):
        return "block", "Told the agent"  # and no person was asked
    if decision:
        return RULING_ROLES[decision]
    is_busy = any(step.ended_at is None for step in steps)
    return ("running", "Running") if is_busy else ("done", "Done")


def _is_error(call: Step) -> bool:
    return call.kind == "use" and reports_error(call.reply)


def _role_of_call(step: Step) -> str:
    """Return the role of a failed call, even if another one followed; "" without one."""
    return "failed" if step.failed and not _is_stopped(step) else ""


def _is_stopped(call: Step) -> bool:
    """Tell whether an admin had stopped or switched off what it called."""
    return call.failed.partition(":")[0] in ("killed", "tool_off")


def _unreviewed(steps: Sequence[Step], blocks: Sequence[Json]) -> dict[str, Json]:
    """Return by turn the block of an unusable reply, or of one without a review."""
    inputs = [step.asked.get("inputs") or {} for step in steps if step.kind == "ask"]
    blocked = [*blocks, *(block for request in inputs for block in request.get("blocked", ()))]
    return {str(block["step"]): block for block in blocked if block["rule"] in _UNREVIEWED}


def cost_of(steps: Sequence[Step]) -> str:
    """Return the models' cost; one call of unknown price makes the sum unknown."""
    calls = [step for step in steps if step.kind == "ask" and step.ended_at and not step.failed]
    if not calls:
        return ""
    if any(step.cost_micro_usd is None for step in calls):
        return "unknown"
    return f"{PRICED_IN} {sum(step.cost_micro_usd or 0 for step in calls) / 1_000_000:.3f}"


def busy_since(steps: Sequence[Step]) -> datetime | None:
    """Return since when these steps would have been busy without a pause; None if none is now."""
    calls = [step for step in steps if step.kind in ("ask", "use")]
    begun = [step.begun_at for step in calls if step.ended_at is None]
    if not begun:
        return None
    return min(begun) - timedelta(seconds=active(step.span for step in calls if step.ended_at))


def _span(step: Step, now: datetime) -> tuple[float, float]:
    """Return when a step was busy, by its measured seconds instead of the times of its row."""
    begin = _clock(step.begun_at)
    return begin, begin + step.seconds if step.ended_at else max(_clock(now), begin)


def _clock(at: datetime) -> float:
    return at.timestamp()


# A run's time axis, with long gaps folded.
_LONGEST_GAP = 10.0  # seconds; a longer one is folded
_FOLDED = 0.12  # width of a folded gap, as a share of the active time
_LEAST = 0.8  # percent; anything narrower could not be seen


@dataclass(frozen=True)
class Bar:
    """A place on the axis: percent from the left, and percent of the width."""

    x: float
    width: float


@dataclass(frozen=True)
class Axis:
    """A scale of 0 to 100 for times."""

    spans: Sequence[tuple[float, float]]  # (from, to) in seconds: busy, or a gap short enough
    fold: float  # seconds that a folded gap is drawn as
    length: float  # of the whole axis, in drawn seconds

    def bar(self, begin: float, end: float) -> Bar:
        x, until = self._place(begin), self._place(end)
        width = max(until - x, _LEAST)
        return Bar(round(min(x, 100 - width), 2), round(width, 2))

    @property
    def quarters(self) -> list[tuple[int, str]]:
        """Return percent and time of four marks; none if a gap is folded."""
        if len(self.spans) != 1:
            return []
        return [(x, f"{self.length * x / 100:.1f} s") for x in (0, 25, 50, 75)]

    def _place(self, at: float) -> float:
        drawn = 0.0
        for number, (begin, end) in enumerate(self.spans):
            drawn += self.fold if number else 0.0
            if at <= begin:
                # Any time in the gap before this span is drawn at its middle.
                drawn -= self.fold / 2 if number and at < begin else 0.0
                break
            drawn += min(at, end) - begin
            if at <= end:
                break
        return 100 * drawn / self.length if self.length else 0.0


def axis(busy: Sequence[tuple[float, float]]) -> Axis:
    """Return the axis for busy spans (begin, end) in seconds, in any order."""
    spans: list[tuple[float, float]] = []
    for begin, end in sorted(busy):
        if spans and begin - spans[-1][1] <= _LONGEST_GAP:
            spans[-1] = (spans[-1][0], max(spans[-1][1], end))
        else:
            spans.append((begin, end))
    active = sum(end - begin for begin, end in spans)
    fold = max(active * _FOLDED, 0.05)
    return Axis(spans, fold, active + fold * max(len(spans) - 1, 0))
