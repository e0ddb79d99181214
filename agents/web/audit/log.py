"""Find events: filters in the address, each by an index, and pages by keyset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db import connection
from django.db.models import BooleanField, Exists, F, Func, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce
from django.db.models.lookups import Exact
from django.http import QueryDict

from agents.core.event_kinds import FREQUENT, LEDGER
from agents.models import Archive, DatabaseSize, Effect, Escalation, Event, Run, Workspace
from agents.sdk.adjustments import label_of
from agents.shell.event_words import EventLine, read_events, tell_events
from agents.shell.formats import AMOUNTS, of_amount, read_amount, read_currency, read_time
from agents.shell.pages import occurring, whole_number

PAGE = 50
COUNTED = 10_000  # entries that are counted while a page is made
ENTRY_BYTES = 500  # per entry of a verifiable copy, with its share of the heads
FEW = 4000  # requests or calls of one amount that are looked up by their keys
RUNS = 500  # the newest of a subject or an amount
ABOUT = ("run__desk", "run__pattern", "run__subject_key", "run__subject_label")
FILTERS = (
    *("event", "person", "subject", "agent", *AMOUNTS),
    *("run", "since", "until", "all", "workspace"),
)
# Events of one moment may be written out of the order of their times.
DISORDER = timedelta(hours=1)
NEWEST = 2**63 - 1  # no event has a larger key


class IsLedger(Func):
    """True for the kinds of LEDGER, in the exact words of their index.

    SQLite uses a partial index only if a query repeats its condition without parameters.
    """

    template = f"%(expressions)s IN ({', '.join(map(repr, LEDGER))})"
    output_field = BooleanField()


class IsInfrequent(Func):
    """True for kinds other than FREQUENT, in the exact words of the index of kinds."""

    template = f"NOT (%(expressions)s IN ({', '.join(map(repr, FREQUENT))}))"
    output_field = BooleanField()


class BeginsChain(Func):
    """True for the first event of a chain, in the exact words of the index of times."""

    template = "%(expressions)s = 1"
    output_field = BooleanField()


class HasActor(Func):
    """True for what a person did, in the exact words of the index of actors."""

    template = "NOT (%(expressions)s = '')"
    output_field = BooleanField()


@dataclass(frozen=True)
class Filter:
    """A filter of the log; if a field is invalid, it is named and nothing matches."""

    given: dict[str, str]
    unreadable: str  # the invalid field, or ""

    @property
    def query(self) -> str:
        return urlencode(self.given)

    @property
    def unreadable_label(self) -> str:
        return _LABELS.get(self.unreadable, label_of(self.unreadable))

    @property
    def is_narrowed(self) -> bool:
        """Tell whether it leaves out events, apart from those of minor kinds."""
        return bool(self.given.keys() - {"all", "workspace"})

    def other(self, **changed: str) -> str:
        """Return the address with some fields replaced, or removed by ""."""
        return urlencode({key: text for key, text in {**self.given, **changed}.items() if text})

    @property
    def query_of_all(self) -> str:
        return self.other(all="1")

    @property
    def query_of_ledger(self) -> str:
        is_other = self.given.get("event", "") not in LEDGER
        return self.other(all="", **({"event": ""} if is_other else {}))


def read_filter(asked: QueryDict) -> Filter:
    """Read the filter of a page's address."""
    texts = {name: asked.get(name, "").strip() for name in FILTERS}
    given = {name: text for name, text in texts.items() if text}
    bad = [name for name, text in given.items() if _READERS[name](text) is None]
    return Filter(given, bad[0] if bad else "")


@dataclass(frozen=True)
class Found:
    """The events that match a filter, newest first."""

    events: QuerySet[Event]
    is_cut: bool = False  # limited to the newest RUNS runs


def events_of(workspace: Workspace) -> QuerySet[Event]:
    """Return all events of a workspace, newest first, with the columns of a line."""
    found = Event.objects.filter(workspace=workspace).order_by("-pk")
    # Of its run only the subject is read: a broken row must not hide its events.
    return found.select_related("run").only(*_COLUMNS, *ABOUT).prefetch_related("texts")


def find_events(workspace: Workspace, wanted: Filter) -> Found:
    """Return the events that match a filter."""
    found = events_of(workspace)
    given = wanted.given
    if wanted.unreadable:
        return Found(found.none())
    is_cut = False
    kinds: Func | Exact[Any] = IsLedger(F("kind"))
    if "event" in given:
        kinds = Exact(F("kind"), given["event"])
    if "person" in given:
        found = found.filter(HasActor(F("actor")), actor=given["person"])
        # PostgreSQL expects next to none of these kinds among what a person did, and would read and
        # sort all of it, unless it cannot see what is compared.
        kinds = Coalesce(kinds, False)
    elif given.get("event", FREQUENT[0]) not in FREQUENT:
        found = found.filter(IsInfrequent(F("kind")))
    if "event" in given or "all" not in given:
        found = found.filter(kinds)
    if "run" in given:
        found = found.filter(run__pk=given["run"])
    if "agent" in given:  # of its sessions: other events name it in words only
        found = found.filter(run__agent__name=given["agent"], run__agent__workspace=workspace)
    if given.keys() & {"subject", *AMOUNTS}:
        runs, is_cut = _runs(workspace, given)
        found = found.filter(run__in=runs)
    return Found(_within(found, workspace, read_time(given.get("since", "")), given), is_cut)


def kinds_of(workspace: Workspace) -> set[str]:
    """Return the kinds of a workspace's events; where a run began, it has the frequent ones."""
    condition = IsInfrequent.template % {"expressions": "e.kind"}
    found = occurring(Event, "kind", [workspace.pk], condition=condition)
    return found | (set(FREQUENT) if "run.queued" in found else set())


def archived_runs(workspace: Workspace, wanted: Filter) -> int:
    """Return the number of archived runs whose entries a filter might match."""
    gone = Archive.objects.filter(workspace=workspace, let_go_at__isnull=False)
    if since := read_time(wanted.given.get("since", "")):
        gone = gone.filter(before__gt=since)
    return gone.aggregate(runs=Sum("runs"))["runs"] or 0


@dataclass(frozen=True)
class CopySize:
    """The entries of a verifiable copy, as counted now or on a day (UTC)."""

    entries: int
    day: date | None = None

    @property
    def bytes(self) -> int:
        return self.entries * ENTRY_BYTES


def copy_size(workspaces: Sequence[Workspace], *, is_long: bool = False) -> CopySize | None:
    """Return how large a verifiable copy is: of a long log as last counted; None: never."""
    first = Event.objects.filter(workspace__in=workspaces).order_by()[: COUNTED + 1]
    here = COUNTED + 1 if is_long else first.count()
    if here <= COUNTED:
        return CopySize(here)
    last = DatabaseSize.objects.order_by("-day").first()
    entries = sum(last.entries.get(str(one.pk), 0) for one in workspaces) if last else 0
    return CopySize(entries, last.day) if last and entries else None


_COLUMNS = [field.name for field in Event._meta.concrete_fields]


def _within(
    found: QuerySet[Event], workspace: Workspace, since: datetime | None, given: dict[str, str]
) -> QuerySet[Event]:
    """Keep the events of a period, whose ends lie between two beginnings of chains."""
    begun = Event.objects.filter(BeginsChain(F("seq")), workspace=workspace)
    until = read_time(given.get("until", ""))
    if since:
        before = begun.filter(at__lt=since - DISORDER).order_by("-at", "-pk").values("pk")[:1]
        found = found.filter(at__gte=since, pk__gt=Coalesce(Subquery(before), 0))
    if until:
        after = begun.filter(at__gte=until + DISORDER).order_by("at", "pk").values("pk")[:1]
        found = found.filter(at__lt=until, pk__lt=Coalesce(Subquery(after), NEWEST))
    return found


def _runs(
    workspace: Workspace, given: dict[str, str]
) -> tuple[Sequence[UUID] | QuerySet[Run, Any], bool]:
    """Return the newest RUNS runs about a subject, or with an amount requested, granted or paid.

    Also return whether more were left out.
    """
    found = Run.objects.filter(workspace=workspace).order_by("-created_at", "-pk")
    if "subject" in given:
        found = found.filter(subject_key=given["subject"])
    if given.keys() & set(AMOUNTS):
        wanted = of_amount(given)
        held, moved = Escalation.objects.filter(wanted), Effect.objects.filter(wanted)
        if "subject" not in given:
            # A rare amount is found by its index; of a common one, the newest are found soon.
            # On SQLite adding 0 hides the column from its index, by which it would read all runs of
            # the workspace; without the index PostgreSQL would read those of all workspaces.
            of = F("run__workspace") + 0 if connection.vendor == "sqlite" else F("run__workspace")
            ours = moved.alias(of=of).filter(of=workspace.pk)
            both = (held.filter(workspace=workspace), ours)
            parts = [part.order_by().values_list("run_id", flat=True) for part in both]
            several = list(parts[0].union(parts[1], all=True)[: FEW + 1])
            keys = set(several)
            if len(keys) <= RUNS and len(several) <= FEW:
                return list(keys), False
            if len(several) <= FEW:
                times = Run.objects.filter(pk__in=keys).values_list("created_at", "pk")
                newest = [key for _, key in sorted(times, reverse=True)]
                return newest[:RUNS], len(newest) > RUNS
            found = _with(found, held, moved)
            if len(keys) > RUNS:
                return found.values("pk")[:RUNS], True
        else:
            found = _with(found, held, moved)
    runs = list(found.values_list("pk", flat=True)[: RUNS + 1])
    return runs[:RUNS], len(runs) > RUNS


def _with(
    runs: QuerySet[Run], held: QuerySet[Escalation], moved: QuerySet[Effect]
) -> QuerySet[Run]:
    """Keep the runs with a matching escalation or effect, by the indexes on their run."""
    key = OuterRef("pk")
    # As a range: for an equality PostgreSQL would hash every row.
    of_run = {"run": key} if connection.vendor == "sqlite" else {"run__gte": key, "run__lte": key}
    return runs.filter(Exists(held.filter(**of_run)) | Exists(moved.filter(**of_run)))


@dataclass(frozen=True)
class Page:
    """A page of the log, and where the next one begins."""

    lines: Sequence[EventLine]
    older: int | None  # the next page is older than this id; None: there is none


def page_of(found: QuerySet[Event], before: str) -> Page:
    """Return one page by keyset, whose cost does not depend on the log's length."""
    if whole_number(before) is not None:
        found = found.filter(pk__lt=int(before))
    rows = read_events(found, PAGE + 1)
    lines = tell_events(rows[:PAGE])
    return Page(lines, lines[-1].pk if len(rows) > PAGE else None)


def _storable(text: str) -> str | None:
    """Return a text that a row may hold; PostgreSQL rejects NUL."""
    return None if "\0" in text else text


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


_LABELS = {"since": "From", "until": "To"}
_READERS: dict[str, Callable[[str], object]] = {
    "event": _storable,
    "person": _storable,
    "subject": _storable,
    "agent": _storable,
    "amount_from": read_amount,
    "amount_to": read_amount,
    "currency": read_currency,
    "run": _uuid,
    "since": read_time,
    "until": read_time,
    "all": _storable,
    "workspace": _storable,
}
