"""Archive runs: write them to files, seal the archive's event, and only then delete their events.

Each step is atomic, and the next call continues after an interrupted one: files that no event names
are written again, named ones are moved to their final paths, and sealed archives' events are
deleted. One file, read from step to step.
"""

import fcntl
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Exists, Max, OuterRef, QuerySet

from agents.audit import sealing
from agents.audit.chains import in_groups
from agents.audit.copies import FORMAT, run_lines
from agents.audit.rows_in_tables import digest_of, tombstones_of
from agents.audit.sealing import HeadsDiffer, Unreadable
from agents.core.json_forms import canonical, sha256
from agents.core.requests import ENDED, EscalationState, Json
from agents.db.sqlite import empty_log
from agents.models import (
    AgentCall,
    Archive,
    Effect,
    Escalation,
    Event,
    EventText,
    Head,
    MaskedValue,
    Run,
    Sealed,
    Step,
    Tombstone,
    Workspace,
)
from agents.models.runs import UNSETTLED
from agents.record import seals
from agents.shell.refusal import Refused

_MOST = 2_000  # runs in one archive and its transaction
_CLOCKS = timedelta(minutes=10)  # by which the clocks of hosts may differ
TOGETHER = 50  # runs emptied in one transaction


@dataclass(frozen=True)
class Archived:
    archives: tuple[int, ...]  # numbers of the archives whose events were deleted
    runs: int
    unsealed: tuple[int, ...] = ()  # archives that wait for the next seal


@dataclass(frozen=True)
class Forgotten:
    """The result of emptying archived texts."""

    runs: int
    elsewhere: tuple[int, ...]  # archives with erased runs and no files in the directory
    unknown: tuple[int, ...]  # archives in the directory that the database does not know


def archive_runs(
    *, workspace: Workspace, before: datetime, directory: Path, actor: str, at: datetime
) -> Archived:
    """Archive a workspace's runs that ended before a time, and delete their events.

    Runs with an open request, a write of unknown outcome or unsealed events stay. Raises Refused,
    OSError.
    """
    _check_clock(before, at)
    with _alone_in(directory), ExitStack() as afterwards:
        afterwards.callback(empty_log)  # even on refusal: earlier archives deleted events
        archives = Archive.objects.filter(workspace=workspace, let_go_at=None).order_by("number")
        open_ones = [_finish(archive, directory, at) for archive in archives]
        _clear_parts(directory, workspace.slug)
        if unknown := _unknown(workspace, directory):
            raise Refused(
                "unknown_archives",
                f"Archive {', '.join(map(str, unknown))} in this directory is not one of this "
                "database, which may be older. Put its files aside and keep them. Nothing was "
                "archived.",
            )
        while archive := _write(workspace, before, directory, actor, at):
            open_ones.append(_finish(archive, directory, at))
    done = [archive for archive in open_ones if archive.let_go_at]
    return Archived(
        tuple(archive.number for archive in done),
        sum(archive.runs for archive in done),
        tuple(archive.number for archive in open_ones if not archive.let_go_at),
    )


def forget_archived(
    *, workspace: Workspace, directory: Path, actor: str, at: datetime
) -> Forgotten:
    """Empty the archived texts of runs that were erased since. Raises Refused, OSError."""
    if not directory.is_dir():
        raise Refused("no_archives", f"There is no directory {directory}.")
    count, elsewhere = 0, list[int]()
    recorded = Counter[int]()  # runs recorded as emptied, by archive
    events = Event.objects.filter(workspace=workspace, run=None, kind="archive.erased")
    for facts in events.values_list("facts", flat=True):
        recorded[facts["archive"]] += facts["runs"]
    with _alone_in(directory):
        for archive in Archive.objects.filter(workspace=workspace).order_by("number"):
            stones = Tombstone.objects.filter(archive=archive, run__erased_at__isnull=False)
            erased = set(stones.values_list("run", flat=True))
            files = ArchiveFiles.of(directory, workspace.slug, archive.number)
            if not archive.let_go_at and not files.texts.exists():  # a call ended in between
                files.take_places()
            if not _is_of(archive, files):
                is_here = bool(erased) and files.texts.exists()  # without a matching record
                if is_here or len(erased) > recorded[archive.number]:
                    elsewhere.append(archive.number)
                continue
            if not erased:
                continue
            try:
                emptied, empty = _forget_in(files, erased)
            except _Unfit as error:
                raise Refused(
                    "archive_unfit",
                    f"{files.texts.name}: {error}. Nothing of it was emptied: put a whole copy in "
                    "its place, or remove it, and run this again.",
                ) from None
            # A killed call may have emptied texts without recording it; texts emptied in another
            # copy of the files are on record already.
            if untold := max(0, empty - recorded[archive.number]):
                facts = {"archive": archive.number, "runs": untold}
                with transaction.atomic():
                    workspace.say("archive.erased", at=at, facts=facts, actor=actor)
            count += max(emptied, untold)
        _clear_parts(directory, workspace.slug)
        unknown = _unknown(workspace, directory)
    return Forgotten(count, tuple(elsewhere), unknown)


def _is_of(archive: Archive, files: "ArchiveFiles") -> bool:
    """Tell whether the files are this archive's, not another database's of the same name."""
    try:
        return files.texts.exists() and _digest_of_record(files) == archive.sha256
    except OSError:
        return False


def _unknown(workspace: Workspace, directory: Path) -> tuple[int, ...]:
    """Return the archives in a directory that the database, perhaps restored, does not know."""
    known = Archive.objects.filter(workspace=workspace).values_list("number", flat=True)
    names = re.compile(rf"{re.escape(workspace.slug)}-(\d{{4,}})\.(record|texts)\.jsonl")
    matches = (names.fullmatch(path.name) for path in directory.iterdir())
    return tuple(sorted({int(name[1]) for name in matches if name} - set(known)))


def _check_clock(before: datetime, at: datetime) -> None:
    """Refuse a time that is later than the newest head, or a head later than this clock."""
    newest = Head.objects.order_by("-number").values_list("at", flat=True).first()
    if newest is None:
        raise Refused("not_over", "Nothing is sealed yet, and nothing was archived.")
    if before > newest:
        why = f"The newest seal is of {newest:%Y-%m-%d %H:%M} UTC: choose a day before that."
        raise Refused("not_over", f"{why} Nothing was archived.")
    if newest > at:
        raise Refused(
            "clock", "The newest head is in the future: check the clock. Nothing was archived."
        )


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Lock a directory of archives, creating it if missing. Raises Refused if it is locked."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Refused("busy", "Another archive is being written in this directory.") from None
    finally:
        os.close(handle)


def _archivable(workspace: Workspace, before: datetime) -> QuerySet[Run]:
    of_run = {"run": OuterRef("pk")}
    return Run.objects.filter(workspace=workspace, state__in=ENDED, ended_at__lt=before).exclude(
        Exists(Tombstone.objects.filter(**of_run))
        | Exists(Effect.objects.filter(**of_run, state__in=UNSETTLED))
        | Exists(Escalation.objects.filter(**of_run, state=EscalationState.OPEN))
    )


def _archivable_runs(workspace: Workspace, before: datetime) -> Iterator[UUID]:
    """Yield the runs that can be archived and whose events are all in a seal."""
    for keys in in_groups(_archivable(workspace, before)):
        names = {seals.name_of(workspace=workspace.pk, run=key): key for key in keys}
        counts = dict(Sealed.objects.filter(chain__in=names).values_list("chain", "event_count"))
        wanted = dict(Run.objects.filter(pk__in=keys).values_list("pk", "event_count"))
        yield from (key for name, key in names.items() if counts.get(name) == wanted[key])


def _write(
    workspace: Workspace, before: datetime, directory: Path, actor: str, at: datetime
) -> Archive | None:
    """Write the next archive and record it; None if there is nothing to archive."""
    keys = list(islice(_archivable_runs(workspace, before), _MOST))
    if not keys:
        return None
    last = Archive.objects.filter(workspace=workspace).aggregate(last=Max("number"))["last"]
    archive = Archive(workspace=workspace, number=(last or 0) + 1, before=before, at=at)
    files = ArchiveFiles.of(directory, workspace.slug, archive.number)
    groups = in_groups(Run.objects.filter(pk__in=keys))
    archive.sha256 = _write_files(files.parts, archive, groups)
    written = _check_files(files.parts, archive)
    try:
        with transaction.atomic():
            _tell(archive, written, actor)
    except IntegrityError:
        raise Refused("busy", "Another archive was written meanwhile. Try again.") from None
    return archive


def _check_files(files: "ArchiveFiles", archive: Archive) -> dict[UUID, tuple[int, str]]:
    """Read an archive back from disk. Return each run's event count and last hash in it.

    Raises Refused if it is not what was written.
    """
    try:
        if _digest_of_record(files) != archive.sha256:
            raise _Unfit("it is not the file that the record names")
        runs, written = read_runs(files), dict[UUID, tuple[int, str]]()
        while some := list(islice(runs, TOGETHER)):
            _check_beside({filed.run: filed.steps for filed in some})
            written |= {filed.run: (filed.event_count, filed.head_hash) for filed in some}
        return written
    except (_Unfit, OSError) as error:
        raise Refused(
            "archive_unfit", f"{files.record.name}: {error}. Nothing of it was deleted."
        ) from None


def _check_beside(steps: dict[UUID, str]) -> None:
    """Refuse a file that lacks traces or texts that only the database still has. Raises _Unfit.

    `steps` holds digests by run, "" if the file marks the run as erased. Runs that are erased or
    already emptied have nothing left here to compare.
    """
    runs = Run.objects.filter(pk__in=steps)
    erased = set(runs.exclude(erased_at=None).values_list("pk", flat=True))
    here = set(runs.filter(archived_at=None, erased_at=None).values_list("pk", flat=True))
    for run, rows in _steps_of(here).items():
        if sha256(rows) != steps[run]:
            raise _Unfit(f"the trace of run {run} differs from the one in the database")
    for run in steps.keys() - erased:
        if not steps[run]:
            raise _Unfit(f"the texts of run {run} are marked as erased, but are not")


def _tell(archive: Archive, written: dict[UUID, tuple[int, str]], actor: str) -> None:
    """Add the archive, its tombstones and its event. Raises Refused if a run has changed."""
    locked = Run.objects.filter(pk__in=written).select_for_update().order_by("pk")
    ends = {pk: tuple(end) for pk, *end in locked.values_list("pk", "event_count", "head_hash")}
    Workspace.objects.select_for_update().get(pk=archive.workspace_id)
    still = _archivable(archive.workspace, archive.before).filter(pk__in=written)
    if ends != written or still.count() != len(written):
        raise Refused("moved", "A run moved while it was archived. Try again.")
    digests = tombstones_of(written)
    rows = [(run, *written[run], digests[run]) for run in sorted(written)]
    archive.runs, archive.tombstones = digest_of(rows)
    facts = {
        "archive": archive.number,
        "before": archive.before.isoformat(),
        "runs": archive.runs,
        "sha256": archive.sha256,
        "tombstones": archive.tombstones,
    }
    archive.workspace.say("archive.written", at=archive.at, facts=facts, actor=actor)
    archive.seq = Workspace.objects.values_list("event_count", flat=True).get(
        pk=archive.workspace_id
    )
    archive.save(force_insert=True)
    Tombstone.objects.bulk_create(
        (
            Tombstone(run_id=run, archive=archive, event_count=count, head_hash=head, sha256=digest)
            for run, count, head, digest in rows
        ),
        batch_size=500,
    )


def _finish(archive: Archive, directory: Path, at: datetime) -> Archive:
    """Move the files to their final paths; once the archive is sealed, delete its runs' events."""
    files = ArchiveFiles.of(directory, archive.workspace.slug, archive.number)
    files.take_places()
    _check_files(files, archive)
    try:
        with suppress(sealing.NoKey, Unreadable, OSError):  # a worker seals it later
            sealing.seal(at=at)
    except HeadsDiffer as error:
        raise Refused("heads_differ", f"{error} Nothing was deleted.") from None
    if not _is_sealed(archive):
        return archive
    stones = Tombstone.objects.filter(archive=archive, run__archived_at=None).order_by("run")
    while some := dict(stones.values_list("run", "event_count")[:TOGETHER]):
        _let_go(some, at)
    archive.let_go_at = at
    archive.save(update_fields=["let_go_at"])
    return archive


def _is_sealed(archive: Archive) -> bool:
    """Tell whether a head holds the archive's event; counts of sealed events prove nothing."""
    event = Event.objects.get(workspace=archive.workspace_id, run=None, seq=archive.seq)
    chain = seals.name_of(workspace=archive.workspace_id)
    for head in Head.objects.order_by("-number").iterator(10):
        if any(event.hash in hashes for name, hashes in head.plain().chains() if name == chain):
            return True
        if head.at < archive.at - _CLOCKS:
            break
    return False


@transaction.atomic
def _let_go(runs: dict[UUID, int], at: datetime) -> None:
    """Delete the archived events of a few runs, and empty their steps."""
    list(Run.objects.filter(pk__in=runs).select_for_update().order_by("pk").values_list("pk"))
    for run, count in runs.items():
        events = Event.objects.filter(run=run, seq__lte=count)
        texts = EventText.objects.filter(event__in=events.values("pk"))
        texts._raw_delete(texts.db)
        events._raw_delete(events.db)
    Step.objects.filter(run__in=runs).update(asked={}, reply=None, fingerprint="")
    AgentCall.objects.filter(run__in=runs).update(asked=None)
    MaskedValue.objects.filter(run__in=runs).delete()
    Run.objects.filter(pk__in=runs).update(archived_at=at, has_values=False)


# The two files of an archive: the record, which never changes, and the erasable texts.
#
# The record is a copy of some runs in the format of agents.audit.copies, without texts; its
# events hold their digests. The other file has one line per run: its texts, and the requests and
# replies of its steps. Erasing a run empties that line and leaves the record valid.


_PART = ".part"  # a file that no event names yet
_NEXT = ".next"  # the new texts while some are being emptied
_STEP = ("position", "key", "kind", "fingerprint", "asked", "reply", "failed")


class _Unfit(Exception):
    """The files are not what was archived. The message names the line."""


@dataclass(frozen=True)
class ArchiveFiles:
    record: Path
    texts: Path

    @classmethod
    def of(cls, directory: Path, slug: str, number: int) -> "ArchiveFiles":
        name = f"{slug}-{number:04}"
        return cls(directory / f"{name}.record.jsonl", directory / f"{name}.texts.jsonl")

    @property
    def parts(self) -> "ArchiveFiles":
        """Return the paths used while the files are written."""
        return ArchiveFiles(_part(self.record), _part(self.texts))

    def take_places(self) -> None:
        """Move any part files to their final paths. Calling it again changes nothing."""
        for path in (self.record, self.texts):
            if _part(path).exists():
                os.replace(_part(path), path)
        _sync(self.record.parent)


def _clear_parts(directory: Path, slug: str) -> None:
    """Remove a workspace's temporary files after interrupted calls; others may share the directory.

    Files that an event names must already be at their final paths.
    """
    left = re.compile(rf"{re.escape(slug)}-\d{{4,}}\.(record|texts)\.jsonl({_PART}|{_NEXT})")
    for path in directory.iterdir():
        if left.fullmatch(path.name):
            path.unlink()


def _part(path: Path) -> Path:
    return path.with_name(path.name + _PART)


def _write_files(files: ArchiveFiles, archive: Archive, groups: Iterable[list[UUID]]) -> str:
    """Write the runs of `groups` to new files. Return the digest of the record file."""
    digest, count = hashlib.sha256(), 0
    with _new(files.record) as record, _new(files.texts) as texts:

        def add(document: Json) -> None:
            nonlocal count
            line = canonical(document) + "\n"
            record.write(line)
            digest.update(line.encode())
            count += 1

        add(
            {
                "bundle": FORMAT,
                "archive": {"number": archive.number, "before": seals.spell_time(archive.before)},
                "at": seals.spell_time(archive.at),
                "workspaces": {str(archive.workspace_id): archive.workspace.slug},
            }
        )
        for keys in groups:
            beside: dict[str, Json] = {str(key): {} for key in keys}
            for document in run_lines(keys, None):
                event = document.get("event", {})
                if given := event.pop("texts", None):
                    beside[event["run"]][str(event["seq"])] = given
                add(document)
            steps = _steps_of(keys)
            for key in keys:
                line = {"run": str(key), "texts": beside[str(key)], "steps": steps[key]}
                texts.write(canonical(line) + "\n")
        sha256_of_lines = digest.hexdigest()
        add({"end": {"lines": count, "sha256": sha256_of_lines}})
    return sha256_of_lines


def _steps_of(keys: Collection[UUID]) -> dict[UUID, list[Json]]:
    """Return the requests and replies of these runs' steps, as the texts file holds them."""
    steps: dict[UUID, list[Json]] = {key: [] for key in keys}
    for run, *values in (
        Step.objects.filter(run__in=keys).order_by("run", "position").values_list("run", *_STEP)
    ):
        steps[run].append(dict(zip(_STEP, values, strict=True)))
    return steps


class _FiledRun(NamedTuple):
    """A run read from an archive, with every text checked."""

    run: UUID
    event_count: int
    head_hash: str  # of the last event
    steps: str  # digest of its steps, which no event holds; "": its texts were erased


def read_runs(files: ArchiveFiles) -> Iterator[_FiledRun]:
    """Yield the runs of an archive, holding one at a time. Raises _Unfit, OSError."""
    digest, count = hashlib.sha256(), 0
    chain: Json = None
    events: list[Json] = []
    with files.record.open("rb") as record, files.texts.open("rb") as texts:
        for line in record:
            try:
                document = json.loads(line)
                if chain and "event" not in document:
                    yield _check_run(chain, events, texts.readline())
                    chain = None
                if end := document.get("end"):
                    if end != {"lines": count, "sha256": digest.hexdigest()}:
                        raise _Unfit("its last line does not match the lines before")
                    break
                chain, events = (document["chain"], []) if "chain" in document else (chain, events)
                events += [document["event"]] if "event" in document else []
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise _Unfit(f"line {count + 1} cannot be read") from error
            digest.update(line)
            count += 1
        else:
            raise _Unfit("it breaks off")
        if record.read(1) or texts.read(1):
            raise _Unfit("there is text after its end")


def _check_run(chain: Json, events: list[Json], line: bytes) -> _FiledRun:
    beside = json.loads(line)
    run = chain["name"].removeprefix("run/")
    if beside["run"] != run:
        raise _Unfit(f"the texts of run {run} are not where they belong")
    linked = (
        seals.Linked(
            {
                **{name: event[name] for name in event if name not in ("hash", "previous")},
                "at": datetime.fromisoformat(event["at"]),
            },
            event["previous"],
            event["hash"],
            _texts(event["facts"], beside, str(event["seq"])),
        )
        for event in events
    )
    fault = seals.first_fault(linked, count=chain["count"], head=chain["hash"])
    if fault and not ("erased" in beside and fault.why == seals.UNTOLD_ERASURE):
        raise _Unfit(f"run {run}, event {fault.seq}: {fault.why}")
    steps = "" if "erased" in beside else sha256(beside["steps"])
    return _FiledRun(UUID(run), chain["count"], chain["hash"], steps)


def _texts(facts: Json, beside: Json, seq: str) -> dict[str, seals.Text]:
    """Return an event's texts; if its run has been erased, all must be marked erased."""
    empty = dict.fromkeys(facts.get(seals.TEXTS, {}))
    given = empty if "erased" in beside else beside["texts"].get(seq, {})
    return {
        name: seals.Text(one["salt"], one["text"]) if one else seals.Text("", "", erased=True)
        for name, one in given.items()
    }


def _digest_of_record(files: ArchiveFiles) -> str:
    """Return the digest of all lines of the record but the last, which holds it. Raises OSError."""
    digest, held = hashlib.sha256(), b""
    with files.record.open("rb") as record:
        for line in record:
            digest.update(held)
            held = line
    return digest.hexdigest() if held.startswith(b'{"end"') else ""


def _forget_in(files: ArchiveFiles, erased: Collection[UUID]) -> tuple[int, int]:
    """Empty the texts of erased runs. Return how many were emptied now, and how many are empty.

    A crash leaves the previous file. Raises _Unfit if a line cannot be read or is missing.
    """
    now, count, fresh = 0, 0, files.texts.with_name(files.texts.name + _NEXT)
    with files.texts.open("rb") as old, _new(fresh) as new:
        for number, line in enumerate(old, start=1):
            try:
                entry = json.loads(line)
                run, is_empty = UUID(entry["run"]), "erased" in entry
            except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
                raise _Unfit(f"line {number} cannot be read") from error
            if run in erased and not is_empty:
                entry, now, is_empty = {"run": entry["run"], "erased": True}, now + 1, True
            count += is_empty
            new.write(canonical(entry) + "\n")
    if count < len(erased):
        raise _Unfit(f"it lacks the lines of {len(erased) - count} erased runs")
    os.replace(fresh, files.texts)
    _sync(files.texts.parent)
    return now, count


@contextmanager
def _new(path: Path) -> Iterator[IO[str]]:
    """Open a new file that only its owner can read; leaving the block syncs it to disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
