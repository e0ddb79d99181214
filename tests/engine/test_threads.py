"""The pools of threads, as they are closed."""

from __future__ import annotations

from threading import Event

import pytest
from django.db import connection

from agents.engine.threads import Pool

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_thread_that_hangs_holds_up_the_end_no_longer_than_is_allowed() -> None:
    pool, let_go = Pool(2, "test"), Event()
    hanging = pool._pool.submit(let_go.wait)

    came_back = pool.close_connections(0.05)

    let_go.set()
    hanging.result()
    assert not came_back
    assert pool.close_connections()


def test_a_thread_keeps_its_connection_from_one_piece_of_work_to_the_next() -> None:
    pool = Pool(1, "test")

    first, second = (pool._pool.submit(pool._fresh, _opened).result() for _ in range(2))

    pool.close_connections()
    assert first is second


@pytest.mark.postgres
def test_a_connection_that_was_closed_behind_our_back_is_opened_anew() -> None:
    pool = Pool(1, "test")
    first = pool._pool.submit(pool._fresh, _opened).result()
    pool._pool.submit(_break).result()

    second = pool._pool.submit(pool._fresh, _opened).result()

    pool.close_connections()
    assert first is not second


def _opened() -> object:
    """Return this thread's connection, as the driver has it, once it has been used."""
    connection.cursor().execute("SELECT 1")
    return connection.connection


def _break() -> None:
    """Leave this thread's connection closed, as a server that went away leaves it."""
    connection.connection.close()
