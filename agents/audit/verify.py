"""Prove the record: heads by each other and the file, chains by heads, rows by events.

One file, as the order of the steps matters to the proof; a worker proves what the page asks for.
"""

import asyncio
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.db import DEFAULT_DB_ALIAS, DatabaseError, IntegrityError, connections, transaction
from django.db.models import Max, QuerySet
from django.utils import timezone

from agents.audit import protection, sealing
from agents.audit.chains import (
    CHUNK,
    Chain,
    SealedChains,
    Step,
    any_text,
    chains,
    is_sure,
    list_false_keys,
    no_step,
    with_keys,
)
from agents.audit.rows_in_tables import without_intent
from agents.engine.runtime.database import VERIFYING_THREADS
from agents.models import Event, Head, Role, Run, Sealed, Verification, VerifiedHead, Workspace
from agents.models.record import UNREADABLE, JobEnded
from agents.record import seals
from agents.record.seals import Fault, name_of, run_keys, spell_time
from agents.shell.refusal import Refused, require_member

log = logging.getLogger(__name__)

LONGEST = timedelta(days=7)  # then everything is read again
NAMED = 20  # faults that are recorded
_KEPT = "heads kept elsewhere"
_HEADS = 10  # in memory at once; each has up to 10,000 hashes
_FAULTS = 1_000  # that are named; more are only counted


@dataclass(frozen=True)
class Proof:
    """The result of a verification: how much was checked, and the faults found."""

    chains: int
    heads: int
    keys: int  # that seals were checked with
    compared: int  # heads that the file outside the database has too
    loose: int  # events that no head covers
    between: tuple[datetime, datetime] | None  # times of the first and last of them
    faults: list[Chain]  # the first _FAULTS of them
    more: int = 0  # further faults
    is_torn: bool = False  # the last line of the file was incomplete
    only_times: bool = False  # only times are wrong
    foreign: str = ""  # triggers and rules on a company's own tables
    since: VerifiedHead | None = None  # where it continued from; None: everything was read
    unread: int = 0  # chains that were skipped because of that
    reached: VerifiedHead | None = None  # where the next can continue, if no fault was found

    def limits(self) -> list[str]:
        """Return sentences on what was compared and what was not."""
        notes = ["Nothing was compared with heads kept outside the database."]
        if self.compared:
            heads = "1 head was" if self.compared == 1 else f"{self.compared} heads were"
            if self.compared < self.heads:
                heads = f"{self.compared} of {self.heads} heads were"
            notes = [f"{heads} compared with those kept outside the database."]
        if self.is_torn:
            notes.append("The last line of the heads outside is incomplete: it was left out.")
        if not self.keys:
            notes.append("The seals were not checked: this process has no key.")
        if self.between:
            first, last = self.between
            span = f"{first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC"
            events = "1 event is" if self.loose == 1 else f"{self.loose} events are"
            notes.append(f"{events} in no seal yet, {span}.")
        if self.foreign:
            notes.append(f"Not checked: what acts on your own tables: {self.foreign}.")
        if self.more:
            notes.append(f"{self.more} more faults were found: the first {_FAULTS} are named.")
        return [*self.unread_notes(), *notes, *self.clock_notes()]

    def unread_notes(self) -> list[str]:
        """Return sentences on what a continued verification did not read."""
        if not self.since:
            return []
        chains = "1 chain" if self.unread == 1 else f"{self.unread} chains"
        return [
            f"It continued from head {self.since.head}: {chains} without new events, their rows "
            "and the earlier heads were not read, and earlier seals were not compared. Everything "
            f"was last read at {self.since.full_at:%Y-%m-%d %H:%M} UTC."
        ]

    def clock_notes(self) -> list[str]:
        """Return sentences on which times were believed, and whether only times are wrong."""
        notes = []
        for since, until in settings.OPSCONSOLE_WRONG_CLOCKS:
            span = f"{since:%Y-%m-%d %H:%M:%S} to {until:%Y-%m-%d %H:%M:%S} UTC"
            notes.append(f"Times of {span} were accepted: they are from a clock that was wrong.")
        if self.only_times:
            notes.append("Everything but these times is valid: see docs/operations.md (Clocks).")
        return notes


def prove(
    *,
    runs: QuerySet[Run],
    workspaces: QuerySet[Workspace],
    file: Path,
    step: Step = no_step,
    since: VerifiedHead | None = None,
) -> Proof:
    """Check chains against themselves and against the heads in the database and in `file`.

    With `since`, it reads only the heads from there on, the workspaces' own chains, and runs with
    newer events or events that these heads seal. If that finds a fault, everything is read, to tell
    lost events from changed ones. If all workspaces are checked, it also finds a sealed chain that
    is gone. A few events and heads are in memory at a time (see SealedChains). Calls `step` with
    the number of chains checked.
    """
    try:
        with any_text(), closing(SealedChains(is_whole=since is None)) as sealed:
            proof = _prove(with_keys(runs), workspaces, file, sealed, step, since)
    except UNREADABLE as error:
        log.exception("The record cannot be read")
        why = f"a row that chains depend on cannot be read ({type(error).__name__}): see the log"
        return Proof(0, 0, 0, 0, 0, None, [Chain("database", Fault(0, why))])
    if since and proof.faults:
        return prove(runs=runs, workspaces=workspaces, file=file, step=step)
    return proof


def _prove(
    runs: QuerySet[Run],
    workspaces: QuerySet[Workspace],
    file: Path,
    sealed: SealedChains,
    step: Step,
    since: VerifiedHead | None,
) -> Proof:
    faults, began_at = _Faults(), timezone.now()
    for model, key in list_false_keys():
        name = "heads" if model is Head else "runs"
        faults.add(Chain(name, Fault(0, f"{key} is not a valid key: its row cannot be read")))
    first = since.head if since else 0
    # Read before the database, which is written first: otherwise its newest head might seem lost.
    kept, is_torn = _count_kept(file, first, faults)
    heads = _StoredHeads(sealed, faults, last=first - 1)
    bad: list[Fault] = []
    outside = sealing.read_heads(file, kept, first) if kept else iter(())
    before = (
        (first - 1, Head.objects.values_list("before", flat=True).get(number=first))
        if since
        else (0, "")
    )
    trusted = seals.judge_heads(heads.read(), outside, sealing.keys(), bad, before)
    for head, bound in seals.with_bounds(trusted, sealing.EVENTS, is_sure=is_sure):
        sealed.add(head, bound)
        step(0)
        sealed.newest = head.at if is_sure(head.at) else sealed.newest
    # The file of a host that seldom seals lacks the newest heads.
    is_gone = not kept and not (since and file.exists() and file.stat().st_size)
    if is_gone and not faults.count and heads.last > 1:
        why = f"the file is gone or empty, and the database has {heads.last} heads"
        faults.add(Chain(_KEPT, Fault(0, why)))
    for fault in bad:
        faults.add(Chain("heads", fault, of="head"))
    if not bad:
        for name, count, wanted in sealed.miscounts():
            why = f"agents_sealed counts {count} sealed events; the heads have {wanted}"
            faults.add(Chain(name.replace("/", " "), Fault(0, why)))
    build = protection.inspect(connections[DEFAULT_DB_ALIAS])
    for name, why in sorted(build.faults.items()):
        faults.add(Chain(name, Fault(0, why)))
    upto = Event.objects.aggregate(newest=Max("pk"))["newest"] or 0
    reached = _verified_up_to(heads.last, since.full_at if since else began_at)
    count = loose = 0
    between: tuple[datetime, datetime] | None = None
    doubts = _Faults()
    checked = chains(_runs_to_check(runs, sealed, since), workspaces, sealed, lambda: step(count))
    for chain in checked:
        step(count := count + 1)
        loose += chain.loose
        if chain.first_loose is not None:  # a head's `upto`, which no seal covers, may be higher
            upto = min(upto, chain.first_loose - 1)
        if chain.between:
            ends = [*(between or ()), *chain.between]
            between = min(ends), max(ends)
        if chain.fault:
            faults.add(chain)
        for why in chain.differences:
            faults.add(Chain(chain.name, Fault(0, why)))
        if chain.doubt:
            doubts.add(Chain(chain.name, chain.doubt))
    ours = set(workspaces.values_list("pk", flat=True))
    others = {*Workspace.objects.values_list("pk", flat=True)} - ours
    if ours or not others:  # not for a run alone
        for chain in _vanished_chains(sealed, set(map(str, others))):
            faults.add(chain)
    if not others:
        for name in without_intent():
            faults.add(Chain(name, Fault(0, "no event records it")))
    faults_found, more = [*faults.first, *doubts.first], faults.more + doubts.more
    only_times = bool(doubts.count) and not faults.count
    if reached:
        reached.upto = max(0, min(reached.upto, upto))
    return Proof(
        *(count, heads.count, len(sealing.keys()), kept, loose, between, faults_found, more),
        *(is_torn, only_times, protection.list_faults(build.foreign), since),
        unread=runs.count() + workspaces.count() - count if since else 0,
        reached=None if faults.count or doubts.count else reached,
    )


def _verified_up_to(number: int, full_at: datetime) -> VerifiedHead | None:
    """Return where the next verification can continue; None: a process without a key cannot."""
    # Only these columns: another one may be unreadable.
    heads = Head.objects.filter(number=number).values_list("seal", "upto")
    seal, upto = heads.first() or ("", None)
    if type(upto) is not int or not settings.OPSCONSOLE_AUDIT_KEY:
        return None
    return VerifiedHead(head=number, seal=seal, upto=upto, full_at=full_at)


def _runs_to_check(
    runs: QuerySet[Run], sealed: SealedChains, since: VerifiedHead | None
) -> Iterator[QuerySet[Run]]:
    """Yield the runs to read, in parts: all, or those with new events."""
    if since is None:
        yield runs
        return
    newer = Event.objects.filter(pk__gt=since.upto, run__isnull=False).values("run")
    yield runs.filter(pk__in=newer)
    counts = sealed.counts()
    while some := dict(islice(counts, CHUNK)):
        yield runs.filter(pk__in=run_keys(some)).exclude(pk__in=newer)


class _Faults:
    """The first _FAULTS faults, and the number of all."""

    def __init__(self) -> None:
        self.first: list[Chain] = []
        self.count = 0

    @property
    def more(self) -> int:
        return self.count - len(self.first)

    def add(self, fault: Chain) -> None:
        self.count += 1
        if len(self.first) < _FAULTS:
            self.first.append(fault)


def _count_kept(file: Path, first: int, faults: _Faults) -> tuple[int, bool]:
    """Return the number of heads in the file, 0 if unreadable, and whether its end is torn."""
    try:
        return sealing.count(file, first) if file.exists() else (0, False)
    except (sealing.Unreadable, OSError) as error:
        faults.add(Chain(_KEPT, Fault(0, str(error))))
        return 0, False


@dataclass
class _StoredHeads:
    """The heads in the database, and how far `agents_sealed` claims they reach."""

    sealed: SealedChains
    faults: _Faults
    count: int = 0
    last: int = -1  # its number

    def read(self) -> Iterator[seals.SealedHead]:
        """Yield the readable heads; repeat until counts and heads are from the same moment."""
        while True:
            yield from self._next()
            self.sealed.count_anew(Sealed.objects.values_list("chain", "event_count").iterator())
            if not self._newer().exists():
                return

    def _newer(self) -> QuerySet[Head]:
        return with_keys(Head.objects.filter(number__gt=self.last)).order_by("number")

    def _next(self) -> Iterator[seals.SealedHead]:
        while some := list(self._newer().values_list("number", flat=True)[:_HEADS]):
            yield from self._read(some)
            self.last = some[-1]

    def _read(self, numbers: list[int]) -> Iterator[seals.SealedHead]:
        try:
            heads = [_whole(head) for head in Head.objects.filter(number__in=numbers)]
        except UNREADABLE:
            heads = []
            for number in numbers:
                try:
                    heads.append(_whole(Head.objects.get(number=number)))
                except UNREADABLE:
                    self.faults.add(Chain("heads", Fault(number, "it cannot be read"), of="head"))
        self.count += len(heads)
        yield from sorted(heads, key=lambda head: head.number)


def _whole(head: Head) -> seals.SealedHead:
    """Return a head after checking its form. Raises one of UNREADABLE."""
    return seals.from_line(json.loads(seals.as_line(head.plain())))


def _vanished_chains(sealed: SealedChains, others: Collection[str]) -> Iterator[Chain]:
    """Yield the sealed chains of which not even the row is left.

    Leave out those of the workspaces `others`, whose own verification finds them. Those without a
    known workspace (deleted too, or not named by an old head) are reported to everyone.
    """
    counts = sealed.counts()
    while some := dict(islice(counts, CHUNK)):
        rows = Run.objects.filter(pk__in=run_keys(some)).values_list("workspace_id", "pk")
        there = {name_of(workspace=workspace, run=run) for workspace, run in rows}
        there |= {name_of(workspace=pk) for pk in Workspace.objects.values_list("pk", flat=True)}
        for name in sorted(some.keys() - there):
            if sealed.home(name) in others:
                continue
            why = f"the chain is gone; {some[name]} events were sealed"
            yield Chain(name.replace("/", " "), Fault(1, why))


# How far the record was last verified, so that the next verification can continue from there.
# The audit key protects this: whoever controls only the database can make it read more, not less.


def _proof_of(row: VerifiedHead) -> str:
    # Not by an old key, which may have been replaced because it leaked.
    parts = [row.pk, row.head, row.seal, row.upto, spell_time(row.full_at)]
    return seals.keyed_digest(settings.OPSCONSOLE_AUDIT_KEY, ["verified", *parts])


def newest_verified(workspaces: QuerySet[Workspace], *, at: datetime) -> VerifiedHead | None:
    """Return the point from which to continue for all these workspaces; None: read everything."""
    with suppress(*UNREADABLE):  # somebody wrote a value that is no time or text
        found = VerifiedHead.objects.in_bulk(list(workspaces.values_list("pk", flat=True)))
        rows = list(found.values())
        if not rows or len(rows) < workspaces.count() or not settings.OPSCONSOLE_AUDIT_KEY:
            return None
        for row in rows:
            is_recent = timedelta() <= at - row.full_at < LONGEST
            if not (is_recent and hmac.compare_digest(row.proof, _proof_of(row))):
                return None
        # Each workspace has its own last full read: the oldest counts.
        full_at = min(row.full_at for row in rows)
        oldest = min(rows, key=lambda row: row.head)
        oldest.full_at = full_at
        # A row that a fault removed can be copied back, but the fault stays on record.
        checks = Event.objects.filter(
            workspace__in=workspaces, run=None, kind="audit.verified", at__gt=full_at
        )
        if any(facts.get("faults") for facts in checks.values_list("facts", flat=True)):
            return None
        head = Head.objects.filter(number=oldest.head, seal=oldest.seal).exclude(workspaces=None)
        return oldest if head.exists() else None
    return None


def keep_verified(
    workspaces: QuerySet[Workspace],
    verified: VerifiedHead | None,
    since: VerifiedHead | None = None,
) -> None:
    """Store how far these workspaces are verified; None: forget it, because a fault was found.

    A continued verification counts only if its starting point was not forgotten meanwhile.
    """
    if verified is None:
        VerifiedHead.objects.filter(workspace__in=workspaces).delete()
        return
    columns = {name: getattr(verified, name) for name in ("head", "seal", "upto", "full_at")}
    rows = [VerifiedHead(pk=pk, **columns) for pk in workspaces.values_list("pk", flat=True)]
    for row in rows:
        row.proof = _proof_of(row)
        if since:
            VerifiedHead.objects.filter(pk=row.pk).update(**columns, proof=row.proof)
    if not since:
        VerifiedHead.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["workspace"],
            update_fields=[*columns, "proof"],
        )


# A verification in a worker: requested, followed and cancelled on the page.


def ask_verification(
    *, by: User, workspaces: Iterable[Workspace], is_full: bool = False, at: datetime
) -> None:
    """Request a verification of these workspaces, unless the same person waits for one.

    It continues from the last one unless `is_full`, or if the last full one is long ago.
    """
    keys = sorted(one.pk for one in workspaces)
    total = len(keys) + Run.objects.filter(workspace__in=keys).count()
    with suppress(IntegrityError), transaction.atomic():
        Verification.objects.create(
            by=by, workspaces=keys, asked_at=at, total=total, is_full=is_full
        )


def cancel_verification(*, by: User, at: datetime) -> None:
    """Cancel a person's verification; its worker notices within a second."""
    open_ones = Verification.objects.filter(by=by, ended_at=None)
    open_ones.update(cancelled_at=at, ended_at=at)


def verify_next(is_stopping: Callable[[], bool] = lambda: False) -> bool:
    """Run the oldest waiting verification. Return False if there is none."""
    job = Verification.take()
    if job:
        _do(job, is_stopping)
    return job is not None


def _do(job: Verification, is_stopping: Callable[[], bool]) -> None:
    workspaces = Workspace.objects.filter(pk__in=job.workspaces)

    def step(done: int) -> None:
        if is_stopping():  # another worker starts it again
            job.leave()
            raise JobEnded
        job.tell(done)

    try:
        proof = prove(
            runs=Run.objects.filter(workspace__in=workspaces),
            workspaces=workspaces,
            file=Path(settings.OPSCONSOLE_HEADS_FILE),
            step=step,
            since=None if job.is_full else newest_verified(workspaces, at=timezone.now()),
        )
        if proof.faults:  # recorded even if nobody may read the result any more
            keep_verified(workspaces, None)
        _tell(job, workspaces, proof)
    except JobEnded:
        return
    except Refused as no:  # the person may no longer verify
        job.end({"failed": str(no)})
    except DatabaseError:  # it starts again after SILENT
        raise
    except Exception:
        log.exception("A verification could not be done")
        job.end({"failed": "It could not be done: the worker's log says why."})


@transaction.atomic
def _tell(job: Verification, workspaces: QuerySet[Workspace], proof: Proof) -> None:
    """Record the result of a verification that is still requested."""
    faults = [str(chain) for chain in proof.faults]
    outcome = {
        "chains": proof.chains,
        "faults": faults,
        "more": proof.more,
        "compared": proof.compared,
        "keys": proof.keys,
        "loose": proof.loose,
        "is_torn": proof.is_torn,
        "clocks": proof.clock_notes(),
        "unread": proof.unread,
    }
    if proof.since:
        outcome |= {"since": proof.since.head, "full_at": proof.since.full_at.isoformat()}
    if not job.end(outcome):
        return
    if proof.reached or proof.faults:  # without the key, no point to continue from is known
        keep_verified(workspaces, proof.reached, proof.since)
    homes = _homes(proof.faults)
    for workspace in workspaces.order_by("pk"):
        own = [
            str(one) for one in proof.faults if workspace.pk in homes.get(one.name, [workspace.pk])
        ]
        facts = {"chains": proof.chains, "heads": proof.heads, "faults": own[:NAMED]}
        facts |= {"more": more} if (more := len(own[NAMED:]) + proof.more) else {}
        if proof.since:
            full_at = proof.since.full_at.isoformat()
            facts |= {"since": proof.since.head, "unread": proof.unread, "full_at": full_at}
        require_member(workspace, job.by, Role.AUDITOR, Role.ADMIN)
        workspace.say("audit.verified", at=timezone.now(), facts=facts, actor=job.by.get_username())


def _homes(faults: Sequence[Chain]) -> dict[str, set[int]]:
    """Return the workspace of each chain, as its faults may be shown only to its readers."""
    runs = run_keys(one.name.replace(" ", "/", 1) for one in faults)
    rows = Run.objects.filter(pk__in=runs).values_list("pk", "workspace")
    homes = {f"run {pk}": {workspace} for pk, workspace in rows}
    for slug, pk in Workspace.objects.values_list("slug", "pk"):
        for name in (slug, pk):  # a miscounted chain is named by its key
            homes.setdefault(f"workspace {name}", set()).add(pk)
    return homes


def verify_in_thread(stop: asyncio.Event) -> Awaitable[bool]:
    return VERIFYING_THREADS.run(lambda: verify_next(stop.is_set))
