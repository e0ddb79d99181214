"""Open pages cost by changes and by signed-in people, not by their number."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from agents.live import app, hub
from agents.live.app import Live
from agents.live.hub import Hub, Viewer
from agents.live.topics import InboxTopic, RunTopic, Topic, Update
from agents.models import Membership, Run
from tests.engine.scene import Scene, set_scene
from tests.live.watching import cookie_of

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 60


@contextmanager
def count_queries(work: Counter[str], name: str) -> Iterator[None]:
    """Count this thread's queries."""

    def count(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if not sql.startswith("PRAGMA"):  # of a change, asked many times a second
            work[name] += 1
        return execute(sql, *rest)

    with connection.execute_wrapper(count):
        yield


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


def work_of(runs: list[Run], pages: int, monkeypatch: pytest.MonkeyPatch) -> list[Counter[str]]:
    """Return a hub's work for a crowd: at connect, at a change, and at reconnect."""
    work, found = Counter[str](), list[Counter[str]]()
    drawn, changed = hub.read_update, hub.changed_topics

    def draw(topic: Topic, version: str) -> Update:
        work["drawn"] += 1
        return drawn(topic, version)

    def read(known: Any) -> Any:
        with count_queries(work, "queries"):
            return changed(known)

    def topics(number: int) -> list[Topic]:
        return [InboxTopic((runs[0].workspace_id,)), RunTopic(runs[number % len(runs)].pk)]

    async def crowd(places: list[str]) -> list[str]:
        here = Hub()
        viewers = [Viewer(topics(n), seen) for n, seen in enumerate(places)]
        for viewer in viewers:
            here.join(viewer)
        if all(places):  # they are up to date: wait for what the hub learns
            await until(lambda: len(here._versions) == len(runs) + 1)
        else:
            for viewer in viewers:
                for _ in range(2):
                    await asyncio.wait_for(viewer.message(), SECONDS)
        found.append(Counter(work))
        work.clear()
        if not all(places):
            facts, at = {"tool": "add_note"}, timezone.now()
            await asyncio.to_thread(partial(runs[0].say, "call.late", at=at, facts=facts))
            for viewer in viewers[:: len(runs)]:
                await asyncio.wait_for(viewer.message(), SECONDS)
            found.append(Counter(work))
            work.clear()
        for viewer in viewers:
            here.leave(viewer)
        if here._task:
            await asyncio.wait_for(here._task, SECONDS)
        assert not here._updates
        assert not here._versions
        assert here._kept == 0
        work.clear()
        return [viewer._place() for viewer in viewers]

    monkeypatch.setattr(hub, "read_update", draw)
    monkeypatch.setattr(hub, "changed_topics", read)
    asyncio.run(crowd(asyncio.run(crowd([""] * pages))))
    monkeypatch.undo()
    return found


def test_change_is_drawn_once_for_the_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = set_scene()
    runs = [scene.launch() for _ in range(4)]

    few, many = (work_of(runs, pages, monkeypatch) for pages in (8, 400))

    for came, changed, back in (few, many):
        assert came["drawn"] == len(runs) + 1
        assert changed["drawn"] == 1
        assert back["drawn"] == 0
        assert max(came["queries"], changed["queries"], back["queries"]) <= 9  # of three looks


def test_what_is_drawn_is_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    here, topics = Hub(), [InboxTopic((number,)) for number in range(50)]
    viewers = [Viewer([topic], "") for topic in topics]
    here._viewers = {topic: {viewer} for topic, viewer in zip(topics, viewers, strict=True)}
    monkeypatch.setattr(hub, "KEPT", 1000)

    for number in range(200):
        here._drop(topics[number % 50])
        here._keep(Update(topics[number % 50], str(number), b"x" * 90))

    assert here._kept == sum(len(one.lines) for one in here._updates.values()) == 990


def stream_of(live: Live, cookie: str, query: str) -> tuple[asyncio.Task[None], list[bytes]]:
    """Open a stream without a server. Return its task and what it is sent."""
    sent: list[bytes] = []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    scope = {
        "method": "GET",
        "headers": [(b"cookie", cookie.encode())],
        "query_string": query.encode(),
    }
    return asyncio.ensure_future(live(scope, receive, send)), sent


def test_access_is_checked_once_per_session(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    scene: Scene = set_scene()
    runs = [scene.launch() for _ in range(25)]
    cookies = [cookie_of(scene.rita), cookie_of(scene.omar)]
    settings.OPSCONSOLE_LIVE_RECHECK_SECONDS = 0.5
    monkeypatch.setattr(app, "COMING_BACK", 5)
    asked, work, lost = list[str](), Counter[str](), app.lost_visitors

    def counting(cookie: str, visitors: Any) -> Any:
        asked.append(cookie)
        with count_queries(work, cookie):
            return lost(cookie, visitors)

    async def crowd() -> None:
        live = Live()
        before = len(asyncio.all_tasks())
        opened = [stream_of(live, c, f"run={run.pk}") for c in cookies for run in runs]
        await until(lambda: all(len(sent) > 2 for _, sent in opened))
        # Two tasks per stream, a guard per session, and the hub.
        assert len(asyncio.all_tasks()) - before <= 3 * len(opened) + len(cookies) + 2
        waits = [int(ms) for _, sent in opened for ms in re.findall(rb"retry: (\d+)", sent[-1])]
        assert len(waits) == len(opened)
        assert len({ms // 1000 for ms in waits}) > 4  # within ten seconds
        assert max(waits) <= 10_500

        monkeypatch.setattr(app, "lost_visitors", counting)
        await until(lambda: {*cookies} <= {*asked})
        await asyncio.to_thread(Membership.objects.filter(user=scene.omar).delete)
        await until(lambda: all(task.done() for task, _ in opened[25:]))
        assert all(b"event: ended" in sent[-1] for _, sent in opened[25:])
        assert not any(task.done() for task, _ in opened[:25])
        assert max(work[cookie] / asked.count(cookie) for cookie in cookies) <= 5

        live._end_all()
        await until(lambda: all(task.done() for task, _ in opened))
        assert not any(b"event: ended" in sent[-1] for _, sent in opened[:25])
        assert not any([live._streams, live._guards, sum(live._open.values())])

    asyncio.run(crowd())
