"""JSON: read without surprises, described exactly, spelt in one way for a hash, kept fast.

Beyond invalid syntax, `parse` refuses too large texts, too deep nesting, a duplicate key in an
object, NaN and Infinity, numbers that cannot be stored exactly, and half a surrogate pair.
"""

import hashlib
import json
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar

from pydantic_core import from_json, to_json

from agents.core import compat_0_2
from agents.core.compat_0_2 import AMOUNT
from agents.core.money import MAX_MINOR, BadAmount, minor_of_number
from agents.core.requests import Json, Request, Stop, question, request_body

T = TypeVar("T")
MAX_CHARS = 256 * 1024
_MAX_DEPTH = 20
_MAX_DIGITS = 1000  # of one integer


class BadJson(ValueError):
    """The text is not acceptable JSON. The message says why."""


def parse(text: str, *, keep_non_finite: bool = False) -> Json:
    """Return the value of `text`. Raises BadJson.

    `keep_non_finite` lets NaN, Infinity and 1e400 through as floats, for a caller that can then
    name the argument.
    """
    if len(text) > MAX_CHARS:
        raise BadJson(f"longer than {MAX_CHARS} characters")
    if _depth(text) > _MAX_DEPTH:
        raise BadJson(f"nested deeper than {_MAX_DEPTH}")
    try:
        value = _DECODER.decode(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadJson(str(error)) from None
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=keep_non_finite).encode()
    except UnicodeEncodeError:
        raise BadJson("holds half a surrogate pair") from None
    except ValueError:
        raise BadJson("holds a number that is not finite") from None
    return value


def is_storable(value: object) -> bool:
    """Tell whether a value can be stored: as JSON within the bounds above, without NUL."""
    try:
        text = json.dumps(value, ensure_ascii=False)
        parse(text)
    except (TypeError, ValueError, RecursionError):
        return False
    # PostgreSQL stores no NUL; text that holds it as an escape is refused too.
    return "\\u0000" not in text


def _depth(text: str) -> int:
    """Return the depth of brackets outside strings, or an upper bound if that is acceptable."""
    brackets = text.count("[") + text.count("{")
    if brackets <= _MAX_DEPTH:
        return brackets
    depth = deepest = 0
    in_string = escaped = False
    for char in text:
        if in_string:
            in_string = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise BadJson("a key stands twice in one object")
    return members


def _bounded_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise BadJson(f"an integer of more than {_MAX_DIGITS} digits")
    return int(digits)


class Rounded(float):
    """A float of so many digits that another number may have been written: 5001.0000000000001."""


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_int=_bounded_int,
    parse_float=lambda text: (Rounded if len(text) > 17 else float)(text),
)


# Exact JSON schemas: every property is required, and no others are allowed.
#
# They use only what strict structured output accepts: bounds of numbers and lengths of lists, but
# nothing for texts. Our own parsers check the rest, and everything else again.


TEXT: Json = {"type": "string"}
TRUTH: Json = {"type": "boolean"}
_KINDS: Mapping[str, Json] = {  # of arguments, as their tool declares them
    "int": {"type": "integer", "minimum": -MAX_MINOR, "maximum": MAX_MINOR},
    AMOUNT: {"type": "number", "minimum": 0.01, "maximum": MAX_MINOR // 100},
    "str": TEXT,
}


def word(*words: str) -> Json:
    """Return the schema of a choice among words."""
    return {"type": "string", "enum": list(words)}


def exact_object(**properties: Json) -> Json:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def one_of(branches: Iterable[Json]) -> Json:
    """Return the schema of a choice among schemas."""
    schemas = list(branches)
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _argument(kind: str) -> Json:
    # An unknown kind passes here as text: reading the proposal refuses its value.
    schema = _KINDS.get(kind.removesuffix("?"), TEXT)
    return {**schema, "type": [schema["type"], "null"]} if kind.endswith("?") else schema


def fit(value: Json, schema: Json, *, is_untyped: bool = False) -> Json:
    """Return a value with whole floats as integers where its schema has only integers.

    An untyped value is all text: where the schema expects another type, it is read as JSON.
    """
    choices = schema.get("anyOf", [schema])
    parts = {key: part for one in choices for key, part in one.items()}
    kinds = str([one.get("type") for one in choices])
    if is_untyped and isinstance(value, str) and "string" not in kinds:
        with suppress(BadJson):
            return fit(parse(value), schema)
    if isinstance(value, dict):
        known = parts.get("properties", {})
        return {n: fit(part, known.get(n, {}), is_untyped=is_untyped) for n, part in value.items()}
    if isinstance(value, list):
        return [fit(part, parts.get("items", {})) for part in value]
    # A Rounded number is not whole; neither is one that another reader may have rounded.
    is_whole = type(value) is float and value.is_integer() and abs(value) < 2**53
    return int(value) if is_whole and "integer" in kinds and "number" not in kinds else value


# One spelling for each value, so that equal values have equal hashes.


def canonical(value: Json) -> str:
    """Return `value` as JSON with sorted keys and no spaces. Raises TypeError, ValueError."""
    return _CANONICAL.encode(value)


# Noting each container, to find circles, would cost more than writing it.
_CANONICAL = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
)


def as_stored(value: Json) -> Json:
    """Return `value` as it will look when read back, so that a replay sees the same."""
    return decode(canonical(value))


def sha256(value: Json) -> str:
    """Return the SHA-256 of the canonical form in hex. It binds approvals to arguments."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def hash_of_token(token: str) -> str:
    """Return the SHA-256 of a random token in hex, which is kept in its place."""
    return hashlib.sha256(token.encode()).hexdigest()


def fingerprint(request: Request) -> str:
    """Return the hash of a step's request; a replay with another one has diverged."""
    return sha256(question(request_body(request)))


def digest_request(request: Request) -> tuple[str, Json]:
    """Return a request's fingerprint, and its body as it will be when read back."""
    body = request_body(request)
    text = canonical(question(body))
    kept = decode(text)
    if body.get("guide"):
        kept["guide"] = body["guide"]
    return hashlib.sha256(text.encode()).hexdigest(), kept


def args_hash(args: Json, *, fold_spaces: bool = True) -> str:
    """Return the 12 hex digits that the reference prints of arguments.

    For loop detection and the trace. It folds white space and has 48 bits, so it never binds an
    approval: `sha256` does. The orchestrator's variant does not fold spaces.
    """
    value = _fold_spaces(args) if fold_spaces else args
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _fold_spaces(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, dict):
        return {key: _fold_spaces(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_fold_spaces(item) for item in value]
    return value


# Write and read the JSON of rows, whose form does not matter, as fast as it can be had.
#
# A run writes and reads some sixty values. What is hashed has the form of `canonical`.


def encode(value: Json) -> str:
    """Return `value` as JSON in some form. Raises TypeError, ValueError."""
    try:
        # NaN is written as such: a database refuses it, where null would be taken for a value.
        return to_json(value, inf_nan_mode="constants").decode()
    except ValueError:  # half a surrogate pair
        return json.dumps(value)


def decode(text: str) -> Json:
    """Return the value that JSON in any form stands for. Raises ValueError."""
    try:
        return from_json(text, cache_strings="keys")  # no value is kept in memory
    except (TypeError, ValueError):  # half a surrogate pair, or nested deeper than 200
        return json.loads(text)


# Parse a model's reply strictly: a worker's into an action, a planner's into a plan, a router's
# into a route.
#
# An action is {"kind": "tool", "name", "args"} or {"kind": "final", "answer"}. A model that was
# offered tools adds the meaning of its answer: "says". Actions hold ``amount_minor``; the model
# writes ``amount_usd``. Reasons and their order are the reference's (conformance cases sup-035 to
# sup-103).


class TypedArguments(Protocol):
    """Arguments as a desk declares them (see `agents.sdk.values`)."""

    @property
    def schema(self) -> Json: ...

    @property
    def required(self) -> tuple[str, ...]: ...

    def read(self, given: Json) -> Any:
        """Return them typed. Raises ValueError if they are not the tool's."""

    @property
    def description(self) -> str: ...

    @property
    def clean(self) -> Any: ...

    def accepts(self, given: Json) -> bool: ...

    def fits_but_for_names(self, given: Json) -> bool:
        """Tell whether the arguments fit, or only names do not, whose values are reviewed later."""


# argument -> int | compat_0_2.AMOUNT | str | str?, or as a desk declares them
ArgSpec: TypeAlias = Mapping[str, str] | TypedArguments
ArgSpecs: TypeAlias = Mapping[str, ArgSpec]  # by tool
Action: TypeAlias = dict[str, Json]

ENDS = ("answer", "done", "cannot")  # the meanings of a final answer
MAX_TEXT = 4000  # characters of one text argument or answer
MAX_CALL = 32_000  # characters of an external agent's call, as JSON
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")


class _InvalidReply(Exception):
    """The reply is not what a model may answer in its role. The message is the reason code."""


class InvalidAction(_InvalidReply):
    """The reply is not an action that a worker may propose."""


def _read(
    what: str, phase: str, text: str, check: Callable[[Json], T], *, keep_non_finite: bool = False
) -> T:
    """Return what `check` returns for a model's reply. Raises Stop("invalid_…").

    An empty reply reads as {}, as in the reference, and so has no kind.
    """
    raw: Json = {"kind": "invalid", "raw": text}
    try:
        return check(parse(text or "{}", keep_non_finite=keep_non_finite))
    except BadJson:
        reason = "non_json"
    except _InvalidReply as error:
        reason = str(error)
        with suppress(BadJson):
            # Values that JSON cannot store (NaN, 1e400) are kept as text.
            raw = parse(text or "{}")
    code = f"invalid_{what}:{reason}"
    raise Stop(code, phase=phase, **{f"raw_{what}": raw})


def read_action(text: str, *, specs: ArgSpecs, proposable: Collection[str]) -> Action:
    """Return the action in a worker's reply. Raises Stop("invalid_action:…")."""
    check = partial(check_action, specs=specs, proposable=proposable)
    return _read("action", "worker", text, check, keep_non_finite=True)


def action_schema(
    specs: ArgSpecs, *, proposable: Collection[str], bound: Mapping[str, Json] | None = None
) -> Json:
    """Return the JSON schema of an action: a branch for each tool, and one for the answer.

    It guides a model; the checks here still decide. `bound` are arguments with a fixed value.
    """
    tools = [
        exact_object(kind=word("tool"), name=word(name), args=args_schema(spec, only=bound))
        for name, spec in specs.items()
        if name in proposable
    ]
    return one_of([*tools, exact_object(kind=word("final"), answer=TEXT)])


def check_action(reply: Json, *, specs: ArgSpecs, proposable: Collection[str]) -> Action:
    """Return `reply` as an action, trimmed, amounts in minor units. Raises InvalidAction."""
    if not isinstance(reply, dict):
        raise InvalidAction("not_object")
    if reply.get("kind") == "final":
        return _final(reply)
    if reply.get("kind") == "tool":
        return _tool(reply, specs, proposable)
    raise InvalidAction("bad_kind")


def _final(reply: dict[str, Json]) -> Action:
    if set(reply) - {"kind", "answer", "says"} or reply.get("says", ENDS[0]) not in ENDS:
        raise InvalidAction("extra_keys_final")
    answer = reply.get("answer")
    if isinstance(answer, str) and len(answer) > MAX_TEXT:
        raise InvalidAction("text_too_long:final:answer")
    if not is_text(answer):
        raise InvalidAction("bad_final_answer")
    return {
        "kind": "final",
        "answer": answer.strip(),
        **{k: reply[k] for k in reply if k == "says"},
    }


def _tool(reply: dict[str, Json], specs: ArgSpecs, proposable: Collection[str]) -> Action:
    if set(reply) - {"kind", "name", "args"}:
        raise InvalidAction("extra_keys_tool")
    name = reply.get("name")
    if not is_text(name):  # no database stores a NUL, and sentences quote the name
        raise InvalidAction("bad_tool_name")
    name = name.strip()
    args = reply.get("args")
    args = {} if args is None else args
    if not isinstance(args, dict):
        raise InvalidAction("bad_tool_args")
    if name not in specs:
        raise InvalidAction(f"unknown_tool:{name}")
    if name not in proposable:
        raise InvalidAction(f"tool_not_allowed:{name}")
    return {"kind": "tool", "name": name, "args": _args(name, args, specs[name])}


def args_schema(spec: ArgSpec, *, only: Mapping[str, Json] | None = None) -> Json:
    """Return the JSON schema of a tool's arguments; null stands for an omitted one.

    `only` are those with a single value.
    """
    if isinstance(spec, Mapping):
        properties = {name: _argument(kind) for name, kind in spec.items()}
        for name in spec.keys() & (only or {}).keys():
            properties[name] = {"type": "integer", "enum": [(only or {})[name]]}
        return exact_object(**properties)
    known = spec.schema["properties"]
    bound = {name: word(value) for name, value in (only or {}).items() if name in known}
    return {**spec.schema, "properties": {**known, **bound}} if bound else spec.schema


def _args(name: str, args: dict[str, Json], spec: ArgSpec) -> dict[str, Json]:
    if not isinstance(spec, Mapping):
        args = spec.clean(args) if spec.clean else args
        try:
            spec.read(args)
        except ValueError as error:
            if spec.fits_but_for_names(args):
                return args
            arg = str(error).partition(":")[0].partition(".")[0]  # of "amount.currency: why"
            where = f"{name}:{arg}" if arg in spec.schema["properties"] else name
            code = getattr(error, "code", "bad_arg_type") if spec.clean else "bad_tool_args"
            if code == "extra_tool_args":
                where = name
            raise InvalidAction(f"{code}:{where}") from None
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
        case compat_0_2.AMOUNT:
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

    An amount that is not positive stays under the model's own name, so that the trace shows it and
    no rule or tool that needs ``amount_minor`` accepts it.
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


# Parse a planner model's reply into a plan, strictly.
#
# A plan is {"kind": "plan", "tasks": [{"id", "worker", "args", "critical"}]}; unknown keys are
# ignored. Reasons and their order are the reference's (conformance cases orc-064 to orc-104).


Task: TypeAlias = dict[str, Json]

_MAX_ID = 60  # characters of a task's id, which becomes part of a step's key
_KEYS = ("id", "worker", "args", "critical")


class InvalidPlan(_InvalidReply):
    """The reply is not a plan that a planner may make."""


def read_plan(
    text: str, *, specs: ArgSpecs, allowed: Collection[str], max_tasks: int
) -> list[Task]:
    """Return the tasks in a planner's reply. Raises Stop("invalid_plan:…")."""
    check = partial(check_plan, specs=specs, allowed=allowed, max_tasks=max_tasks)
    return _read("plan", "plan", text, check)


def plan_schema(specs: ArgSpecs, *, allowed: Collection[str], max_tasks: int) -> Json:
    """Return the JSON schema of a plan. It guides a model; the checks here still decide."""
    tasks = one_of(
        exact_object(id=TEXT, worker=word(name), args=args_schema(spec), critical=TRUTH)
        for name, spec in specs.items()
        if name in allowed
    )
    several = {"type": "array", "items": tasks, "minItems": 1, "maxItems": max_tasks}
    return exact_object(kind=word("plan"), tasks=several)


def check_plan(
    reply: Json, *, specs: ArgSpecs, allowed: Collection[str], max_tasks: int
) -> list[Task]:
    """Return the tasks of `reply`, trimmed. Raises InvalidPlan."""
    if not isinstance(reply, dict):
        raise InvalidPlan("not_object")
    if reply.get("kind") != "plan":
        raise InvalidPlan("kind")
    tasks = reply.get("tasks")
    if not isinstance(tasks, list):
        raise InvalidPlan("tasks")
    if not 1 <= len(tasks) <= max_tasks:
        raise InvalidPlan("max_tasks")
    plan: list[Task] = []
    for task in tasks:
        plan.append(_task(task, [past["id"] for past in plan], specs, allowed))
    return plan


def _task(task: Json, taken: Collection[str], specs: ArgSpecs, allowed: Collection[str]) -> Task:
    if not isinstance(task, dict):
        raise InvalidPlan("task_shape")
    if not set(_KEYS) <= set(task):
        raise InvalidPlan("missing_keys")
    if not is_text(task["id"]) or len(task["id"].strip()) > _MAX_ID:
        raise InvalidPlan("task_id")
    if task["id"].strip() in taken:
        raise InvalidPlan("duplicate_task_id")
    if not is_text(task["worker"]):
        raise InvalidPlan("worker")
    worker = task["worker"].strip()
    if worker not in allowed:
        raise InvalidPlan(f"worker_not_allowed:{worker}")
    if not isinstance(task["args"], dict):
        raise InvalidPlan("args")
    if not isinstance(task["critical"], bool):
        raise InvalidPlan("critical")
    spec = specs.get(worker, {})
    if not isinstance(spec, Mapping):  # a desk's tool is not a report worker
        raise InvalidPlan(f"worker_not_allowed:{worker}")
    args = _task_args(worker, task["args"], spec)
    return {"id": task["id"].strip(), "worker": worker, "args": args, "critical": task["critical"]}


def _task_args(worker: str, args: dict[str, Json], spec: Mapping[str, str]) -> dict[str, Json]:
    """Return a task's arguments, all of them present and texts. Raises InvalidPlan."""
    if set(args) - set(spec):
        raise InvalidPlan(f"extra_args:{worker}")
    for name in spec:
        if name not in args:
            raise InvalidPlan(f"missing_arg:{worker}:{name}")
        if not is_text(args[name]):
            raise InvalidPlan(f"bad_arg_type:{worker}:{name}")
    return {name: args[name].strip() for name in args}


# Parse a router model's reply into a route, strictly.
#
# A route is {"kind": "route", "target", "args": {"ticket"}}. Reasons and their order are the
# reference's (conformance cases rou-006 to rou-060).


Route: TypeAlias = dict[str, Json]


class InvalidRoute(_InvalidReply):
    """The reply is not a route that a router may choose."""


def read_route(text: str, *, allowed: Collection[str], forbidden: Collection[str]) -> Route:
    """Return the route in a router's reply. Raises Stop("invalid_route:…").

    `forbidden` are targets that have refused.
    """
    check = partial(check_route, allowed=allowed, forbidden=forbidden)
    return _read("route", "route", text, check)


def route_schema(allowed: Collection[str]) -> Json:
    """Return the JSON schema of a route. It guides a model; the checks here still decide."""
    return exact_object(kind=word("route"), target=word(*allowed), args=exact_object(ticket=TEXT))


def check_route(reply: Json, *, allowed: Collection[str], forbidden: Collection[str]) -> Route:
    """Return `reply` as a route, white space folded. Raises InvalidRoute."""
    if not isinstance(reply, dict):
        raise InvalidRoute("not_object")
    if reply.get("kind") != "route":
        raise InvalidRoute("bad_kind")
    if set(reply) - {"kind", "target", "args"}:
        raise InvalidRoute("extra_keys")
    target = reply.get("target")
    if not is_text(target):
        raise InvalidRoute("missing_target")
    target = target.strip()
    if target not in allowed:
        raise InvalidRoute(f"route_not_allowed:{target}")
    ticket = _ticket(reply.get("args"))
    if target in forbidden:
        raise InvalidRoute("repeat_target_after_reroute")
    return {"kind": "route", "target": target, "args": {"ticket": ticket}}


def _ticket(args: Json) -> str:
    """Return the ticket, the one argument a specialist takes. Raises InvalidRoute."""
    args = {} if args is None else args
    if not isinstance(args, dict):
        raise InvalidRoute("bad_args")
    ticket = args.get("ticket")
    if not isinstance(ticket, str) or not ticket.strip():
        raise InvalidRoute("missing_ticket")
    if set(args) - {"ticket"}:
        raise InvalidRoute("extra_args")
    ticket = " ".join(ticket.split())
    if not is_text(ticket):  # too long for a prompt, or deceptive to a person
        raise InvalidRoute("bad_ticket")
    return ticket
