"""A desk's reports: what they are about, and what follows from what their sources found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agents.core.names import holds_address
from agents.core.requests import Json

NOT_REPEATED = "reported, in words that are not repeated here"
_OF_FAILURE = ("task_id", "worker", "critical", "stop_reason")


@dataclass(frozen=True)
class SourcesFound:
    """What the sources of a report found."""

    scope: Mapping[str, str]  # what the report is about
    sources: Mapping[str, Json]  # what each found, in the order of the plan
    expected: Collection[str]  # sources that were asked, or that the policy requires
    failed_tasks: Sequence[Json]
    limits: Any = None  # the desk's own, typed

    @property
    def missing(self) -> list[str]:
        """Return the expected sources that found nothing."""
        found = {name for name, said in self.sources.items() if said and "warning" not in said}
        return [name for name in self.expected if name not in found]


@dataclass(frozen=True)
class Report:
    """What a desk's reports are about, and its figures and sentences, which no model writes.

    All but `scope` are asked again at each replay, so they may know nothing but their argument.
    """

    scope: Callable[[int], Mapping[str, str] | None]  # of a book; None: nothing to report on
    figures: Callable[[SourcesFound], dict[str, Json]]
    headline: Callable[[Json], str]  # of the figures: the first sentence of a brief
    findings: Callable[[Json], str]  # of the figures: the sentences after it
    about: str = "matter"  # what its scope is called: day or region
    in_any_case: tuple[str, ...] = ()  # texts of its scope whose capitals do not matter
    # What a launch can choose from in a book, `scope` first; None: nothing but `scope`.
    choices: Callable[[int], Sequence[Mapping[str, str]]] | None = None
    refill: Callable[[int, datetime], object] | None = None  # a demo's book, when the demo starts

    def is_in_scope(self, args: Json, scope: Json) -> bool:
        """Tell whether a task's arguments are what the report is about."""
        return bool(scope) and self._folded(args) == self._folded(scope)

    def _folded(self, texts: Mapping[str, str]) -> dict[str, str]:
        return {n: text.upper() if n in self.in_any_case else text for n, text in texts.items()}


def found_in(
    scope: Mapping[str, str], lines: Sequence[Json], *, expected: Collection[str], limits: Any
) -> SourcesFound:
    """Return what was found by tasks, given as lines of a run's history."""
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
    """Return a source's words, unless they hold a link, an address or a telephone number."""
    return NOT_REPEATED if holds_address(text) else text
