"""Offer a desk's tools to a model as such, and read its calls as the proposals that they are.

A call becomes the text of one JSON object, so that the same parser reads it as any other reply.
The calls that we quote to a model have numbers of ours: its own ids are nothing to rely on.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextlib import suppress

from agents.core.actions import ENDS
from agents.core.requests import Json
from agents.core.schemas import TEXT, exact_object, fit, word
from agents.core.strict_json import BadJson, parse
from agents.llm.envelope import unpack
from agents.llm.exchange import ModelFailed, Question, ToolOffer
from agents.llm.prompts import prompt_with_tools
from agents.llm.reply import Completion
from agents.llm.spellings import WrittenCall, holds_call, read_call, without_reasoning

FINAL = "final_answer"
READY = "report_ready"
NAMESPACE = "functions."  # which some models put before a tool's name
MOST_ENCODED = 3  # times that arguments are written as a text within a text
_ENDED = "End the work: tell the person who asked what was done, what was found, or why not."
# Of the inputs of a question, what the messages show in their own way.
_AS_MESSAGES = frozenset(
    {"state_summary", "recent_step_summaries", "blocked", "done", "tools", "answer_as"}
    | {"desk", "more_tools"}
)


def _function(name: str, told: str, parameters: Json) -> Json:
    about = {"name": name, "description": told, "parameters": parameters, "strict": True}
    return {"type": "function", "function": about}


# A harmless tool, and a call that is forced. Most servers without tools ignore both.
PROBE: Mapping[str, Json] = {
    "messages": [{"role": "user", "content": f"Call {READY}."}],
    "tools": [_function(READY, "Report that you are ready.", exact_object())],
    "tool_choice": {"type": "function", "function": {"name": READY}},
}


def offer_tools(question: Question, offer: ToolOffer) -> dict[str, Json]:
    """Return a request that offers tools: the rules, the goal, then what happened, in this order.

    So a server can reuse what it has read for the question before.
    """
    inputs, desk = question.inputs, question.inputs.get("desk") or {}
    asked = {name: part for name, part in inputs.items() if name not in _AS_MESSAGES}
    goal = asked["goal"] if set(asked) == {"goal"} else json.dumps(asked, ensure_ascii=False)
    messages = [
        {"role": "system", "content": prompt_with_tools(question.role, desk)},
        {"role": "user", "content": goal},
    ]
    for number, turn in enumerate(offer.turns, start=1):
        messages += _messages_of(turn, f"call_{number}")
    final = exact_object(kind=word(*ENDS), text=TEXT)
    told = offer.told
    offered = (one for one in _arguments_of(question).items() if one[0] in told)
    tools = [_function(name, told[name], args) for name, args in offered]
    choice = "required" if offer.required else "auto"
    return {
        "messages": messages,
        "tools": [*tools, _function(FINAL, _ENDED, final)],
        "tool_choice": choice,
    }


def _messages_of(turn: Json, id_: str) -> list[Json]:
    """Return a proposal and what came of it; of one that could not be read only why."""
    came, call = json.dumps(turn["came"], ensure_ascii=False), turn["call"]
    if call is None:
        return [{"role": "user", "content": came}]
    is_call = call["kind"] == "tool"
    name = call["name"] if is_call else FINAL
    args = call["args"] if is_call else {"kind": call.get("says", ENDS[0]), "text": call["answer"]}
    function = {"name": name, "arguments": json.dumps(args, ensure_ascii=False)}
    calls = [{"id": id_, "type": "function", "function": function}]
    return [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": id_, "content": came},
    ]


def is_ready(calls: tuple[str, ...]) -> bool:
    """Tell whether a reply to the probe holds the call that was forced."""
    return any(_native_call(json.loads(call)).name == READY for call in calls)


def read_proposals(reply: Completion, question: Question) -> list[str]:
    """Return what a reply proposes, as JSON objects in our form: its calls, or its text."""
    if not reply.tool_calls:
        return [read_text(reply.text, question)]
    tools = _arguments_of(question)
    return [_proposal(_native_call(json.loads(call)), tools) for call in reply.tool_calls]


def read_text(text: str, question: Question, *, is_strict: bool = False) -> str:
    """Return a reply in text without what its model wrote around it; a call in our form.

    Where a call is not all that is said, the text stays as it is, which is no proposal. Raises
    ModelFailed where any text would be used.
    """
    said, tools = without_reasoning(text), _arguments_of(question)
    call, inside = read_call(said)
    inside = unpack(inside) if is_strict else inside
    value: Json = None
    if question.as_json:
        with suppress(BadJson):
            value = parse(inside)
    if question.schema is None:
        is_object = isinstance(value, dict)
        if holds_call(_answer_in(value) if is_object else said):
            message = "The model left a tool call or its reasoning in the text of its answer."
            raise ModelFailed("llm_stray_call", message)
        return inside if is_object else said
    if call:
        return _proposal(call, tools)
    if isinstance(value, list):
        return inside
    if isinstance(value, dict):
        args = value.get("args")
        fitted = fit(_decoded(args), tools.get(str(value.get("name")), {})) if args else args
        is_fit = json.dumps(fitted) == json.dumps(args)
        text = inside if is_fit else json.dumps({**value, "args": fitted}, ensure_ascii=False)
        return _written(value, tools, text)
    is_torn = not said.strip() or said.lstrip().startswith(("{", "[{"))
    if question.offer is None or is_torn or holds_call(said, tools):
        return said
    return _written({"kind": "final", "answer": said.strip()}, tools)


def _native_call(call: Json) -> WrittenCall:
    function = call.get("function", call) if isinstance(call, dict) else None
    function = function if isinstance(function, dict) else {}
    return WrittenCall(function.get("name"), function.get("arguments", function.get("parameters")))


def _arguments_of(question: Question) -> dict[str, Json]:
    """Return the schema of each tool's arguments, by its name."""
    branches = (question.schema or {}).get("anyOf", [question.schema or {}])
    parts = (branch.get("properties", {}) for branch in branches)
    return {p["name"]["enum"][0]: p["args"] for p in parts if {"name", "args"} <= set(p)}


def _proposal(call: WrittenCall, tools: Mapping[str, Json]) -> str:
    """Return a call in our form. What is no JSON object stays as it is, and is refused there."""
    name, args = call.name, call.arguments
    name = name.removeprefix(NAMESPACE) if isinstance(name, str) else name
    args = fit(_decoded(args), tools.get(str(name), {}), is_untyped=call.is_untyped)
    if name != FINAL:
        return _written({"kind": "tool", "name": name, "args": args}, tools)
    known, said = {"kind": "says", "text": "answer"}, args if isinstance(args, dict) else {"": args}
    return _written({"kind": "final", **{known.get(k, f"{k}?"): said[k] for k in said}}, tools)


def _decoded(args: Json) -> Json:
    """Return arguments as they are meant, where they were written as a text within a text."""
    for _ in range(MOST_ENCODED):
        if isinstance(args, str):
            with suppress(BadJson):
                args = parse(args or "{}")
    return args


def _written(said: Json, tools: Collection[str], text: str = "") -> str:
    """Return a proposal as text, where it has none yet; no JSON for an answer that holds a call."""
    answer = _answer_in(said)
    if holds_call(answer, tools):
        return f"{FINAL}: {answer}"
    return text or unpack(json.dumps(said, ensure_ascii=False))


def _answer_in(said: Json) -> str:
    """Return the text in a reply that people would read; "" for a call, and for other roles."""
    answer = said.get("answer", said.get("result")) if isinstance(said, dict) else None
    return answer if isinstance(answer, str) else ""
