"""A stopping server first ends its open streams, without errors."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from django.urls import reverse

from agents.models import AgentCall
from tests.api.mcp_clients import Desk
from tests.api.test_journey import make_agent
from tests.e2e.workers import PATIENCE, until
from tests.engine.scene import set_scene
from tests.live.watching import cookie_of, watching
from tests.nursery import Program
from tests.ports import free_port
from tests.processes import ROOT, environment

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_streams_end_with_the_server_and_nothing_is_printed(number: signal.Signals) -> None:
    scene = set_scene()
    with (
        printing_server() as (site, server),
        watching(site, "", cookie=cookie_of(scene.rita)) as stream,
    ):
        stream.next("#waiting")
        server.send_signal(number)
        rest = list(stream)
        printed, _ = server.communicate(timeout=120)

    assert server.returncode == 0
    assert (printed, [message.name for message in rest if message.name == "ended"]) == ("", [])


def test_a_held_mcp_client_is_answered_as_the_server_ends() -> None:
    agent, key = make_agent(set_scene())
    headers = {"opsconsole-subject": "42", "opsconsole-wait": "25"}
    with (
        printing_server(OPSCONSOLE_MCP="1") as (site, server),
        ThreadPoolExecutor(1) as threads,
    ):
        # Without the SDK's client, which lists tools after an answer: no server is there then.
        asked = {"name": "get_refund_context", "arguments": {"user_id": 42}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
        waits = threads.submit(Desk(site, key).send, json.dumps(call), **headers)
        until(lambda: AgentCall.objects.filter(agent=agent).exists())
        server.send_signal(signal.SIGTERM)
        told = waits.result(PATIENCE)
        printed, _ = server.communicate(timeout=120)

    [said] = told.json()["result"]["content"]
    assert said["text"].startswith("NOT DONE. It waits for its turn.")
    assert (server.returncode, printed) == (0, "")


@contextmanager
def printing_server(**more: str) -> Iterator[tuple[str, Program]]:
    """Serve the pages; yield the address and the process, whose output is kept."""
    port = free_port()
    server = Program(
        [sys.executable, "manage.py", "serve", "--port", str(port)],
        cwd=ROOT,
        env=environment(DJANGO_SETTINGS_MODULE="tests.settings", **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}", server
    finally:
        server.kill()
        server.communicate()


def _wait_for(port: int) -> None:
    for _ in range(3000):
        try:
            with urlopen(f"http://127.0.0.1:{port}{reverse('healthz')}"):
                return
        except URLError:
            time.sleep(0.05)
    raise AssertionError("the server did not come up")
