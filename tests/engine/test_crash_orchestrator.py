"""A worker that dies while tasks run side by side: the run ends as if nothing had happened.

Which task is first at a crash point is a race, so what is compared is where the run ends.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from agents import results
from agents.desks.refunds import metrics
from agents.engine import crashpoints
from agents.models import Run, Step
from agents.tools import TOOLS, Context
from tests.engine.dying import AROUND_CALLS_AND_COMMITS, die_at
from tests.engine.memory import Crash
from tests.engine.scene import Scene, fresh, go, has_ended, recover, set_scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]

GOAL = "Prepare the morning report."


@pytest.fixture(autouse=True)
def _sources_answer_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for source in metrics.DEMO_SECONDS:
        monkeypatch.setitem(metrics.DEMO_SECONDS, source, (0.0, 0.0))
    yield
    crashpoints.watch(None)


def to_the_end(run: Run) -> None:
    for _ in range(12):
        try:
            go(run)
        except Crash:
            recover(run.pk)
        if has_ended(run):
            return
    raise AssertionError(f"it never ended: {fresh(run).state}")


def launched(scene: Scene) -> Run:
    return scene.launch(GOAL, pattern="orchestrator")


def told(run: Run) -> dict[str, Any]:
    """Return what a run came to, and which steps it took."""
    keys = sorted(run.steps.values_list("key", flat=True))
    return {**results.result(fresh(run)), "run_id": "", "steps": keys}


def test_a_crash_at_any_point_changes_nothing() -> None:
    scene = set_scene()
    points: list[str] = []
    crashpoints.watch(points.append)
    calm = launched(scene)
    to_the_end(calm)
    expected = told(calm)
    assert expected["aggregate"]["health"] == "yellow"
    assert set(points) >= AROUND_CALLS_AND_COMMITS
    assert len(points) > 9  # how many commits side by side take is a race

    for number in range(1, len(points) + 1):
        run = launched(scene)
        die_at(number)
        to_the_end(run)
        crashpoints.watch(None)
        assert told(run) == expected, f"{number}: {points[number - 1]}"


def exchange(monkeypatch: pytest.MonkeyPatch, name: str, call: Any) -> None:
    """Exchange a worker, which is the world outside; the engine stays as it is."""
    monkeypatch.setitem(TOOLS, name, replace(TOOLS[name], call=call))


def test_a_task_that_had_answered_is_not_dispatched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    called: Counter[str] = Counter()
    run = launched(set_scene())

    def counting(name: str) -> Any:
        real = TOOLS[name].call

        def call(context: Context, **args: Any) -> Any:
            called[name] += 1
            return real(context, **args)

        return call

    def dies_once(context: Context, **args: Any) -> Any:
        called["inventory_worker"] += 1
        if called["inventory_worker"] == 1:
            wait_until_kept(run, "t1", "t2")
            raise Crash("its siblings have answered")
        return {"status": "done", "result": {"out_of_stock_skus": [], "restock_eta_days": 1}}

    for name in ("sales_worker", "payments_worker"):
        exchange(monkeypatch, name, counting(name))
    exchange(monkeypatch, "inventory_worker", dies_once)

    to_the_end(run)

    assert called == {"sales_worker": 1, "payments_worker": 1, "inventory_worker": 2}
    assert results.result(fresh(run))["status"] == "ok"


def wait_until_kept(run: Run, *tasks: str) -> None:
    """Return once the replies to these tasks are committed, though the run is still busy."""
    keys = [f"dispatch/{task}/work" for task in tasks]
    for _ in range(80):
        ended = Step.objects.filter(run=run, key__in=keys, ended_at__isnull=False)
        if ended.count() == len(keys):
            return
        time.sleep(0.02)
    raise AssertionError("the replies were not committed while a sibling was busy")
