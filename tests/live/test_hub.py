"""What the hub sends a viewer: newest states, and where to resume."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections

from agents.live.hub import Hub, Viewer
from agents.live.topics import ActivityTopic, RunTopic, Update
from agents.live.topics import read_update as rendered
from tests.engine.scene import go, set_scene

RUN, ACTIVITY = RunTopic(uuid4()), ActivityTopic((1,))


@pytest.mark.django_db(transaction=True)
def test_no_text_of_a_run_can_end_a_message_or_begin_another() -> None:
    goal = "Refund 1200 USD to user_id=42.\n\nevent: ended\ndata: <b>gotcha</b>\r\rid: 9"
    run = go(set_scene().launch(goal))

    lines = rendered(RunTopic(run.pk), "1").lines.decode()

    assert all(line.startswith("data: ") for line in lines.rstrip("\n").split("\n"))
    assert "\r" not in lines
    assert "<b>gotcha" not in lines


@pytest.mark.django_db(transaction=True)
@pytest.mark.both
def test_a_page_that_opens_while_the_last_one_closes_is_served() -> None:
    run = set_scene().launch()
    first, second = Viewer([RunTopic(run.pk)], seen=""), Viewer([RunTopic(run.pk)], seen="")

    async def change_pages(monkeypatch: pytest.MonkeyPatch) -> bytes:
        hub = Hub()
        read = hub._read

        async def opening(work: Callable[[], Any]) -> Any:
            # Somebody comes just as the hub, unwatched, returns its connection.
            if work == connections.close_all and not hub._viewers:
                hub.join(second)
            return await read(work)

        monkeypatch.setattr(hub, "_read", opening)
        hub.join(first)
        await asyncio.wait_for(first.message(), 30)
        hub.leave(first)
        try:
            return await asyncio.wait_for(second.message(), 30)
        finally:
            monkeypatch.undo()
            hub.leave(second)
            if hub._task:
                await asyncio.wait_for(hub._task, 30)

    with pytest.MonkeyPatch.context() as monkeypatch:
        message = asyncio.run(change_pages(monkeypatch))

    assert b"Queued" in message


@pytest.mark.django_db(transaction=True)
def test_a_page_that_cannot_be_drawn_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scene = set_scene()
    broken, sound = RunTopic(scene.launch().pk), RunTopic(scene.launch().pk)

    def draw(topic: RunTopic, version: str) -> Update:
        if topic == broken:
            raise ValueError("a template met what it did not expect")
        return rendered(topic, version)

    async def watch() -> bytes:
        hub, first, second = Hub(), Viewer([broken], seen=""), Viewer([sound], seen="")
        for viewer in (first, second):
            hub.join(viewer)
        try:
            await asyncio.wait_for(first.message(), 30)
            return await asyncio.wait_for(second.message(), 30)
        finally:
            for viewer in (first, second):
                hub.leave(viewer)
            if hub._task:
                await asyncio.wait_for(hub._task, 30)

    monkeypatch.setattr("agents.live.hub.read_update", draw)

    assert b"Queued" in asyncio.run(watch())
    assert "cannot be drawn" in caplog.text
