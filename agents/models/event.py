"""The record: events are only ever added, each bound to the one before it by its hash.

What a person could be known by lies beside the event, and only its salted digest in the chain: so
it can be erased, and the chain holds as before. See core.texts and decision 11.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import F, Q

from agents.core.chain import link
from agents.core.digest import canonical
from agents.core.effects import Json
from agents.core.texts import TEXTS, Text, digest_of, without_texts

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


class EventText(models.Model):
    """One text of an event. It may be erased, once, and is never changed otherwise."""

    event = models.ForeignKey(Event, models.CASCADE, related_name="texts")
    name = models.CharField(max_length=40)
    text = models.TextField(blank=True)  # JSON in its canonical form; "" once erased
    salt = models.CharField(max_length=32, blank=True)
    erased_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["event", "name"], name="event_text_once"),
            models.CheckConstraint(
                condition=Q(erased_at__isnull=True) | Q(text="", salt=""),
                name="event_text_erased_is_empty",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} of event {self.event_id}"


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

    Call inside the transaction of the change. The count is moved by an UPDATE first, which
    locks the row: two writers cannot take the same place, nor read a head about to move.
    """
    rows, pk = _chain(run, workspace_id)
    rows.filter(pk=pk).update(event_count=F("event_count") + len(entries))
    head = rows.only("event_count", "head_hash").get(pk=pk)
    first = head.event_count - len(entries) + 1
    previous = head.head_hash
    events, texts = [], []
    for seq, entry in enumerate(entries, first):
        # Only a run is about a customer; what is said of a workspace is about its people.
        plain, words = without_texts(entry.kind, entry.facts) if run else (entry.facts, {})
        beside = [_text(name, value) for name, value in words.items()]
        digests = {text.name: digest_of(text.salt, text.text) for text in beside}
        event = Event(
            workspace_id=workspace_id,
            run_id=run.pk if run else None,
            seq=seq,
            kind=entry.kind,
            facts={**plain, **({TEXTS: digests} if digests else {})},
            actor=entry.actor,
            at=at,
            previous=previous,
        )
        event.hash = previous = link(previous, linked(event))
        events.append(event)
        texts += [(event, text) for text in beside]
    Event.objects.bulk_create(events)
    for event, text in texts:
        text.event = event
    if texts:
        EventText.objects.bulk_create(text for _, text in texts)
    rows.filter(pk=pk).update(head_hash=previous)


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


def _text(name: str, value: Json) -> EventText:
    return EventText(name=name, text=canonical(value), salt=secrets.token_hex(16))


def texts_of(event: Event) -> dict[str, Text]:
    """Return the texts beside an event; prefetch "texts" where there are many events."""
    return {
        beside.name: Text(beside.salt, beside.text, beside.erased_at is not None)
        for beside in event.texts.all()
    }


def facts_of(event: Event) -> dict[str, Json]:
    """Return the facts of an event with its texts among them; for what is erased, when it was."""
    told = {name: value for name, value in event.facts.items() if name != TEXTS}
    for beside in event.texts.all():
        at = beside.erased_at
        if at is None:
            told[beside.name] = json.loads(beside.text)
        else:
            told.setdefault(beside.name, f"erased on {at:%Y-%m-%d}")
    return told


def _chain(run: Run | None, workspace_id: int) -> tuple[models.Manager[Any], Any]:
    """Return the rows and the key of the one that ends the chain."""
    from agents.models.run import Run
    from agents.models.workspace import Workspace

    return (Run.objects, run.pk) if run else (Workspace.objects, workspace_id)
