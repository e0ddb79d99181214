"""Offer a desk's tools to a model as such, and read its calls as the proposals that they are.

A call becomes the text of one JSON object, so that the same parser reads it as any other reply.
The calls that we quote to a model have numbers of ours: its own ids are nothing to rely on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from agents.core.actions import ENDS
from agents.core.requests import Json
from agents.core.schemas import TEXT, exact_object, word
from agents.core.strict_json import BadJson, parse
from agents.llm.envelope import unpack
from agents.llm.exchange import Question, ToolOffer
from agents.llm.prompts import prompt_with_tools
from agents.llm.reply import Completion

FINAL = "final_answer"
READY = "report_ready"
# A call as small models write it where their server does not take it for one.
_FENCED = re.compile(
    r"\s*(?:```(?:json)?|<tool_call>)\s*(\{.*\})\s*(?:```|</tool_call>)\s*", re.DOTALL
)
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
    offered = (one for one in _tools_in(question) if one[0] in told)
    tools = [_function(name, told[name], args) for name, args in offered]
    choice = "required" if offer.required else "auto"
    return {
        "messages": messages,
        "tools": [*tools, _function(FINAL, _ENDED, final)],
        "tool_choice": choice,
    }


def _tools_in(question: Question) -> Iterator[tuple[str, Json]]:
    """Yield name and arguments of each tool that the schema of an answer has a branch for."""
    schema = question.schema or {}
    for branch in schema.get("anyOf", [schema]):
        parts = branch["properties"]
        if parts["kind"]["enum"] == ["tool"]:
            yield parts["name"]["enum"][0], parts["args"]


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
    return any(_name_and_arguments(json.loads(call))[0] == READY for call in calls)


def read_proposals(reply: Completion) -> list[str]:
    """Return what a reply proposes, as JSON objects in our form: its calls, or its text."""
    if not reply.tool_calls:
        return [_proposal_in(reply.text)]
    return [_proposal(*_name_and_arguments(json.loads(call))) for call in reply.tool_calls]


def _proposal_in(text: str) -> str:
    """Return a plain text as an answer. One that reads as an object is a proposal, if any."""
    fenced = _FENCED.fullmatch(text)
    inside = fenced.group(1) if fenced else text.strip()
    try:
        said = parse(inside)
    except BadJson:
        said = {} if inside.startswith("{") else inside
    if inside and not isinstance(said, dict | list):  # also a bare number
        return _written({"kind": "final", "answer": inside})
    if isinstance(said, dict) and set(said) == {"name", "arguments"}:
        return _proposal(said["name"], said["arguments"])
    return inside


def _name_and_arguments(call: Json) -> tuple[Json, Json]:
    function = call.get("function", call) if isinstance(call, dict) else None
    return (
        (function.get("name"), function.get("arguments"))
        if isinstance(function, dict)
        else (None, None)
    )


def _proposal(name: Json, arguments: Json) -> str:
    """Return a call in our form. What is no JSON object stays as it is, and is refused there."""
    args = arguments
    if isinstance(arguments, str):
        try:
            args = parse(arguments or "{}")
        except BadJson:
            args = arguments
    if name != FINAL:
        return _written({"kind": "tool", "name": name, "args": args})
    known = {"kind": "says", "text": "answer"}
    if not isinstance(args, dict):
        return _written({"kind": "final", "text": args})
    return _written({"kind": "final", **{known.get(key, f"{key}?"): args[key] for key in args}})


def _written(said: Json) -> str:
    return unpack(json.dumps(said, ensure_ascii=False))
