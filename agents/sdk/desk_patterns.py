"""What a desk gives the patterns besides the supervisor: specialists, sources and workflows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import get_type_hints

from agents.core.requests import Json
from agents.sdk.demo_script import OF_PLANNER
from agents.sdk.desk_tools import CallRefused, DeskCall, told_of

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
            found = self.function(call, given[TICKET])
        except CallRefused as no:
            return {"status": "error", "domain": self.domain, "error": str(no)}
        if found is None:
            why = f"ticket_not_{self.domain}"
            return {"status": "needs_reroute", "reason": why, "domain": self.domain}
        if not isinstance(found, dict):
            raise TypeError(f"{self.name} is to answer by an object")
        return {"status": "done", "domain": self.domain, "result": found}

    def sentences(self, reply: Json) -> dict[str, str]:
        """Return its sentences on a reply. Raises KeyError for one that passes the case on."""
        return self.may_say(reply["result"]) if self.may_say else {}


@dataclass(frozen=True)
class DeskSource:
    """A read of the pattern orchestrator, of what a report is about."""

    name: str
    function: Callable[..., Json]
    title: str
    timeout: float
    required: bool  # every plan asks it
    critical: bool  # without it there is no report
    arguments: tuple[str, ...]  # the names of what a report is about
    valid: Callable[[Json], bool] | None = None  # is what it found in contract?
    sentences = None

    def reply(self, call: DeskCall, given: Mapping[str, str]) -> Json:
        found = self.function(call, **given) or {"warning": "nothing_found"}
        return {"status": "done", "worker": self.name, "result": found}

    def is_valid(self, reply: Json, given: Json) -> bool:
        """Tell whether a reply has what was found, and that in contract."""
        found = reply.get("result")
        has_found = reply.get("status") == "done" and isinstance(found, dict)
        return has_found and (self.valid is None or self.valid(found))


def describe(one: DeskSpecialist | DeskSource) -> str:
    """Return its description for models."""
    return told_of(one.function, one.title)


def check_specialist(function: Callable[..., object]) -> None:
    """Raise TypeError unless a function takes the call and a ticket."""
    if list(signature(function).parameters) != ["call", TICKET]:
        raise TypeError(f"{function.__name__} is to take call and {TICKET}, and nothing else")


def scope_of(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of what a source's reports are about. Raises TypeError."""
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
