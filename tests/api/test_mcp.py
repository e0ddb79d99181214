"""Real MCP clients at a real server: held, killed, decided, called again, and paid once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agents.models import AgentCall, Run
from tests.api.test_journey import make_agent, open_request
from tests.clients.programs import programs
from tests.e2e.workers import PATIENCE
from tests.engine.scene import Scene, decide_request, patch_of, payments
from tests.processes import running
from tests.web.serving import serve

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]

LOOK = ("get_refund_context", '{"user_id": 42}')
REFUND = ("issue_refund", '{"user_id": 42, "amount_usd": 1200, "reason": "charged twice"}')


@contextmanager
def client(home: Path, site: str, key: str, *said: str) -> Iterator[subprocess.Popen[str]]:
    """Run the program of docs/agents.md in a folder of its own."""
    (home / "mcp_client.py").write_text(programs()["mcp_client.py"], encoding="utf-8")
    child = subprocess.Popen(
        [sys.executable, "-I", "mcp_client.py", *said],
        cwd=home,
        env={"OPSCONSOLE_URL": site, "OPSCONSOLE_KEY": key, "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate(timeout=PATIENCE)


def say(home: Path, site: str, key: str, *said: str) -> str:
    with client(home, site, key, *said) as child:
        out, _ = child.communicate(timeout=PATIENCE)
        assert child.returncode == 0
        return out


def test_a_client_killed_while_held_is_told_that_its_call_was_carried_out(
    scene: Scene, tmp_path: Path
) -> None:
    agent, key = make_agent(scene)
    with serve(OPSCONSOLE_MCP="1") as site, running("manage.py", "work"):
        where = (tmp_path, site, key)
        listed = say(*where)
        looked = say(*where, *LOOK)
        with client(*where, *REFUND) as killed:
            request = open_request()
            killed.kill()
        decide_request(request, scene.rita, patch=patch_of(80000), comment="partly used")
        paid = say(*where, *REFUND)
        again = say(*where, *REFUND)

    assert {line.partition(" ")[0] for line in listed.splitlines()} == {
        *("get_refund_context", "issue_refund", "send_refund_email"),
        *("again", "ask_a_person"),
    }
    assert "Carried out" in looked
    assert "by this very call; nothing was done now" in paid
    run = Run.objects.get(agent=agent)
    assert payments(run) == [80000]
    assert AgentCall.objects.filter(run=run).count() == 2
    assert again == paid
