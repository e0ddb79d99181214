"""Offer a desk's tools to a model, and read its calls as proposals.

A call becomes one JSON object, so that one parser reads all replies. Calls that we quote to a model
have our own numbers: a model's ids are not reliable.
"""

import json
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import NamedTuple

from agents.core.json_forms import ENDS, TEXT, BadJson, exact_object, fit, parse, word
from agents.core.requests import Json
from agents.llm.prompts import prompt_with_tools
from agents.llm.reply import Completion
from agents.llm.servers import ModelFailed, Question, ToolOffer

_FINAL, _OF_FINAL = "final_answer", {"kind": "says", "text": "answer"}
_READY = "report_ready"
_NAMESPACE = "functions."  # a prefix of some models before a tool's name
_MOST_ENCODED = 3  # times that arguments are encoded as text within a text
_ENDED = "End the work: tell the person who asked what was done, what was found, or why not."
# Inputs of a question that the messages show in their own form.
_AS_MESSAGES = frozenset(
    {"state_summary", "recent_step_summaries", "blocked", "done", "tools", "answer_as"}
    | {"desk", "more_tools"}
)


def _function(name: str, description: str, parameters: Json) -> Json:
    about = {"name": name, "description": description, "parameters": parameters, "strict": True}
    return {"type": "function", "function": about}


# A harmless tool, and a forced call. Most servers without tools ignore both.
PROBE: Mapping[str, Json] = {
    "messages": [{"role": "user", "content": f"Call {_READY}."}],
    "tools": [_function(_READY, "Report that you are ready.", exact_object())],
    "tool_choice": {"type": "function", "function": {"name": _READY}},
}


def offer_tools(question: Question, offer: ToolOffer) -> dict[str, Json]:
    """Return a request that offers tools: the rules, the goal, then the turns, in this order.

    So a server can reuse its reading of the question before.
    """
    inputs, desk = question.inputs, question.inputs.get("desk") or {}
    shown = {name: part for name, part in inputs.items() if name not in _AS_MESSAGES}
    goal = shown["goal"] if set(shown) == {"goal"} else json.dumps(shown, ensure_ascii=False)
    messages = [
        {"role": "system", "content": prompt_with_tools(question.role, desk)},
        {"role": "user", "content": goal},
    ]
    for number, turn in enumerate(offer.turns, start=1):
        messages += _messages_of(turn, f"call_{number}")
    final = exact_object(kind=word(*ENDS), text=TEXT)
    descriptions = offer.descriptions
    offered = (one for one in _arguments_of(question).items() if one[0] in descriptions)
    tools = [_function(name, descriptions[name], args) for name, args in offered]
    choice = "required" if offer.required else "auto"
    return {
        "messages": messages,
        "tools": [*tools, _function(_FINAL, _ENDED, final)],
        "tool_choice": choice,
    }


def _messages_of(turn: Json, id_: str) -> list[Json]:
    """Return a proposal and its outcome as messages; for an unreadable one, only why."""
    came, call = json.dumps(turn["came"], ensure_ascii=False), turn["call"]
    if call is None:
        return [{"role": "user", "content": came}]
    is_call = call["kind"] == "tool"
    name = call["name"] if is_call else _FINAL
    args = call["args"] if is_call else {"kind": call.get("says", ENDS[0]), "text": call["answer"]}
    function = {"name": name, "arguments": json.dumps(args, ensure_ascii=False)}
    calls = [{"id": id_, "type": "function", "function": function}]
    return [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": id_, "content": came},
    ]


def is_ready(calls: tuple[str, ...]) -> bool:
    """Tell whether a reply to the probe has the forced call."""
    return any(_native_call(json.loads(call)).name == _READY for call in calls)


def read_proposals(reply: Completion, question: Question) -> list[str]:
    """Return a reply's proposals as JSON objects in our form: its calls, or its text."""
    if not reply.tool_calls:
        return [read_text(reply.text, question)]
    tools = _arguments_of(question)
    return [_proposal(_native_call(json.loads(call)), tools) for call in reply.tool_calls]


def read_text(text: str, question: Question, *, is_strict: bool = False) -> str:
    """Return a reply in text without decoration; a call in our form.

    If there is more than a call, the text is unchanged, which is no proposal. Raises ModelFailed
    where any text would be used.
    """
    answer, tools = without_reasoning(text), _arguments_of(question)
    call, inside = read_call(answer)
    inside = unpack(inside) if is_strict else inside
    value: Json = None
    if question.as_json:
        with suppress(BadJson):
            value = parse(inside)
    if question.schema is None:
        is_object = isinstance(value, dict)
        if holds_call(_answer_in(value) if is_object else answer):
            message = "The model left a tool call or its reasoning in the text of its answer."
            raise ModelFailed("llm_stray_call", message)
        return inside if is_object else answer
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
    is_torn = not answer.strip() or answer.lstrip().startswith(("{", "[{"))
    if question.offer is None or is_torn or holds_call(answer, tools):
        return answer
    return _written({"kind": "final", "answer": answer.strip()}, tools)


def _native_call(call: Json) -> "_WrittenCall":
    function = call.get("function", call) if isinstance(call, dict) else None
    function = function if isinstance(function, dict) else {}
    return _WrittenCall(function.get("name"), function.get("arguments", function.get("parameters")))


def _arguments_of(question: Question) -> dict[str, Json]:
    """Return the schema of each tool's arguments, by its name."""
    branches = (question.schema or {}).get("anyOf", [question.schema or {}])
    parts = (branch.get("properties", {}) for branch in branches)
    return {p["name"]["enum"][0]: p["args"] for p in parts if {"name", "args"} <= set(p)}


def _proposal(call: "_WrittenCall", tools: Mapping[str, Json]) -> str:
    """Return a call in our form. If it is no JSON object it is unchanged, and is refused later."""
    name, args = call.name, call.arguments
    name = name.removeprefix(_NAMESPACE) if isinstance(name, str) else name
    args = fit(_decoded(args), tools.get(str(name), {}), is_untyped=call.is_untyped)
    if name != _FINAL:
        return _written({"kind": "tool", "name": name, "args": args}, tools)
    known, values = _OF_FINAL, args if isinstance(args, dict) else {"": args}
    return _written({"kind": "final", **{known.get(k, f"{k}?"): values[k] for k in values}}, tools)


def _decoded(args: Json) -> Json:
    """Return arguments that were encoded as text within a text."""
    for _ in range(_MOST_ENCODED):
        if isinstance(args, str):
            with suppress(BadJson):
                args = parse(args or "{}")
    return args


def _written(reply: Json, tools: Collection[str], text: str = "") -> str:
    """Return a proposal as text if it has none; no JSON for an answer with a call."""
    answer = _answer_in(reply)
    if holds_call(answer, tools):
        return f"{_FINAL}: {answer}"
    return text or unpack(json.dumps(reply, ensure_ascii=False))


def _answer_in(reply: Json) -> str:
    """Return the text of a reply for people; "" for a call, and for other roles."""
    answer = reply.get("answer", reply.get("result")) if isinstance(reply, dict) else None
    return answer if isinstance(answer, str) else ""


# What models write around an answer or instead of one: reasoning, fences, calls as text. Each
# family spells a call in its own way. A call counts only at the end of a message, after nothing but
# reasoning: elsewhere an outsider may be quoted.

_MOST_MARKS, LONGEST_MARK = 6, 40  # after a call, and characters of one
_REASONING = re.compile(
    r"\ufeff?\s*(?:<(?P<tag>(?:\w+:)?(?:think|thinking|thought|reasoning))>.*?</(?P=tag)>"
    r"|\[THINK\].*?\[/THINK\]|◁think▷.*?◁/think▷"
    r"|(?:<\|start\|>assistant)?<\|channel\|>analysis<\|message\|>.*?(?:<\|end\|>|(?=<\|start\|>))"
    r")\s*",
    re.DOTALL | re.IGNORECASE,
)
_FRONT = re.compile(r"\ufeff?(?:(?:<\|start\|>assistant)?<\|channel\|>final<\|message\|>)?")
_LAST = re.compile(
    r"(?:</s>|<end_of_turn>|<[|｜](?:im_end|eo[tm]_id|end|return|endoftext|end▁of▁sentence)[|｜]>)"
    r"\s*\Z"
)
_BEGIN = re.compile(  # a mark of any family in front of a call, or a fence
    r"<[|｜]?(?![\w▁]*(?:respon|result|output))(?:\w+:)?"
    r"[\w▁]{0,20}(?:tool|function|plugin|action|python_tag)[\w▁]{0,20}[|｜]?>\s*"
    r"|\[TOOL_(?:CALLS?|REQUEST)\]\s*|functools|```\w*\s*",
    re.IGNORECASE,
)
_CLOSE = re.compile(
    r"(?:</(?!parameter|arg_)[\w:]+>|<[|｜]/?[\w▁]+[|｜]>"
    r"|\[(?:/TOOL_CALLS?|END_TOOL_REQUEST)\]|```)\s*\Z",
    re.IGNORECASE,
)
_NAMED = re.compile(  # marks that hold the name of the tool: Llama, Claude, DeepSeek, Kimi, gpt-oss
    r'<function=([\w.-]+)>|<invoke name="([\w.-]+)">'
    r"|<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?([\w.-]+)(?:<｜tool▁sep｜>)?"
    r"|<\|tool_call_begin\|>([\w.-]+)(?::\d+)?<\|tool_call_argument_begin\|>"
    r"|(?:<\|start\|>assistant)?(?:<\|channel\|>)?(?:commentary|analysis)?\s*to=([\w.-]++)\s*+"
    r"(?:<\|channel\|>\w+\s*+)?(?:<\|constrain\|>)?(?:json)?\s*+<\|message\|>"
)
_NAME = re.compile(r"([\w.-]+)(?:\[CALL_ID\]\w+)?(?:\[ARGS\])?(?=\s*(?:\{|<arg_key>|```))")
_PARAMETER = re.compile(
    r'\s*(?:<parameter(?:=|\s+name=")([\w.-]++)"?[^<>]*>(.*?)</parameter>'
    r"|<arg_key>([\w.-]+)</arg_key>\s*<arg_value>(.*?)</arg_value>)\s*",
    re.DOTALL,
)
_KEYS = [(n, a) for n in ("name", "tool_name", "function") for a in ("arguments", "parameters")]
_STRAY = re.compile(
    r"</?(?:\w+:|start_|end_)?(?:tool|function|invoke|parameter|arg_|think|thought|reasoning)\w*+"
    r"(?![.@-])|<[|｜]/?\w|◁/?think|```tool|\[/?(?:(?:END_)?TOOL_|THINK|ARGS\])|functools\["
    r"|\bto=functions\.|\bAction Input:",
    re.IGNORECASE,
)
_STRAY_NAME = re.compile(r"""["'](?:name|tool|tool_name|function)\\*["']\s*:""")
_STRAY_ARGUMENTS = re.compile(r"""["'](?:arguments|parameters|args|input)\\*["']\s*:""")
_STRAY_KNOWN = (  # a call of a known tool: a value, a key, a tag, or with arguments
    r"""[\w"']\s*[:=][\s\\"'*`]{{0,9}}(?:\w+\.)?(?:{0})(?:[\\"'*`]|\s*$)"""
    r"""|["'](?:{0})\\*["']\s*:|</?(?:{0})\b|\b(?:{0})(?:\(|\s*:?\s*[{{\[])"""
)


class _WrittenCall(NamedTuple):
    """A call as its model wrote it, untrusted. `is_untyped`: all its arguments are texts."""

    name: Json
    arguments: Json
    is_untyped: bool = False


def without_reasoning(text: str) -> str:
    """Return a text without reasoning in front, and marks at its very beginning and end."""
    place = 0
    while match := _REASONING.match(text, place):
        place = match.end()
    front = _FRONT.match(text, place)
    return _without_end(_LAST, text[front.end() if front else place :])


def read_call(text: str) -> tuple[_WrittenCall | None, str]:
    """Return the call that is the whole text, or None, and the text within the marks around it."""
    text, place = text.strip().replace("｜DSML｜", ""), 0
    while not (named := _NAMED.match(text, place)) and (mark := _BEGIN.match(text, place)):
        place = mark.end()
    named = named or (_NAME.match(text, place) if place else None)
    inside = text[named.end() if named else place :]
    inside = _without_end(_CLOSE, inside).strip() if named or place else inside
    if named:
        fence = _BEGIN.match(inside)
        inside = inside[fence.end() :] if fence else inside
        return _call_by_name(next(filter(None, named.groups())), inside), inside
    try:
        value = parse(inside)
    except BadJson:
        return None, inside
    return _call_in(value[0] if isinstance(value, list) and len(value) == 1 else value), inside


def _call_in(value: Json) -> _WrittenCall | None:
    """Return the call in an object, under any of the names that models give to its parts."""
    inner = value.get("function") if isinstance(value, dict) else None
    value = inner if isinstance(inner, dict) else value
    known = set(value) if isinstance(value, dict) else set()
    for name, arguments in _KEYS:
        if {name, arguments} <= known <= {name, arguments, "id", "type", "tool_call_id"}:
            return _WrittenCall(value[name], value[arguments])
    return None


def _call_by_name(name: str, inside: str) -> _WrittenCall | None:
    """Return the call of a tool whose arguments are an object or follow one another."""
    if inside.startswith("{"):
        try:
            return _WrittenCall(name, parse(inside))
        except BadJson:
            return None
    given, place = dict[str, Json](), 0
    while place < len(inside):
        match = _PARAMETER.match(inside, place)
        key, value = [part for part in match.groups() if part is not None] if match else ("", "")
        if match is None or key in given:
            return None
        given[key], place = value.strip("\n"), match.end()
    return _WrittenCall(name, given, is_untyped=True)


def holds_call(text: str, tools: Collection[str] = ()) -> bool:
    """Tell whether a text contains a call, a part of one, or reasoning."""
    if _STRAY.search(text) or (_STRAY_NAME.search(text) and _STRAY_ARGUMENTS.search(text)):
        return True
    names = "|".join(map(re.escape, tools)) or "(?!)"
    return bool(re.search(_STRAY_KNOWN.format(names), text, re.I | re.M))


def _without_end(marks: re.Pattern[str], text: str) -> str:
    for _ in range(_MOST_MARKS):
        match = marks.search(text, max(0, len(text) - LONGEST_MARK))
        text = text[: match.start()] if match else text
    return text


# Strict structured output. Its root must be an object, so a choice is wrapped in one. No property
# may be omitted, so null stands for an omission. Both are undone before the reply is recorded.

_ENVELOPE = "reply"


def envelop(schema: Json) -> Json:
    """Return a schema for strict output, with a choice at the root wrapped."""
    return exact_object(**{_ENVELOPE: schema}) if "anyOf" in schema else schema


def unpack(text: str) -> str:
    """Return the content of an envelope without nulls; any other text stays unchanged."""
    with suppress(BadJson):
        reply = parse(text)
        inside = (
            reply[_ENVELOPE] if isinstance(reply, dict) and set(reply) == {_ENVELOPE} else reply
        )
        kept = _without_nulls(inside)
        if kept != reply:
            return json.dumps(kept, ensure_ascii=False)
    return text


def _without_nulls(value: Json, *, below: bool = True) -> Json:
    """Return a value without the properties that are null.

    An argument may be left out, but a field of it may not: below an argument null is a value.
    """
    if isinstance(value, dict):
        given = ((name, part) for name, part in value.items() if part is not None)
        return {n: _without_nulls(part, below=n != "args") if below else part for n, part in given}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value
