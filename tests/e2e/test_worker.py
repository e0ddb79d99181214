"""Real processes: a worker, a model server over HTTP, the command line, kill -9 in the middle."""

import os
import signal
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now

from agents import results
from agents.core.requests import RunState
from agents.models import Escalation, Run
from tests import nursery
from tests.conformance.replay_server import ReplayServer
from tests.e2e.workers import PATIENCE, SCRIPT, Held, reach, settings_of, until
from tests.engine.scene import Scene, fresh, mails, payments, recover, set_scene
from tests.processes import ROOT, environment, logging_to, running

# Polling on SQLite, procrastinate on PostgreSQL; the races cover polling there.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def scene(dispatch: str) -> Scene:
    return set_scene()


@pytest.fixture
def model(server: ReplayServer) -> ReplayServer:
    server.load("refund", SCRIPT)
    return server


def manage(*arguments: str) -> subprocess.CompletedProcess[str]:
    named: Any = {"cwd": ROOT, "env": environment(), "is_set_up": True}
    return nursery.run(["manage.py", *arguments], timeout=PATIENCE, **named)


def decide(run: Run, amount: str) -> subprocess.CompletedProcess[str]:
    escalation = Escalation.objects.get(run=run)
    less = ["--approve", "--amount", amount, "--reason", "partly used"]
    return manage("decide", str(escalation.pk), *less, "--as", "rita")


@pytest.mark.proves("F4", "F5")
@pytest.mark.parametrize(  # engine/test_crash.py dies at every call and commit, in one process
    "point", ["gateway.after_call:1", "gateway.before_call:2"], ids=["refund", "letter"]
)
def test_refund_is_paid_once_although_its_worker_dies(
    scene: Scene, model: ReplayServer, point: str
) -> None:
    run = scene.launch()
    with running("manage.py", "work", **settings_of(model)):
        reach(RunState.WAITING, run)
    assert decide(run, "800").returncode == 0

    # This process's points start anew, so its tool calls are the refund and the letter.
    dying = settings_of(model, OPSCONSOLE_CRASH_AT=point)
    with running("manage.py", "work", **dying) as worker:
        assert worker.wait(PATIENCE) == 137
    assert fresh(run).state == RunState.RUNNING
    recover(run.pk)
    with running("manage.py", "work", **settings_of(model)):
        reach(RunState.DONE, run)

    assert payments(run) == [80000]
    assert mails(run) == [80000]
    result = results.result(fresh(run))
    assert "human_revised" in [line["executed_from"] for line in result["trace"]]
    assert result["answer"].startswith("USD 800.00 was refunded to customer 42.")
    assert model.sessions["refund"].state()["calls"] == 4


@pytest.mark.proves("F10")
def test_worker_killed_during_a_model_call_is_replaced(scene: Scene, model: ReplayServer) -> None:
    model.sessions["refund"] = held = Held([SCRIPT[0], *SCRIPT[:2]], 0)
    run = scene.launch()
    with running("manage.py", "work", **settings_of(model)) as worker:
        until(lambda: held.requests == 1)
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait(PATIENCE)
    held.may_go_on.set()
    assert fresh(run).state == RunState.RUNNING

    recover(run.pk)
    with running("manage.py", "work", **settings_of(model)):
        reach(RunState.WAITING, run)

    assert run.steps.get(key="1/propose").attempts == 2
    assert run.steps.filter(key="1/propose").count() == 1


@pytest.mark.proves("F9")
def test_stopped_worker_exits_0_and_releases_its_run(scene: Scene, model: ReplayServer) -> None:
    model.sessions["refund"] = held = Held([SCRIPT[0], *SCRIPT[:2]], 0)
    run, hasty = scene.launch(), settings_of(model, OPSCONSOLE_DRAIN_SECONDS="0.1")
    with running("manage.py", "work", **hasty) as worker:
        until(lambda: held.requests == 1)
        worker.terminate()
        assert worker.wait(PATIENCE) == 0
    held.may_go_on.set()

    assert fresh(run).state == RunState.QUEUED
    with running("manage.py", "work", **hasty):
        reach(RunState.WAITING, run)
    assert run.steps.get(key="1/propose").attempts == 2


@pytest.mark.proves("I25", "F11")
def test_worker_frozen_past_its_lease_writes_nothing(
    scene: Scene, model: ReplayServer, tmp_path: Path
) -> None:
    model.sessions["refund"] = held = Held([SCRIPT[0], *SCRIPT[:2], *SCRIPT[:2]], 0)
    run, log = scene.launch(), tmp_path / "log"
    own = settings_of(model, OPSCONSOLE_LEASE_SECONDS="4")
    with log.open("wb") as stderr, logging_to(stderr, "manage.py", "work", **own) as frozen:
        until(lambda: held.requests == 1)
        os.kill(frozen.pid, signal.SIGSTOP)
        ended = Run.objects.filter(pk=run.pk, lease_ends_at__lt=Now() - timedelta(seconds=2))
        until(ended.exists)  # its sign of life in the queue, too, is older than a lease
        with running("manage.py", "work", **own):
            reach(RunState.WAITING, run)
        events = run.events.count()
        held.may_go_on.set()
        os.kill(frozen.pid, signal.SIGCONT)
        until(lambda: b"not renewed" in log.read_bytes())
        another = scene.launch()
        reach(RunState.WAITING, another)

    line, *_ = log.read_text().splitlines()  # on a busy machine it may stand still once more
    assert " WARNING " in line
    assert "Leases were not renewed for " in line
    assert run.events.count() == events
    assert fresh(run).state == RunState.WAITING


def test_one_worker_waits_for_many_models_at_once(scene: Scene, model: ReplayServer) -> None:
    model.sessions["refund"] = held = Held(SCRIPT[:1] * 20, *range(20))
    runs = [scene.launch() for _ in range(20)]
    running_now = Run.objects.filter(state=RunState.RUNNING, pk__in=[run.pk for run in runs])

    with running("manage.py", "work", **settings_of(model, OPSCONSOLE_DRAIN_SECONDS="0")):
        until(lambda: held.requests == 20)
        waiting_for_a_model = running_now.count()
    held.may_go_on.set()

    assert waiting_for_a_model == 20
