"""The two files of an archive: the record, which never changes, and the erasable texts.

The record is a copy of some runs in the format of agents.audit.bundle, without texts; its events
hold their digests. The other file has one line per run: its texts, and the requests and replies of
its steps. Erasing a run empties that line and leaves the record valid.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, NamedTuple
from uuid import UUID

from agents.audit.bundle import FORMAT, run_lines
from agents.core.digest import canonical, sha256
from agents.core.requests import Json
from agents.models import Archive, Step
from agents.record.chain import TEXTS, UNTOLD_ERASURE, Linked, Text, first_fault, spell_time

PART = ".part"  # a file that no event names yet
NEXT = ".next"  # the new texts while some are being emptied
STEP = ("position", "key", "kind", "fingerprint", "asked", "reply", "failed")


class Unfit(Exception):
    """The files are not what was archived. The message names the line."""


@dataclass(frozen=True)
class ArchiveFiles:
    """The paths of an archive's files."""

    record: Path
    texts: Path

    @classmethod
    def of(cls, directory: Path, slug: str, number: int) -> ArchiveFiles:
        name = f"{slug}-{number:04}"
        return cls(directory / f"{name}.record.jsonl", directory / f"{name}.texts.jsonl")

    @property
    def parts(self) -> ArchiveFiles:
        """Return the paths used while the files are written."""
        return ArchiveFiles(_part(self.record), _part(self.texts))

    def take_places(self) -> None:
        """Move any part files to their final paths. Calling it again changes nothing."""
        for path in (self.record, self.texts):
            if _part(path).exists():
                os.replace(_part(path), path)
        _sync(self.record.parent)


def numbers(directory: Path, slug: str) -> set[int]:
    """Return the numbers of the workspace's archives with a file in the directory."""
    names = re.compile(rf"{re.escape(slug)}-(\d{{4,}})\.(record|texts)\.jsonl")
    found = (names.fullmatch(path.name) for path in directory.iterdir())
    return {int(name[1]) for name in found if name}


def clear(directory: Path, slug: str) -> None:
    """Remove a workspace's temporary files after interrupted calls; others may share the directory.

    Files that an event names must already be at their final paths.
    """
    left = re.compile(rf"{re.escape(slug)}-\d{{4,}}\.(record|texts)\.jsonl({PART}|{NEXT})")
    for path in directory.iterdir():
        if left.fullmatch(path.name):
            path.unlink()


def _part(path: Path) -> Path:
    return path.with_name(path.name + PART)


def write(files: ArchiveFiles, header: Json, groups: Iterable[list[UUID]]) -> str:
    """Write the runs of `groups` to new files. Return the digest of the record file."""
    digest, count = hashlib.sha256(), 0
    with _new(files.record) as record, _new(files.texts) as texts:

        def add(document: Json) -> None:
            nonlocal count
            line = canonical(document) + "\n"
            record.write(line)
            digest.update(line.encode())
            count += 1

        add({"bundle": FORMAT, **header})
        for keys in groups:
            beside: dict[str, Json] = {str(key): {} for key in keys}
            for document in run_lines(keys, None):
                event = document.get("event", {})
                if given := event.pop("texts", None):
                    beside[event["run"]][str(event["seq"])] = given
                add(document)
            steps = steps_of(keys)
            for key in keys:
                line = {"run": str(key), "texts": beside[str(key)], "steps": steps[key]}
                texts.write(canonical(line) + "\n")
        found = digest.hexdigest()
        add({"end": {"lines": count, "sha256": found}})
    return found


def steps_of(keys: Collection[UUID]) -> dict[UUID, list[Json]]:
    """Return the requests and replies of these runs' steps, as the texts file holds them."""
    found: dict[UUID, list[Json]] = {key: [] for key in keys}
    for run, *values in (
        Step.objects.filter(run__in=keys).order_by("run", "position").values_list("run", *STEP)
    ):
        found[run].append(dict(zip(STEP, values, strict=True)))
    return found


class FiledRun(NamedTuple):
    """A run read from an archive, with every text checked."""

    run: UUID
    event_count: int
    head_hash: str  # of the last event
    steps: str  # digest of its steps, which no event holds; "": its texts were erased


def read_runs(files: ArchiveFiles) -> Iterator[FiledRun]:
    """Yield the runs of an archive, holding one at a time. Raises Unfit, OSError."""
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
                        raise Unfit("its last line does not match the lines before")
                    break
                chain, events = (document["chain"], []) if "chain" in document else (chain, events)
                events += [document["event"]] if "event" in document else []
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise Unfit(f"line {count + 1} cannot be read") from error
            digest.update(line)
            count += 1
        else:
            raise Unfit("it breaks off")
        if record.read(1) or texts.read(1):
            raise Unfit("there is text after its end")


def _check_run(chain: Json, events: list[Json], line: bytes) -> FiledRun:
    beside = json.loads(line)
    run = chain["name"].removeprefix("run/")
    if beside["run"] != run:
        raise Unfit(f"the texts of run {run} are not where they belong")
    linked = (
        Linked(
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
    fault = first_fault(linked, count=chain["count"], head=chain["hash"])
    if fault and not ("erased" in beside and fault.why == UNTOLD_ERASURE):
        raise Unfit(f"run {run}, event {fault.seq}: {fault.why}")
    steps = "" if "erased" in beside else sha256(beside["steps"])
    return FiledRun(UUID(run), chain["count"], chain["hash"], steps)


def _texts(facts: Json, beside: Json, seq: str) -> dict[str, Text]:
    """Return an event's texts; if its run has been erased, all must be marked erased."""
    empty = dict.fromkeys(facts.get(TEXTS, {}))
    given = empty if "erased" in beside else beside["texts"].get(seq, {})
    return {
        name: Text(one["salt"], one["text"]) if one else Text("", "", erased=True)
        for name, one in given.items()
    }


def digest_of_record(files: ArchiveFiles) -> str:
    """Return the digest of all lines of the record but the last, which holds it. Raises OSError."""
    digest, held = hashlib.sha256(), b""
    with files.record.open("rb") as record:
        for line in record:
            digest.update(held)
            held = line
    return digest.hexdigest() if held.startswith(b'{"end"') else ""


def forget(files: ArchiveFiles, erased: Collection[UUID]) -> tuple[int, int]:
    """Empty the texts of erased runs. Return how many were emptied now, and how many are empty.

    A crash leaves the previous file. Raises Unfit if a line cannot be read or is missing.
    """
    now, count, fresh = 0, 0, files.texts.with_name(files.texts.name + NEXT)
    with files.texts.open("rb") as old, _new(fresh) as new:
        for number, line in enumerate(old, start=1):
            try:
                found = json.loads(line)
                run, is_empty = UUID(found["run"]), "erased" in found
            except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
                raise Unfit(f"line {number} cannot be read") from error
            if run in erased and not is_empty:
                found, now, is_empty = {"run": found["run"], "erased": True}, now + 1, True
            count += is_empty
            new.write(canonical(found) + "\n")
    if count < len(erased):
        raise Unfit(f"it lacks the lines of {len(erased) - count} erased runs")
    os.replace(fresh, files.texts)
    _sync(files.texts.parent)
    return now, count


def header_of(archive: Archive) -> Json:
    """Return the first line of an archive, which describes it."""
    return {
        "archive": {"number": archive.number, "before": spell_time(archive.before)},
        "at": spell_time(archive.at),
        "workspaces": {str(archive.workspace_id): archive.workspace.slug},
    }


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
