"""The hub: one task that looks for what changed and hands it to everybody who watches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from django.db import DatabaseError, connections

from agents.web.live import wake
from agents.web.live.topics import Topic, Update, changed, read_update

T = TypeVar("T")
log = logging.getLogger(__name__)

REST = 0.02  # seconds between looks at most: changes that come together are one update


def _drawn(topic: Topic, version: str) -> Update:
    """Return an update; in place of one that cannot be drawn, a comment.

    It is logged and not tried again before its topic changes; everybody else's pages go on.
    """
    try:
        return read_update(topic, version)
    except DatabaseError:
        raise
    except Exception:
        log.exception("%s cannot be drawn; its pages stay as they are", topic)
        return Update(topic, version, b": cannot be drawn\n")


class Viewer:
    """One open page: the newest update of each of its topics, until it has been sent.

    It holds at most one update a topic, so that a slow reader costs no memory and sees no backlog.
    """

    def __init__(self, topics: Collection[Topic], seen: str) -> None:
        self.topics = tuple(topics)
        self._sent = dict(self._read(seen))
        self._pending: dict[Topic, Update] = {}
        self._ready = asyncio.Event()

    def offer(self, update: Update) -> None:
        """Take an update to send, in place of an older one of the same topic."""
        if self._sent.get(update.topic) != update.version:
            self._pending[update.topic] = update
            self._ready.set()

    async def message(self) -> bytes:
        """Wait for something new, and return it as one event with the place to resume at."""
        while not self._pending:
            self._ready.clear()
            await self._ready.wait()
        topic, update = self._pending.popitem()
        self._sent[topic] = update.version
        return b"id: " + self._place().encode() + b"\n" + update.lines + b"\n"

    def _place(self) -> str:
        """Return what this viewer has, for Last-Event-ID: r12.iab34."""
        return ".".join(t.letter + self._sent[t] for t in self.topics if t in self._sent)

    def _read(self, seen: str) -> Iterable[tuple[Topic, str]]:
        for topic in self.topics:
            for part in seen.split("."):
                if part.startswith(topic.letter):
                    yield topic, part.removeprefix(topic.letter)


class Hub:
    """Who watches what. It works while somebody watches, in the loop that serves them."""

    def __init__(self) -> None:
        self._viewers: dict[Topic, set[Viewer]] = {}
        self._updates: dict[Topic, Update] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        # A thread of its own keeps one connection, whose change number can be compared.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="live")

    def join(self, viewer: Viewer) -> None:
        """Begin to hand a viewer its updates, the newest ones at once."""
        for topic in viewer.topics:
            self._viewers.setdefault(topic, set()).add(viewer)
            if topic in self._updates:
                viewer.offer(self._updates[topic])
        self._wake.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())

    def leave(self, viewer: Viewer) -> None:
        """Forget a viewer, and the topics that nobody else watches."""
        for topic in viewer.topics:
            watching = self._viewers.get(topic, set())
            watching.discard(viewer)
            if not watching:
                self._viewers.pop(topic, None)
                self._updates.pop(topic, None)

    async def _watch(self) -> None:
        # A viewer may join while the connection is closed: the task then looks again.
        while self._viewers:
            await self._watch_while_watched()

    async def _watch_while_watched(self) -> None:
        number: int | None = None
        async with wake.listening(self._wake):
            while self._viewers:
                woken = await self._pause()
                try:
                    before, number = number, await self._read(wake.change_number)
                    if woken or number is None or number != before:
                        await self._look()
                except DatabaseError as error:
                    log.warning("Live updates could not be read (%s); trying again", error)
                    number = None
                    await self._read(connections.close_all)
        await self._read(connections.close_all)

    async def _pause(self) -> bool:
        """Wait for a wake or the tick. Return whether it was a wake."""
        await asyncio.sleep(REST)
        try:
            await asyncio.wait_for(self._wake.wait(), wake.tick())
        except TimeoutError:
            return False
        self._wake.clear()
        return True

    async def _look(self) -> None:
        known = {t: self._updates[t].version if t in self._updates else "" for t in self._viewers}
        for topic, version in (await self._read(lambda: changed(known))).items():
            # One by one: viewers of one topic do not wait for the others.
            found = await self._read(partial(_drawn, topic, version))
            # Its last viewer may have left meanwhile.
            if topic in self._viewers:
                self._updates[topic] = found
                for viewer in self._viewers[topic]:
                    viewer.offer(found)

    async def _read(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
