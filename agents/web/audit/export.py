"""Give the audit log as a table that no spreadsheet takes for formulas."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from itertools import islice

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

from agents.audit.chains import UNREADABLE
from agents.models import Event
from agents.models.approval import is_withheld
from agents.models.event import facts_of
from agents.web.sentences import EventLine, tell_events

EXPORTED = 10_000  # rows of one export
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
WITHHELD = "(not shown to those who may decide, until a second person has)"
# Also as they are typed in Japanese, and what a cell may be pasted with.
_FORMULA = tuple("=+-@＝＋－＠\t\r\n")
CUT = (
    "CUT: older entries that match are not in this file. Narrow the filter, or download the "
    "verifiable log, which has all that are not archived."
)
ARCHIVED = "ARCHIVED: entries of {} archived runs are in the files of archives and not in this one."


def as_csv(
    found: Iterable[Event | int],
    *,
    is_cut: bool = False,
    archived: int = 0,
    withheld: Collection[int] = (),
) -> str:
    """Return events as CSV. A cell that a spreadsheet would reckon with begins with '.

    The last rows say that a file was cut, and how many runs are archived. `withheld` are
    approvals whose reason is left out.
    """
    out = io.StringIO()
    table = csv.writer(out)
    table.writerow(COLUMNS)
    for line in tell_events(found):
        table.writerow([safe_cell(cell) for cell in _cells(line, withheld)])
    for said in [CUT] * is_cut + [ARCHIVED.format(archived)] * bool(archived):
        table.writerow([said, *[""] * (len(COLUMNS) - 1)])
    return out.getvalue()


def _cells(line: EventLine, withheld: Collection[int]) -> list[object]:
    event = line.event
    if event is None:
        return ["", "", "", "", "", line.sentence, *[""] * 6]
    try:
        known = facts_of(event)
        known |= {"comment": WITHHELD} if is_withheld(event, withheld) else {}
        facts = json.dumps(known, sort_keys=True, ensure_ascii=False)
    except UNREADABLE:
        facts = ""
    at, run = event.at.isoformat(), str(event.run_id or "")
    told = [at, run, event.seq, event.kind, event.actor, line.sentence]
    money = [line.money.currency, line.money.amount] if line.money else ["", ""]
    return [*told, facts, event.previous, event.hash, line.desk, *money]


def download(request: HttpRequest, lines: Iterator[str], name: str) -> StreamingHttpResponse:
    """Give a copy of the record as a file of JSON lines."""
    # An ASGI server would take a plain iterator whole into memory first.
    content = _draw_lines(lines) if isinstance(request, ASGIRequest) else lines
    response = StreamingHttpResponse(content, content_type="application/jsonl; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.jsonl"'
    return response


async def _draw_lines(lines: Iterator[str]) -> AsyncIterator[str]:
    """Yield lines by the hundred, each hundred read in the request's thread."""
    while some := await sync_to_async(lambda: list(islice(lines, 100)))():
        yield "".join(some)


def safe_cell(cell: object) -> str:
    """Return a cell that no spreadsheet reckons with."""
    text = str(cell)
    return f"'{text}" if text.startswith(_FORMULA) else text
