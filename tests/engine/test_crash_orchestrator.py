"""A worker dies while tasks run in parallel: what had answered is not asked again."""

import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from agents import results
from agents.models import Run, Step
from agents.sdk.desk import DESKS
from agents.sdk.desk_tools import DeskCall
from tests.engine.dying import to_the_end
from tests.engine.memory import Crash
from tests.engine.scene import fresh, set_scene

TOOLS = DESKS["refunds"].all_tools

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.usefixtures("sources_answer_at_once"),
]


def exchange(monkeypatch: pytest.MonkeyPatch, name: str, call: Any) -> None:
    """Replace a report worker, which stands for an outside system."""
    monkeypatch.setitem(TOOLS, name, replace(TOOLS[name], function=call))


def test_a_task_that_had_answered_is_not_dispatched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    called: Counter[str] = Counter()
    run = set_scene().launch("Prepare the morning report.", pattern="orchestrator")

    def counting(name: str) -> Any:
        real = TOOLS[name].function

        def call(context: DeskCall, **args: Any) -> Any:
            called[name] += 1
            return real(context, **args)

        return call

    def dies_once(context: DeskCall, **args: Any) -> Any:
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
    """Wait until these tasks' replies are committed while the run goes on."""
    keys = [f"dispatch/{task}/work" for task in tasks]
    for _ in range(80):
        ended = Step.objects.filter(run=run, key__in=keys, ended_at__isnull=False)
        if ended.count() == len(keys):
            return
        time.sleep(0.02)
    raise AssertionError("the replies were not committed while a sibling was busy")
