"""A database to measure on, and what was written to it."""

import os
import sqlite3
import struct
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

WAL_HEADER, FRAME_HEADER = 32, 24  # bytes
STATISTICS_SECONDS = 1.2  # after which PostgreSQL's processes have told what they did


@dataclass(frozen=True)
class Written:
    """What reached the log of the database."""

    commits: int  # that wrote; on PostgreSQL, all
    fsyncs: int  # of the log
    bytes: int  # of the log


@contextmanager
def sqlite(kept: Path | None = None) -> Iterator[str]:
    """Give the URL of a new file for the length of the block, or of one that stays in `kept`."""
    if kept:
        yield f"sqlite:///{kept.absolute()}/bench.sqlite3"
        return
    with tempfile.TemporaryDirectory(prefix="opsconsole-bench-") as directory:
        yield f"sqlite:///{directory}/bench.sqlite3"


@contextmanager
def slower_files(sync_ms: float) -> Iterator[dict[str, str]]:
    """Give the environment of a process that waits so much longer for each sync of a file.

    It takes Linux and a C compiler.
    """
    if not sync_ms:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="opsconsole-bench-") as directory:
        library = Path(directory) / "slow_sync.so"
        source = Path(__file__).with_name("slow_sync.c")
        subprocess.run(  # noqa: S603 - our own program
            ["cc", "-shared", "-fPIC", "-O2", source, "-o", library, "-ldl"],  # noqa: S607
            check=True,
        )
        yield {"LD_PRELOAD": str(library), "SYNC_MICROSECONDS": str(int(sync_ms * 1000))}


def measured_sync_ms() -> float:
    """Return the median time that a sync of a page takes where SQLite's files are."""
    took = []
    with tempfile.TemporaryFile(prefix="opsconsole-bench-") as file:
        for _ in range(200):
            file.write(bytes(4096))
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - began)
    return median(took) * 1000


@contextmanager
def postgres(server: str, sync_ms: float = 0, *, kept: str = "") -> Iterator[str]:
    """Give the URL of a new database on a server for the length of the block, or of one that stays.

    Each commit waits `sync_ms` before its sync; that takes a superuser.
    """
    name = kept or f"opsconsole_bench_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(server, autocommit=True) as admin:
        known = admin.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchone()
        if known is None:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        database = sql.SQL("ALTER DATABASE {} SET ").format(sql.Identifier(name))
        if sync_ms:
            admin.execute(database + sql.SQL("commit_delay = {}").format(int(sync_ms * 1000)))
            admin.execute(database + sql.SQL("commit_siblings = 0"))
        try:
            yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
        finally:
            if not kept:
                drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
                admin.execute(drop.format(sql.Identifier(name)))


@contextmanager
def count_writes(url: str) -> Iterator[list[Written]]:
    """Count what the block writes; the list holds it afterwards."""
    found: list[Written] = []
    if url.startswith("sqlite:///"):
        path = Path(url.removeprefix("sqlite:///"))
        with _log_kept(path):
            yield found
            found.append(_in_log(path))
    else:
        with psycopg.connect(url, autocommit=True) as server:
            before = _server_counts(server)
            yield found
            after = _server_counts(server)
        found.append(Written(*(b - a for a, b in zip(before, after, strict=True))))


@contextmanager
def _log_kept(path: Path) -> Iterator[None]:
    """Empty SQLite's write-ahead log, and keep it from being written from its start again."""
    reader = sqlite3.connect(path, isolation_level=None)
    try:
        reader.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield
    finally:
        reader.close()


def _in_log(path: Path) -> Written:
    """Count the commits in SQLite's log: frames that name the size of the database.

    Under synchronous=FULL each is one fsync.
    """
    log = Path(f"{path}-wal").read_bytes()
    page = struct.unpack(">I", log[8:12])[0]
    frames = range(WAL_HEADER, len(log), FRAME_HEADER + page)
    commits = sum(struct.unpack(">I", log[at + 4 : at + 8])[0] > 0 for at in frames)
    return Written(commits, commits, len(log))


def _server_counts(server: psycopg.Connection[tuple[int, ...]]) -> tuple[int, int, int]:
    """Return commits in this database, fsyncs and bytes of the server's log, so far."""
    time.sleep(STATISTICS_SECONDS)
    row = server.execute(
        "SELECT xact_commit, wal_sync, wal_bytes::bigint FROM pg_stat_wal, pg_stat_database"
        " WHERE datname = current_database()"
    ).fetchone()
    assert row is not None  # noqa: S101 - both are views of one row
    return row[0], row[1], row[2]
