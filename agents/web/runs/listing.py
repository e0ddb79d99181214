"""Find runs: filters in the address, pages by keyset, so that page 400 costs what page 1 does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.http import QueryDict

from agents.core.states import RunState
from agents.models import Run
from agents.web import access
from agents.web.times import read_time

PAGE = 50
FILTERS = ("state", "pattern", "stop_reason", "customer", "launcher", "text", "since", "until")
DIGITS = 19  # fewer than this fit a column of 64 bits


@dataclass(frozen=True)
class Runs:
    """A page of runs, the filter that led to it, and where the next one begins."""

    rows: Sequence[Run]
    given: dict[str, str]
    older: str  # what to ask for after this page; "" where nothing is older

    @property
    def query(self) -> str:
        return urlencode(self.given)


def find_runs(user: User, asked: QueryDict) -> Runs:
    """Return one page of the person's runs, newest first."""
    said = {name: asked.get(name, "").strip() for name in FILTERS}
    given = {name: text for name, text in said.items() if text}
    found = _filtered(access.runs_of(user), given).order_by("-created_at", "-pk")
    found = _after(found, asked.get("before", ""))
    rows = list(found.select_related("launched_by", "policy")[: PAGE + 1])
    older = _mark(rows[PAGE - 1]) if len(rows) > PAGE else ""
    return Runs(rows[:PAGE], given, older)


def _filtered(found: QuerySet[Run], given: dict[str, str]) -> QuerySet[Run]:
    if any("\0" in text for text in given.values()):
        return found.none()  # no stored text holds it, and PostgreSQL refuses to look
    exact = {"state": "state", "pattern": "pattern", "launcher": "launched_by__username"}
    for name, column in exact.items():
        if name in given:
            found = found.filter(**{column: given[name]})
    if "stop_reason" in given:
        found = found.filter(stop_reason__startswith=given["stop_reason"])
    if "customer" in given:
        number = given["customer"]
        is_number = number.isascii() and number.isdigit() and len(number) < DIGITS
        found = found.filter(subject=int(number)) if is_number else found.none()
    for name, lookup in (("since", "created_at__gte"), ("until", "created_at__lt")):
        if name in given:
            when = read_time(given[name])
            found = found.filter(**{lookup: when}) if when else found.none()
    if "text" in given:
        found = found.filter(goal__icontains=given["text"])
    return found


def _mark(run: Run) -> str:
    return f"{run.created_at.isoformat()}_{run.pk}"


def _after(found: QuerySet[Run], mark: str) -> QuerySet[Run]:
    """Go on behind a run; a mark that makes no sense begins anew."""
    at, _, key = mark.partition("_")
    place = _place(at, key)
    if place is None:
        return found
    when, pk = place
    return found.filter(Q(created_at__lt=when) | Q(created_at=when, pk__lt=pk))


def _place(at: str, key: str) -> tuple[datetime, UUID] | None:
    when = read_time(at)
    try:
        return (when, UUID(key)) if when else None
    except ValueError:
        return None


STATES = tuple(RunState)
