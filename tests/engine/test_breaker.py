"""After repeated failures a model's server is given a rest; runs wait and lose nothing."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import override_settings
from django.utils import timezone

from agents import llm
from agents.core.requests import RunState
from agents.desks.refunds.limits import STRICT
from agents.engine.commit import Commit
from agents.engine.turns import asking
from agents.engine.turns.asking import MAX_CLAIMS
from agents.models import Endpoint, Run
from tests.conformance import harness
from tests.conformance.replay_server import ReplayServer
from tests.engine.scene import REFUND_500, Scene, claimable_runs, columns_of, go, payments
from tests.processes import together
from tests.settings import ON_POSTGRES

pytestmark = pytest.mark.django_db(transaction=True)

CONTEXT = '{"kind": "tool", "name": "get_refund_context", "args": {"user_id": 42}}'
FINAL = '{"kind": "final", "answer": "Done."}'
LEAVE = asking.Permit("https://models.example.com/v1")
FAULT = llm.ModelFailed("llm_error", "The server is in trouble (500).", retry=True, outage=True)
DOWN = {"fault": "http_500", "times": asking.FAILURES}


@pytest.fixture
def server() -> Iterator[ReplayServer]:
    with (
        harness.replaying() as server,
        override_settings(
            OPENAI_BASE_URL=server.base_url("model"),
            OPENAI_API_KEY="any",
            OPENAI_TIMEOUT_SECONDS=30,
        ),
    ):
        yield server


def fail_until_left_alone(scene: Scene, server: ReplayServer, *then: Any) -> Run:
    """Let two runs fail until the server rests. Return the second."""
    server.load("model", [DOWN, *then])
    go(scene.launch(REFUND_500))
    run = go(scene.launch(REFUND_500))
    assert server.sessions["model"].requests == asking.FAILURES
    return run


def let_rest_end(*runs: Run) -> None:
    past = timezone.now() - timedelta(seconds=1)
    Endpoint.objects.update(rests_until=past)
    Run.objects.filter(pk__in=[run.pk for run in runs]).update(wake_at=past)


@pytest.mark.both
@pytest.mark.proves("F27", "F36")
def test_after_failures_runs_wait_without_a_worker(
    scene: Scene, server: ReplayServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now
    with monkeypatch.context() as ahead:
        ahead.setattr("django.utils.timezone.now", lambda: now() + timedelta(minutes=5))
        run = fail_until_left_alone(scene, server)
        later = go(scene.launch(REFUND_500))

    for waiting in (run, later):
        assert (waiting.state, waiting.lease_owner) == (RunState.QUEUED, "")
        assert waiting.wake_at is not None
        pause = waiting.wake_at - timezone.now()
        assert timedelta(seconds=20) < pause < timedelta(seconds=36)
        assert waiting.pk not in claimable_runs(10)
    assert later.attempts == 0  # waiting does not make it poison
    assert not later.steps.exists()  # it has not used an attempt either
    assert server.sessions["model"].requests == asking.FAILURES


@pytest.mark.both
@pytest.mark.proves("F27")
def test_one_call_after_the_rest_speaks_for_all(scene: Scene, server: ReplayServer) -> None:
    fail_until_left_alone(scene, server, CONTEXT, FINAL)
    run = scene.launch(REFUND_500)
    let_rest_end(run)

    assert go(run).stop_reason == "success"

    endpoint = Endpoint.objects.get()
    assert (endpoint.failures, endpoint.rests_until) == (0, None)
    assert payments(run) == []


@pytest.mark.both
@pytest.mark.proves("F27")
@pytest.mark.slow
def test_of_six_workers_one_makes_the_call(scene: Scene, server: ReplayServer) -> None:
    fail_until_left_alone(scene, server)
    let_rest_end()

    said = together("tests.races.contenders:asks", [[server.base_url("model")]] * 6)

    assert sorted(said) == ["probe", *["rests"] * 5]


def test_a_server_that_refuses_one_question_is_there(scene: Scene, server: ReplayServer) -> None:
    refusal = {"fault": "http", "status": 400, "times": 9}
    server.load("model", [{"fault": "http_500", "times": 1}, refusal])

    run = go(scene.launch(REFUND_500))

    assert (run.state, run.stop_reason) == (RunState.STOPPED, "llm_error")
    assert Endpoint.objects.get().failures == 0


@pytest.mark.proves("F24")
def test_call_gets_its_full_time_near_the_runs_end(scene: Scene, server: ReplayServer) -> None:
    server.load("model", [{"fault": "timeout", "times": 9}])

    with override_settings(OPENAI_TIMEOUT_SECONDS=0.5):
        run = go(scene.launch_under(replace(STRICT, max_seconds=0.1)))

    assert run.state == RunState.QUEUED  # silence is the server's fault and costs the run nothing
    assert Endpoint.objects.get().failures == 3
    assert run.steps.get().seconds == 0


@pytest.mark.proves("F27")
def test_question_that_alone_keeps_failing_ends_its_run(scene: Scene, server: ReplayServer) -> None:
    server.load("model", [{"fault": "http_500", "times": 999}])
    run = go(scene.launch(REFUND_500))

    states = []
    for before in (1, MAX_CLAIMS - 2, MAX_CLAIMS - 1):
        Endpoint.objects.update(failures=0, rests_until=None, recovered_at=timezone.now())
        Run.objects.filter(pk=run.pk).update(wake_at=None, attempts=before)
        run = go(run)
        states.append((run.state, run.attempts))

    assert states[:2] == [(RunState.QUEUED, 2), (RunState.QUEUED, MAX_CLAIMS - 1)]
    assert (run.state, run.stop_reason) == (RunState.STOPPED, "llm_error")


@pytest.mark.both
@pytest.mark.proves("F27")
def test_who_waits_is_woken_by_the_first_answer(scene: Scene, server: ReplayServer) -> None:
    waiting = fail_until_left_alone(scene, server, CONTEXT, FINAL)
    probing = scene.launch(REFUND_500)
    Endpoint.objects.update(rests_until=timezone.now() - timedelta(seconds=1))
    assert waiting.pk not in claimable_runs(10)

    assert go(probing).stop_reason == "success"

    assert waiting.pk in claimable_runs(10)


@pytest.mark.both
@pytest.mark.proves("F27")
@pytest.mark.parametrize(
    ("place", "name"),
    [
        (asking, "request_permit"),  # answered before the run says that it waits
        pytest.param(  # and while that is written but not committed, so invisible to others
            Commit, "_flush", marks=pytest.mark.skipif(not ON_POSTGRES, reason="one writer at once")
        ),
    ],
)
def test_run_asking_during_a_probe_gets_its_result(
    scene: Scene, server: ReplayServer, monkeypatch: pytest.MonkeyPatch, place: Any, name: str
) -> None:
    fail_until_left_alone(scene, server)
    late = scene.launch(REFUND_500)
    let_rest_end()
    probe = asking.request_permit()
    then = getattr(place, name)

    def answers_then(*given: Any) -> Any:
        try:
            return then(*given)
        finally:
            if place is asking or given[0].run.state == RunState.QUEUED:
                with ThreadPoolExecutor(1) as elsewhere:
                    elsewhere.submit(answer, probe).result()

    monkeypatch.setattr(place, name, answers_then)
    late = go(late)

    assert probe.probe
    assert late.state == RunState.QUEUED
    assert late.pk in claimable_runs(10)


def answer(probe: asking.Permit) -> None:
    asking.record_answer(probe)
    connection.close()


def test_the_more_runs_wait_the_less_often_each_looks(scene: Scene, server: ReplayServer) -> None:
    fail_until_left_alone(scene, server)
    first = scene.launch(REFUND_500)
    far = timezone.now() + timedelta(hours=1)
    rows = [Run(**{**columns_of(first), "id": uuid4(), "wake_at": far}) for _ in range(900)]
    Run.objects.bulk_create(rows)

    with pytest.raises(asking.CircuitOpen) as resting:
        asking.request_permit()

    Run.objects.filter(pk__in=[row.pk for row in rows]).delete()  # they have no record
    assert timedelta(minutes=4) < resting.value.spread < asking.SPREAD[1]


@pytest.mark.both
def test_calls_that_end_during_the_rest_do_not_prolong_it() -> None:
    for _ in range(asking.FAILURES):
        asking.record_failure(LEAVE, FAULT)
    began = Endpoint.objects.get().rests_until

    asking.record_failure(LEAVE, FAULT)

    endpoint = Endpoint.objects.get()
    assert (endpoint.failures, endpoint.rests_until) == (asking.FAILURES + 1, began)
