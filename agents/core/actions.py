"""Parse a worker model's reply into an action, strictly.

An action is {"kind": "tool", "name", "args"} or {"kind": "final", "answer"}, of a model that was
offered tools also with what the answer says that it is: "says". Inside it holds
``amount_minor``; the model writes ``amount_usd``. Reasons and their order are the reference's
(conformance cases sup-035 to sup-103).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeAlias, TypeGuard

from agents.core import old_names
from agents.core.money import BadAmount, minor_of_number
from agents.core.requests import Json, Stop
from agents.core.schemas import TEXT, arguments, exact_object, one_of, word
from agents.core.strict_json import BadJson, parse


class TypedArguments(Protocol):
    """Arguments as a desk declares them (see `agents.sdk.arguments`)."""

    @property
    def schema(self) -> Json: ...

    @property
    def required(self) -> tuple[str, ...]: ...

    def read(self, given: Json) -> Any:
        """Return them typed. Raises ValueError if they are not the tool's."""
        ...

    @property
    def description(self) -> str: ...

    def accepts(self, given: Json) -> bool: ...

    def fits_but_for_names(self, given: Json) -> bool:
        """Tell whether only names do not fit, whose values are judged where a call is."""
        ...


# argument -> int | old_names.AMOUNT | str | str?, or as a desk declares them
ArgSpec: TypeAlias = Mapping[str, str] | TypedArguments
ArgSpecs: TypeAlias = Mapping[str, ArgSpec]  # by tool
Action: TypeAlias = dict[str, Json]

ENDS = ("answer", "done", "cannot")  # what a final answer may say that it is
MAX_TEXT = 4000  # characters of one text argument or answer
MAX_CALL = 32_000  # characters of a call that an agent elsewhere proposes, as JSON
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")


class InvalidAction(Exception):
    """The reply is not an action that a worker may propose. The message is the reason code."""


def read_action(text: str, *, specs: ArgSpecs, proposable: Collection[str]) -> Action:
    """Return the action that a worker's reply proposes. Raises Stop("invalid_action:…").

    An empty reply reads as {}, as the reference reads it, and so has no kind.
    """
    raw: Json = {"kind": "invalid", "raw": text}
    try:
        said = parse(text or "{}", keep_non_finite=True)
    except BadJson:
        raise _invalid("non_json", raw) from None
    try:
        return check_action(said, specs=specs, proposable=proposable)
    except InvalidAction as error:
        with suppress(BadJson):
            # Values that JSON cannot store (NaN, 1e400) are kept as text.
            raw = parse(text or "{}")
        raise _invalid(str(error), raw) from None


def action_schema(
    specs: ArgSpecs, *, proposable: Collection[str], bound: Mapping[str, Json] | None = None
) -> Json:
    """Return the JSON schema of an action: a branch for each tool, and one for the answer.

    It guides a model; the checks here still decide. `bound` are arguments with a fixed value.
    """
    tools = [
        exact_object(
            kind=word("tool"),
            name=word(name),
            args=args_schema(spec, only=bound),
        )
        for name, spec in specs.items()
        if name in proposable
    ]
    return one_of([*tools, exact_object(kind=word("final"), answer=TEXT)])


def check_action(said: Json, *, specs: ArgSpecs, proposable: Collection[str]) -> Action:
    """Return `said` as an action, trimmed, amounts in minor units. Raises InvalidAction."""
    if not isinstance(said, dict):
        raise InvalidAction("not_object")
    if said.get("kind") == "final":
        return _final(said)
    if said.get("kind") == "tool":
        return _tool(said, specs, proposable)
    raise InvalidAction("bad_kind")


def _invalid(reason: str, raw: Json) -> Stop:
    return Stop(f"invalid_action:{reason}", phase="worker", raw_action=raw)


def _final(said: dict[str, Json]) -> Action:
    if set(said) - {"kind", "answer", "says"} or said.get("says", ENDS[0]) not in ENDS:
        raise InvalidAction("extra_keys_final")
    answer = said.get("answer")
    if isinstance(answer, str) and len(answer) > MAX_TEXT:
        raise InvalidAction("text_too_long:final:answer")
    if not is_text(answer):
        raise InvalidAction("bad_final_answer")
    return {"kind": "final", "answer": answer.strip(), **{k: said[k] for k in said if k == "says"}}


def _tool(said: dict[str, Json], specs: ArgSpecs, proposable: Collection[str]) -> Action:
    if set(said) - {"kind", "name", "args"}:
        raise InvalidAction("extra_keys_tool")
    name = said.get("name")
    if not is_text(name):  # no database stores a NUL, and the name is told in sentences
        raise InvalidAction("bad_tool_name")
    name = name.strip()
    args = said.get("args")
    args = {} if args is None else args
    if not isinstance(args, dict):
        raise InvalidAction("bad_tool_args")
    if name not in specs:
        raise InvalidAction(f"unknown_tool:{name}")
    if name not in proposable:
        raise InvalidAction(f"tool_not_allowed:{name}")
    return {"kind": "tool", "name": name, "args": _args(name, args, specs[name])}


def args_schema(spec: ArgSpec, *, only: Mapping[str, Json] | None = None) -> Json:
    """Return the JSON schema of a tool's arguments; `only` are those with a single value."""
    if isinstance(spec, Mapping):
        return arguments(spec, only=only)
    known = spec.schema["properties"]
    bound = {name: word(value) for name, value in (only or {}).items() if name in known}
    return {**spec.schema, "properties": {**known, **bound}} if bound else spec.schema


def _args(name: str, args: dict[str, Json], spec: ArgSpec) -> dict[str, Json]:
    if not isinstance(spec, Mapping):
        try:
            spec.read(args)
        except ValueError as error:
            if spec.fits_but_for_names(args):
                return args
            arg = str(error).partition(":")[0].partition(".")[0]  # of "amount.currency: why"
            where = f"{name}:{arg}" if arg in spec.schema["properties"] else name
            raise InvalidAction(f"bad_tool_args:{where}") from None
        return args
    if set(args) - set(spec):
        raise InvalidAction(f"extra_tool_args:{name}")
    for arg, kind in spec.items():
        if arg not in args and not kind.endswith("?"):
            raise InvalidAction(f"missing_required_arg:{name}:{arg}")
    given: dict[str, Json] = {}
    for arg, kind in spec.items():
        if arg in args:
            given.update(_arg(name, arg, kind, args[arg]))
    return given


def _arg(name: str, arg: str, kind: str, value: Json) -> dict[str, Json]:
    bad = InvalidAction(f"bad_arg_type:{name}:{arg}")
    match kind.removesuffix("?"):
        case "int":
            if not isinstance(value, int) or isinstance(value, bool):
                raise bad
            return {arg: value}
        case old_names.AMOUNT:
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise bad
            return _amount(arg, value, bad)
        case "str":
            if isinstance(value, str) and len(value) > MAX_TEXT:
                raise InvalidAction(f"text_too_long:{name}:{arg}")
            if not is_text(value):
                raise bad
            return {arg: value.strip()}
    raise InvalidAction(f"unknown_arg_spec:{name}:{arg}")


def _amount(arg: str, value: int | float, bad: InvalidAction) -> dict[str, Json]:
    """Read an amount into ``…_minor``.

    An amount that is not positive is not money: it stays under the model's own name, so that the
    trace shows it and no rule or tool that needs ``amount_minor`` accepts it.
    """
    if value <= 0 and value != float("-inf"):
        return {arg: float(value)}
    try:
        return {arg.removesuffix("_usd") + "_minor": minor_of_number(value)}
    except BadAmount:
        raise bad from None


def is_text(value: Json) -> TypeGuard[str]:
    """Tell whether `value` is text fit to show: not blank, not too long, nothing hidden."""
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_TEXT:
        return False
    return not has_hidden(value)


def has_hidden(text: str) -> bool:
    """Tell whether a text contains characters that control the display."""
    return not text.isprintable() and any(map(is_hidden, text))  # what is printable is not hidden


def is_hidden(char: str) -> bool:
    """Tell whether a character controls the display instead of being displayed."""
    return char in _BIDI or (unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\r\t")
