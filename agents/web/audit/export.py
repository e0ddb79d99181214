"""Export the audit log as a table without cells that a spreadsheet would run as formulas."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import UTC

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone

from agents.models import Event
from agents.models.record import UNREADABLE, facts_of
from agents.shell.event_words import EventLine, read_events, tell_events

EXPORTED = 10_000  # rows of one export
TOGETHER = 500  # rows in memory at once
PART = 128 * 1024  # characters sent at once
COLUMNS = (
    "time_utc",
    "run",
    "entry",
    "event",
    "person",
    "what_happened",
    "facts",
    "previous_hash",
    "hash",
    "desk",
    "currency",
    "amount",
)
# Their full-width forms too, and characters that pasting may put before a cell.
_FORMULA = tuple("=+-@＝＋－＠\t\r\n")
CUT = (
    "CUT: older entries that match are not in this file. Narrow the filter, or download the "
    "verifiable log, which has all that are not archived."
)
END = "END: {:,} entries. A file without this line is not whole."
ARCHIVED = "ARCHIVED: entries of {} archived runs are in the files of archives and not in this one."


def csv_lines(
    found: QuerySet[Event],
    keys: Sequence[int],
    *,
    is_cut: bool = False,
    archived: int = 0,
) -> Iterator[str]:
    """Yield the events with these keys as CSV; a cell that would be a formula begins with '.

    The last rows say that the file was cut, how many runs are archived, and that it is complete.
    """
    yield _as_line(COLUMNS)
    count = 0
    for place in range(0, len(keys), TOGETHER):
        some = _lines_of(found, keys[place : place + TOGETHER])
        count += len(some)
        yield "".join(_as_line(_cells(line)) for line in some)
    notes = [CUT] * is_cut + [ARCHIVED.format(archived)] * bool(archived)
    for note in [*notes, END.format(count)]:
        yield _as_line([note, *[""] * (len(COLUMNS) - 1)])


def _lines_of(found: QuerySet[Event], keys: Sequence[int]) -> list[EventLine]:
    with timezone.override(UTC):  # the view has returned, and times are evidence
        return tell_events(read_events(found.filter(pk__in=keys), len(keys)))


def _as_line(cells: Iterable[object]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow([safe_cell(cell) for cell in cells])
    return out.getvalue()


def _cells(line: EventLine) -> list[object]:
    event = line.event
    if event is None:
        return ["", "", "", "", "", line.sentence, *[""] * 6]
    try:
        facts = json.dumps(facts_of(event), sort_keys=True, ensure_ascii=False)
    except UNREADABLE:
        facts = ""
    at, run = event.at.isoformat(), str(event.run_id or "")
    told = [at, run, event.seq, event.kind, event.actor, line.sentence]
    money = [line.money.currency, line.money.amount] if line.money else ["", ""]
    return [*told, facts, event.previous, event.hash, line.desk, *money]


def download(request: HttpRequest, lines: Iterator[str], name: str) -> StreamingHttpResponse:
    """Stream a file that is made while it is sent; its last line says that it is complete."""
    # An ASGI server would first read a plain iterator into memory whole.
    content = _draw_parts(lines) if isinstance(request, ASGIRequest) else lines
    kind = "text/csv" if name.endswith(".csv") else "application/jsonl"
    response = StreamingHttpResponse(content, content_type=f"{kind}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


async def _draw_parts(lines: Iterator[str]) -> AsyncIterator[str]:
    """Yield parts of some lines, read in the request's thread; nothing is held in between."""

    def draw() -> str:
        part, size = list[str](), 0
        for line in lines:
            part.append(line)
            if (size := size + len(line)) >= PART:
                break
        return "".join(part)

    while part := await sync_to_async(draw)():
        yield part


def safe_cell(cell: object) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    text = str(cell)
    return f"'{text}" if text.startswith(_FORMULA) else text
