"""A copy of the record that can be verified elsewhere: JSON lines of heads, chains and events.

All heads come first, since each names the one before. Of other workspaces a head shows only the
digest that its seal covers (in heads of version 1: one per chain). The last line holds the digest
of all lines before it, so that a truncated download is not taken for a short record.
scripts/verify_bundle.py reads it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from datetime import datetime
from operator import attrgetter
from typing import TypeVar
from uuid import UUID

from django.db.models import Max, Model, QuerySet

from agents.audit.chains import Step, in_groups, no_step
from agents.audit.run_seal import heads_of
from agents.core.digest import canonical, sha256
from agents.core.requests import Json
from agents.models import Event, Head, Run, Tombstone, Workspace
from agents.models.record import hashed_parts, texts_of
from agents.record import seals
from agents.record.chain import Text, name_of, run_keys, spell_time

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
        found = Event.objects.filter(run__in=rows).order_by("run", "seq").prefetch_related("texts")
        for event in found.iterator(CHUNK):
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
    beside = {name: _text_with_salt(text) for name, text in texts_of(event).items()}
    return {
        "event": {
            **covered,
            "at": spell_time(event.at),
            "previous": event.previous,
            "hash": event.hash,
            **({"texts": beside} if beside else {}),
        }
    }


def _text_with_salt(text: Text) -> Json:
    """Return a text with the salt that proves it, or None where it was erased."""
    return None if text.erased else {"salt": text.salt, "text": text.text}
