"""What a desk's report is about, and its figures.

The desk's functions get values, and what they return is named again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from agents.core.actions import is_text
from agents.core.requests import Json, Stop
from agents.core.strict_json import is_storable
from agents.engine.desk.functions import DeskFailed, of_company
from agents.engine.desk.rules import limits_of
from agents.engine.redaction import RunBorder
from agents.models import Run
from agents.sdk.desk import DESKS
from agents.sdk.report import found_in


def newest_scope(desk: str, book: int) -> dict[str, str] | None:
    """Return what the next report of a desk is about. Raises DeskFailed."""
    known = DESKS[desk]
    with of_company(f"{known.title} could not say what to report on"):
        scope = known.report.scope(book) if known.report else None
        if not scope:
            return None
        wanted = {name for one in known.sources.values() for name in one.arguments} or set(scope)
        if set(scope) != wanted or not all(map(is_text, scope.values())):
            raise TypeError(f"{scope!r} is to hold texts by the names {sorted(wanted)}")
        return dict(scope)


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
