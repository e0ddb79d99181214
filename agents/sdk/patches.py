"""A person's changes to a call: read from what they typed, and checked against the open fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from agents.core.requests import Json
from agents.sdk.adjustments import Change, label_of
from agents.sdk.arguments import Arguments, BadArguments
from agents.sdk.open_fields import AmountTooHigh, BadPatch, Choices, OpenField, open_fields
from agents.sdk.rule_case import Case


def changed_fields(
    fields: Sequence[OpenField], typed: Mapping[str, str], given: Mapping[str, Json]
) -> dict[str, Json]:
    """Return the arguments that differ from the requested ones. Raises BadPatch."""
    patch: dict[str, Json] = {}
    for field in fields:
        text = typed.get(field.name)
        if text is None or text.split() == field.text(field.typed).split():
            continue
        if (value := field.read(text)) == field.value:
            continue
        argument, _, part = field.name.partition(".")
        patch[argument] = (
            {**(patch.get(argument) or given[argument]), part: value} if part else value
        )
    return patch


def apply_patch(
    arguments: Arguments,
    may_change: Mapping[str, Change],
    given: Json,
    patch: Mapping[str, Json],
    case: Case,
    choices: Choices = MappingProxyType({}),
) -> dict[str, Json]:
    """Return the arguments with a person's changes. Raises BadPatch, AmountTooHigh."""
    fields = open_fields(arguments, may_change, given, case, choices)
    may = {field.name.partition(".")[0] for field in fields}
    for name in patch:
        if name not in may:
            raise BadPatch(name, f"{label_of(name)} cannot be changed.")
    left = {**given, **patch}
    try:
        args = arguments.read(left)
    except BadArguments as error:
        name, _, said = str(error).partition(": ")
        known = {field.name: field for field in fields}
        is_known = name in may or name in known
        sentence = f"{label_of(name)}: {said}." if is_known else f"{error}."
        if name in known and error.__cause__:  # the library's words are a programmer's
            argument, _, part = name.partition(".")
            value = left[argument]
            sentence = known[name].refusal(value[part] if part else value)
        raise BadPatch(name if is_known else "", sentence) from None
    too_high = None
    rest = {name: left[name] for name in patch}
    for field in fields:
        name, _, part = field.name.partition(".")
        if name not in patch or left[name] == given.get(name):
            continue
        value, typed = left[name], getattr(args, name)
        if part and typed is not None:
            value, typed = value[part], getattr(typed, part)
        if value is None or not field.allows(value, typed):
            if not field.is_above(typed):
                raise BadPatch(field.name, field.refusal(value, typed))
            too_high = too_high or AmountTooHigh(field, value, left)
        if part:
            rest[name] = {**rest[name], part: field.value}
    for name, value in rest.items():
        if isinstance(may_change.get(name), Mapping) and value != given[name]:
            raise BadPatch(name, f"{label_of(name)} can be changed in part only.")
    if too_high:
        raise too_high
    return left
