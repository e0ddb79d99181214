"""The events that no head covers yet, by chain."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from uuid import UUID

from django.db import DatabaseError, connection, transaction
from django.db.models import Max

from agents.models import Event, Head, Run, Sealed, Workspace
from agents.record.chain import name_of

EVENTS = 10_000  # in one head at most; the rest goes into the next
CHUNK = 500  # rows in memory at once


class HeadsDiffer(Exception):
    """The database does not match its heads: it is an older copy or was changed."""


@dataclass
class UnsealedChain:
    """A chain with events that no head covers."""

    name: str
    workspace: int
    run: UUID | None
    since: int  # the seq of the last event that is sealed
    events: list[tuple[int, str]]  # those after it: seq and hash, in order

    @property
    def hashes(self) -> list[str]:
        return [found for _, found in self.events]

    @property
    def upto(self) -> int:
        return self.events[-1][0]


def unsealed_chains(since: int) -> tuple[list[UnsealedChain], int]:
    """Return the chains with events to seal, and the highest event key that was read.

    Reads the events after the key `since`, however many chains there are.
    """
    found: dict[str, UnsealedChain] = {}
    reach: dict[str, int] = {}
    sealed = _SealedHashes(newest_first=bool(since))
    count, seen = 0, since
    columns = ("pk", "workspace_id", "run_id", "seq", "hash")
    rows = Event.objects.filter(pk__gt=since).order_by("pk").values_list(*columns).iterator(CHUNK)
    while count < EVENTS and (some := list(islice(rows, min(CHUNK, EVENTS - count)))):
        names = [name_of(workspace=workspace, run=run) for _, workspace, run, *_ in some]
        unknown = set(names) - reach.keys()
        reach |= dict.fromkeys(unknown, 0) | _counted_as_sealed(unknown)
        for name, (seen, workspace, run, seq, hashed) in zip(names, some, strict=True):  # noqa: B007
            if seq > reach[name]:
                chain = found.setdefault(name, UnsealedChain(name, workspace, run, reach[name], []))
                chain.events.append((seq, hashed))
                count += 1
            else:
                sealed.demand(hashed, name)
    chains = list(found.values())
    # Not one after another, for all that we wrote: what lies between is below `since`.
    has_gaps = [chain for chain in chains if _fill_gaps(chain)]
    heads = Head.objects.all() if has_gaps or not since else Head.objects.filter(upto=since)
    _refuse_sealed(chains, heads.order_by("number").iterator(10) if chains else ())
    return chains, seen


class _SealedHashes:
    """The hashes that heads seal, read one head at a time and only as far as needed.

    Events are looked up in the order in which heads seal them, so few hashes stay in memory.
    """

    def __init__(self, *, newest_first: bool) -> None:
        self._heads = Head.objects.order_by("-number" if newest_first else "number").iterator(10)
        self._ahead = set[str]()  # hashes that were read and not looked up yet

    def demand(self, hashed: str, chain: str) -> None:
        """Refuse to seal if `agents_sealed`, which no seal protects, counts an event no head has.

        Raises HeadsDiffer.
        """
        while hashed not in self._ahead:
            head = next(self._heads, None)
            if head is None:
                raise _miscount_error("more", chain)
            self._ahead.update(*(hashes for _, hashes in head.plain().chains()))
        self._ahead.remove(hashed)


def _refuse_sealed(chains: Iterable[UnsealedChain], heads: Iterable[Head]) -> None:
    """Refuse to seal events that one of `heads` already has. Raises HeadsDiffer.

    Heads as far as the newest one's `upto` may hold events above it.
    """
    new = {hashed: chain.name for chain in chains for hashed in chain.hashes}
    for head in heads:
        for _, hashes in head.plain().chains():
            if again := new.keys() & hashes:
                raise _miscount_error("fewer", min(new[hashed] for hashed in again))


def _miscount_error(how: str, chain: str) -> HeadsDiffer:
    return HeadsDiffer(
        f"The table agents_sealed counts {how} events of {chain} than the heads have: nothing is "
        "sealed. Run manage.py verify_audit, and correct the count that it names."
    )


def _counted_as_sealed(names: Collection[str]) -> dict[str, int]:
    sealed = Sealed.objects.filter(chain__in=names)
    return dict(sealed.values_list("chain", "event_count"))


def _fill_gaps(chain: UnsealedChain) -> bool:
    """Reload a chain's events if some are missing between. Return whether any were."""
    chain.events.sort()
    wanted = range(chain.since + 1, chain.since + 1 + len(chain.events))
    if [seq for seq, _ in chain.events] == list(wanted):
        return False
    mine = Event.objects.filter(workspace=chain.workspace, run=chain.run)
    between = mine.filter(seq__gt=chain.since, seq__lte=chain.upto).order_by("seq")
    chain.events = list(between.values_list("seq", "hash"))
    return True


def newest_final_key() -> int | None:
    """Return the highest key below which no event can still be added, or None if unknown.

    PostgreSQL assigns keys before commit, and a transaction that adds events locks the table until
    then. Once we hold a conflicting lock, even for a moment, no lower key can appear. SQLite has
    one writer at a time.
    """
    try:
        with transaction.atomic():
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute("SET LOCAL lock_timeout = 100")  # milliseconds writers may wait
                    cursor.execute("LOCK TABLE agents_event IN SHARE MODE")
            return Event.objects.aggregate(newest=Max("pk"))["newest"] or 0
    except DatabaseError:
        return None


def chains_of_version_1() -> dict[str, list[str]]:
    """Return the chains of each workspace in heads of version 1; reads all these heads once."""
    heads = Head.objects.filter(workspaces__isnull=True).values_list("moved", flat=True)
    chains = {chain for moved in heads.iterator(100) for chain in moved}
    found: dict[str, list[str]] = {}
    for pk in Workspace.objects.values_list("pk", flat=True):
        found.setdefault(str(pk), []).append(name_of(workspace=pk))
    for run, pk in Run.objects.values_list("pk", "workspace_id").iterator():
        found.setdefault(str(pk), []).append(name_of(workspace=pk, run=run))
    return {name: [chain for chain in mine if chain in chains] for name, mine in found.items()}
