"""The record: events, the seals over them, verifications and archives.

Events are only ever added, each bound to the previous one by its hash.

Personal data is stored beside the event, with only a salted digest in the chain, so that it can be
erased without breaking the chain (record.seals, decision 8).
"""

import json
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self
from uuid import UUID

from django.apps import apps
from django.core.exceptions import ObjectDoesNotExist
from django.db import DataError, models
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from agents.core.json_forms import canonical
from agents.core.requests import Json
from agents.db.compiled import CompiledSelect, CompiledUpdate, Param, send_columns
from agents.db.driver import pipeline
from agents.models.keys import check, index, once
from agents.models.notifications import Notification, notifications_of
from agents.record import seals
from agents.record.event_kinds import FREQUENT, LEDGER, without_texts
from agents.record.seals import TEXTS, Text, digest_of, link, spell_time


class Event(models.Model):
    """One line of the record, written in the transaction of the change it describes."""

    # No index of its own where another one begins with it.
    workspace = models.ForeignKey(
        "agents.Workspace", models.PROTECT, related_name="events", db_index=False
    )
    run = models.ForeignKey(
        "agents.Run", models.PROTECT, null=True, related_name="events", db_index=False
    )
    seq = models.PositiveBigIntegerField()  # from 1, without gaps, in its chain
    kind = models.CharField(max_length=40)
    facts = models.JSONField(default=dict)
    actor = models.CharField(max_length=150, blank=True)  # a user's name; "" is the engine
    at = models.DateTimeField()
    previous = models.CharField(max_length=64, blank=True)
    hash = models.CharField(max_length=64)

    class Meta:
        constraints = [
            once("event_seq_once_in_run", "run", "seq"),
            once("event_seq_once_in_workspace", "workspace", "seq", where=Q(run__isnull=True)),
        ]
        indexes = [
            # The audit log, newest first: all of it, also for a frequent kind; decisions and money;
            # then by any other kind, by person and by time.
            index("event_log", "workspace", "id", "kind"),
            index("event_ledger", "workspace", "id", "kind", where=Q(kind__in=LEDGER)),
            index("event_kind", "workspace", "kind", "id", where=~Q(kind__in=FREQUENT)),
            index("event_actor", "workspace", "actor", "id", where=~Q(actor="")),
            # The ends of a period, by the times at which chains begin.
            index("event_time", "workspace", "at", where=Q(seq=1)),
        ]


class EventText(models.Model):
    """One text of an event. It may be erased, once, and is never changed otherwise."""

    event = models.ForeignKey(Event, models.CASCADE, related_name="texts", db_index=False)
    name = models.CharField(max_length=40)
    text = models.TextField(blank=True)  # JSON in its canonical form; "" once erased
    salt = models.CharField(max_length=32, blank=True)
    erased_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            once("event_text_once", "event", "name"),
            check("event_text_erased_is_empty", Q(erased_at__isnull=True) | Q(text="", salt="")),
        ]


@dataclass(frozen=True)
class Entry:
    """An event to be written: a kind, facts without fractions, and the actor ("" is the engine)."""

    kind: str
    facts: Json = field(default_factory=dict)
    actor: str = ""


# Whose command acts for people in this context: command: and the account's name; "": none.
_ACCOUNT: ContextVar[str] = ContextVar("account", default="")


@contextmanager
def by_command(account: str) -> Iterator[None]:
    """Mark every event with an actor in this block as made by a command of this account."""
    token = _ACCOUNT.set(account)
    try:
        yield
    finally:
        _ACCOUNT.reset(token)


def commanding_account() -> str:
    """Return the account whose command acts here, or ""."""
    return _ACCOUNT.get()


def append_events(
    entries: Sequence[Entry], *, workspace_id: int, at: datetime, run_id: UUID | None = None
) -> None:
    """Add events to the chain of a run or, without one, of the workspace.

    Call inside the transaction of the change. The row with the chain's end is locked first, so
    that two writers cannot take the same place.
    """
    head, move_head = _CHAINS["agents.Run" if run_id else "agents.Workspace"]
    pk = run_id or workspace_id
    [(_, *end)] = head.tuples(pk=pk)
    after = (end[0], end[1])
    lines = chain_events(entries, workspace_id=workspace_id, run_id=run_id, after=after, at=at)
    with pipeline():
        lines.send()
    count, newest = lines.end
    move_head(pk=pk, count=count, hash=newest)


@dataclass(frozen=True)
class Lines:
    """Events that follow the end of a chain, with the texts beside them; not written yet."""

    events: list[dict[str, Any]]  # the columns of each
    texts: list[dict[str, Any]]  # the columns of each
    end: tuple[int, str]  # of the chain, once they are written: its count and hash

    def send(self) -> None:
        """Insert them, within `pipeline`; the caller holds the lock on the chain's end."""
        if self.events:
            send_columns(Event, self.events)
        if self.texts:
            send_columns(EventText, self.texts, keys={"event_id": _EVENT})
        if rows := notifications_of(self.events):  # in the same transaction, so none is missed
            send_columns(Notification, rows)


def chain_events(
    entries: Sequence[Entry],
    *,
    workspace_id: int,
    run_id: UUID | None,
    after: tuple[int, str],
    at: datetime,
) -> Lines:
    """Return events that follow the count and the hash that end a chain."""
    count, previous = after
    events: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    account = commanding_account()
    via = {"via": "command", "account": account} if account else {}
    for place, entry in enumerate(entries, 1):
        # Texts about outsiders are in chains of runs. A workspace's chain is about its own people,
        # and its erasure events name the erased subject by a key that has to stay.
        plain, words = without_texts(entry.kind, entry.facts) if run_id else (entry.facts, {})
        seq = count + place
        beside = [_text(name, value, {"run": run_id, "seq": seq}) for name, value in words.items()]
        digests = {text["name"]: digest_of(text["salt"], text["text"]) for text in beside}
        columns: dict[str, Any] = {
            "workspace_id": workspace_id,
            "run_id": run_id,
            "seq": seq,
            "kind": entry.kind,
            "facts": {
                **plain,
                **(via if entry.actor else {}),
                **({TEXTS: digests} if digests else {}),
            },
            "actor": entry.actor,
            "at": at,
        }
        newest = link(previous, _hashed_parts(columns))
        events.append({**columns, "previous": previous, "hash": newest})
        texts += beside
        previous = newest
    return Lines(events, texts, (count + len(events), previous))


def hashed_parts(event: Event) -> dict[str, Json]:
    """Return what the hash of an event covers, besides the hash before it."""
    return _hashed_parts(vars(event))


def _hashed_parts(columns: Mapping[str, Any]) -> dict[str, Json]:
    run = columns["run_id"]
    same = {name: columns[name] for name in ("seq", "kind", "facts", "actor", "at")}
    return {"workspace": columns["workspace_id"], "run": str(run) if run else None, **same}


_EVENT = CompiledSelect(lambda: Event.objects.filter(run=Param("run"), seq=Param("seq")).only("pk"))


def _text(name: str, value: Json, event: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a text; `event` is the parameter by which its event is found."""
    text, salt = canonical(value), secrets.token_hex(16)
    return {"event_id": event, "name": name, "text": text, "salt": salt, "erased_at": None}


class ErasedText(str):
    """The time of erasure, instead of an erased text."""

    @property
    def sentence(self) -> str:
        return f"The text was {self}."


def texts_of(event: Event) -> dict[str, Text]:
    """Return the texts beside an event; prefetch "texts" for many events."""
    return {
        beside.name: Text(beside.salt, beside.text, beside.erased_at is not None)
        for beside in event.texts.all()
    }


# The errors that reading a row raises if another program wrote a value of the wrong type.
UNREADABLE = (
    *(AttributeError, KeyError, TypeError, ValueError, OverflowError, DataError),
    RecursionError,  # JSON in JSON in JSON
    ObjectDoesNotExist,  # a row that is referred to is gone
)


def facts_of(event: Event, texts: Iterable[EventText] | None = None) -> dict[str, Json]:
    """Return an event's facts and texts; an erased text is replaced by the time of erasure.

    `texts` are those beside it, if they were read with it.
    """
    facts = {name: value for name, value in event.facts.items() if name != TEXTS}
    for beside in event.texts.all() if texts is None else texts:
        at = beside.erased_at
        if at is None:
            facts[beside.name] = json.loads(beside.text)
        else:
            facts.setdefault(beside.name, ErasedText(f"erased on {at:%Y-%m-%d}"))
    return facts


def _head(name: str) -> tuple[CompiledSelect[Any], CompiledUpdate]:
    def at_end() -> models.QuerySet[Any]:
        return apps.get_model(name).objects.filter(pk=Param("pk"))

    head = CompiledSelect(
        lambda: at_end().select_for_update(no_key=True).only("event_count", "head_hash")
    )
    return head, CompiledUpdate(at_end, event_count=Param("count"), head_hash=Param("hash"))


_CHAINS = {name: _head(name) for name in ("agents.Run", "agents.Workspace")}


class Head(models.Model):
    """One seal over the new events of all chains; the newest covers the whole record.

    A copy of each is kept outside the database.
    """

    number = models.PositiveBigIntegerField(primary_key=True)  # from 1; two sealers collide here
    at = models.DateTimeField()
    key = models.CharField(max_length=12)  # the id of the key, not the key
    before = models.CharField(max_length=64, blank=True)
    moved = models.JSONField()  # version 1: chain -> hashes since the head before
    workspaces = models.JSONField(null=True)  # version 2: workspace -> its part, see record.seals
    # Every event up to this key is sealed, so the next seal starts here.
    upto = models.PositiveBigIntegerField(null=True)
    # Proves `upto` with the key. Null for older heads, so that SQLite need not copy them.
    proof = models.CharField(max_length=64, null=True)  # noqa: DJ001
    seal = models.CharField(max_length=64)

    class Meta:
        indexes = [
            # The proof of a run: the head that seals its last event.
            index("head_upto", "upto", "number")
        ]

    def plain(self) -> seals.SealedHead:
        return seals.SealedHead(
            number=self.number,
            at=spell_time(self.at),
            key=self.key,
            before=self.before,
            moved=self.moved,
            seal=self.seal,
            workspaces=self.workspaces,
        )


class Sealed(models.Model):
    """How far the heads reach in one chain, so that the next seal need not read them all.

    No seal covers it: sealing and verify_audit check it against the heads.
    """

    chain = models.CharField(max_length=60, primary_key=True)
    event_count = models.PositiveBigIntegerField()


class JobEnded(Exception):
    """The job was cancelled or taken over, or its worker is stopping."""


class Job(models.Model):
    """Work that a person asks for on a page. What takes it shows progress and writes the result.

    Each taking counts as a try: one that was taken over writes nothing any more.
    """

    BETWEEN = 1.0  # seconds between two signs of life
    SILENT = timedelta(minutes=1)  # after which whoever took it counts as dead
    TRIES = 3  # that may die over one job
    FAILED = "It was begun three times, and each time what did it ended. Ask the operator."
    _told_at = 0.0

    asked_at = models.DateTimeField()
    seen_at = models.DateTimeField(null=True)  # last sign of life; null: nobody has it
    tries = models.PositiveSmallIntegerField(default=0)
    done = models.PositiveBigIntegerField(default=0)
    total = models.PositiveBigIntegerField(default=0)
    ended_at = models.DateTimeField(null=True)
    outcome = models.JSONField(null=True)  # or {"failed"}

    class Meta:
        abstract = True

    @classmethod
    def take(cls) -> Self | None:
        """Return the oldest job that nobody does; one that was tried too often ends."""
        at, rows = timezone.now(), cls._default_manager
        is_free = Q(seen_at=None) | Q(seen_at__lt=at - cls.SILENT)
        free = rows.filter(is_free, ended_at=None).order_by("pk")
        for job in free[:10]:
            if free.filter(pk=job.pk, tries=job.tries).update(seen_at=at, tries=F("tries") + 1):
                taken = rows.get(pk=job.pk)
                if taken.tries <= cls.TRIES:
                    return taken
                taken.end({"failed": cls.FAILED})
        return None

    @property
    def mine(self) -> QuerySet[Self]:
        """Return the job itself, unless it has ended or was taken over."""
        rows = type(self)._default_manager
        return rows.filter(pk=self.pk, tries=self.tries, ended_at=None)

    def tell(self, done: int) -> None:
        """Show progress, once a second. Raises JobEnded."""
        if time.monotonic() - self._told_at >= self.BETWEEN:
            self._told_at = time.monotonic()
            if not self.mine.update(done=done, seen_at=timezone.now()):
                raise JobEnded

    def leave(self, *, is_tried: bool = False) -> None:
        """Let another worker, or this one, take it."""
        self.mine.update(seen_at=None, tries=F("tries") - int(not is_tried))

    def end(self, outcome: Json) -> bool:
        """Write the result, unless it has ended or was taken over; return whether."""
        return bool(self.mine.update(ended_at=timezone.now(), done=F("total"), outcome=outcome))


class Verification(Job):
    """A verification on request: a worker runs it, the page shows its progress.

    Its result becomes an event too, unless it was cancelled.
    """

    by = models.ForeignKey("auth.User", models.CASCADE, related_name="+", db_index=False)
    workspaces = models.JSONField()  # their ids
    cancelled_at = models.DateTimeField(null=True)
    is_full = models.BooleanField(default=False, db_default=False)  # all is to be read

    class Meta:
        constraints = [once("verification_one_each", "by", where=Q(ended_at=None))]
        indexes = [index("verification_newest", "by", "-id")]


class VerifiedHead(models.Model):
    """The head up to which a workspace's record was valid; see agents.audit.verify."""

    workspace = models.OneToOneField("agents.Workspace", models.CASCADE, primary_key=True)
    head = models.PositiveBigIntegerField()
    seal = models.CharField(max_length=64)
    upto = models.PositiveBigIntegerField()
    full_at = models.DateTimeField()  # when all of it was last read
    proof = models.CharField(max_length=64)  # made with the audit key


class Archive(models.Model):
    """The chains of some runs of a workspace, in a file outside the database.

    An event of the workspace records it. Once that event is sealed, the triggers allow deleting the
    runs' events.
    """

    workspace = models.ForeignKey("agents.Workspace", models.PROTECT, related_name="archives")
    number = models.PositiveIntegerField()  # from 1 in its workspace
    before = models.DateTimeField()  # its runs ended before this
    at = models.DateTimeField()
    runs = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=64)  # of the file with the record
    tombstones = models.CharField(max_length=64)  # the digest over those of its runs
    seq = models.PositiveBigIntegerField()  # of the event, in the workspace's chain
    let_go_at = models.DateTimeField(null=True)  # since then only the file has the events

    class Meta:
        constraints = [once("archive_number_once", "workspace", "number")]


class Tombstone(models.Model):
    """The remains of an archived run's chain. It never changes."""

    run = models.OneToOneField("agents.Run", models.PROTECT, primary_key=True, related_name="+")
    archive = models.ForeignKey(Archive, models.PROTECT, related_name="+")
    event_count = models.PositiveBigIntegerField()  # in the file
    head_hash = models.CharField(max_length=64)  # of the last of them
    sha256 = models.CharField(max_length=64)  # of the run's remaining rows
