"""An outage of the model ends no run: it waits without a worker and goes on by itself."""

import time

import pytest

from agents.core.requests import Json, RunState
from agents.models import Endpoint, Run
from tests.engine.faulty import advance_all, as_demo, faulty_server, let_time_pass
from tests.engine.scene import REFUND_500, Scene, mails, payments

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("sources_answer_at_once"),
]

MOVED = 5  # how often time moves on during a fault
FAULTS = ("429", "hang", "drip", "half", "reset", "500", "503", "html", "empty", "408")
SETTINGS = ("401", "403", "404", "307")  # what only an admin can fix


def go_on_until_all_ended(runs: list[Run]) -> list[Run]:
    for _ in range(60):
        runs = advance_all(runs)
        if all(run.ended_at for run in runs):
            return runs
        let_time_pass()
    raise AssertionError([(run.state, run.stop_reason) for run in runs])


def last_through(runs: list[Run], moved: int = MOVED) -> list[Run]:
    """Let a fault last for this many rests; return the runs reloaded."""
    for _ in range(moved):
        runs = advance_all(runs)
        let_time_pass()
    return advance_all(runs)


@pytest.mark.proves("F24", "F25", "F26", "F28", "F29")
@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS + SETTINGS)
def test_an_outage_of_any_kind_ends_no_run(scene: Scene, fault: str) -> None:
    with faulty_server() as server:
        runs = [scene.launch(REFUND_500) for _ in range(3)]
        server.fault = fault
        during = last_through(runs)
        endpoint = Endpoint.objects.get()
        server.fault = ""
        let_time_pass()
        after = go_on_until_all_ended(runs)

    assert {(run.state, run.lease_owner) for run in during} == {(RunState.QUEUED, "")}
    assert endpoint.rests_until is not None  # every kind opens the breaker
    assert endpoint.fault
    assert [run.stop_reason for run in after] == ["success"] * 3
    assert [(payments(run), mails(run)) for run in after] == [([50000], [50000])] * 3


@pytest.mark.proves("F26")
@pytest.mark.slow
def test_an_hour_of_rests_ends_no_run_and_costs_it_nothing(scene: Scene) -> None:
    with faulty_server(retry_after="3600", fault="429") as server:
        runs = [scene.launch(REFUND_500) for _ in range(2)]
        during = last_through(runs, moved=30)
        calls = len(server.calls)
        server.fault = ""
        let_time_pass()
        after = go_on_until_all_ended(runs)

    assert {run.state for run in during} == {RunState.QUEUED}
    assert [run.stop_reason for run in after] == ["success"] * 2
    assert calls < 50  # one per rest, and those that opened the breaker
    for run in after:
        assert sum(step.tokens_lost for step in run.steps.all()) == 0
        assert sum(step.seconds for step in run.steps.all()) < 5


@pytest.mark.proves("F28")
def test_a_wrong_key_that_is_put_right_costs_no_run_its_end(scene: Scene) -> None:
    with faulty_server(fault="401"):
        runs = last_through([scene.launch(REFUND_500)], moved=30)
        assert "OPENAI_API_KEY" in Endpoint.objects.get().fault
    with faulty_server():
        after = go_on_until_all_ended(runs)

    assert [run.stop_reason for run in after] == ["success"]


def test_a_run_that_has_paid_still_mails_after_an_outage(scene: Scene) -> None:
    with faulty_server() as server:

        def hangs_after_the_refund(role: str, inputs: Json) -> str:
            said = as_demo(role, inputs)
            if "send_refund_email" in said:
                server.fault = "hang"
                server.says = as_demo
                time.sleep(1)
            return said

        server.says = hangs_after_the_refund
        [run] = last_through([scene.launch(REFUND_500)])
        assert (run.state, payments(run), mails(run)) == (RunState.QUEUED, [50000], [])
        server.fault = ""
        let_time_pass()
        [run] = go_on_until_all_ended([run])

    assert (run.stop_reason, payments(run), mails(run)) == ("success", [50000], [50000])


@pytest.mark.proves("F27")
@pytest.mark.parametrize("key", ["within-limit", "routed", "morning-report", "reply"])
def test_every_pattern_outlasts_a_lost_model(scene: Scene, key: str) -> None:
    run = scene.launch_scenario(key)
    with faulty_server(timeout=5) as server:

        def fails_every_other_time(role: str, inputs: Json) -> str:
            if len(server.calls) % 2:
                raise ConnectionError
            return as_demo(role, inputs)

        server.says = fails_every_other_time
        [run] = go_on_until_all_ended([run])

    assert run.stop_reason == "success"
