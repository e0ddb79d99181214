"""Seal the record: put the new events of every chain into a head, in the database and outside."""

import fcntl
import hmac
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import dropwhile, islice
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import Max
from django.utils import timezone

from agents.engine.upkeep import NotDone
from agents.models import Event, Head, Run, Sealed, Workspace
from agents.models.record import UNREADABLE
from agents.record import seals
from agents.record.seals import SealedHead, as_line, from_line, name_of, spell_time

_looked_at: datetime | None = None  # when this process last sealed what was due


class NoKey(Exception):
    """This process was deliberately given no key to seal with."""


def keys() -> dict[str, str]:
    """Return the keys for checking seals, by id."""
    given = [settings.OPSCONSOLE_AUDIT_KEY, *settings.OPSCONSOLE_AUDIT_OLD_KEYS]
    return {seals.key_id(key): key for key in given if key}


def seal_in_sweep() -> int:
    """Seal what is due. Raises NotDone, OSError."""
    try:
        return seal_when_due(at=timezone.now())
    except (NoKey, HeadsDiffer, Unreadable) as error:
        raise NotDone(str(error)) from error


def seal_when_due(*, at: datetime) -> int:
    """Seal if the newest head is OPSCONSOLE_SEAL_SECONDS old. Return the number of new heads.

    Each process tries at most once per period: with nothing new to seal, no newer head appears.
    """
    global _looked_at
    period = timedelta(seconds=settings.OPSCONSOLE_SEAL_SECONDS)
    if not settings.OPSCONSOLE_AUDIT_KEY:
        return 0
    if not period or (_looked_at and _looked_at <= at < _looked_at + period):
        return 0
    newest = Head.objects.order_by("-number").first()
    # A head dated in the future comes from a wrong clock and is no reason to wait.
    if newest and timedelta() <= at - newest.at < period:
        return 0
    made = seal(at=at)
    _looked_at = at
    return len(made)


def seal(*, at: datetime, begin_file: bool = False, lost_key: str = "") -> list[seals.SealedHead]:
    """Seal all new events. Return the new heads, none if there is nothing to seal.

    Heads are written to the database first; those that a crash kept from the file are added by the
    next seal. A missing file is created only with `begin_file`, and a head of a key that this
    process lacks is followed only if `lost_key` is that key's id. Raises NoKey, HeadsDiffer,
    Unreadable, OSError.
    """
    if not settings.OPSCONSOLE_AUDIT_KEY:
        raise NoKey("This process has no key (OPSCONSOLE_AUDIT_KEY is none): it seals nothing.")
    made: list[seals.SealedHead] = []
    with open_heads(settings.OPSCONSOLE_HEADS_FILE) as kept:
        last = kept.newest()
        try:
            _compare(last, begin_file, lost_key)
            final = newest_final_key()
            while head := _seal_once(at, final):
                made.append(head)
            if lost_key and not made and not _is_newest_ours():
                raise HeadsDiffer(
                    "Nothing is new, so no head of this process's key follows, and the next seal "
                    "would be refused: have something put on record, as manage.py export_audit "
                    "does, and run this again."
                )
        except UNREADABLE as error:
            raise HeadsDiffer(
                "A head or an event in the database cannot be read: nothing is sealed. "
                "Run manage.py verify_audit, which names it."
            ) from error
        unkept = Head.objects.filter(number__gt=last.number if last else 0)
        kept.add(head.plain() for head in unkept.order_by("number").iterator(100))
    return made


def _is_newest_ours() -> bool:
    newest = Head.objects.order_by("-number").values_list("key", flat=True).first()
    return newest is None or newest in keys()


def _compare(last: seals.SealedHead | None, begin_file: bool, lost_key: str) -> None:
    """Refuse to seal after a head of an unknown key, or if the database lacks the file's last head.

    Raises HeadsDiffer.
    """
    newest = Head.objects.order_by("-number").first()
    if newest and newest.key not in {*keys(), lost_key}:
        raise HeadsDiffer(
            f"Head {newest.number} was sealed with the key {newest.key}, which this process "
            "lacks, so nothing is sealed: put that key into OPSCONSOLE_AUDIT_KEY, or after a "
            "rotation into OPSCONSOLE_AUDIT_OLD_KEYS. If nobody has it any more, run "
            f"manage.py seal_audit --lost-key {newest.key}: its heads can never be checked again."
        )
    if last is None:
        # A crash between database and file can lose only the first head; more means removal.
        if not begin_file and (count := Head.objects.filter(number__gt=1).count()):
            raise HeadsDiffer(
                f"The file of heads is gone or empty, and this database has {count + 1}: nothing "
                "is sealed, because an older copy could not be told apart. Put the file back; or "
                "run manage.py verify_audit with a copy kept elsewhere, and then "
                "manage.py seal_audit --begin-file."
            )
        if newest:
            _refuse_forged(None)
        return
    is_newest = newest is None or newest.number == last.number  # as a rule: one query less
    stored = newest if is_newest else Head.objects.filter(number=last.number).first()
    if stored is None or stored.plain() != last:
        raise HeadsDiffer(
            f"Head {last.number} is kept outside this database, which does not have it: it is an "
            "older copy or another one, and nothing is sealed. Run manage.py verify_audit; after "
            "an intended restore, put the file of heads aside, keep it, and run "
            "manage.py seal_audit --begin-file."
        )
    if not is_newest:
        _refuse_forged(last)


def _refuse_forged(last: seals.SealedHead | None) -> None:
    """Refuse heads after the file's last that do not chain to one of our own. Raises HeadsDiffer.

    Otherwise someone who can only insert rows could make us seal after theirs.
    """
    number, seal = (last.number, last.seal) if last else (0, "")
    forged, head = 0, None
    for row in Head.objects.filter(number__gt=number).order_by("number").iterator(10):
        head = row.plain()
        if not forged and (head.number, head.before) != (number + 1, seal):
            forged = head.number
        number, seal = head.number, head.seal
    key = keys().get(head.key) if head else None
    if forged or (head and key and not seals.is_sealed(head, key)):
        raise HeadsDiffer(
            f"Head {forged or number} is in the database and was not made by this program: nothing "
            "is sealed. Run manage.py verify_audit; docs/operations.md (Forged heads) says how to "
            "go on."
        )


def _seal_once(at: datetime, final: int | None) -> seals.SealedHead | None:
    """Make the next head of at most EVENTS events. None: nothing is new, or another sealer won."""
    # Read before the events: if another sealer takes this number, our insert fails.
    newest = Head.objects.order_by("-number").first()
    since = _sealed_up_to(newest) if newest else 0
    grown, seen = _unsealed_chains(since)
    if not grown:
        return None
    number, before = (newest.number + 1, newest.seal) if newest else (1, "")
    moved: dict[str, dict[str, list[str]]] = {}
    for chain in grown:
        moved.setdefault(str(chain.workspace), {})[chain.name] = chain.hashes
    earlier = _chains_of_version_1() if newest and newest.workspaces is None else {}
    parts = {
        name: seals.part_of(moved.get(name, {}), earlier.get(name))
        for name in moved.keys() | earlier.keys()
    }
    bare = seals.SealedHead(
        number, spell_time(at), key="", before=before, moved={}, workspaces=parts
    )
    head = seals.seal_head(bare, settings.OPSCONSOLE_AUDIT_KEY)
    # An open transaction may still commit an event with a lower key.
    upto = since if final is None else min(seen, final)
    reached = [Sealed(chain=chain.name, event_count=chain.upto) for chain in grown]
    try:
        with transaction.atomic():
            Head.objects.create(
                number=number,
                at=at,
                key=head.key,
                before=before,
                moved={},
                workspaces=parts,
                upto=upto,
                proof=_proof(head.seal, upto, settings.OPSCONSOLE_AUDIT_KEY),
                seal=head.seal,
            )
            Sealed.objects.bulk_create(
                reached,
                update_conflicts=True,
                unique_fields=["chain"],
                update_fields=["event_count"],
            )
    except IntegrityError:
        return None
    return head


def _sealed_up_to(head: Head) -> int:
    """Return the key up to which every event is sealed, or 0 if the head cannot prove its own.

    The seal does not cover `upto`, and a forged higher one would keep events out of every head.
    """
    key = keys().get(head.key)
    if head.upto is None or head.proof is None or key is None:
        return 0
    is_ours = hmac.compare_digest(head.proof.encode(), _proof(head.seal, head.upto, key).encode())
    return head.upto if is_ours else 0


def _proof(seal: str, upto: int, key: str) -> str:
    return seals.keyed_digest(key, ["upto", seal, upto])


# The events that no head covers yet, by chain.


EVENTS = 10_000  # in one head at most; the rest goes into the next
CHUNK = 500  # rows in memory at once


class HeadsDiffer(Exception):
    """The database does not match its heads: it is an older copy or was changed."""


@dataclass
class _UnsealedChain:
    """A chain with events that no head covers."""

    name: str
    workspace: int
    run: UUID | None
    since: int  # the seq of the last event that is sealed
    events: list[tuple[int, str]]  # those after it: seq and hash, in order

    @property
    def hashes(self) -> list[str]:
        return [hashed for _, hashed in self.events]

    @property
    def upto(self) -> int:
        return self.events[-1][0]


def _unsealed_chains(since: int) -> tuple[list[_UnsealedChain], int]:
    """Return the chains with events to seal, and the highest event key that was read.

    Reads the events after the key `since`, however many chains there are.
    """
    by_name: dict[str, _UnsealedChain] = {}
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
                chain = by_name.setdefault(
                    name, _UnsealedChain(name, workspace, run, reach[name], [])
                )
                chain.events.append((seq, hashed))
                count += 1
            else:
                sealed.demand(hashed, name)
    chains = list(by_name.values())
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


def _refuse_sealed(chains: Iterable[_UnsealedChain], heads: Iterable[Head]) -> None:
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


def _fill_gaps(chain: _UnsealedChain) -> bool:
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


def _chains_of_version_1() -> dict[str, list[str]]:
    """Return the chains of each workspace in heads of version 1; reads all these heads once."""
    heads = Head.objects.filter(workspaces__isnull=True).values_list("moved", flat=True)
    chains = {chain for moved in heads.iterator(100) for chain in moved}
    by_key: dict[str, list[str]] = {}
    for pk in Workspace.objects.values_list("pk", flat=True):
        by_key.setdefault(str(pk), []).append(name_of(workspace=pk))
    for run, pk in Run.objects.values_list("pk", "workspace_id").iterator():
        by_key.setdefault(str(pk), []).append(name_of(workspace=pk, run=run))
    return {name: [chain for chain in mine if chain in chains] for name, mine in by_key.items()}


# The copy of the heads outside the database: a file of JSON lines that is only appended to.
#
# It reveals an older copy of the database, and a record cut short together with its heads. So does
# any copy of the file that the attacker could not reach.


_NUMBER = re.compile(rb'"number":(\d{1,18}),')
_BLOCK = 65536  # bytes read at once, from the end


class Unreadable(Exception):
    """A line of the file is not a head; the message names it."""


@dataclass(frozen=True)
class _KeptHeads:
    """The file, opened and locked against other sealers."""

    descriptor: int

    def newest(self) -> SealedHead | None:
        """Return the last head, or None. First truncate a line torn by a crash.

        A last line that lacks only its newline is complete: the newline is added.
        """
        end = os.fstat(self.descriptor).st_size
        tail = b""
        while end and tail.count(b"\n") < 2:
            start = max(0, end - _BLOCK)
            tail = os.pread(self.descriptor, end - start, start) + tail
            end = start
        whole, _, torn = tail.rpartition(b"\n")
        if torn and (head := _whole(torn)):
            os.write(self.descriptor, b"\n")
            return head
        if torn:
            os.ftruncate(self.descriptor, os.fstat(self.descriptor).st_size - len(torn))
        line = whole.rpartition(b"\n")[2]
        return _read_head(line, "its last line") if line else None

    def add(self, heads: Iterable[SealedHead]) -> None:
        """Append heads and sync them to disk."""
        lines = "".join(map(as_line, heads)).encode()
        while lines:
            lines = lines[os.write(self.descriptor, lines) :]
        os.fsync(self.descriptor)


@contextmanager
def open_heads(path: Path) -> Iterator[_KeptHeads]:
    """Open the file, creating it if missing, and lock it: other sealers wait."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield _KeptHeads(descriptor)
    finally:
        os.close(descriptor)


def count(path: Path, since: int = 0) -> tuple[int, bool]:
    """Return the number of heads in a file from head `since` on, and whether its last line is torn.

    A torn line is being written or was left by a crash; it is not counted. Raises Unreadable,
    OSError.
    """
    number = 0
    with path.open("rb") as file:
        for line in _lines(file, since):
            if not line.endswith(b"\n") and _whole(line) is None:
                return number, True
            number += 1
            _read_head(line, f"line {number}")
    return number, False


def read_heads(path: Path, most: int, since: int = 0) -> Iterator[SealedHead]:
    """Yield at most `most` heads of a file, from head `since` on. Raises Unreadable, OSError."""
    with path.open("rb") as file:
        for number, line in enumerate(islice(_lines(file, since), most), start=1):
            yield _read_head(line, f"line {number}")


def _lines(file: Iterable[bytes], since: int) -> Iterator[bytes]:
    """Yield the lines from head `since` on; earlier ones are not parsed."""

    def is_before(line: bytes) -> bool:
        number = _NUMBER.search(line)
        return number is not None and int(number[1]) < since

    return dropwhile(is_before, file) if since else iter(file)


def _whole(line: bytes) -> SealedHead | None:
    try:
        return _read_head(line, "")
    except Unreadable:
        return None


def _read_head(line: bytes, where: str) -> SealedHead:
    try:
        return from_line(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{where} is not a head") from error
