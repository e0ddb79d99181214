"""The right form of a call, for an agent whose proposal could not be read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from agents.core.actions import args_schema
from agents.core.requests import Json
from agents.core.schemas import fit
from agents.tools import TOOLS, Tool

_KINDS = {"integer": "a whole number", "number": "a number", "string": "a text"}
_KINDS |= {"boolean": "true or false", "null": "null"}
_MOST, _LONGEST = 10, 60  # unknown arguments that are named, and characters of each


def input_schema(tool: Tool) -> Json:
    """Return the schema of a tool's arguments. `required` names those that may not be left out.

    The console's own models get each argument as required, as strict output wants it.
    """
    return {**args_schema(tool.spec), "required": _required(tool)}


def _required(tool: Tool) -> list[str]:
    if isinstance(tool.spec, Mapping):
        return [name for name, kind in tool.spec.items() if not kind.endswith("?")]
    return list(tool.spec.required)


def with_integers(name: str, args: Json) -> Json:
    """Return arguments with 5001 for 5001.0 where the tool takes integers."""
    return fit(args, args_schema(TOOLS[name].spec)) if name in TOOLS else args


def without_nulls(name: str, args: Json) -> Json:
    """Return arguments without each null that stands for one left out. A declared desk reads it."""
    spec = TOOLS[name].spec if name in TOOLS else None
    if not (isinstance(spec, Mapping) and isinstance(args, Mapping)):
        return args
    return {
        key: value
        for key, value in args.items()
        if value is not None or not spec.get(key, "").endswith("?")
    }


def form_words(reason: str, name: str, given: Json, offered: Iterable[str]) -> str:
    """Return which tools there are, or how a tool's arguments are written and what is wrong.

    "" for a reason that is no such fault.
    """
    if not reason.startswith(("invalid_action:", "tool_bad_args:")) or reason.endswith(
        ":too_large"
    ):
        return ""
    known = [one for one in offered if one in TOOLS]
    if name not in known:
        return f"The desk's tools are: {', '.join(known)}."
    schema, said = input_schema(TOOLS[name]), list[str]()
    arguments = given if isinstance(given, Mapping) else {}
    if extra := [key[:_LONGEST] for key in arguments if key not in schema["properties"]]:
        said.append(f"{name} has no {', '.join(extra[:_MOST])}.")
    if missing := [key for key in schema["required"] if key not in arguments]:
        said.append(f"The call lacks {', '.join(missing)}.")
    form = json.dumps(_form(schema), ensure_ascii=False)
    return " ".join([*said, f"Write the arguments of {name} like this: {form}"])


def _form(schema: Json) -> Json:
    """Return a schema as an example whose values are words."""
    if "properties" in schema:
        needed = schema.get("required", schema["properties"])
        return {
            key if key in needed else f"{key} (may be left out)": _form(part)
            for key, part in schema["properties"].items()
        }
    if "items" in schema:
        return [_form(schema["items"])]
    if branches := schema.get("anyOf"):
        forms = [_form(branch) for branch in branches]
        return " or ".join(one if isinstance(one, str) else json.dumps(one) for one in forms)
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if schema.get("format") == "date":
        return "a date: 2026-01-31"
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    said = " or ".join(str(_KINDS.get(kind, kind)) for kind in kinds)
    if "maxLength" in schema:
        said += f" of up to {schema['maxLength']} characters"
    return f"{said}. {schema['description']}" if "description" in schema else said
