"""Several hosts, simulated on one: a web process, three workers, PostgreSQL."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

import pytest
from django.contrib.auth.models import User

from agents.core.requests import RunState
from agents.models import Escalation, Run, Worker
from tests.conformance import harness
from tests.e2e.workers import PATIENCE, SCRIPT, reach, settings_of, until
from tests.engine.scene import REFUND_1200, Scene, fresh, mails, payments, set_scene
from tests.live.watching import cookie_of
from tests.processes import running
from tests.web.serving import serve

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.parametrize("dispatch", ["procrastinate"], indirect=True),
]

CSRF = "c" * 32


@pytest.fixture
def scene(dispatch: str) -> Scene:
    return set_scene()


@contextmanager
def three_workers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run workers, of which one that dies is soon replaced; on a busy machine each stands still."""
    own = {"OPSCONSOLE_LEASE_SECONDS": "6"}
    with ExitStack() as stack:
        workers = [stack.enter_context(running("manage.py", "work", **own)) for _ in range(3)]
        until(lambda: Worker.objects.count() == len(workers))
        yield workers


def post(site: str, user: User, path: str, **fields: str) -> str:
    """Send a form as a signed-in browser would; return where it leads."""
    connection = HTTPConnection(urlsplit(site).netloc, timeout=PATIENCE)
    headers = {
        "Cookie": f"{cookie_of(user)}; csrftoken={CSRF}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    body = urlencode({"csrfmiddlewaretoken": CSRF, **fields})
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        assert answer.status == 302, answer.read().decode()
        return answer.headers["Location"]
    finally:
        connection.close()


def launch_run(site: str, scene: Scene) -> Run:
    fields = {"goal": REFUND_1200, "subject": "42", "pattern": "supervisor"}
    page = post(site, scene.omar, "/launch/", token=uuid4().hex, **fields)
    return Run.objects.get(pk=page.strip("/").rpartition("/")[2])


def adjust_request(site: str, scene: Scene, run: Run) -> None:
    found = Escalation.objects.get(run=run)
    fields = {"verdict": "adjust", "set.amount_minor": "800.00", "comment": "partly used"}
    path = f"/approvals/{found.pk}/decide/"
    post(site, scene.rita, path, action_sha256=found.action_sha256, **fields)


def test_browser_runs_end_although_a_worker_is_killed(scene: Scene) -> None:
    with serve() as site, three_workers() as workers:
        runs = [launch_run(site, scene) for _ in range(6)]
        reach(RunState.WAITING, *runs)

        for number, run in enumerate(runs):
            if number == 2:
                os.kill(workers[0].pid, signal.SIGKILL)
            adjust_request(site, scene, run)
        reach(RunState.DONE, *runs)

    assert [payments(run) for run in runs] == [[80000]] * 6
    assert [mails(run) for run in runs] == [[80000]] * 6


def test_three_workers_share_the_runs(scene: Scene) -> None:
    wanted = SCRIPT[0], SCRIPT[1].replace("1200", "500"), SCRIPT[2].replace("800", "500")
    lines = [*wanted, SCRIPT[3].replace("800", "500")]
    with harness.replaying() as server, ExitStack() as stack:
        names = ["one", "two", "three"]
        for name in names:
            server.load(name, [{"text": text, "delay_s": 0.1} for text in lines] * 9)
            alone = settings_of(server, OPSCONSOLE_WORKER_CONCURRENCY="1")
            alone["OPENAI_BASE_URL"] = server.base_url(name)
            stack.enter_context(running("manage.py", "work", **alone))
        runs = [scene.launch("Refund 500 USD to user_id=42.") for _ in range(9)]
        reach(RunState.DONE, *runs)
        asked = [server.sessions[name].requests for name in names]

    assert sum(asked) == 9 * len(lines)
    assert all(asked)
    assert [payments(run) for run in runs] == [[50000]] * 9


@pytest.mark.proves("F9")
def test_a_worker_told_to_stop_gives_its_run_to_another(scene: Scene) -> None:
    with harness.replaying() as server:
        slow = {"text": SCRIPT[0], "delay_s": 1.0}
        server.load("refund", [slow, *SCRIPT[:2]])
        run = scene.launch()
        hasty = settings_of(server, OPSCONSOLE_DRAIN_SECONDS="0.1")
        with running("manage.py", "work", **hasty) as worker:
            until(lambda: server.sessions["refund"].requests == 1)
            worker.terminate()
            assert worker.wait(PATIENCE) == 0

        assert fresh(run).state == RunState.QUEUED
        with running("manage.py", "work", **hasty):
            reach(RunState.WAITING, run)

    assert run.steps.get(key="1/propose").attempts == 2
