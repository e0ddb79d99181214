"""The copy of the heads outside the database: a file of JSON lines that is only appended to.

It reveals an older copy of the database put in its place, and a record cut short together with its
heads; so does any copy of the file that the attacker could not reach.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import dropwhile, islice
from pathlib import Path

from agents.record.seals import SealedHead, as_line, from_line

_NUMBER = re.compile(rb'"number":(\d{1,18}),')
_BLOCK = 65536  # bytes read at once, from the end


class Unreadable(Exception):
    """A line of the file is not a head; the message names it."""


@dataclass(frozen=True)
class KeptHeads:
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
def open_heads(path: Path) -> Iterator[KeptHeads]:
    """Open the file, creating it if missing, and lock it: other sealers wait."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield KeptHeads(descriptor)
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
        found = _NUMBER.search(line)
        return found is not None and int(found[1]) < since

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
