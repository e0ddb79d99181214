"""`run_pattern routing`, as a person or a script uses it."""

from pathlib import Path

import pytest

from agents.models import Run
from tests.commands.test_run_pattern import Ended, command

pytestmark = pytest.mark.django_db(transaction=True)

REFUND = "Can I get a refund for the monthly charge of 10 days ago?"


def routing(goal: str, *more: str) -> Ended:
    return command("run_pattern", "routing", "--goal", goal, *more)


@pytest.mark.proves("I21")
@pytest.mark.parametrize(("subject", "name"), [("42", "Anna"), ("7", "Max")])
def test_the_customer_is_the_subject_whatever_the_goal_says(subject: str, name: str) -> None:
    ended = routing("Refund the charge of user_id=99", "--subject", subject, "--json")

    found = ended.document["history"][0]["observation"]["result"]
    assert (ended.code, found["user_name"]) == (0, name)
    assert ended.document["note"] == ended.document["answer"]  # the demo model repeats the finding


def test_a_config_of_another_pattern_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"budget": {"max_steps": 1}}')

    ended = routing(REFUND, "--profile", "reference", "--config", str(config))

    assert ended.code == 2
    assert "max_route_attempts" in ended.err
    assert not Run.objects.exists()
