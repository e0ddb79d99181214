"""Wake the hub after commits of any process; no data is passed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import psycopg
from django.db import connection

from agents.audit.protection import CHANNEL

log = logging.getLogger(__name__)

SQLITE_TICK = 0.05  # seconds between queries that take microseconds
POSTGRES_TICK = 2.0  # seconds of delay after a lost notification
AGAIN = 1.0  # seconds before listening again after the connection broke


def tick() -> float:
    """Return how many seconds to wait for a wake before asking the database."""
    return SQLITE_TICK if connection.vendor == "sqlite" else POSTGRES_TICK


def change_number() -> int | None:
    """Return a number that other connections' commits change, or None without SQLite.

    Numbers can be compared only if they are from the same connection.
    """
    if connection.vendor != "sqlite":
        return None
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA data_version")
        return int(cursor.fetchone()[0])


@asynccontextmanager
async def listening(hear: Callable[[], None]) -> AsyncIterator[None]:
    """Call `hear` at each notification during the block; SQLite has none."""
    task = asyncio.create_task(_listen(hear)) if connection.vendor == "postgresql" else None
    try:
        yield
    finally:
        if task:
            task.cancel()


async def _listen(hear: Callable[[], None]) -> None:
    where = connection.get_connection_params()
    for ours in ("context", "cursor_factory"):  # Django's own, which are not for this connection
        where.pop(ours, None)
    while True:
        try:
            async with await psycopg.AsyncConnection.connect(**where, autocommit=True) as listener:
                await listener.execute(f"LISTEN {CHANNEL}")
                hear()
                async for _ in listener.notifies():
                    hear()
        except psycopg.Error as error:
            log.warning("Live updates are no longer woken (%s); polling instead", error)
            await asyncio.sleep(AGAIN)
