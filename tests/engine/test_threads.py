"""Thread pools, and how they are closed."""

import asyncio
from functools import partial
from threading import Event, Thread

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


def test_work_waits_its_turn_for_busy_threads() -> None:
    pool, let_go, order = Pool(1, "test"), Event(), list[int]()

    first = pool.submit(let_go.wait)
    given_up, *later = (pool.submit(partial(order.append, number)) for number in range(4))
    given_up.cancel()
    let_go.set()
    first.result()
    for each in later:
        each.result()

    assert order == [1, 2, 3]


def test_cancelled_work_keeps_its_thread() -> None:
    pool, let_go, done = Pool(1, "test"), Event(), list[str]()

    async def give_up() -> None:
        under_way, waiting = pool.run(let_go.wait), pool.run(partial(done.append, "given up"))
        for each in (under_way, waiting):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(each, 0.01)

    asyncio.run(give_up())
    let_go.set()  # its answer finds neither who asked nor the loop

    pool.submit(partial(done.append, "goes on")).result(60)
    assert done == ["goes on"]


def test_error_that_asyncio_refuses_reaches_its_caller() -> None:
    pool = Pool(1, "test")

    async def raise_in_pool() -> None:
        await asyncio.wait_for(pool.run(lambda: next(iter(()))), 60)

    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(raise_in_pool())


def test_a_thread_that_could_not_be_started_is_missed_by_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, done = Pool(1, "test"), list[str]()

    def none_left(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as machine:
        machine.setattr(Thread, "start", none_left)
        with pytest.raises(RuntimeError):
            pool.submit(partial(done.append, "refused"))

    pool.submit(partial(done.append, "taken")).result(60)
    assert done == ["taken"]


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
