"""The turns of a run, and the steps of each as questions and answers."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from agents.core.compat_0_2 import currency_of
from agents.core.decisions import kind_of
from agents.core.json_forms import BadJson, parse
from agents.core.limits import active
from agents.core.money import PRICED_IN
from agents.core.registry import ROLES
from agents.core.requests import EffectState, Json
from agents.engine.turns.asking import MAX_CALL
from agents.llm.prompts import TOOL_FORM, prompt, prompt_with_tools
from agents.llm.reply import MAX_CALLS
from agents.models import Effect, Escalation, Step
from agents.patterns.steps import REPEATED, TOO_MANY, UNREADABLE, reports_error
from agents.policies.words import end_sentence
from agents.runs.changes import (
    ActionStage,
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
from agents.sdk.adjustments import label_of
from agents.sdk.desk import tool_title
from agents.shell.event_words import is_answer_of_run, phase_in_words, step_in_words, with_islands
from agents.shell.formats import (
    HELD,
    RULING_ROLES,
    field_in_words,
    fields_in_words,
    in_prose,
    split_output,
    standing_of,
    thousands,
    within_sentence,
)
from agents.tools import request_of


@dataclass(frozen=True)
class _Part:
    """A labelled value of a message: a text, or parts of its own."""

    label: str
    text: str = ""
    parts: "Sequence[_Part]" = ()


@dataclass(frozen=True)
class _StepMessage:
    """A request to a model, the policy, a person or a tool, or its answer."""

    step: Step
    icon: str
    title: str
    role: str = ""  # of its state
    words: str = ""
    parts: Sequence[_Part] = ()
    rulings: Sequence[Json] = ()
    notes: Sequence[str] = ()  # what was cut or not stored, and a call's key
    folded: Sequence[_Part] = ()

    @property
    def phase(self) -> str:
        return phase_in_words(self.step.key)


def messages_of(steps: Sequence[Step]) -> list[_StepMessage]:
    """Return each step's request and answer, in order."""
    return [message for step in steps for message in _OF_KIND[step.kind](step)]


def _of_model(step: Step) -> Iterable[_StepMessage]:
    question = step.asked
    role = str(question.get("role", "")).replace("_", " ")
    inputs, guide = question.get("inputs") or {}, question.get("guide") or {}
    parts = _parts(inputs)
    folded = [part for part in parts if part.parts]  # earlier messages: long
    if question.get("role") in ROLES:  # another release may have had other roles
        instructions = prompt(question["role"], at_desk="desk" in inputs or "desk" in guide)
        if (step.reply or {}).get("form") == TOOL_FORM:
            instructions = prompt_with_tools(question["role"], guide.get("desk") or {})
        folded.append(_Part("Instructions, as this release sends them", instructions))
    if "schema" in guide:
        folded.append(_Part("Form that the answer must have", _as_text(guide["schema"])))
    parts = [part for part in parts if not part.parts]
    yield _StepMessage(step, "chat", f"The model was asked, as {role}", parts=parts, folded=folded)
    if step.ended_at is None or step.failed:
        yield _unanswered(step, "The model")
        return
    reply = reply_of(step)
    words, shown = _said(str(reply.get("text", "")))
    calls = reply.get("tool_calls", ())
    notes = [f"{step.attempts} attempts; only the last answer is kept."] * (step.attempts > 1)
    if cached := reply.get("cached_tokens"):
        sent = thousands(step.tokens_in)
        notes.append(f"Of {sent} tokens sent, the server had {thousands(cached)} in its cache.")
    for call in calls:
        cut = f" Cut after {MAX_CALL} characters." * (len(call) >= MAX_CALL)
        notes.append(f"It also sent a tool call, which was ignored.{cut}")
    if len(calls) == MAX_CALLS:
        notes.append(f"At most {MAX_CALLS} such calls are kept.")
    if more := reply.get("more"):
        notes.append(f"It proposed {len(more) + 1} calls, which were reviewed one after another.")
    ignored = [_Part("Ignored call", call) for call in calls]
    title = f"The model {step.model} answered, as {role}"
    yield _StepMessage(step, "bot", title, words=words, parts=[*shown, *ignored], notes=notes)


def _said(text: str) -> tuple[str, Sequence[_Part]]:
    """Return a model's answer as words and parts."""
    try:
        reply = parse(text)
    except BadJson:
        words, fields = split_output(text)
        return words, [_Part(label, value) for label, value in fields.items()]
    return _proposed(reply)


def _proposed(action: Json) -> tuple[str, Sequence[_Part]]:
    """Return an action as words and parts; a call by its title and arguments."""
    is_call = isinstance(action, dict) and action.get("kind") == "tool"
    if is_call and isinstance(action.get("args"), dict):
        return f"Proposes the call: {tool_title(str(action.get('name')))}", _parts(action["args"])
    return "", _parts(action)


def _of_policy(step: Step) -> Iterable[_StepMessage]:
    action = step.asked["action"]
    words, parts = _proposed(action)
    yield _StepMessage(step, "chat", "The policy was asked", words=words, parts=parts)
    if step.reply is None:
        yield _unanswered(step, "The policy")
        return
    reply = reply_of(step)
    ruling, left = reply["decision"], reply["action"]
    seen = {name: it for name, it in (reply.get("facts") or {}).items() if name != "seen"}
    yield _StepMessage(
        step,
        ruling,
        f"The policy {RULING_ROLES[ruling][1].lower()} it",
        role=ruling,
        parts=_parts({"stands_as": left}) if left and left != action else (),
        rulings=reply["rulings"],
        folded=[_Part("Facts that the rules saw", "none", _parts(seen))],
    )


def _of_person(step: Step) -> Iterable[_StepMessage]:
    action = step.asked["action"]
    words, parts = _proposed(action)
    yield _StepMessage(step, "escalate", "Put to a person", "escalate", words, parts)
    if step.reply is None:
        yield _unanswered(step, "A person")
        return
    reply = {name: part for name, part in reply_of(step).items() if part not in ("", None)}
    by = reply.pop("by", "") or "The system"
    parts = _parts(reply, amount_of(step.run.desk, action))
    yield _StepMessage(step, "human", f"{by} answered", role="human", parts=parts)


def _of_tool(step: Step) -> Iterable[_StepMessage]:
    title = tool_title(step.asked["tool"])
    effect = getattr(step, "effect", None)
    notes = [f"Sent with the idempotency key {effect.key}."] if effect else []
    parts = _parts(step.asked["args"])
    yield _StepMessage(step, "arrow", f"Tool called: {title}", parts=parts, notes=notes)
    if step.reply is None:
        yield _unanswered(step, "The tool")
        return
    role = "failed" if reports_error(step.reply) else ""
    yield _StepMessage(step, "db", "The tool answered", role=role, parts=_parts(step.reply))


_OF_KIND = {"ask": _of_model, "review": _of_policy, "escalate": _of_person, "use": _of_tool}


def _unanswered(step: Step, who: str) -> _StepMessage:
    role = "failed" if step.failed else "waiting"
    words = end_sentence(step.failed) if step.failed else ""
    lost = [f"{step.attempts} attempts."] * (step.attempts > 1)
    text = "gave no usable answer" if step.failed else "has not answered yet"
    return _StepMessage(step, role, f"{who} {text}", role=role, words=words, notes=lost)


def _parts(value: Json, about: tuple[str, int] | None = None) -> list[_Part]:
    """Return a stored value by label, at any depth.

    Plain amounts without a currency are in that of the amount they are `about`.
    """
    if isinstance(value, list):
        value = {str(number): item for number, item in enumerate(value, start=1)}
    if not isinstance(value, dict):
        return [_Part("", str(value))] if value else []
    currency = currency_of({"currency": about[0], **value} if about else value)
    return [_part(name, item, currency) for name, item in value.items()]


def _part(name: str, value: Json, currency: str) -> _Part:
    is_list = isinstance(value, list) and any(isinstance(item, dict | list) for item in value)
    if is_list or isinstance(value, dict):
        return _Part(label_of(name), "" if value else "none", _parts(value))
    return _Part(label_of(name.removesuffix("_usd")), field_in_words(name, value, currency))


# The words of a turn: its proposal, its outcome, and all of it as JSON.


def title_of(name: str, steps: Sequence[Step], action: Json) -> str:
    first = steps[0].asked
    if steps[0].kind == "escalate" and (turn := kind_of(first["kind"], first["action"]).turn):
        return turn
    if not action:
        where = step_in_words(name)
        where = f"{where[:1].upper()}{where[1:]}"
        if first.get("role"):
            return f"{where}: model asked"
        held = (first.get("action") or {}).get("name")  # a person was asked without a review
        word = tool_title(str(first.get("tool") or held or "step"))
        # Several at once differ by their steps.
        return f"{where}: {within_sentence(word)}" if "/" in name else word
    kind = action.get("kind")
    if is_output_of_step(name, action):
        return f"Result of {step_in_words(name)}"
    if kind == "plan":
        return f"Plan: {len(action['tasks'])} tasks"
    if name := action.get("name"):
        return tool_title(str(name))
    return {"final": "Answer", "brief": "Brief"}.get(str(kind), str(kind))


def summary_of(steps: Sequence[Step], action: Json, *, is_output: bool) -> str:
    """Return a turn's outcome in a line: that of its call, or the answer."""
    calls = [step for step in steps if step.kind in ("ask", "use")]
    if calls and calls[-1].failed:
        return end_sentence(calls[-1].failed)
    uses = [s for s in steps if s.kind == "use" and s.reply]
    if uses:
        return _fields(uses[-1].reply)
    if action and action.get("kind") in ("final", "brief"):
        stands = _reviewed_action(steps) or action
        return in_prose(stands.get("note", stands["answer"])) if is_output else stands["answer"]
    held = [step for step in steps if step.kind == "escalate"]
    if held and not action:  # a person was asked without a review
        return _answer_to(held[-1])
    asks = [s for s in steps if s.kind == "ask" and s.reply]
    return in_prose(reply_of(asks[-1]).get("text", "")) if asks and not action else ""


def _answer_to(held: Step) -> str:
    """Return what a request asks of a person or, where it has instructions, what they did."""
    kind = kind_of(held.asked["kind"], held.asked["action"])
    if not held.reply or not kind.ends_run:
        return str(held.asked["review"]["deciding"]["sentence"])
    by, decision = reply_of(held)["by"], str(reply_of(held)["decision"])
    return f"{by} {kind.what_was_done(decision)}." if by else kind.undone


def _fields(reply: Json) -> str:
    """Return a tool's reply flattened, without its longer texts."""
    if not isinstance(reply, dict):
        return str(reply)
    flat = {key: value for key, value in reply.items() if not isinstance(value, dict)}
    for part in reply.values():
        flat |= part if isinstance(part, dict) else {}
    return fields_in_words({key: value for key, value in flat.items() if len(str(value)) <= 60})


def note_of(steps: Sequence[Step]) -> str:
    """Return the agent's own words when the console answered in its sentences."""
    action = _reviewed_action(steps)
    return str(action.get("note", "")) if action else ""


def _reviewed_action(steps: Sequence[Step]) -> Json:
    """Return a turn's action as the policy left it; None if nothing was reviewed."""
    reviews = [reply_of(step) for step in steps if step.kind == "review" and step.reply]
    return reviews[-1]["action"] if reviews else None


def is_output_of_step(name: str, action: Json) -> bool:
    """Tell whether a turn is the output of a workflow's step, not the answer of a run."""
    return action.get("kind") == "final" and not is_answer_of_run(name)


def raw_of(steps: Sequence[Step]) -> Iterable[str]:
    for step in steps:
        yield f"{step.key} asked\n{_as_text(step.asked)}"
        if step.reply is not None:
            yield f"{step.key} reply\n{_as_text(step.reply)}"


def _as_text(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


# The turns of a run: each proposal with everything that followed from it.
#
# One file: each function adds one part of a turn, in the order of the page.


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
    changes: Sequence[Json]  # arguments, each with its cells at the four stages
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
    spans = {step.pk: span_of(step, now) for step in steps if step.kind in ("ask", "use")}
    waits = {
        pk: (e.created_at.timestamp(), (e.decided_at or now).timestamp()) for pk, e in held.items()
    }
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
    answers = [reply_of(s) for s in steps if s.kind == "ask" and s.reply]
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
        ignored=[str(call) for reply in answers for call in reply.get("tool_calls", ())],
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
    is_error = errors_fail and calls and calls[-1].kind == "use" and reports_error(calls[-1].reply)
    if is_error or (calls and calls[-1].failed):
        return "failed", "Failed"
    if escalation:
        return standing_of(escalation)
    if decision == "escalate" and not any(step.kind == "escalate" for step in steps):
        return "block", "Told the agent"  # and no person was asked
    if decision:
        return RULING_ROLES[decision]
    is_busy = any(step.ended_at is None for step in steps)
    return ("running", "Running") if is_busy else ("done", "Done")


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


def span_of(step: Step, now: datetime) -> tuple[float, float]:
    """Return when a step was busy, by its measured seconds instead of the times of its row."""
    begin = step.begun_at.timestamp()
    return begin, begin + step.seconds if step.ended_at else max(now.timestamp(), begin)


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
        """Return percent and time of four marks; none if they would look equal, or with a fold."""
        if len(self.spans) != 1 or self.length < 0.4:
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
