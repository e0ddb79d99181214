"""`run_pattern routing`, as a person or a script uses it."""

from pathlib import Path

import pytest

from agents.desks.refunds.scenarios import BY_KEY
from agents.models import Escalation, Run
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


def test_a_reroute_reads_as_two_attempts() -> None:
    ended = routing(BY_KEY["rerouted"].goal, "--subject", "7")

    assert ended.out.splitlines()[:2] == [
        "  1  technical_specialist: needs_reroute",
        "  2  sales_specialist: needs_reroute",
    ]
    assert ended.out.splitlines()[2] == "  3  billing_specialist: done"


def test_untaken_case_waits_with_its_attempts() -> None:
    ended = routing("What is the weather like?", "--subject", "42", "--json")

    escalation = Escalation.objects.get()
    assert (ended.code, ended.document["status"]) == (4, "waiting")
    assert (escalation.kind, escalation.subject_key) == ("hand_over", "42")
    assert [tried["reason"] for tried in escalation.action["tried"]] == [
        "ticket_not_billing",
        "ticket_not_technical",
        "ticket_not_sales",
    ]


def test_overclaiming_agent_is_quoted_in_a_note_only() -> None:
    ended = routing(BY_KEY["false-promise"].goal, "--subject", "42", "--json")

    assert (ended.code, ended.document["note"]) == (0, "The charge was refunded in full.")
    assert ended.document["answer"].startswith("A refund of USD 49.00 is possible; this run paid ")


def test_a_config_of_another_pattern_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"budget": {"max_steps": 1}}')

    ended = routing(REFUND, "--profile", "reference", "--config", str(config))

    assert ended.code == 2
    assert "max_route_attempts" in ended.err
    assert not Run.objects.exists()
