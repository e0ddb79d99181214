"""`run_pattern workflow`, as a person or a script uses it."""

import json
from pathlib import Path

import pytest

from agents.models import Escalation, Run
from tests.commands.test_run_pattern import Ended, command
from tests.engine.scene import go, set_scene

pytestmark = pytest.mark.django_db(transaction=True)

ASKS = "Anna (user_id=42) asks which plan she has."


def workflow(name: str, goal: str, *more: str) -> Ended:
    options = ("--workflow", name, "--goal", goal, "--subject", "42")
    return command("run_pattern", "workflow", *options, *more)


def test_a_person_corrects_from_the_command_line() -> None:
    set_scene()
    workflow("exception-memo", ASKS, "--actor", "omar")
    held = str(Escalation.objects.get().pk)

    decided = command("decide", held, "--approve", "--correction", "Shorter.", "--as", "rita")

    told = f"request {held} adjusted\nApprove the agent’s “memo”: "
    told += "rita sent the draft back with instructions.\n"
    assert (decided.code, decided.out) == (0, told)
    run = go(Run.objects.get())
    assert (run.state, run.escalations.count()) == ("waiting", 2)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "Say which workflow to follow: customer-reply, exception-memo."),
        (("--workflow", "guess"), "There is no workflow 'guess'"),
        (("--workflow", "customer-reply", "--input", "mood=sad"), "no parameter mood"),
    ],
)
def test_what_cannot_be_followed_is_refused(options: tuple[str, ...], says: str) -> None:
    goal = ("--goal", ASKS, "--subject", "42")

    ended = command("run_pattern", "workflow", *goal, *options)

    assert ended.code == 2
    assert says in ended.err
    assert not Run.objects.exists()


def test_a_document_of_a_recorded_case_runs_on_a_replay(tmp_path: Path) -> None:
    step = {"kind": "goal", "name": "g", "description": "Say $what."}
    document = {
        "name": "wf",
        "parameters": [{"name": "what"}],
        "sequences": [{"name": "s", "steps": [step]}],
    }
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"workflow": document, "inputs": {"what": "hello"}}))

    options = ("--goal", ASKS, "--profile", "reference", "--config", str(config), "--json")
    ended = command("run_pattern", "workflow", *options)

    assert (ended.code, ended.document["failures"]) == (0, {})
    assert list(ended.document["outputs"]) == ["g"]
