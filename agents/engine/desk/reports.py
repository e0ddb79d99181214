"""What a desk's report is about, and its figures.

The desk's functions get values, and what they return is named again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from agents.core.actions import is_text
from agents.core.requests import Json, Stop
from agents.core.strict_json import is_storable
from agents.engine.desk.functions import DeskFailed, of_company
from agents.engine.desk.rules import limits_of
from agents.engine.redaction import RunBorder
from agents.models import Run
from agents.sdk.desk import DESKS
from agents.sdk.report import found_in

_WORD = re.compile(r"[\w-]+")


def scopes_of(desk: str, book: int) -> list[dict[str, str]]:
    """Return what a report of a desk can be about, the default first. Raises DeskFailed."""
    known, report = DESKS[desk], DESKS[desk].report
    if report is None:
        return []
    with of_company(f"{known.title} could not say what to report on"):
        found = report.choices(book) if report.choices else [report.scope(book)]
        scopes = [dict(scope) for scope in found if scope]
        for scope in scopes:
            names = {name for one in known.sources.values() for name in one.arguments} or {*scope}
            if set(scope) != names or not all(map(is_text, scope.values())):
                raise TypeError(f"{scope!r} is to hold texts by the names {sorted(names)}")
        return scopes


def choose_scope(scopes: Sequence[dict[str, str]], goal: str, chosen: str) -> dict[str, str] | None:
    """Return the first scope with all words of a choice, or else that the goal names most of.

    None if there is none like it. A choice is written in any case: "2026-11-27 us".
    """
    if wanted := set(_WORD.findall(chosen.casefold())):
        found = (one for one in scopes if wanted <= {text.casefold() for text in one.values()})
        return next(found, None)
    words = set(_WORD.findall(goal))
    return max(scopes, key=lambda scope: sum(map(words.__contains__, scope.values())), default=None)


def in_words(scope: Mapping[str, str]) -> str:
    """Return a scope for a form: "2026-11-27 US"."""
    return " ".join(scope.values())


def figures_of(run: Run) -> Callable[[Sequence[Json], Collection[str]], dict[str, Json]] | None:
    """Return what makes figures of the lines of a run's tasks; None for what is no report.

    It raises Stop where the desk's function fails, and ValuesLocked.
    """
    desk, border = DESKS[run.desk], RunBorder(run)
    report = desk.report if run.scope else None
    if report is None:
        return None

    def figures(lines: Sequence[Json], expected: Collection[str]) -> dict[str, Json]:
        scope, seen = border.resolve([run.scope, lines])
        try:
            with of_company(f"{desk.title} could not make its figures"):
                limits = limits_of(desk, run.limits)
                known = found_in(scope, seen, expected=expected, limits=limits)
                found: Json = {**known.scope, **report.figures(known)}
                found.setdefault("failed_tasks", known.failed_tasks)
                if not is_storable(found):
                    raise TypeError(f"{found!r} is no JSON")
        except DeskFailed as error:
            raise Stop("report_failed", phase="aggregate", error=str(error)) from None
        named: dict[str, Json] = border.name(found)
        return named

    return figures
