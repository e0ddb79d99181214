"""The sealed hashes by chain: an index on disk, as it grows with the record."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from agents.record.seals import SealedHead

_BUILD = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -4096;
CREATE TABLE sealed (chain TEXT, number INT, count INT, hashes TEXT, bound TEXT, home TEXT);
CREATE TABLE counted (chain TEXT PRIMARY KEY, count INT) WITHOUT ROWID;
"""
_MISCOUNTED = """
WITH wanted AS (SELECT chain, sum(count) AS count FROM sealed GROUP BY chain)
SELECT chain, coalesce(c.count, 0) AS c, coalesce(w.count, 0) AS w
FROM (SELECT chain FROM counted UNION SELECT chain FROM wanted)
LEFT JOIN counted c USING (chain) LEFT JOIN wanted w USING (chain) WHERE {} ORDER BY chain
"""
UNKNOWN = ("", "")  # hash and time bound of an event sealed by a head that was not read


_EARLIER = """
SELECT coalesce((SELECT count FROM counted WHERE chain = ?), 0)
     - coalesce((SELECT sum(count) FROM sealed WHERE chain = ?), 0)
"""


class SealedChains:
    """The hash of every sealed event, chain by chain; a context manager.

    If only the last heads are read, earlier hashes are UNKNOWN, as many as `agents_sealed` counts.
    Takes about 70 bytes per event in a temporary directory and a few megabytes of memory.
    """

    newest = ""  # time of the newest head with a trustworthy clock

    def __init__(self, *, is_whole: bool = True) -> None:
        self._is_whole = is_whole
        self._directory = TemporaryDirectory(prefix="opsconsole-")
        # One thread of a job may end what another began; two never use it at once.
        self._rows = sqlite3.connect(
            Path(self._directory.name) / "sealed", isolation_level=None, check_same_thread=False
        )
        self._rows.executescript(_BUILD)
        self._rows.execute("BEGIN")
        self._is_indexed = False

    def __enter__(self) -> SealedChains:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._rows.close()
        self._directory.cleanup()

    def add(self, head: SealedHead, bound: str) -> None:
        """Add the hashes that a head seals; heads must come in order."""
        homes = {
            chain: workspace
            for workspace, part in (head.workspaces or {}).items()
            for chain in part["moved"]
        }
        self._rows.executemany(
            "INSERT INTO sealed VALUES (?, ?, ?, ?, ?, ?)",
            (
                (chain, head.number, len(hashes), json.dumps(hashes), bound, homes.get(chain))
                for chain, hashes in head.chains()
            ),
        )

    def of(self, chain: str) -> Iterator[tuple[str, str]]:
        """Yield the sealed hashes of a chain in order, each with its time bound."""
        if not self._is_whole:
            counted = self._fetch(_EARLIER, chain, chain).fetchone()[0]
            yield from repeat(UNKNOWN, max(0, counted))
        found = self._fetch(
            "SELECT hashes, bound FROM sealed WHERE chain = ? ORDER BY number", chain
        )
        for hashes, bound in found:
            yield from ((hashed, bound) for hashed in json.loads(hashes))

    def home(self, chain: str) -> str | None:
        """Return the id of the workspace under which a chain was first sealed, "" if unknown."""
        wanted = "SELECT home FROM sealed WHERE chain = ? AND home IS NOT NULL ORDER BY number"
        return next((home for (home,) in self._fetch(f"{wanted} LIMIT 1", chain)), None)

    def counts(self) -> Iterator[tuple[str, int]]:
        """Yield the name of each sealed chain, in order, and its number of sealed events."""
        yield from self._fetch("SELECT chain, sum(count) FROM sealed GROUP BY chain ORDER BY chain")

    def count_anew(self, counts: Iterable[tuple[str, int]]) -> None:
        """Load the sealed counts that the database gives, replacing earlier ones."""
        self._rows.execute("DELETE FROM counted")
        self._rows.executemany("INSERT INTO counted VALUES (?, ?)", counts)

    def miscounts(self) -> Iterator[tuple[str, int, int]]:
        """Yield each chain that the database counts differently: name, its count, ours."""
        yield from self._fetch(_MISCOUNTED.format("c <> w" if self._is_whole else "c < w"))

    def _fetch(self, query: str, *values: str) -> sqlite3.Cursor:
        if not self._is_indexed:  # built once at the end, which is faster
            self._rows.execute("CREATE INDEX of_chain ON sealed (chain, number, count)")
            self._is_indexed = True
        return self._rows.execute(query, values)
