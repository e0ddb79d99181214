"""The hub: one task that looks for changes and passes them to all viewers."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import psycopg
from django.db import DatabaseError, connection, connections

from agents.audit.protection import CHANNEL
from agents.live.topics import Topic, Update, changed_topics, read_update

log = logging.getLogger(__name__)

_SQLITE_TICK = 0.05  # seconds between queries that take microseconds
_POSTGRES_TICK = 2.0  # seconds of delay after a lost notification
_AGAIN = 1.0  # seconds before listening again after the connection broke
T = TypeVar("T")
_REST = 0.02  # least seconds between looks, so that changes close together are one update
KEPT = 16 * 2**20  # bytes of rendered updates kept for new viewers


def _draw_update(topic: Topic, version: str) -> Update:
    """Return a topic's update, or an SSE comment if it cannot be rendered.

    The error is logged, and the topic retried only when it changes; other pages go on.
    """
    try:
        return read_update(topic, version)
    except DatabaseError:
        raise
    except Exception:
        log.exception("%s cannot be drawn; its pages are not updated", topic)
        return Update(topic, version, b": cannot be drawn\n")


class Viewer:
    """One open page: the newest unsent update of each of its topics.

    At most one update per topic, so that a slow reader takes no memory and gets no backlog.
    """

    def __init__(self, topics: Collection[Topic], seen: str) -> None:
        self.topics = tuple(topics)
        self._sent = dict(self._read(seen))
        self._pending: dict[Topic, Update] = {}
        self._ready = asyncio.Event()

    def has(self, topic: Topic, version: str) -> bool:
        """Tell whether the page shows this state of a topic or is about to get it."""
        pending = self._pending.get(topic)
        return version in (self._sent.get(topic), pending.version if pending else None)

    def offer(self, update: Update) -> None:
        """Queue an update, replacing an older one of the same topic."""
        if not self.has(update.topic, update.version):
            self._pending[update.topic] = update
            self._ready.set()

    async def message(self) -> bytes:
        """Wait for updates, and return them as one event with the id to resume from."""
        while not self._pending:
            self._ready.clear()
            await self._ready.wait()
        topic, update = self._pending.popitem()
        self._sent[topic] = update.version
        return b"id: " + self._place().encode() + b"\n" + update.lines + b"\n"

    def _place(self) -> str:
        """Return the versions this viewer has, for Last-Event-ID: r12.iab34."""
        return ".".join(t.letter + self._sent[t] for t in self.topics if t in self._sent)

    def _read(self, seen: str) -> Iterable[tuple[Topic, str]]:
        for topic in self.topics:
            for part in seen.split("."):
                if part.startswith(topic.letter):
                    yield topic, part.removeprefix(topic.letter)


class Hub:
    """The viewers by topic. Its task runs while there are any, in the loop that serves them."""

    def __init__(self) -> None:
        self._viewers: dict[Topic, set[Viewer]] = {}
        self._versions: dict[Topic, str] = {}
        self._updates: dict[Topic, Update] = {}  # KEPT bytes, for new viewers; newest last
        self._kept = 0  # bytes
        self._wanted: set[Topic] = set()  # by new viewers, changed or not
        self._wake = asyncio.Event()
        self._told = False  # the database has announced a commit
        self._task: asyncio.Task[None] | None = None
        # Its own thread keeps one connection, whose change numbers can be compared.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="live")

    def join(self, viewer: Viewer) -> None:
        """Begin to send a viewer its updates, the newest ones at once."""
        for topic in viewer.topics:
            self._viewers.setdefault(topic, set()).add(viewer)
            if topic in self._updates:
                viewer.offer(self._updates[topic])
            elif not viewer.has(topic, self._versions.get(topic, "")):
                self._wanted.add(topic)
        if self._wanted:
            self._wake.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())

    def leave(self, viewer: Viewer) -> None:
        """Forget a viewer, and topics without other viewers."""
        for topic in viewer.topics:
            watching = self._viewers.get(topic, set())
            watching.discard(viewer)
            if not watching:
                self._viewers.pop(topic, None)
                self._versions.pop(topic, None)
                self._wanted.discard(topic)
                self._drop(topic)

    async def _watch(self) -> None:
        # A viewer may join while the connection is being closed: then the task goes on.
        while self._viewers:
            await self._watch_while_watched()

    async def _watch_while_watched(self) -> None:
        number: int | None = None
        rest = _REST
        is_told = connection.vendor == "postgresql"  # SQLite announces nothing
        listening = asyncio.create_task(_listen(self._hear)) if is_told else None
        try:
            while self._viewers:
                is_due = await self._pause(rest)
                try:
                    before, number = number, await self._read(_change_number)
                    is_due = number != before if number is not None else is_due
                    # A long look is followed by an equally long rest.
                    rest = max(_REST, await self._look(self._viewers if is_due else self._wanted))
                except DatabaseError as error:
                    log.warning("Live updates could not be read (%s); trying again", error)
                    number = None
                    await self._read(connections.close_all)
        finally:
            if listening:
                listening.cancel()
        await self._read(connections.close_all)

    def _hear(self) -> None:
        self._told = True
        self._wake.set()

    async def _pause(self, rest: float) -> bool:
        """Wait for a commit, a new viewer or the tick. Return False for a new viewer alone."""
        await asyncio.sleep(rest)
        tick = _SQLITE_TICK if connection.vendor == "sqlite" else _POSTGRES_TICK
        try:
            async with asyncio.timeout(tick):
                await self._wake.wait()
        except TimeoutError:
            self._told = True
        self._wake.clear()
        was_rung, self._told = self._told, False
        return was_rung

    async def _look(self, topics: Collection[Topic]) -> float:
        """Send the changed topics to viewers. Return the seconds it took to find them."""
        known = {t: "" if t in self._wanted else self._versions.get(t, "") for t in topics}
        began = asyncio.get_running_loop().time()
        versions = await self._read(lambda: changed_topics(known)) if known else {}
        took = asyncio.get_running_loop().time() - began
        self._wanted -= known.keys()
        for topic, version in versions.items():
            # One by one, so that viewers of one topic do not wait for the others.
            await self._draw(topic, version)
        return took

    async def _draw(self, topic: Topic, version: str) -> None:
        """Render a topic if a viewer lacks this version; after a restart perhaps none does."""
        self._drop(topic)
        if not all(viewer.has(topic, version) for viewer in self._viewers.get(topic, ())):
            update = await self._read(partial(_draw_update, topic, version))
            for viewer in self._viewers.get(topic, ()):
                viewer.offer(update)
            self._keep(update)
        if topic in self._viewers:  # its last viewer may have left meanwhile
            self._versions[topic] = version

    def _keep(self, update: Update) -> None:
        if update.topic not in self._viewers:
            return
        self._updates[update.topic] = update
        self._kept += len(update.lines)
        while self._kept > KEPT:
            self._drop(next(iter(self._updates)))

    def _drop(self, topic: Topic) -> None:
        if update := self._updates.pop(topic, None):
            self._kept -= len(update.lines)

    async def _read(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


# Commits of any process wake the hub; no data is passed.


def _change_number() -> int | None:
    """Return a number that other connections' commits change, or None without SQLite.

    Numbers can be compared only if they are from the same connection.
    """
    if connection.vendor != "sqlite":
        return None
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA data_version")
        return int(cursor.fetchone()[0])


async def _listen(hear: Callable[[], None]) -> None:
    """Call `hear` at each notification."""
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
            await asyncio.sleep(_AGAIN)
