"""A run as a page shows it: its steps as proposal, ruling, person and execution.

Everything is derived from the rows of the run; nothing here knows who reads it, so that one
rendering serves everybody who watches.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from agents import results
from agents.core.budget import Spent, active
from agents.core.kinds import HAND_OVER
from agents.core.limits import Limits
from agents.core.money import to_model_units
from agents.core.requests import Json
from agents.core.states import ENDED, EffectState, EscalationState, RunState
from agents.models import Effect, Escalation, Run, Step
from agents.tools import TOOLS
from agents.web.changes import Change, Stage, changes, reply_of, stages
from agents.web.outage import outage_of_run
from agents.web.runs.above import ABOVE
from agents.web.runs.timeline import Bar, axis


@dataclass(frozen=True)
class Turn:
    """What was proposed at once, and everything that came of it."""

    name: str  # 2, dispatch/sales, finalize
    title: str
    amount_minor: int | None  # as proposed
    final_minor: int | None  # as it ran or may run
    said: str
    note: str  # the agent's own words beside an answer; "" where there are none
    ignored: Sequence[str]  # tool calls that a model sent unasked
    role: str  # a ruling's, or the step's own: running, failed, waiting
    word: str
    steps: Sequence[Step]
    ruling: Json  # the first review's deciding ruling; None: nothing was reviewed
    rulings: Sequence[Json]
    again: Json  # the ruling after a person had decided
    escalation: Escalation | None
    effect: Effect | None
    stages: Sequence[Stage]
    changes: Sequence[Change]
    bars: Sequence[Bar]
    wait: Bar | None
    seconds: float
    cost: str
    raw: str

    @property
    def asked_of(self) -> str:
        """Say which models were asked how often and with how many tokens: to them + from them."""
        asked: dict[str, list[Step]] = {}
        for step in self.steps:
            if step.model:
                asked.setdefault(step.model, []).append(step)
        return " ".join(_asked_of(model, calls) for model, calls in asked.items())

    @property
    def opens(self) -> bool:
        """True where there is more to it than a line."""
        return bool(self.escalation or self.changes or len(self.rulings) > 1)


@dataclass(frozen=True)
class Meter:
    """How much of a budget is used."""

    name: str
    used: str
    most: str
    percent: float


@dataclass(frozen=True)
class Trace:
    """A run with everything it wrote down."""

    run: Run
    turns: Sequence[Turn]
    meters: Sequence[Meter]
    counts: Sequence[tuple[str, int]]  # rulings by verdict
    result: Json
    waiting: Escalation | None
    moved_minor: int
    is_untold: bool  # the run is over, has paid, and wrote to nobody
    asked_minor: int
    tokens: int
    cost: str
    seconds: float
    waited: float  # seconds for people


def trace(run: Run, *, at: datetime | None = None) -> Trace:
    """Return a run with its steps, escalations and effects, in four queries."""
    now = at or timezone.now()
    steps = list(run.steps.order_by("position"))
    held = {e.step_id: e for e in run.escalations.select_related("decided_by", "claimed_by")}
    effects = {effect.step_id: effect for effect in run.effects.all()}
    turns = [] if run.erased_at else _turns(steps, held, effects, now, is_over=run.state in ENDED)
    spent = _spent(steps)
    open_ones = [e for e in held.values() if e.state == EscalationState.OPEN]
    paid = [e for e in effects.values() if e.tool == "issue_refund" and e.state == "done"]
    return Trace(
        run=run,
        turns=turns,
        meters=[]
        if run.erased_at
        else _meters(run.policy.limits().of(run.pattern), steps, spent, turns),
        counts=_counts(steps),
        result=results.result(run),
        waiting=open_ones[0] if open_ones else None,
        moved_minor=sum(effect.amount_minor or 0 for effect in paid),
        is_untold=bool(paid) and run.state in ENDED and not any(map(_is_letter, effects.values())),
        asked_minor=sum(t.amount_minor or 0 for t in turns if "issue_refund" in t.title),
        tokens=spent.tokens,
        cost=_cost(steps),
        seconds=round(spent.seconds, 1),
        waited=sum(((e.decided_at or now) - e.created_at).total_seconds() for e in held.values()),
    )


def _is_letter(effect: Effect) -> bool:
    return effect.state == EffectState.DONE and bool(TOOLS[effect.tool].letter)


def _asked_of(model: str, calls: Sequence[Step]) -> str:
    attempts = sum(step.attempts for step in calls)
    often = f" in {len(calls)} calls" if len(calls) > 1 else ""
    again = f", {attempts} attempts" if attempts > len(calls) else ""
    tokens_in, tokens_out = sum(s.tokens_in for s in calls), sum(s.tokens_out for s in calls)
    return f"{model}, {tokens_in:,} + {tokens_out:,} tokens{often}{again}."


def _spent(steps: Sequence[Step]) -> Spent:
    return Spent(
        seconds=active(step.span for step in steps),
        tokens=sum(s.tokens_in + s.tokens_out + s.tokens_lost for s in steps),
        cost_micro_usd=sum(step.cost_micro_usd or 0 for step in steps),
    )


def _cost(steps: Sequence[Step]) -> str:
    """Say what the models cost; one call of unknown price makes the sum unknown."""
    asked = [step for step in steps if step.kind == "ask" and step.ended_at and not step.failed]
    if not asked:
        return ""
    if any(step.cost_micro_usd is None for step in asked):
        return "unknown"
    return f"USD {sum(step.cost_micro_usd or 0 for step in asked) / 1_000_000:.3f}"


def _meters(
    limits: Limits, steps: Sequence[Step], spent: Spent, turns: Sequence[Turn]
) -> list[Meter]:
    calls = sum(step.kind == "use" for step in steps)
    turned = [turn for turn in turns if turn.name.isdigit()]
    told_of = [
        *([("Steps", len(turned), limits.max_steps, "{:,.0f}")] if turned else []),
        ("Tool calls", calls, limits.max_tool_calls, "{:,.0f}"),
        ("Active seconds", spent.seconds, limits.max_seconds, "{:,.1f}"),
        ("Tokens", spent.tokens, limits.max_tokens, "{:,.0f}"),
        (
            "Cost",
            spent.cost_micro_usd / 1_000_000,
            limits.max_cost_micro_usd / 1_000_000,
            "USD {:,.3f}",
        ),
    ]
    return [
        Meter(name, form.format(used), form.format(most), round(min(100 * used / most, 100), 1))
        for name, used, most, form in told_of
        if most
    ]


def _counts(steps: Sequence[Step]) -> list[tuple[str, int]]:
    said = [_decision(step) for step in steps if step.kind == "review" and step.reply]
    return [(word, said.count(word)) for word in ("approve", "revise", "escalate", "block")]


def _group(key: str) -> str:
    """Return the turn a step belongs to: 2/review#2 is of 2, finalize/review of finalize."""
    head, slash, _ = key.rpartition("/")
    return head if slash else key.partition("#")[0]


def _turns(
    steps: Sequence[Step],
    held: Mapping[int, Escalation],
    effects: Mapping[int, Effect],
    now: datetime,
    *,
    is_over: bool,
) -> list[Turn]:
    groups: dict[str, list[Step]] = {}
    for step in steps:
        if step.kind != "say":
            groups.setdefault(_group(step.key), []).append(step)
    spans = {step.pk: _span(step, now) for step in steps if step.kind in ("ask", "use")}
    waits = {pk: (_clock(e.created_at), _clock(e.decided_at or now)) for pk, e in held.items()}
    scale = axis(list(spans.values()))
    return [
        _turn(
            name,
            own,
            # The newest: an earlier one may have been asked again.
            escalation=next((held[s.pk] for s in reversed(own) if s.pk in held), None),
            effect=next((effects[s.pk] for s in own if s.pk in effects), None),
            bars=[scale.bar(*spans[s.pk]) for s in own if s.pk in spans],
            wait=next((scale.bar(*waits[s.pk]) for s in own if s.pk in waits), None),
            is_over=is_over,
        )
        for name, own in groups.items()
    ]


def _span(step: Step, now: datetime) -> tuple[float, float]:
    """Return when a step was busy; how long is what was measured, not what rows' times say."""
    begin = _clock(step.begun_at)
    return begin, begin + step.seconds if step.ended_at else max(_clock(now), begin)


def _clock(at: datetime) -> float:
    return at.timestamp()


def _turn(
    name: str,
    steps: Sequence[Step],
    *,
    escalation: Escalation | None,
    effect: Effect | None,
    bars: Sequence[Bar],
    wait: Bar | None,
    is_over: bool,
) -> Turn:
    reviews = [s for s in steps if s.kind == "review" and s.reply]
    uses = [s for s in steps if s.kind == "use"]
    first = reply_of(reviews[0]) if reviews else None
    action = reviews[0].asked["action"] if reviews else None
    ran = uses[-1].asked["args"] if uses else None
    decision = _decision(reviews[0]) if reviews else ""
    role, word = _standing(steps, decision, escalation)
    is_output = bool(action) and _is_output(name, action)
    return Turn(
        name=name,
        title=_title(name, steps, action),
        amount_minor=((action or {}).get("args") or {}).get("amount_minor"),
        final_minor=(ran or {}).get("amount_minor") or getattr(escalation, "granted_minor", None),
        said=_said(steps, action, is_output=is_output),
        note="" if is_output else _note(steps),
        ignored=_ignored(steps),
        role=role,
        word=word,
        steps=steps,
        ruling=first["deciding"] if first else None,
        rulings=first["rulings"] if first else [],
        again=reply_of(reviews[-1])["deciding"] if len(reviews) > 1 else None,
        escalation=escalation,
        effect=effect,
        stages=stages(reviews, escalation, effect, is_over=is_over),
        changes=changes(reviews, escalation, uses),
        bars=bars,
        wait=wait,
        seconds=active(step.span for step in steps),
        cost=_cost(steps),
        raw="\n\n".join(_raw(steps)),
    )


def _decision(review: Step) -> str:
    """Return what a review decided; an output of a step that stands word for word is approved."""
    reply, asked = reply_of(review), review.asked["action"]
    stands = reply["action"] and reply["action"].get("note", "") == asked.get("answer")
    is_approved = stands and reply["allows"] and _is_output(_group(review.key), asked)
    return "approve" if is_approved else str(reply["decision"])


def _standing(
    steps: Sequence[Step], decision: str, escalation: Escalation | None
) -> tuple[str, str]:
    """Return role and word of where a turn stands."""
    calls = [step for step in steps if step.kind in ("ask", "use")]
    if calls and calls[-1].failed:  # an earlier one that failed was made again
        return "failed", "Failed"
    if escalation and escalation.state == EscalationState.OPEN:
        return "escalate", "Escalated"
    if decision:
        words = {
            "approve": ("approve", "Approved"),
            "revise": ("revise", "Revised"),
            "escalate": ("escalate", "Escalated"),
            "block": ("block", "Blocked"),
        }
        return words[decision]
    is_busy = any(step.ended_at is None for step in steps)
    return ("running", "Running") if is_busy else ("done", "Done")


def _title(name: str, steps: Sequence[Step], action: Json) -> str:
    first = steps[0].asked
    if first.get("kind") == HAND_OVER.stored:
        return "Handed over: a case that no specialist takes"
    if not action:
        held = (first.get("action") or {}).get("name")  # put to a person without a review
        word = str(first.get("role") or first.get("tool") or held or "step").replace("_", " ")
        return f"{name}: {word}" if "/" in name else word.capitalize()  # one of several at once
    kind = action.get("kind")
    if _is_output(name, action):
        return f"{name}: output"
    if kind == "plan":
        return f"Plan: {len(action['tasks'])} tasks"
    return str(action.get("name") or {"final": "Answer", "brief": "Brief"}.get(str(kind), kind))


def _reviewed(steps: Sequence[Step]) -> Json:
    """Return a turn's action as the policy left it; None where nothing was reviewed."""
    reviews = [reply_of(step) for step in steps if step.kind == "review" and step.reply]
    return reviews[-1]["action"] if reviews else None


def _note(steps: Sequence[Step]) -> str:
    """Return what an agent wrote where the console answered in its own words."""
    action = _reviewed(steps)
    return str(action.get("note", "")) if action else ""


def _ignored(steps: Sequence[Step]) -> list[str]:
    """Return the tool calls that a model sent beside its answer, which nobody heeds."""
    calls = (reply_of(s).get("tool_calls", ()) for s in steps if s.kind == "ask" and s.reply)
    return [str(call) for told_of in calls for call in told_of]


def _is_output(name: str, action: Json) -> bool:
    """Tell whether a turn is what one step of a workflow put out, not what a run answers."""
    return action.get("kind") == "final" and not (name.isdigit() or name == "finalize")


def _said(steps: Sequence[Step], action: Json, *, is_output: bool) -> str:
    """Say in a line what came of a turn: the outcome of its call, or what is answered."""
    calls = [step for step in steps if step.kind in ("ask", "use")]
    if calls and calls[-1].failed:
        return calls[-1].failed
    uses = [s for s in steps if s.kind == "use" and s.reply]
    if uses:
        return _fields(to_model_units(uses[-1].reply))
    if action and action.get("kind") in ("final", "brief"):
        stands = _reviewed(steps) or action
        return str(stands.get("note", stands["answer"]) if is_output else stands["answer"])
    held = [s.asked["review"]["deciding"]["sentence"] for s in steps if s.kind == "escalate"]
    if held and not action:  # put to a person without a review
        return str(held[-1])
    asks = [s for s in steps if s.kind == "ask" and s.reply]
    return str(reply_of(asks[-1]).get("text", "")) if asks and not action else ""


def _fields(reply: Json) -> str:
    """Write what a tool answered with on one level, the longer texts left out."""
    if not isinstance(reply, dict):
        return str(reply)
    flat = {key: value for key, value in reply.items() if not isinstance(value, dict)}
    for part in reply.values():
        flat |= part if isinstance(part, dict) else {}
    said = {
        key: ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        for key, value in flat.items()
    }
    return " · ".join(f"{key} {text}" for key, text in said.items() if len(text) <= 60)


def _raw(steps: Sequence[Step]) -> Iterable[str]:
    for step in steps:
        yield f"{step.key} asked\n{_pretty(step.asked)}"
        if step.reply is not None:
            yield f"{step.key} reply\n{_pretty(step.reply)}"


def _pretty(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def shown(run: Run) -> dict[str, Json]:
    """Return what the live part of a run's page is rendered from."""
    found = trace(run)
    part, read = ("", None) if run.erased_at else ABOVE.get(run.pattern, ("", None))
    waits = run.state == RunState.QUEUED and run.wake_at
    return {
        "run": run,
        "page": found,
        "raw": _pretty(found.result),
        "has_ended": run.state in ENDED,
        "newer": run.launched_again.first() if run.state in ENDED else None,
        "outage": outage_of_run() if waits else None,
        "part": part,
        "above": read(list(run.steps.order_by("position")), timezone.now()) if read else {},
    }
