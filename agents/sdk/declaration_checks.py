"""Checks of a desk's declarations, as TypeError with the place; reserved names."""

from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from datetime import date
from decimal import Decimal
from inspect import getclosurevars, iscoroutinefunction, signature
from types import NoneType, SimpleNamespace
from typing import Any, NotRequired, Required, get_args, get_origin, get_type_hints, is_typeddict

from agents.core.limits import KEYS
from agents.core.reviews import Touch
from agents.sdk.adjustments import Lower, bare_type, check_change
from agents.sdk.desk_tools import AGENT, CONSOLE, DeskTool, check_places
from agents.sdk.rules import values_at
from agents.sdk.values import Money

TAKES = ("args", "facts", "limits", "case", "given")  # parameters that a rule may have


def check_tool(tool: DeskTool, above: Iterable[DeskTool]) -> None:
    """Raise TypeError for a tool that cannot be used; `above` are those declared before it."""
    name, hints = tool.name, tool.arguments.hints
    check_tool_name(name, arguments=() if tool.numbers or tool.arguments.clean else hints)
    named = {tool.subject, *tool.may_change, *tool.names, tool.resource, tool.amount}
    unknown = sorted(argument for argument in named if argument and argument not in hints)
    if unknown:
        raise TypeError(f"{name} has no argument {', '.join(unknown)}")
    if tool.touch is not Touch.READ and not (tool.before and tool.after):
        raise TypeError(f"{name}: say what it does, before and after it")
    if tool.amount and bare_type(hints[tool.amount]) is not (int if tool.numbers else Money):
        raise TypeError(f"{name}: {tool.amount} is to be Money")
    # Nobody may grant more than was requested, as in the ledger.
    if not isinstance(tool.may_change.get(tool.amount, Lower()), Lower):
        raise TypeError(f"{name}: {tool.amount} can only be lowered: use Lower()")
    if any(bare_type(hints[argument]) is not str for argument in tool.names):
        raise TypeError(f"{name}: only a text has a name beside it")
    if tool.subject in tool.may_change:
        raise TypeError(f"{name}: nobody changes what a call is about")
    _check_executor(tool)
    if tool.people not in (1, 2):
        raise TypeError(f"{name}: people is 1 or 2")
    check_places(name, tool.title, ())
    for sentence in (tool.before, tool.after):
        check_places(name, sentence, hints)
    for argument, how in tool.may_change.items():
        check_change(tool.arguments, argument, how)
    for place in tool.outside:
        _check_outside(tool.function, place)
    for place in tool.vouches:
        _check_vouches(tool, place)
    _check_letter(tool, above)


def _check_executor(tool: DeskTool) -> None:
    """Raise TypeError for a tool that neither console nor agent can execute."""
    name, by = tool.name, tool.executed_by
    if by not in (CONSOLE, AGENT):
        raise TypeError(f"{name}: executed_by is {CONSOLE!r} or {AGENT!r}")
    if by == AGENT and (tool.touch is Touch.READ or tool.letter):
        raise TypeError(f"{name}: what reads, and what writes to somebody, the console executes")
    if tool.server and by != AGENT:
        raise TypeError(f"{name}: server= goes with executed_by={AGENT!r}")


def _check_letter(tool: DeskTool, above: Iterable[DeskTool]) -> None:
    """Raise TypeError for a letter whose text or tool does not exist."""
    if tool.letter and tool.arguments.hints.get(tool.letter) is not str:
        raise TypeError(
            f"{tool.name}: letter={tool.letter!r} is to name a text among its arguments"
        )
    if tool.tells and not any(tool.tells is other.function for other in above):
        raise TypeError(f"{tool.name}: tells= is to be a tool above it")
    if bool(tool.tells) != bool(tool.gauge) or (tool.tells and not tool.letter):
        raise TypeError(f"{tool.name}: letter=, tells= and gauge= go together")


def _check_outside(function: Callable[..., Any], place: str) -> None:
    """Raise TypeError for a place that is no text of a tool's result, if its type tells."""
    kind: Any = get_type_hints(function).get("return")
    for name in place.split("."):
        kind = _items(kind)
        if not is_typeddict(kind):
            return  # any JSON: only a call will show
        if name not in (hints := get_type_hints(kind)):
            raise TypeError(f"{function.__name__}: its result has no {place!r} for outside=")
        kind = hints[name]
    if _items(kind) in (int, float, bool, Decimal, date, NoneType):
        raise TypeError(
            f"{function.__name__}: {place!r} of its result is no text, as outside= says"
        )


def _check_vouches(tool: DeskTool, place: str) -> None:
    """Raise TypeError for a place that is no text in the example of a tool's result."""
    if not tool.example:
        raise TypeError(f"{tool.name}: vouches= needs one result as it was returned, as example=")
    if place in tool.outside:
        raise TypeError(f"{tool.name}: outsiders write {place!r}, so nobody vouches for it")
    if not any(values_at(tool.example, place)):
        raise TypeError(f"{tool.name}: its example has no text at {place!r} for vouches=")


def _items(kind: Any) -> Any:
    """Return the type of a list's items, or of an optional field's value."""
    while get_origin(kind) in (list, NotRequired, Required):
        [kind] = get_args(kind)
    return kind


def check_plain(function: Callable[..., Any]) -> None:
    """Raise TypeError for a coroutine, as a desk's functions are not awaited."""
    if iscoroutinefunction(function):
        raise TypeError(f"{function.__name__} is to be a plain function, without async")


def type_of_facts(gather: Callable[..., Any]) -> type[Any]:
    """Return the type that facts are stored in and read by. Raises TypeError without one."""
    near = dict(getclosurevars(gather).nonlocals)  # a function's class is no name of its module
    hint = {"return": gather.__annotations__.get("return")}
    declared: Any = SimpleNamespace(__annotations__=hint)
    try:
        told = get_type_hints(declared, gather.__globals__, near)
    except NameError as error:
        raise TypeError(f"{gather.__name__}: {error}") from None
    for kind in get_args(told.get("return")) or (told.get("return"),):
        if isinstance(kind, type) and is_dataclass(kind):
            return kind
    raise TypeError(f"{gather.__name__} is to say its type: -> MyFacts, a frozen dataclass")


def check_takes(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return a function's parameters. Raises TypeError unless they are in TAKES."""
    check_plain(function)
    takes = tuple(signature(function).parameters)
    unknown = sorted(set(takes) - set(TAKES))
    if unknown:
        raise TypeError(f"{function.__name__} asks for {', '.join(unknown)}")
    return takes


# Names that a desk cannot use: the console's own, and those unfit for ledger and pages.

_LONGEST_DESK, LONGEST_TOOL = 40, 60  # characters, as in the columns of runs and ledger
# Rules that the console adds to every desk: a call is about the run's subject, an answer agrees
# with the ledger, payments without a person have a daily cap. A desk with letters also gets: their
# words agree with the record.
OF_CONSOLE = ("bound", "answer", "caps", "letter")
# Rules that it adds to a desk with reports, by their names in `agents.policies.reports`.
OF_REPORTS = tuple(
    f"report_{name}"
    for name in (
        *("planned", "reading", "bound", "one_task_each", "complete", "critical"),
        *("briefed", "headed", "matches_facts"),
    )
)
# Topics of shipped rules, patterns and pages: as desk names they would be ambiguous.
_TOPICS = {"answers", "delegation", "mail", "policy", "replies", "reports", "subject"}
_PATTERNS = {"external", "orchestrator", "routing", "supervisor", "workflow"}
_PAGES = {"agents", "api", "approvals", "audit", "become", "healthz", "keys", "kill", "launch"}
_PAGES |= {"invitations", "members", "notifications", "subjects", "team", "teams", "webhooks"}
_PAGES |= {"metrics", "overview", "readyz", "runs", "search", "settings", "static", "theme"}
RESERVED = _TOPICS | _PATTERNS | _PAGES
_REPLIES = {"final", "final_answer", "tool"}  # kinds of a model's reply
_OF_CLIENTS = {"again", "ask_a_person"}  # tools of MCP clients at every desk
_UNITS = ("_minor", "_usd")  # suffixes of the first desk's amounts, stored and for models


def check_desk_name(name: str) -> None:
    """Raise TypeError for a name that a desk may not have."""
    if not name.isidentifier() or len(name) > _LONGEST_DESK:
        raise TypeError(
            f"a desk cannot be called {name!r}: up to {_LONGEST_DESK} letters, digits, underscores"
        )
    if name in RESERVED:
        raise TypeError(f"a desk cannot be called {name}, which is a word of the console's own")


def check_limit_names(names: Iterable[str]) -> None:
    """Raise TypeError for a limit named like one of the whole policy."""
    if taken := sorted(set(names) & {*KEYS}):
        raise TypeError(f"a policy has a {taken[0]} for all desks: give the limit another name")


def check_tool_name(name: str, *, arguments: Iterable[str]) -> None:
    """Raise TypeError for a tool's or an argument's name that already has another meaning."""
    own = dict.fromkeys(_REPLIES, "a kind of reply")
    own |= dict.fromkeys(_OF_CLIENTS, "a tool of the console's own")
    if name in own or len(name) > LONGEST_TOOL:
        what = own.get(name, f"more than {LONGEST_TOOL} characters")
        raise TypeError(f"a tool cannot be called {name}: that is {what}")
    for argument in arguments:
        if argument.endswith(_UNITS):
            raise TypeError(f"{name}: {argument} is to be Money, and named without its unit")


def check_rule_name(name: str) -> None:
    """Raise TypeError for a rule that would replace one of the console's own."""
    if name in (*OF_CONSOLE, *OF_REPORTS):
        raise TypeError(f"every desk has the console's rule {name}: give yours another name")
