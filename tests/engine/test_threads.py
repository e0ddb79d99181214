"""The pools of threads, as they are closed."""

from __future__ import annotations

from threading import Event

import pytest

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
