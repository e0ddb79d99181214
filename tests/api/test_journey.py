"""An agent in a process of its own, over HTTP: it waits, is killed, comes back and pays once."""

import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from agents.core.requests import EscalationState
from agents.external import keys
from agents.models import AgentCall, Escalation, ExternalAgent, Run
from tests.e2e.workers import PATIENCE, until
from tests.engine.scene import Scene, decide_request, patch_of, payments
from tests.processes import running
from tests.web.serving import serve

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]

SOURCE = Path(__file__).with_name("agent.py")


def make_agent(scene: Scene, name: str = "mail-triage") -> tuple[ExternalAgent, str]:
    """Make an agent of Omar's, and a key."""
    at = timezone.now()
    agent = keys.set_agent(
        workspace=scene.workspace, name=name, desk="refunds", owner=scene.omar, at=at
    )
    return agent, keys.make_key(home=agent, lasts=timedelta(days=1), at=at)[1]


@contextmanager
def started(home: Path, site: str, secret: str, *said: str) -> Iterator[subprocess.Popen[str]]:
    """Run the agent in a folder of its own, without anything of this repository."""
    shutil.copy(SOURCE, home / "agent.py")
    child = subprocess.Popen(
        [sys.executable, "-I", "agent.py", site, "case-4711", *said],
        cwd=home,
        env={"DESK_KEY": secret, "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate(timeout=PATIENCE)


def told(child: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the next thing that the agent was told."""
    assert child.stdout is not None
    ready, _, _ = select.select([child.stdout], [], [], PATIENCE)
    assert ready, "the agent says nothing"
    return dict(json.loads(child.stdout.readline()))


def told_of(child: subprocess.Popen[str], key: str, *statuses: str) -> dict[str, Any]:
    """Return the first thing told of a call in one of these states."""
    while True:
        heard = told(child)
        if heard.get("key") == key and heard["status"] in statuses:
            return heard


def open_request() -> Escalation:
    until(lambda: Escalation.objects.filter(state=EscalationState.OPEN).exists())
    return Escalation.objects.get(state=EscalationState.OPEN)


@pytest.mark.proves("F47")
@pytest.mark.parametrize("words", ["charged twice", "The customer was charged two times."])
def test_killed_agent_continues_by_key_and_sees_the_change(
    scene: Scene, tmp_path: Path, words: str
) -> None:
    agent, secret = make_agent(scene)
    with serve() as site, running("manage.py", "work"):
        with started(tmp_path, site, secret, "refund", "charged twice") as first:
            looked = told_of(first, "look", "executed")
            told_of(first, "refund", "waiting")
            request = open_request()
            first.kill()  # with -9
        decide_request(request, scene.rita, patch=patch_of(80000), comment="partly used")
        with started(tmp_path, site, secret, "refund", words) as second:
            paid = told_of(second, "refund", "executed")
            ended = told(second)
            assert second.wait(PATIENCE) == 0

    assert looked["result"]
    assert (paid["proposed"]["amount_usd"], paid["arguments"]["amount_usd"]) == (1200, 800.0)
    assert (paid["changed_by"], paid["decided_by"]) == ("person", "rita")
    assert paid["comment"] == "partly used"
    assert (ended["state"], ended["reason"]) == ("done", "success")
    assert "800.00" in ended["answer"]
    run = Run.objects.get(agent=agent)
    assert payments(run) == [80000]
    assert AgentCall.objects.filter(run=run).count() == 3


@pytest.mark.proves("F47")
def test_repeat_under_another_key_needs_a_person(scene: Scene, tmp_path: Path) -> None:
    agent, secret = make_agent(scene)
    with serve() as site, running("manage.py", "work"):
        with started(tmp_path, site, secret, "call-1", "charged twice") as first:
            told_of(first, "call-1", "waiting")
            request = open_request()
            first.kill()
        with started(tmp_path, site, secret, "call-2", "Anna paid two times.") as second:
            told_of(second, "call-2", "waiting")
            until(lambda: Escalation.objects.filter(state=EscalationState.OPEN).count() == 2)
            decide_request(request, scene.rita, patch=patch_of(80000), comment="partly used")
            until(lambda: payments(request.run) == [80000])
            repeated = open_request()
            decide_request(repeated, scene.rita, approve=False, comment="asked already")
            refused = told_of(second, "call-2", "not_executed")
            assert second.wait(PATIENCE) == 0

    assert "policy.repeat" in repeated.review["escalating"]
    assert (refused["reason"], refused["comment"]) == ("human_rejected", "asked already")
    assert payments(Run.objects.get(agent=agent)) == [80000]
