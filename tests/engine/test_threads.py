"""Thread pools, and how they are closed."""

from __future__ import annotations

import asyncio
from functools import partial
from threading import Event, Thread

import pytest
from django.db import connection

from agents.engine.runtime.database import Pool

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_thread_that_hangs_holds_up_the_end_no_longer_than_is_allowed() -> None:
    pool, let_go = Pool(2, "test"), Event()
    hanging = pool.submit(let_go.wait)

    came_back = pool.close_connections(0.05)

    let_go.set()
    hanging.result()
    assert not came_back
    assert pool.close_connections()


def test_what_finds_all_threads_busy_waits_and_is_done_in_its_turn() -> None:
    pool, let_go, order = Pool(1, "test"), Event(), list[int]()

    first = pool.submit(let_go.wait)
    given_up, *later = (pool.submit(partial(order.append, number)) for number in range(4))
    given_up.cancel()
    let_go.set()
    first.result()
    for each in later:
        each.result()

    assert order == [1, 2, 3]


def test_who_stops_waiting_leaves_no_work_behind_and_the_thread_in_its_place() -> None:
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


def test_an_error_that_asyncio_does_not_take_reaches_who_asked_all_the_same() -> None:
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
def test_a_connection_that_was_closed_behind_our_back_is_opened_anew() -> None:
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
