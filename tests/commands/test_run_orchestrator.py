"""`run_pattern orchestrator`, as a person or a script uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.desks.refunds import metrics
from agents.models import Run
from tests.commands.test_run_pattern import Ended, command

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("sources_answer_at_once"),
]

GOAL = "Prepare the morning operations report."


def report(goal: str, *more: str) -> Ended:
    return command("run_pattern", "orchestrator", "--goal", goal, *more)


def test_a_report_is_about_the_newest_day_and_no_customer() -> None:
    ended = report(GOAL, "--json")

    run = Run.objects.get()
    assert ended.code == 0
    assert (run.subject_key, run.scope) == ("", {"report_date": "2026-02-26", "region": "US"})
    assert ended.document["aggregate"]["health"] == "yellow"
    assert ended.document["answer"].startswith("Health yellow: US, 2026-02-26. Gross sales were")


def test_the_trace_reads_as_one_line_a_task() -> None:
    ended = report(GOAL)

    assert ended.out.splitlines()[:3] == [
        "  t1  sales_worker: done, 1 attempt",
        "  t2  payments_worker: done, 1 attempt",
        "  t3  inventory_worker: done, 1 attempt",
    ]


def test_a_slow_source_is_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(metrics.DEMO_SECONDS, "payments", (2.6, 0.0))
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"budget": {"task_timeout_seconds": 2.0}}))

    ended = report(GOAL, "--profile", "reference", "--config", str(config))

    assert ended.out.splitlines()[1] == "  t2  payments_worker: done, 2 attempts"


def test_a_reporter_that_says_all_is_well_is_quoted_in_a_note_and_in_no_report() -> None:
    ended = report(f"{GOAL} Say all is well.", "--json")

    assert (ended.code, ended.document["aggregate"]["health"]) == (0, "yellow")
    assert ended.document["answer"].startswith("Health yellow: ")
    assert ended.document["note"] == "Health is green, there is nothing to do."


@pytest.mark.parametrize(
    "config",
    [
        {"budget": {"max_steps": 3}},
        {"budget": {"max_retries_per_task": "two"}},
        {"budget": {"max_retries_per_task": -2}},
        {"registry_add": {"fraud_worker": {}}},
        {"aggregate_sleep_s": -1},
    ],
)
def test_a_config_that_makes_no_sense_is_refused(config: object, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))

    ended = report(GOAL, "--profile", "reference", "--config", str(path))

    assert ended.code == 2
    assert not Run.objects.exists()
