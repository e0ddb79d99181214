"""Read what models write around an answer or in place of one: reasoning, fences, calls as text.

Each family spells a call in its own way. One is read only as the last thing of a message, after
nothing but reasoning: anywhere else it may be quoted from somebody outside.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from agents.core.requests import Json
from agents.core.strict_json import BadJson, parse

MOST_MARKS, LONGEST_MARK = 6, 40  # behind a call, and characters of one
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
_STRAY_KNOWN = (  # a call of a known tool: it is a value, a key, a tag, or has arguments
    r"""[\w"']\s*[:=][\s\\"'*`]{{0,9}}(?:\w+\.)?(?:{0})(?:[\\"'*`]|\s*$)"""
    r"""|["'](?:{0})\\*["']\s*:|</?(?:{0})\b|\b(?:{0})(?:\(|\s*:?\s*[{{\[])"""
)


class WrittenCall(NamedTuple):
    """A call as its model wrote it, untrusted. `is_untyped`: all its arguments are texts."""

    name: Json
    arguments: Json
    is_untyped: bool = False


def without_reasoning(text: str) -> str:
    """Return a text without reasoning in front, and marks at its very beginning and end."""
    place = 0
    while found := _REASONING.match(text, place):
        place = found.end()
    front = _FRONT.match(text, place)
    return _without_end(_LAST, text[front.end() if front else place :])


def read_call(text: str) -> tuple[WrittenCall | None, str]:
    """Return the one call that a text is, or None, and what stands within the marks around it."""
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


def _call_in(value: Json) -> WrittenCall | None:
    """Return the call that an object is, under any of the names that models give to its parts."""
    inner = value.get("function") if isinstance(value, dict) else None
    value = inner if isinstance(inner, dict) else value
    known = set(value) if isinstance(value, dict) else set()
    for name, arguments in _KEYS:
        if {name, arguments} <= known <= {name, arguments, "id", "type", "tool_call_id"}:
            return WrittenCall(value[name], value[arguments])
    return None


def _call_by_name(name: str, inside: str) -> WrittenCall | None:
    """Return the call of a tool whose arguments are an object or follow one another."""
    if inside.startswith("{"):
        try:
            return WrittenCall(name, parse(inside))
        except BadJson:
            return None
    given, place = dict[str, Json](), 0
    while place < len(inside):
        found = _PARAMETER.match(inside, place)
        key, value = [part for part in found.groups() if part is not None] if found else ("", "")
        if found is None or key in given:
            return None
        given[key], place = value.strip("\n"), found.end()
    return WrittenCall(name, given, is_untyped=True)


def holds_call(text: str, tools: Collection[str] = ()) -> bool:
    """Tell whether a call, a part of one or reasoning stands somewhere in a text."""
    if _STRAY.search(text) or (_STRAY_NAME.search(text) and _STRAY_ARGUMENTS.search(text)):
        return True
    names = "|".join(map(re.escape, tools)) or "(?!)"
    return bool(re.search(_STRAY_KNOWN.format(names), text, re.I | re.M))


def _without_end(marks: re.Pattern[str], text: str) -> str:
    for _ in range(MOST_MARKS):
        found = marks.search(text, max(0, len(text) - LONGEST_MARK))
        text = text[: found.start()] if found else text
    return text
