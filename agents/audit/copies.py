"""Copies of the record: JSON lines that can be verified elsewhere, and the log as a table.

All heads come first in the JSON lines, since each names the one before. Of other workspaces a head
shows only the digest that its seal covers (in heads of version 1: one per chain). The last line
holds the digest of all lines before it, so that a truncated download is not taken for a short
record. scripts/verify_bundle.py reads it.
"""

import csv
import hashlib
import io
import json
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import TypeVar
from uuid import UUID

from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.core.handlers.asgi import ASGIRequest
from django.db import transaction
from django.db.models import Max, Model, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone

from agents.audit.chains import Step, in_groups, no_step
from agents.core.json_forms import canonical, sha256
from agents.core.requests import Json
from agents.engine.redaction import redact_in
from agents.models import Event, Head, Role, Run, Sealed, Tombstone, Workspace
from agents.models.record import UNREADABLE, facts_of, hashed_parts, texts_of
from agents.record import seals
from agents.record.seals import name_of, run_keys, spell_time
from agents.shell.event_words import EventLine, read_events, tell_events
from agents.shell.refusal import require_member

FORMAT = "opsconsole-record/2"
CHUNK, HEADS = 500, 10  # rows in memory at once
T = TypeVar("T", bound=Model)


def lines(
    workspaces: Collection[Workspace], *, at: datetime, step: Step = no_step
) -> Iterator[str]:
    """Yield the record of `workspaces` line by line; call `step` with the number of chains done.

    Later additions to the record are left out. A few runs are in memory at a time.
    """
    return _with_newlines(_documents(workspaces, at, step))


def lines_of_run(run: Run, *, at: datetime) -> Iterator[str]:
    """Yield the proof of one run: its chain and only the heads that seal it.

    These heads also name the other chains of its workspace that they seal, but hold none of them.
    """
    return _with_newlines(_documents_of_run(run, at))


def _with_newlines(documents: Iterator[Json]) -> Iterator[str]:
    digest, count = hashlib.sha256(), 0
    for document in documents:
        line = canonical(document) + "\n"
        digest.update(line.encode())
        count += 1
        yield line
    yield canonical({"end": {"lines": count, "sha256": digest.hexdigest()}}) + "\n"


def _documents(workspaces: Collection[Workspace], at: datetime, step: Step) -> Iterator[Json]:
    # Heads before chains: a newer head would seal events that the copy does not have.
    newest = Head.objects.aggregate(newest=Max("number"))["newest"] or 0
    upto = Event.objects.aggregate(newest=Max("pk"))["newest"] or 0
    whose = {str(one.pk): one.slug for one in sorted(workspaces, key=attrgetter("pk"))}
    yield {"bundle": FORMAT, "at": spell_time(at), "workspaces": whose}
    for head in _in_pages(Head.objects.filter(number__lte=newest), "number", HEADS):
        yield {"head": _visible_head(head.plain(), whose)}
    count = 0
    for pk in map(int, whose):
        row = _as_of(Workspace.objects.get(pk=pk), upto)
        events = row.events.filter(run=None, seq__lte=row.event_count).prefetch_related("texts")
        yield _chain_line(name_of(workspace=pk), row)
        yield from map(_event_line, _in_pages(events, "seq", CHUNK))
        step(count := count + 1)
    for keys in in_groups(Run.objects.filter(workspace__in=workspaces)):
        yield from run_lines(keys, upto)
        step(count := count + len(keys))


def _in_pages(rows: QuerySet[T], key: str, most: int) -> Iterator[T]:
    """Yield rows by ascending `key`, page by page: a slow reader keeps no statement open."""
    last = -1
    while some := list(rows.filter(**{f"{key}__gt": last}).order_by(key)[:most]):
        yield from some
        last = getattr(some[-1], key)


def _documents_of_run(run: Run, at: datetime) -> Iterator[Json]:
    # Heads before the chain, as above.
    numbers = heads_of(run)
    upto = Event.objects.aggregate(newest=Max("pk"))["newest"] or 0
    whose = {str(run.workspace_id): run.workspace.slug}
    yield {"bundle": FORMAT, "at": spell_time(at), "workspaces": whose, "run": str(run.pk)}
    for number in numbers:
        yield {"head": _visible_head(Head.objects.get(number=number).plain(), whose)}
    yield from run_lines([run.pk], upto)


def run_lines(keys: list[UUID], upto: int | None) -> Iterator[Json]:
    """Yield the chains of a few runs, each up to the end its row gives, as it may grow meanwhile.

    No event is later than `upto`. The events of an archived run are in its archive.
    """
    rows, events = _read_runs(keys)
    graves = Tombstone.objects.in_bulk(keys)
    for run in rows:
        mine = [event for event in events[run.pk] if event.seq <= run.event_count]
        ours = [event for event in mine if upto is None or event.pk <= upto]
        grave = graves.get(run.pk)
        gone = grave if grave and not (mine and mine[0].seq == 1) else None
        if len(ours) < len(mine):
            if ours:
                run.event_count, run.head_hash = ours[-1].seq, ours[-1].hash
            elif gone:
                run.event_count, run.head_hash = gone.event_count, gone.head_hash
            else:
                continue  # launched after this copy began
        line = _chain_line(name_of(workspace=run.workspace_id, run=run.pk), run)
        if gone:
            line["chain"]["archived"] = {
                "count": gone.event_count,
                "hash": gone.head_hash,
                "workspace": run.workspace_id,
            }
        yield line
        yield from map(_event_line, ours)


def _read_runs(keys: list[UUID]) -> tuple[list[Run], dict[UUID, list[Event]]]:
    """Return runs and their events with texts, all from before or all from after an archive."""
    runs = Run.objects.filter(pk__in=keys).order_by("pk")
    while True:
        rows = list(runs.only("workspace_id", "event_count", "head_hash", "archived_at"))
        events: dict[UUID, list[Event]] = {run.pk: [] for run in rows}
        stored = Event.objects.filter(run__in=rows).order_by("run", "seq").prefetch_related("texts")
        for event in stored.iterator(CHUNK):
            if event.run_id:
                events[event.run_id].append(event)
        here = [run.pk for run in rows if run.archived_at is None]
        if not Run.objects.filter(pk__in=here, archived_at__isnull=False).exists():
            return rows, events


def _as_of(workspace: Workspace, upto: int) -> Workspace:
    """Return a workspace with its chain cut after the event `upto`."""
    known = workspace.events.filter(run=None, seq__lte=workspace.event_count)
    if known.filter(pk__gt=upto).exists():
        last = known.filter(pk__lte=upto).order_by("seq").last()
        workspace.event_count, workspace.head_hash = (last.seq, last.hash) if last else (0, "")
    return workspace


def _chain_line(name: str, row: Run | Workspace) -> Json:
    return {"chain": {"name": name, "count": row.event_count, "hash": row.head_hash}}


def _visible_head(head: seals.SealedHead, whose: Collection[str]) -> Json:
    """Return a head as shown to readers of the workspaces `whose`."""
    shown: dict[str, Json] = {
        "number": head.number,
        "at": head.at,
        "key": head.key,
        "before": head.before,
        "seal": head.seal,
    }
    if head.workspaces is None:
        mine = _chains_of(head, whose)
        hidden = [seals.leaf(chain, hashes) for chain, hashes in head.chains() if chain not in mine]
        shown["moved"] = {chain: head.moved[chain] for chain in head.moved if chain in mine}
        return {**shown, "others": sorted(hidden)}
    parts = head.workspaces.items()
    shown["workspaces"] = {name: part for name, part in parts if name in whose}
    return {**shown, "others": {name: sha256(part) for name, part in parts if name not in whose}}


def _chains_of(head: seals.SealedHead, whose: Collection[str]) -> set[str]:
    """Return the version 1 chains that belong to these workspaces."""
    runs = Run.objects.filter(pk__in=run_keys(head.moved), workspace__in=[int(pk) for pk in whose])
    mine = {name_of(workspace=0, run=pk) for pk in runs.values_list("pk", flat=True)}
    return mine | {name_of(workspace=int(pk)) for pk in whose}


def _event_line(event: Event) -> Json:
    covered = hashed_parts(event)
    beside = {  # a text comes with the salt that proves it, or is None after an erasure
        name: None if text.erased else {"salt": text.salt, "text": text.text}
        for name, text in texts_of(event).items()
    }
    return {
        "event": {
            **covered,
            "at": spell_time(event.at),
            "previous": event.previous,
            "hash": event.hash,
            **({"texts": beside} if beside else {}),
        }
    }


# The heads that seal a run, found by their index: its proof need not read all heads.


_NEAR = 20  # heads: an open transaction holds back a head's `upto`, while later heads seal as well


def run_seal(run: Run) -> dict[str, object] | None:
    """Return up to which event a run is sealed and by which head, or None, in one or two queries.

    A much earlier head, which the proof names, is left out.
    """
    newest_seal = _newest(run)
    if newest_seal is None:
        return None
    newest, upto = newest_seal
    near = (head for head in _before(newest, _NEAR) if _hashes(head, run))
    return {"upto": upto, "head": newest if _hashes(newest, run) else next(near, None)}


def heads_of(run: Run) -> list[int]:
    """Return the numbers of the heads that seal events of a run, in order.

    Reads the heads made during the run.
    """
    newest, numbers, count = _newest(run), list[int](), 0
    if newest is None:
        return []
    head, upto = newest
    for earlier in _before(head, head.number):
        if hashes := _hashes(earlier, run):
            numbers.append(earlier.number)
            count += hashes
        if count >= upto:
            break
    return numbers[::-1]


def _newest(run: Run) -> tuple[Head, int] | None:
    """Return the first head by which all sealed events of a run are covered, and their number."""
    chain = Sealed.objects.filter(chain=name_of(workspace=run.workspace_id, run=run.pk))
    reached = Subquery(chain.values("event_count")[:1])
    last = Event.objects.filter(run=run, seq=reached).values("pk")[:1]
    upto = Head.objects.filter(upto__gte=Subquery(last)).order_by("upto", "number")
    latest = Head.objects.order_by("-number").values("number")[:1]
    number = Coalesce(Subquery(upto.values("number")[:1]), Subquery(latest))
    heads = Head.objects.filter(number=number).annotate(reached=reached)
    head = heads.filter(reached__isnull=False).first()
    return (head, vars(head)["reached"]) if head else None


def _before(head: Head, most: int) -> Iterator[Head]:
    earlier = Head.objects.filter(number__lte=head.number, number__gt=head.number - most)
    return earlier.order_by("-number").iterator(10)


def _hashes(head: Head, run: Run) -> int:
    """Return the number of a run's events in a head."""
    name = name_of(workspace=run.workspace_id, run=run.pk)
    return sum(len(hashes) for chain, hashes in head.plain().chains() if chain == name)


# Record who read the record.


def record_export(*, workspace: Workspace, by: User | None, facts: Json, at: datetime) -> None:
    """Record who exported the record, and the filter; None: a command. Raises Refused."""
    facts = redact_in(workspace, facts)
    with transaction.atomic():
        if by:
            require_member(workspace, by, Role.AUDITOR, Role.ADMIN)
        actor = by.get_username() if by else ""
        workspace.say("audit.exported", at=at, facts=facts, actor=actor)


# The log as a table without cells that a spreadsheet would run as formulas; any file is streamed.


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
_ARCHIVED = (
    "ARCHIVED: entries of {} archived runs are in the files of archives and not in this one."
)


def csv_lines(
    events: QuerySet[Event], keys: Sequence[int], *, is_cut: bool = False, archived: int = 0
) -> Iterator[str]:
    """Yield the events with these keys as CSV; a cell that would be a formula begins with '.

    The last rows say that the file was cut, how many runs are archived, and that it is complete.
    """
    yield csv_line(COLUMNS)
    count = 0
    for place in range(0, len(keys), TOGETHER):
        part = keys[place : place + TOGETHER]
        with timezone.override(UTC):  # the view has returned, and times are evidence
            some = tell_events(read_events(events.filter(pk__in=part), len(part)))
        count += len(some)
        yield "".join(csv_line(_cells(line)) for line in some)
    notes = [CUT] * is_cut + [_ARCHIVED.format(archived)] * bool(archived)
    for note in [*notes, END.format(count)]:
        yield csv_line([note, *[""] * (len(COLUMNS) - 1)])


def csv_line(cells: Iterable[object]) -> str:
    """Return a line of CSV, of cells that no spreadsheet takes for a formula."""
    out, texts = io.StringIO(), map(str, cells)
    csv.writer(out).writerow([f"'{one}" if one.startswith(_FORMULA) else one for one in texts])
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
    columns = [at, run, event.seq, event.kind, event.actor, line.sentence]
    money = [line.money.currency, line.money.amount] if line.money else ["", ""]
    return [*columns, facts, event.previous, event.hash, line.desk, *money]


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
