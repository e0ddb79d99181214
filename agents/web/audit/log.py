"""Filter the record, and write it as a table that no spreadsheet takes for formulas."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from urllib.parse import urlencode
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db.models import QuerySet
from django.http import QueryDict

from agents.core.money import format_money
from agents.models import Event, Workspace
from agents.models.event import facts_of
from agents.web.times import read_time

PAGE = 50
EXPORTED = 10_000  # rows of one export
FILTERS = ("actor", "kind", "run", "since", "until")
COLUMNS = ("at", "run", "seq", "kind", "actor", "facts", "previous", "hash")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Filter:
    """What of the record is asked for; what cannot be read is said and matches nothing."""

    given: dict[str, str]
    unreadable: str  # the field that makes no sense, or ""

    @property
    def query(self) -> str:
        return urlencode(self.given)


def read_filter(asked: QueryDict) -> Filter:
    """Return the filter that a page's address holds."""
    said = {name: asked.get(name, "").strip() for name in FILTERS}
    given = {name: text for name, text in said.items() if text}
    readers: dict[str, Callable[[str], object]] = {
        "actor": _storable,
        "kind": _storable,
        "run": _uuid,
        "since": read_time,
        "until": read_time,
    }
    bad = [name for name, read in readers.items() if name in given and read(given[name]) is None]
    return Filter(given, bad[0] if bad else "")


def events(workspaces: QuerySet[Workspace], wanted: Filter) -> QuerySet[Event]:
    """Return the events that a filter lets through, newest first."""
    found = Event.objects.filter(workspace__in=workspaces).order_by("-pk").prefetch_related("texts")
    if wanted.unreadable:
        return found.none()
    given = wanted.given
    if "actor" in given:
        found = found.filter(actor=given["actor"])
    if "kind" in given:
        found = found.filter(kind=given["kind"])
    if "run" in given:
        found = found.filter(run__pk=given["run"])
    if "since" in given:
        found = found.filter(at__gte=read_time(given["since"]))
    if "until" in given:
        found = found.filter(at__lt=read_time(given["until"]))
    return found


@dataclass(frozen=True)
class Page:
    """A page of the record, and where the next one begins."""

    rows: Sequence[tuple[Event, str]]
    older: int | None  # the id to go on before; None: there is nothing older


def page_of(found: QuerySet[Event], before: str) -> Page:
    """Return one page by keyset: it costs the same however long the record is."""
    if before.isascii() and before.isdigit() and len(before) < 19:
        found = found.filter(pk__lt=int(before))
    rows = list(found[: PAGE + 1])
    older = rows[PAGE - 1].pk if len(rows) > PAGE else None
    return Page([(event, told(event)) for event in rows[:PAGE]], older)


def told(event: Event) -> str:
    """Say the facts of an event in a line."""
    parts = []
    for key, value in facts_of(event).items():
        if value in (None, "", False):
            continue
        if key.endswith("_minor") and isinstance(value, int):
            key, value = key.removesuffix("_minor"), format_money(value)
        parts.append(f"{key}: {value}")
    return ", ".join(parts)


def as_csv(found: Iterable[Event]) -> str:
    """Return events as CSV. A cell that a spreadsheet would reckon with begins with '."""
    out = io.StringIO()
    table = csv.writer(out)
    table.writerow(COLUMNS)
    for event in found:
        facts = json.dumps(facts_of(event), sort_keys=True, ensure_ascii=False)
        cells = (
            event.at.isoformat(),
            str(event.run_id or ""),
            event.seq,
            event.kind,
            event.actor,
            facts,
            event.previous,
            event.hash,
        )
        table.writerow([_safe(cell) for cell in cells])
    return out.getvalue()


async def drawn(lines: Iterator[str]) -> AsyncIterator[str]:
    """Yield lines by the hundred, each hundred read in the request's thread."""
    while some := await sync_to_async(lambda: list(islice(lines, 100)))():
        yield "".join(some)


def _safe(cell: object) -> str:
    text = str(cell)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _storable(text: str) -> str | None:
    """Return a text that a row may hold; PostgreSQL refuses to look for NUL."""
    return None if "\0" in text else text


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
