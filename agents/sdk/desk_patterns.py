"""A desk's declarations for other patterns: specialists, sources, reports and workflows."""

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from inspect import signature
from pathlib import Path
from typing import Any, get_type_hints

from agents.core.decisions import ACTION
from agents.core.names import holds_address
from agents.core.requests import Json
from agents.core.reviews import Touch
from agents.sdk.demo import OF_PLANNER
from agents.sdk.desk_tools import CallRefused, DeskCall, DeskTool
from agents.sdk.values import texts_of

TICKET = "ticket"


@dataclass(frozen=True)
class DeskSpecialist:
    """A read of the pattern routing: it answers a ticket, or passes it on by None."""

    name: str
    function: Callable[[DeskCall, str], Json]
    title: str
    timeout: float  # seconds
    may_say: Callable[[Json], dict[str, str]] | None = None  # sentences on its answer, by name

    arguments = (TICKET,)
    is_valid = None

    @property
    def domain(self) -> str:
        return self.name.removesuffix("_specialist")

    def reply(self, call: DeskCall, given: Mapping[str, str]) -> Json:
        try:
            result = self.function(call, given[TICKET])
        except CallRefused as no:
            return {"status": "error", "domain": self.domain, "error": str(no)}
        if result is None:
            why = f"ticket_not_{self.domain}"
            return {"status": "needs_reroute", "reason": why, "domain": self.domain}
        if not isinstance(result, dict):
            raise TypeError(f"{self.name} is to answer by an object")
        return {"status": "done", "domain": self.domain, "result": result}

    def sentences(self, reply: Json) -> dict[str, str]:
        """Return its sentences on a reply. Raises KeyError for one that passes the case on."""
        return self.may_say(reply["result"]) if self.may_say else {}


@dataclass(frozen=True)
class DeskSource:
    """A read of the pattern orchestrator about the report's scope."""

    name: str
    function: Callable[..., Json]
    title: str
    timeout: float
    required: bool  # every plan asks it
    critical: bool  # without it there is no report
    arguments: tuple[str, ...]  # the names in the report's scope
    valid: Callable[[Json], bool] | None = None  # is its finding in contract?
    sentences = None

    def reply(self, call: DeskCall, given: Mapping[str, str]) -> Json:
        result = self.function(call, **given) or {"warning": "nothing_found"}
        return {"status": "done", "worker": self.name, "result": result}

    def is_valid(self, reply: Json, given: Json) -> bool:
        """Tell whether a reply has findings in contract."""
        result = reply.get("result")
        has_found = reply.get("status") == "done" and isinstance(result, dict)
        return has_found and (self.valid is None or self.valid(result))


def is_count(value: Json) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value >= 0


def is_share(value: Json) -> bool:
    return is_count(value) and value <= 1


def is_word(value: Json) -> bool:
    return value is None or isinstance(value, str)


def are_names(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def as_tool(one: DeskSpecialist | DeskSource) -> DeskTool:
    """Return a specialist or a source as a tool that only reads."""

    def reply(call: DeskCall, **given: Json) -> Json:
        return one.reply(call, given)

    reply.__doc__ = one.function.__doc__
    return DeskTool(
        name=one.name,
        function=reply,
        touch=Touch.READ,
        title=one.title,
        before="",
        after="",
        subject="",
        arguments=texts_of(one.name, one.arguments),
        timeout=one.timeout,
        valid=one.is_valid,
        may_say=one.sentences,
        request=replace(ACTION, tag=one.title),
        is_plain=True,
    )


def check_specialist(function: Callable[..., object]) -> None:
    """Raise TypeError unless a function takes the call and a ticket."""
    if list(signature(function).parameters) != ["call", TICKET]:
        raise TypeError(f"{function.__name__} is to take call and {TICKET}, and nothing else")


def scope_of(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the names in a source's scope. Raises TypeError."""
    call, *names = signature(function).parameters
    hints = get_type_hints(function)
    if not names or any(hints.get(name) is not str for name in names):
        raise TypeError(f"{function.__name__} is to take {call} and texts: day: str")
    if taken := sorted(OF_PLANNER & set(names)):
        raise TypeError(f"{function.__name__}: a planner is told another {taken[0]}")
    return tuple(names)


def read_workflows(folder: Path | None) -> dict[str, Json]:
    """Return the documents in a folder by name. Raises TypeError if there are none."""
    files = sorted(folder.glob("*.json")) if folder else []
    if folder and not files:
        raise TypeError(f"there is no workflow, *.json, in {folder}")
    return {path.stem: _read(path) for path in files}


def _read(path: Path) -> Json:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TypeError(f"the workflow {path.name} is no JSON: {error}") from None


# Reports: their scope, and what follows from their sources' findings.

_NOT_REPEATED = "reported, in words that are not repeated here"
_OF_FAILURE = ("task_id", "worker", "critical", "stop_reason")


@dataclass(frozen=True)
class SourcesFound:
    """The findings of a report's sources."""

    scope: Mapping[str, str]  # what the report is about
    sources: Mapping[str, Json]  # findings in the order of the plan
    expected: Collection[str]  # sources that were asked, or that the policy requires
    failed_tasks: Sequence[Json]
    limits: Any = None  # the desk's own, typed

    @property
    def missing(self) -> list[str]:
        """Return the expected sources that found nothing."""
        answered = {
            name for name, result in self.sources.items() if result and "warning" not in result
        }
        return [name for name in self.expected if name not in answered]


@dataclass(frozen=True)
class Report:
    """A report's scope, and its figures and sentences, which no model writes.

    All but `scope` are called again at each replay, so they may depend on nothing but their
    argument.
    """

    scope: Callable[[int], Mapping[str, str] | None]  # of a book; None: nothing to report on
    figures: Callable[[SourcesFound], dict[str, Json]]
    headline: Callable[[Json], str]  # of the figures: the first sentence of a brief
    findings: Callable[[Json], str]  # of the figures: the sentences after it
    about: str = "matter"  # the word for its scope: day or region
    in_any_case: tuple[str, ...] = ()  # parts of its scope whose case does not matter
    # The possible scopes of a launch, `scope` first; None: nothing but `scope`.
    choices: Callable[[int], Sequence[Mapping[str, str]]] | None = None
    refill: Callable[[int, datetime], object] | None = None  # a demo's book, when the demo starts

    def is_in_scope(self, args: Json, scope: Json) -> bool:
        """Tell whether a task's arguments are the report's scope."""
        return bool(scope) and self._folded(args) == self._folded(scope)

    def _folded(self, texts: Mapping[str, str]) -> dict[str, str]:
        return {n: text.upper() if n in self.in_any_case else text for n, text in texts.items()}


def found_in(
    scope: Mapping[str, str], lines: Sequence[Json], *, expected: Collection[str], limits: Any
) -> SourcesFound:
    """Return the findings of tasks, from the lines of a run's history."""
    done = [line for line in lines if line["status"] == "done"]
    failed = [line for line in lines if line["status"] != "done"]
    return SourcesFound(
        scope,
        {line["worker"]: line["observation"].get("result") or {} for line in done},
        expected,
        [{name: line[name] for name in _OF_FAILURE} for line in failed],
        limits,
    )


def repeatable(text: str) -> str:
    """Return a source's words, unless they have a link, an address or a telephone number."""
    return _NOT_REPEATED if holds_address(text) else text
