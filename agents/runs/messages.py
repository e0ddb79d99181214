"""The questions and answers of a turn: its steps as messages, and their words."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agents.core.compat_0_2 import currency_of
from agents.core.decisions import kind_of
from agents.core.json_forms import BadJson, parse
from agents.core.registry import ROLES
from agents.core.requests import Json
from agents.engine.turns.asking import MAX_CALL
from agents.llm.prompts import TOOL_FORM, prompt, prompt_with_tools
from agents.llm.reply import MAX_CALLS
from agents.models import Step
from agents.patterns.steps import reports_error
from agents.policies.words import end_sentence
from agents.runs.changes import amount_of, reply_of
from agents.sdk.adjustments import label_of
from agents.sdk.desk import tool_title
from agents.shell.event_words import is_answer_of_run, phase_in_words, step_in_words
from agents.shell.formats import (
    RULING_ROLES,
    field_in_words,
    fields_in_words,
    in_prose,
    split_output,
    thousands,
    within_sentence,
)


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
    notes: Sequence[str] = ()  # what was cut or not stored
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
    yield _StepMessage(
        step,
        ruling,
        f"The policy {RULING_ROLES[ruling][1].lower()} it",
        role=ruling,
        parts=_parts({"stands_as": left}) if left and left != action else (),
        rulings=reply["rulings"],
        folded=[_Part("Facts that the rules saw", "none", _parts(_seen_facts(reply)))],
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
    yield _StepMessage(step, "arrow", f"Tool called: {title}", parts=_parts(step.asked["args"]))
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


def _seen_facts(reply: Json) -> Json:
    return {name: it for name, it in (reply.get("facts") or {}).items() if name != "seen"}


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


def ignored_calls(steps: Sequence[Step]) -> list[str]:
    """Return the tool calls that a model sent beside its answer, which are ignored."""
    calls = (reply_of(s).get("tool_calls", ()) for s in steps if s.kind == "ask" and s.reply)
    return [str(call) for told_of in calls for call in told_of]


def raw_of(steps: Sequence[Step]) -> Iterable[str]:
    for step in steps:
        yield f"{step.key} asked\n{_as_text(step.asked)}"
        if step.reply is not None:
            yield f"{step.key} reply\n{_as_text(step.reply)}"


def _as_text(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
