"""Workers that hang: the run goes on at its deadlines, and late replies are only recorded."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection

from agents import results
from agents.core.requests import Json, RunState
from agents.desks.refunds.limits import STRICT
from agents.engine.tools import gateway
from agents.engine.tools.gateway import LATE
from agents.models import Event, Run
from agents.models.record import facts_of
from agents.sdk.desk import DESKS
from agents.sdk.desk_tools import DeskCall
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene, go, has_ended, set_scene
from tests.limits import with_part

TOOLS = DESKS["refunds"].all_tools

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("sources_answer_at_once"),
]

GOAL = "Prepare the morning report."
SECONDS = 2.0  # the run's budget; the two tasks that succeed take far less
NOTHING_SHORT = {"status": "done", "result": {"out_of_stock_skus": [], "restock_eta_days": 1}}


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Hold a worker's thread until the test is over, like a call that never returns."""
    flag = threading.Event()
    yield flag
    flag.set()


def exchange(monkeypatch: pytest.MonkeyPatch, name: str, call: Any, *, timeout: float = 30) -> None:
    """Replace a tool's function and set its deadline."""
    monkeypatch.setitem(TOOLS, name, replace(TOOLS[name], function=call, timeout=timeout))


def launch_report(scene: Scene, **own: Json) -> Run:
    """Launch a report under the strict policy with these limits."""
    patterns = STRICT.part_of("refunds", "patterns")
    part = {**patterns["orchestrator"], **own}
    limits = with_part(patterns={**patterns, "orchestrator": part})
    return scene.launch_under(limits, GOAL, pattern="orchestrator", subject=None)


def seconds_of(run: Run) -> float:
    """Return how long a run took from its first claim to its end, by its record."""
    begun = Event.objects.filter(run=run, kind="run.claimed").earliest("seq").at
    assert run.ended_at is not None
    return (run.ended_at - begun).total_seconds()


def test_hanging_worker_holds_no_run_beyond_its_deadline(
    monkeypatch: pytest.MonkeyPatch, release: threading.Event
) -> None:
    run = launch_report(set_scene(), max_seconds=SECONDS, call_seconds=60)

    def hangs(context: DeskCall, **args: Any) -> Json:
        release.wait(60)
        return NOTHING_SHORT

    def ends() -> None:
        try:
            while not has_ended(run):
                time.sleep(0.02)
        finally:
            release.set()
            connection.close()

    exchange(monkeypatch, "inventory_worker", hangs)
    watcher = threading.Thread(target=ends)
    watcher.start()
    run = go(run)
    watcher.join()

    found = results.result(run)
    assert (run.stop_reason, found["phase"]) == ("max_seconds", "dispatch")
    assert seconds_of(run) < 20  # its calls might take 30
    assert [line["status"] for line in found["trace"]] == ["done", "done", "failed"]
    assert found["history"][0]["observation"]["result"]["orders"] == 4820
    assert Event.objects.filter(run=run, kind=LATE).count() == 1  # recorded after the end


@asynccontextmanager
async def timeout_without_cause(seconds: float) -> AsyncIterator[asyncio.Timeout]:
    """Raise as Pythons before 3.11.3 do."""
    try:
        async with asyncio.timeout(seconds) as limit:
            yield limit
    except TimeoutError as error:
        error.__cause__ = None
        raise


@pytest.mark.parametrize("timeout", [asyncio.timeout, timeout_without_cause])
def test_a_task_past_its_own_deadline_leaves_a_partial_report(
    timeout: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        gateway, "asyncio", SimpleNamespace(**{**vars(asyncio), "timeout": timeout})
    )
    run = launch_report(set_scene(), call_seconds=30)

    async def hangs(context: DeskCall, **args: Any) -> Json:
        await asyncio.Event().wait()

    exchange(monkeypatch, "inventory_worker", hangs, timeout=0.1)
    run = go(run)

    found = results.result(run)
    assert (run.state, found["aggregate"]["health"]) == (RunState.DONE, "unknown")
    assert found["trace"][2]["stop_reason"] == "task_timeout"
    assert found["trace"][2]["attempts_used"] == 2
    day = (run.scope or {}).get("report_date")
    assert found["answer"].startswith(f"Health unknown: US, {day}. Partial report")


@pytest.mark.both
def test_a_late_answer_is_on_record_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    run, again = launch_report(set_scene(), call_seconds=30), threading.Event()

    def slow_at_first(context: DeskCall, **args: Any) -> Json:
        if context.nth == 1:
            assert again.wait(30)
            return {"status": "done", "result": {"out_of_stock_skus": ["SKU-LATE"]}}
        again.set()
        return NOTHING_SHORT

    exchange(monkeypatch, "inventory_worker", slow_at_first, timeout=2)
    run = go(run)  # its threads end before it returns, so the late reply is there

    found = results.result(run)
    assert (found["trace"][2]["status"], found["trace"][2]["attempts_used"]) == ("done", 2)
    assert found["aggregate"]["inventory"]["out_of_stock_skus"] == []
    late = Event.objects.get(run=run, kind=LATE)
    assert "SKU-LATE" in facts_of(late)["said"]
    assert late.facts["key"] == f"{run.pk}:dispatch/t3/work"
    assert command("verify_audit", "--run", str(run.pk)).code == 0
