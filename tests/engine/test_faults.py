"""Locked, full, cut-off and deadlocked databases: nothing is half done or done twice."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.backends.signals import connection_created
from django.urls import reverse
from django.utils import timezone

from agents.core.requests import RunState
from agents.engine.runtime import crashpoints
from agents.engine.runtime.database import TOOL_THREADS
from agents.engine.turns.asking import MAX_CLAIMS
from agents.models import Effect, Run
from tests.engine.aborting import breaking
from tests.engine.machine import nth
from tests.engine.scene import REFUND_500, Scene, fresh, go, has_ended, in_thread, payments, recover
from tests.engine.scene import set_scene as scene_of
from tests.engine.test_gateway import wait_until
from tests.limits import UNCAPPED
from tests.settings import ON_POSTGRES
from tests.web.test_pages import client_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

sqlite_only = pytest.mark.skipif(ON_POSTGRES, reason="about a file of SQLite's")
GONE_IN_MS = 30_000  # seconds for the server to end a connection
CALLS = ("model.before_call", "gateway.before_call")


@pytest.fixture
def scene() -> Iterator[Scene]:
    yield scene_of()
    crashpoints.watch(None)


def to_the_end(run: Run) -> None:
    for _ in range(12):
        recover(run.pk)
        Run.objects.filter(pk=run.pk, state=RunState.QUEUED).update(wake_at=None)
        go(run)
        if has_ended(run):
            return
    raise AssertionError(f"it never ended: {fresh(run).state}")


def saying(pragma: str) -> Callable[..., None]:
    """Return a receiver that runs a statement on every new connection."""

    def say(connection: Any, **_: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA {pragma}")

    return say


@contextmanager
def locked_by_another() -> Iterator[None]:
    """Let another hold SQLite's file for longer than new connections wait for it."""
    impatient = saying("busy_timeout=20")
    connection_created.connect(impatient)
    try:
        with closing(sqlite3.connect(connection.settings_dict["NAME"])) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.rollback()
    finally:
        connection_created.disconnect(impatient)


@pytest.mark.proves("F16")
@sqlite_only
def test_a_database_that_is_locked_for_long_loses_nothing(scene: Scene) -> None:
    run, client = scene.launch(REFUND_500), client_of(scene.eve)
    client.get(reverse("runs"))
    with locked_by_another():
        with pytest.raises(OperationalError, match="locked"):
            go(run)
        assert client.get(reverse("runs")).status_code == 200
    assert fresh(run).state == RunState.QUEUED

    to_the_end(run)

    assert (fresh(run).stop_reason, payments(run)) == ("success", [50000])


@pytest.mark.proves("F16")
@sqlite_only
def test_locked_table_makes_no_run_poisonous(scene: Scene) -> None:
    """As while an index is built: each claim fails, and counts."""
    run, waited = scene.launch(REFUND_500), timedelta()
    with connection.cursor() as cursor:
        busy = "CREATE TRIGGER busy BEFORE INSERT ON agents_step BEGIN SELECT RAISE(ABORT, ''); END"
        cursor.execute(busy)
    for _ in range(MAX_CLAIMS - 1):
        go(run)
        wake_at = fresh(run).wake_at
        assert wake_at
        waited += wake_at - timezone.now()
        Run.objects.filter(pk=run.pk).update(wake_at=None)
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER busy")

    to_the_end(run)

    assert waited > timedelta(minutes=12)
    assert (fresh(run).stop_reason, payments(run)) == ("success", [50000])


def fill_the_disk(scene: Scene) -> None:
    for _ in range(40):
        try:
            go(scene.launch(REFUND_500))
        except OperationalError as error:
            if "full" not in str(error):
                raise
            return
    raise AssertionError("there was room for everything")


@pytest.mark.proves("F17")
@sqlite_only
@pytest.mark.parametrize("pages", [0, 1, 2, 4])
def test_no_call_starts_whose_intent_finds_no_room(scene: Scene, pages: int) -> None:
    run = scene.launch(REFUND_500)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM")  # else pages freed by earlier tests leave enough room
        cursor.execute("PRAGMA page_count")
        full = saying(f"max_page_count={cursor.fetchone()[0] + pages}")
    connection_created.connect(full)
    full(connection)  # this one is open already
    try:
        fill_the_disk(scene)
        with suppress(OperationalError):
            go(run)
    finally:
        connection_created.disconnect(full)
    intended = Effect.objects.filter(run=run, tool="issue_refund").count()
    assert len(payments(run)) <= intended
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA max_page_count=1073741823")
        cursor.execute("PRAGMA integrity_check")
        assert cursor.fetchone()[0] == "ok"

    to_the_end(run)

    assert (fresh(run).stop_reason, payments(run)) == ("success", [50000])


@pytest.mark.proves("F23")
def test_no_transaction_is_open_while_a_model_or_a_tool_is_asked(scene: Scene) -> None:
    asked: list[str] = []

    def look(name: str) -> None:
        if name in CALLS:
            asked.append(name)
            in_thread(_nobody_is_within_a_transaction)

    crashpoints.watch(look)

    run = go(scene.launch(REFUND_500))

    assert run.stop_reason == "success"
    assert set(asked) == set(CALLS)


def _nobody_is_within_a_transaction() -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA busy_timeout=0")
            cursor.execute("BEGIN IMMEDIATE")  # locked, if somebody were writing
            cursor.execute("ROLLBACK")
            return
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND state LIKE 'idle in transaction%'"
        )
        assert cursor.fetchone()[0] == 0


class _Conflict(Exception):
    """A driver's error for a transaction that lost a conflict."""

    def __init__(self, sqlstate: str) -> None:
        self.sqlstate = sqlstate


@pytest.mark.proves("F22")
@pytest.mark.usefixtures("_nothing_takes_long")
@pytest.mark.parametrize("sqlstate", ["40001", "40P01"])
@pytest.mark.parametrize("number", [1, 2, 5, 9, 14, 22])  # where the desk fails, its tool says so
def test_a_transaction_that_lost_is_made_again_whole(
    scene: Scene, sqlstate: str, number: int
) -> None:
    def lost_connection() -> OperationalError:
        error = OperationalError("could not serialize access")
        error.__cause__ = _Conflict(sqlstate)
        return error

    run = scene.launch(REFUND_500)
    with breaking(number, lost_connection) as broken:
        go(run)
    assert broken.broke_at

    to_the_end(run)

    assert (fresh(run).stop_reason, payments(run)) == ("success", [50000])


def _cut_everybody_off() -> None:
    """End every other connection to this database, like a restarting server.

    Only between tool calls, as one that is cut during its work reports that in its outcome
    (tests/engine/test_cut_calls.py). Waits until they are gone, lest a call begin on one.
    """
    wait_until(lambda: len(TOOL_THREADS._idle) == len(TOOL_THREADS._everyone))
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND application_name <> 'the test'",
            [GONE_IN_MS],
        )


@pytest.mark.proves("F19", "F20", "F21")
@pytest.mark.postgres
def test_connections_that_are_cut_at_any_point_lose_nothing(scene: Scene) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET application_name = 'the test'")
    scene.put_in_force(UNCAPPED)
    for number in count(1):
        run, reached = scene.launch(REFUND_500), [0]

        def cut(reached: list[int] = reached) -> None:
            reached[0] += 1
            in_thread(_cut_everybody_off)

        crashpoints.watch(nth(number, cut))
        go(run)
        crashpoints.watch(None)
        to_the_end(run)

        assert (fresh(run).stop_reason, payments(run)) == ("success", [50000]), number
        if not reached[0]:
            break

    assert number > 12
