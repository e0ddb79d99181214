"""`run_pattern orchestrator`, as a person or a script uses it."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from agents.models import Run
from tests.commands.test_run_pattern import Ended, command

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("sources_answer_at_once"),
]

GOAL = "Prepare the morning operations report."


def report(goal: str, *more: str) -> Ended:
    return command("run_pattern", "orchestrator", "--goal", goal, *more)


@pytest.mark.parametrize(
    ("goal", "days", "region"),
    [
        (GOAL, 1, "US"),
        (f"{GOAL} It is for the EU.", 1, "EU"),
        (f"{GOAL} For region EU on {{day}}", 2, "EU"),
        (f"{GOAL} Tell us about {{day}}.", 3, "US"),
    ],
)
def test_a_report_is_about_the_day_that_its_goal_names(goal: str, days: int, region: str) -> None:
    day = (timezone.now().date() - timedelta(days=days)).isoformat()

    ended = report(goal.format(day=day), "--json")

    assert ended.document["answer"].startswith(
        f"Health {'green' if days > 1 or region == 'EU' else 'yellow'}: {region}, {day}."
    )
    assert ended.document["answer"].count("Next action: ") == 1


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
