"""Runs in the browser: find them, take the result, stop one."""

from __future__ import annotations

import pytest
from django.urls import reverse

from agents import results
from agents.core.states import EscalationState, RunState
from agents.models import Escalation
from agents.web.runs import listing
from tests.engine.scene import REFUND_500, Scene, fresh, go, paid, set_scene
from tests.web.test_pages import signed_in

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def scene() -> Scene:
    return set_scene()


@pytest.mark.parametrize(
    ("asked", "done", "waiting"),
    [
        ({}, True, True),
        ({"state": "done"}, True, False),
        ({"pattern": "supervisor"}, True, True),
        ({"pattern": "juggling"}, False, False),
        ({"stop_reason": "succ"}, True, False),
        ({"customer": "42"}, True, True),
        ({"customer": "7"}, False, False),
        ({"customer": "9" * 30}, False, False),
        ({"customer": "Anna"}, False, False),
        ({"launcher": "omar"}, True, True),
        ({"launcher": "rita"}, False, False),
        ({"text": "500 usd"}, True, False),
        ({"text": "%"}, False, False),
        ({"before": "nonsense"}, True, True),
    ],
)
def test_runs_are_found_by_what_is_known_of_them(
    scene: Scene, asked: dict[str, str], done: bool, waiting: bool
) -> None:
    of_500, of_1200 = go(scene.launch(REFUND_500)), go(scene.launch())

    page = signed_in(scene.eve).get(reverse("runs"), asked).text

    assert (str(of_500.pk) in page, str(of_1200.pk) in page) == (done, waiting)


def test_pages_of_runs_follow_each_other(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", 2)
    launched = [scene.launch() for _ in range(5)]
    client = signed_in(scene.eve)

    seen: list[str] = []
    address = reverse("runs")
    for _ in range(3):
        page = client.get(address)
        found = page.context["found"]
        seen += [str(run.pk) for run in found.rows]
        address = reverse("runs") + f"?before={found.older.replace('+', '%2B')}"

    assert seen == [str(run.pk) for run in reversed(launched)]
    assert found.older == ""


def test_the_result_is_what_the_command_line_prints(scene: Scene) -> None:
    run = go(scene.launch(REFUND_500))

    answered = signed_in(scene.eve).get(reverse("run-json", args=[run.pk]))

    assert answered["Content-Type"] == "application/json"
    assert answered.json() == results.result(fresh(run))


def test_omar_stops_a_run_that_waits(scene: Scene) -> None:
    run = go(scene.launch())
    client = signed_in(scene.omar)
    address = reverse("cancel", args=[run.pk])
    assert "Stop this run" in client.get(reverse("run", args=[run.pk])).text

    without = client.post(address)
    stopped = client.post(address, {"reason": "a mistake"})
    again = client.post(address, {"reason": "a mistake"})

    assert [without.status_code, stopped.status_code, again.status_code] == [422, 302, 409]
    assert "it is stopped" in again.text
    assert fresh(run).state == RunState.STOPPED
    assert Escalation.objects.get(run=run).state == EscalationState.CANCELLED
    assert paid(run) == []
    assert run.events.get(kind="run.stopped").actor == "omar"
    assert "Stop this run" not in client.get(reverse("run", args=[run.pk])).text
