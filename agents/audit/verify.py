"""Check the record: chains against themselves, and against what was sealed here and elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import QuerySet

from agents.audit import heads_file, sealing, seals, triggers
from agents.audit.chain import name_of
from agents.audit.chain_faults import Fault, Linked, first_fault
from agents.audit.seals import first_unlike
from agents.models import Event, Head, Run, Workspace
from agents.models.event import linked, texts_of

KEPT = "heads kept elsewhere"
CHUNK = 500  # rows in memory at once
Seals = Mapping[str, Sequence[str]]  # the name of a chain -> the hashes of its events, as sealed


@dataclass(frozen=True)
class Chain:
    """One chain of the record, checked from its first event to its head."""

    name: str
    fault: Fault | None
    of: str = "event"  # what the chain is made of

    def __str__(self) -> str:
        if self.fault is None:
            return f"{self.name}: holds"
        if not self.fault.seq:  # it has no place in a chain
            return f"{self.name}: {self.fault.why}"
        return f"{self.name}: {self.of} {self.fault.seq}: {self.fault.why}"


@dataclass(frozen=True)
class Proof:
    """What checking the record came to: how much was checked, and what does not hold."""

    chains: int
    heads: int
    compared: int  # heads that are kept outside the database, too
    faults: list[Chain]

    def limits(self) -> list[str]:
        """Return in sentences what was compared, and what was not."""
        if self.compared:
            return [f"{self.compared} heads were compared with those kept outside the database."]
        return ["Nothing was compared with heads kept outside the database."]


def prove(*, runs: QuerySet[Run], workspaces: QuerySet[Workspace], file: Path) -> Proof:
    """Check chains against themselves and against what was sealed, here and in `file`.

    Where all workspaces are checked, so is that no sealed chain is gone. It costs every event
    and every head.
    """
    # Before the database, which is written first: else a head of this moment would be missing.
    kept, faults = _kept(file)
    stored = [head.plain() for head in Head.objects.order_by("number").iterator(CHUNK)]
    if not kept and not faults and len(stored) > 1:
        why = f"the file is gone or empty, and the database has {len(stored)} heads"
        faults = [Chain(KEPT, Fault(0, why))]
    bad, trusted = seals.judged(stored, kept, sealing.keys().get)
    faults += [Chain("heads", fault, of="head") for fault in bad]
    wrong = triggers.faults(connections[DEFAULT_DB_ALIAS])
    faults += [Chain(f"trigger {name}", Fault(0, why)) for name, why in wrong.items()]
    sealed = seals.sealed_hashes(trusted)
    found = list(chains(runs, workspaces, sealed))
    faults += [chain for chain in found if chain.fault]
    if workspaces.count() == Workspace.objects.count():
        faults += _vanished(sealed)
    return Proof(len(found), len(stored), len(kept), faults)


def _kept(file: Path) -> tuple[list[seals.Head], list[Chain]]:
    """Return the heads outside the database, and why there are none where they are not readable."""
    try:
        return (heads_file.read(file) if file.exists() else []), []
    except (heads_file.Unreadable, OSError) as error:
        return [], [Chain(KEPT, Fault(0, str(error)))]


def _vanished(sealed: Seals) -> Iterator[Chain]:
    """Yield the chains that were sealed and of which not even the row is left."""
    runs = Run.objects.values_list("workspace_id", "pk").iterator()
    there = {name_of(workspace=workspace, run=run) for workspace, run in runs}
    there |= {name_of(workspace=pk) for pk in Workspace.objects.values_list("pk", flat=True)}
    for name in sorted(sealed.keys() - there):
        why = f"the chain is gone; {len(sealed[name])} events were sealed"
        yield Chain(name.replace("/", " "), Fault(1, why))


def chains(
    runs: QuerySet[Run], workspaces: QuerySet[Workspace], sealed: Seals = MappingProxyType({})
) -> Iterator[Chain]:
    """Check the chain of each workspace and of each run; the cost is every event of them."""
    for workspace in workspaces.order_by("pk"):
        events = Event.objects.filter(workspace=workspace, run=None)
        wanted = sealed.get(name_of(workspace=workspace.pk), ())
        yield Chain(f"workspace {workspace.slug}", _fault(events, workspace, wanted))
    for run in runs.order_by("created_at", "pk").iterator(CHUNK):
        wanted = sealed.get(name_of(workspace=run.workspace_id, run=run.pk), ())
        yield Chain(f"run {run.pk}", _fault(Event.objects.filter(run=run), run, wanted))


def _fault(events: QuerySet[Event], row: Run | Workspace, wanted: Sequence[str]) -> Fault | None:
    """Return the first event that does not fit its chain, or is not the one that was sealed."""
    while True:
        count, hashes = row.event_count, list[str]()
        fault = first_fault(_linked(events, hashes), count=count, head=row.head_hash)
        if fault is None:
            return first_unlike(hashes, wanted)
        row.refresh_from_db(fields=["event_count", "head_hash"])
        if row.event_count == count:  # else it grew while we read
            sound = fault.seq - 1
            return first_unlike(hashes[:sound], wanted[:sound]) or fault


def _linked(events: QuerySet[Event], hashes: list[str]) -> Iterator[Linked]:
    """Yield the events of a chain in order, and leave their hashes in `hashes`."""
    for event in events.order_by("seq").prefetch_related("texts").iterator(CHUNK):
        hashes.append(event.hash)
        yield Linked(linked(event), event.previous, event.hash, texts_of(event))
