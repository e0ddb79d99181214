"""The floor: the bare driver, with the fewest commits that promise the same.

No review, no record, no lease: a row for the run, and a commit wherever a crash could
otherwise pay twice, write twice or forget a person.
"""

import json
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, LiteralString, TypeAlias

import psycopg

from bench.work import ASKED_MINOR, GRANTED_MINOR, Queue, Timing, Watch, answer_of, goal, in_threads

Statement: TypeAlias = tuple[LiteralString, tuple[Any, ...]]
Commit: TypeAlias = Callable[[Statement], object]
TABLES = (
    "CREATE TABLE IF NOT EXISTS bench_runs (id TEXT PRIMARY KEY, goal TEXT, steps TEXT)",
    "CREATE TABLE IF NOT EXISTS bench_refunds (id TEXT PRIMARY KEY, minor BIGINT)",
    "CREATE TABLE IF NOT EXISTS bench_mails (id TEXT PRIMARY KEY, state TEXT)",
)
LAUNCH = "INSERT INTO bench_runs VALUES (%s, %s, %s)"
KEEP = "UPDATE bench_runs SET steps = %s WHERE id = %s"
PAY = "INSERT INTO bench_refunds VALUES (%s, %s)"
POST = "INSERT INTO bench_mails VALUES (%s, 'sending')"
POSTED = "UPDATE bench_mails SET state = 'sent' WHERE id = %s"


class Contestant:
    """Three tables."""

    def __init__(self, url: str, customers: range) -> None:
        self.url = url
        with open_connection(url) as commit:
            for table in TABLES:
                commit((table, ()))

    def run(self, customers: range, *, at_once: int) -> Timing:
        """Take one run a customer from its launch to its end, `at_once` side by side."""
        return in_threads(self._one_after_another, customers, at_once)

    def _one_after_another(self, queue: Queue, timing: Timing) -> None:
        with open_connection(self.url) as commit:
            for customer in queue:
                watch = Watch()
                _refund(commit, customer, watch)
                timing.add(watch)

    def close(self, runs: int) -> None:
        """The rows need no check: a statement that failed has raised."""


def _refund(commit: Commit, customer: int, watch: Watch) -> None:
    run = str(uuid.uuid4())
    steps: list[dict[str, Any]] = []

    def keep() -> Statement:
        return KEEP, (json.dumps(steps), run)

    def model() -> None:
        watch.end_wait()
        steps.append(answer_of(len(steps) // 2, customer))

    watch.begin_launch()
    commit((LAUNCH, (run, goal(customer), "[]")))
    model()
    steps.append({"charge_minor": ASKED_MINOR})
    model()
    commit(keep())  # the pause
    watch.begin_decision()
    steps[-1]["granted_minor"] = GRANTED_MINOR
    commit(keep())  # the decision, and with it the intent of the refund
    watch.end_wait()
    commit((PAY, (run, GRANTED_MINOR)))
    steps.append({"paid_minor": GRANTED_MINOR})
    model()
    commit(keep())  # what was paid, and the intent of the mail
    commit((POST, (run,)))
    commit((POSTED, (run,)))
    steps.append({"sent": True})
    model()
    commit(keep())  # the end


@contextmanager
def open_connection(url: str) -> Iterator[Commit]:
    """Open a connection; what it gives commits one statement."""
    if url.startswith("sqlite:///"):
        file = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=10)
        file.execute("PRAGMA journal_mode=WAL")
        file.execute("PRAGMA synchronous=FULL")
        try:
            yield lambda statement: file.execute(statement[0].replace("%s", "?"), statement[1])
        finally:
            file.close()
    else:
        with psycopg.connect(url, autocommit=True) as server:
            yield lambda statement: server.execute(*statement)
