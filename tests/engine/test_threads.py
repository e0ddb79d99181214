"""Thread pools, and how they are closed."""

from threading import Event

import pytest
from django.db import connection

from agents.engine.runtime.database import Pool

pytestmark = pytest.mark.django_db(transaction=True)


def test_hanging_thread_delays_the_end_only_briefly() -> None:
    pool, let_go = Pool(2, "test"), Event()
    hanging = pool.submit(let_go.wait)

    came_back = pool.close_connections(0.05)

    let_go.set()
    hanging.result()
    assert not came_back
    assert pool.close_connections()


@pytest.mark.postgres
def test_closed_connection_is_opened_again() -> None:
    pool = Pool(1, "test")
    first = pool.submit(_driver_connection).result()
    pool.submit(_break).result()

    second = pool.submit(_driver_connection).result()

    pool.close_connections()
    assert first is not second


def _driver_connection() -> object:
    """Return the driver's connection of this thread after using it."""
    connection.cursor().execute("SELECT 1")
    return connection.connection


def _break() -> None:
    """Close this thread's connection as if the server had gone away."""
    connection.connection.close()
