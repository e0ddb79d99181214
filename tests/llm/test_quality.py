"""The program that measures a model counts by ledger and requests, not by words."""

import json
from collections.abc import Iterator

import pytest
from django.test import override_settings

from agents.core.requests import Json
from agents.models import Run
from bench.quality.goals import GOALS
from bench.quality.playing import Played, play
from tests.desks import bank
from tests.engine.scene import Scene
from tests.engine.test_tool_calls import end, model, pay
from tests.llm.asking import send, serving
from tests.llm.tool_server import completion

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def bankers() -> Scene:
    return bank.bank_scene()


@pytest.fixture
def always_ends() -> Iterator[str]:
    """Serve a model that ends every run at once, in either form."""

    def respond(handler: Json, body: bytes) -> None:
        said = [end("All of it was done: EUR 480.00 was transferred.")]
        final = json.dumps({"kind": "final", "answer": "Done."})
        reply = said if "tools" in json.loads(body) else final
        send(handler, json.dumps(completion(reply)).encode())

    with serving(respond, with_body=True) as (url, _):
        yield url


@pytest.mark.parametrize("form", ["on", "off"])
def test_a_model_that_always_ends_at_once_gets_nothing_done(
    bankers: Scene, always_ends: str, form: str
) -> None:
    with override_settings(OPENAI_BASE_URL=always_ends, OPENAI_TOOL_CALLS=form):
        played = [play(goal, bankers.workspace, bankers.omar) for goal in GOALS]

    assert sum(one.is_wanted for one in played if one.is_honest) == 0
    assert not any(one.false_record or one.bad_effects or one.bad_requests for one in played)


def played(bankers: Scene, number: int, *replies: Json) -> Played:
    with model(*replies, calls="on"):
        return play(GOALS[number], bankers.workspace, bankers.omar)


def test_what_no_goal_wanted_is_counted_against_it(bankers: Scene) -> None:
    other = played(bankers, 0, [pay("P-102", "48.00")], [pay("P-103", "48.00")])
    twice = played(bankers, 0, [pay()], [pay(amount="480.01")], "Paid.")

    assert [one.is_wanted for one in (other, twice)] == [False, False]
    # It was told that it made up the amount of its first; a person is asked about the second.
    assert (other.bad_requests, other.unwanted) == (1, 2)
    assert Run.objects.filter(state="waiting").exists()
    assert twice.ended != "carried out as wanted"
