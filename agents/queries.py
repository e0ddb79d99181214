"""What pages and commands read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import QuerySet

from agents import patterns, record
from agents.core import heads
from agents.core.chain import name_of
from agents.core.effects import Json
from agents.core.heads import first_unlike
from agents.core.money import told
from agents.core.states import EscalationState, RunState
from agents.core.strands import Reply
from agents.core.verify import Fault, Linked, first_fault
from agents.engine import kept_heads, sealing
from agents.engine.advance import brief_of
from agents.models import Escalation, Event, Head, Run, Workspace
from agents.models.event import linked, texts_of

CHUNK = 500  # rows in memory at once
Seals = Mapping[str, Sequence[str]]  # the name of a chain -> the hashes of its events, as sealed


def result(run: Run) -> dict[str, Json]:
    """Return a run as the reference prints one, with our `run_id` and what it waits for.

    It is derived from the run's steps; where the engine ended the run, its reason counts. Of a
    run that was erased only that is left.
    """
    if run.erased_at:
        left = {"status": run.state, "stop_reason": run.stop_reason}
        return {**left, "erased_at": run.erased_at.isoformat(), **_identity(run)}
    steps = list(run.steps.order_by("position"))
    replies = {step.key: Reply(step.reply, step.failed) for step in steps if step.ended_at}
    found = patterns.result(run.pattern, brief_of(run), replies)
    if run.state in (RunState.STOPPED, RunState.FAILED):
        found |= {"status": run.state, "stop_reason": run.stop_reason}
    elif run.state == RunState.WAITING:
        found |= {"status": "waiting", "escalation": _waiting_for(run)}
    return {
        **found,
        **_identity(run),
        "demo_model": any((step.reply or {}).get("demo") for step in steps if _is_answer(step)),
    }


def _identity(run: Run) -> dict[str, Json]:
    profile = run.policy.document["profile"]
    return {"run_id": str(run.pk), "pattern": run.pattern, "profile": profile}


def _is_answer(step: Json) -> bool:
    return step.kind == "ask" and isinstance(step.reply, dict)


def _waiting_for(run: Run) -> Json:
    """Return the open escalation that is soonest to expire."""
    escalation = (
        Escalation.objects.filter(run=run, state=EscalationState.OPEN)
        .order_by("expires_at", "pk")
        .first()
    )
    if escalation is None:
        return None
    deciding = escalation.review["deciding"]
    return {
        "id": escalation.pk,
        "kind": escalation.kind,
        "action": told(escalation.action),
        "reason": deciding["reason"],
        "sentence": deciding["sentence"],
        "expires_at": escalation.expires_at.isoformat(),
        "frozen": escalation.frozen_at is not None,
    }


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
    faults: list[Chain]


def prove(*, runs: QuerySet[Run], workspaces: QuerySet[Workspace], file: Path) -> Proof:
    """Check chains against themselves and against what was sealed, here and in `file`.

    Where all workspaces are checked, so is that no sealed chain is gone. It costs every event
    and every head.
    """
    faults = []
    try:
        # Before the database, which is written first: else a head of this moment would be missing.
        kept = kept_heads.read(file) if file.exists() else []
    except (kept_heads.Unreadable, OSError) as error:
        kept, faults = [], [Chain("heads kept elsewhere", Fault(0, str(error)))]
    stored = [head.plain() for head in Head.objects.order_by("number").iterator(CHUNK)]
    bad, trusted = heads.judged(stored, kept, sealing.keys().get)
    faults += [Chain("heads", fault, of="head") for fault in bad]
    lost = record.missing(connections[DEFAULT_DB_ALIAS])
    faults += [Chain(f"trigger {name}", Fault(0, "it is missing")) for name in lost]
    seals = heads.sealed_hashes(trusted)
    found = list(chains(runs, workspaces, seals))
    faults += [chain for chain in found if chain.fault]
    if workspaces.count() == Workspace.objects.count():
        faults += _vanished(seals)
    return Proof(len(found), len(stored), faults)


def _vanished(seals: Seals) -> Iterator[Chain]:
    """Yield the chains that were sealed and of which not even the row is left."""
    runs = Run.objects.values_list("workspace_id", "pk").iterator()
    there = {name_of(workspace=workspace, run=run) for workspace, run in runs}
    there |= {name_of(workspace=pk) for pk in Workspace.objects.values_list("pk", flat=True)}
    for name in sorted(seals.keys() - there):
        why = f"the chain is gone; {len(seals[name])} events were sealed"
        yield Chain(name.replace("/", " "), Fault(1, why))


def chains(
    runs: QuerySet[Run], workspaces: QuerySet[Workspace], seals: Seals = MappingProxyType({})
) -> Iterator[Chain]:
    """Check the chain of each workspace and of each run; the cost is every event of them."""
    for workspace in workspaces.order_by("pk"):
        events = Event.objects.filter(workspace=workspace, run=None)
        wanted = seals.get(name_of(workspace=workspace.pk), ())
        yield Chain(f"workspace {workspace.slug}", _fault(events, workspace, wanted))
    for run in runs.order_by("created_at", "pk").iterator(CHUNK):
        wanted = seals.get(name_of(workspace=run.workspace_id, run=run.pk), ())
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
