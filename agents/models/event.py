"""The record: events are only ever added, each bound to the one before it by its hash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.apps import apps
from django.db import models
from django.db.models import Q

from agents.core.chain import link
from agents.core.effects import Json
from agents.prepared import Given, Rows, Update, insert

if TYPE_CHECKING:
    from agents.models.run import Run


class Event(models.Model):
    """One line of the trace and of the audit, written with the change it tells of."""

    workspace = models.ForeignKey("agents.Workspace", models.PROTECT, related_name="events")
    run = models.ForeignKey("agents.Run", models.PROTECT, null=True, related_name="events")
    seq = models.PositiveBigIntegerField()  # from 1, without gaps, in its chain
    kind = models.CharField(max_length=40)
    facts = models.JSONField(default=dict)
    actor = models.CharField(max_length=150, blank=True)  # a user's name; "" is the engine
    at = models.DateTimeField()
    previous = models.CharField(max_length=64, blank=True)
    hash = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "seq"], name="event_seq_once_in_run"),
            models.UniqueConstraint(
                fields=["workspace", "seq"],
                condition=Q(run__isnull=True),
                name="event_seq_once_in_workspace",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.seq} {self.kind}"


@dataclass(frozen=True)
class Entry:
    """What is to be said: a kind, facts without fractions, and who did it ("" is the engine)."""

    kind: str
    facts: Json = field(default_factory=dict)
    actor: str = ""


def append(
    entries: Sequence[Entry], *, workspace_id: int, at: datetime, run: Run | None = None
) -> None:
    """Add events to the chain of a run, or of the workspace where they belong to no run.

    Call inside the transaction of the change. The row that ends the chain is locked first:
    two writers cannot take the same place, nor read a head about to move.
    """
    head, move_head = _chain(run)
    pk = run.pk if run else workspace_id
    [(_, *end)] = head.tuples(pk=pk)
    run_id, after = run.pk if run else None, (end[0], end[1])
    count, newest = add(entries, workspace_id=workspace_id, run_id=run_id, after=after, at=at)
    move_head(pk=pk, count=count, hash=newest)


def add(
    entries: Sequence[Entry],
    *,
    workspace_id: int,
    run_id: UUID | None,
    after: tuple[int, str],
    at: datetime,
) -> tuple[int, str]:
    """Add events after the count and the hash that end a chain. Return its new end.

    For a caller who holds the lock of the row that ends the chain, and writes the new end to it.
    """
    count, previous = after
    events = []
    for seq, entry in enumerate(entries, count + 1):
        event = Event(
            workspace_id=workspace_id,
            run_id=run_id,
            seq=seq,
            kind=entry.kind,
            facts=entry.facts,
            actor=entry.actor,
            at=at,
            previous=previous,
        )
        event.hash = previous = link(previous, linked(event))
        events.append(event)
    insert(*events)
    return count + len(events), previous


def linked(event: Event) -> dict[str, Json]:
    """Return what the hash of an event covers, besides the hash before it."""
    return {
        "workspace": event.workspace_id,
        "run": str(event.run_id) if event.run_id else None,
        "seq": event.seq,
        "kind": event.kind,
        "facts": event.facts,
        "actor": event.actor,
        "at": event.at,
    }


def _chain(run: Run | None) -> tuple[Rows[Any], Update]:
    """Return how the row that ends a chain is locked and read, and how it is moved."""
    return _CHAINS["agents.Run" if run else "agents.Workspace"]


def _head(name: str) -> tuple[Rows[Any], Update]:
    def at_end() -> models.QuerySet[Any]:
        return apps.get_model(name).objects.filter(pk=Given("pk"))

    head = Rows(lambda: at_end().select_for_update().only("event_count", "head_hash"))
    return head, Update(at_end, event_count=Given("count"), head_hash=Given("hash"))


_CHAINS = {name: _head(name) for name in ("agents.Run", "agents.Workspace")}
