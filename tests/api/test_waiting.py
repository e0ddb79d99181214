"""What waits on a real server: a stream of a session's events, and a wait that a restart ends."""

import json
import re
import signal
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents.external import keys, sessions
from agents.models import Escalation, Run
from tests.api.test_journey import make_agent
from tests.e2e.workers import until
from tests.engine.scene import Scene, decide_request, go, patch_of
from tests.engine.test_external import LOOK, refund
from tests.live.test_stream import printing_server
from tests.live.watching import opened
from tests.web.serving import serve

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def start(scene: Scene) -> tuple[Run, Any, dict[str, str]]:
    """Open a session whose refund waits for a person. Return it, its agent and a key's header."""
    agent, key = make_agent(scene)
    at = timezone.now()
    run = sessions.open_session(
        agent=agent, reference="case-1", goal="Refund Anna", subject="42", at=at
    )
    for name, call in (("k0", LOOK), ("k1", refund(1200))):
        put: dict[str, Any] = {"key": name, "name": call[0], "args": call[1]}
        sessions.propose(agent=agent, run_id=run.pk, at=at, **put)
    drive(run)
    return run, agent, {"Authorization": f"Bearer {key}"}


def drive(run: Run) -> None:
    for _ in range(6):
        if Run.objects.get(pk=run.pk).state == "queued":
            go(run)


def test_stream_shows_the_agents_events_and_resumes(scene: Scene) -> None:
    run, agent, key = start(scene)
    where = f"/api/v1/runs/{run.pk}/events"
    look, paid = agent.calls.order_by("pk").values_list("pk", flat=True)
    with serve() as site:
        with opened(site, where, key) as stream:
            first = [stream.next("") for _ in range(2)]
            request = Escalation.objects.get(run=run)
            decide_request(request, scene.rita, patch=patch_of(80000), comment="partly used")
            decided = stream.next("")
        drive(run)
        end: dict[str, Any] = {"answer": "USD 800.00 was refunded.", "at": timezone.now()}
        sessions.end_session(agent=agent, run_id=run.pk, **end)
        drive(run)
        with opened(site, where, {**key, "Last-Event-ID": decided.id}) as stream:
            rest = list(stream)
        with opened(site, where, {**key, "Last-Event-ID": "999999"}) as stream:
            anew = list(stream)  # of another run, as a client may send that goes on from one
        at_once = Client().get(where, headers=key)  # by a server that does not stream
        _, other = make_agent(scene, "another")
        with opened(site, where, {"Authorization": f"Bearer {other}"}) as stream:
            assert stream.status == 404
        keys.revoke_key(home=agent, prefix=key["Authorization"][7:20], at=timezone.now())
        with opened(site, where, key) as stream:
            assert stream.status == 401

    assert [one.id for one in anew] == [one.id for one in (*first, decided, *rest)]
    assert re.findall(r"id: (\d+)\n", at_once.text) == [one.id for one in anew]
    told = [(one.name, json.loads(one.data)["call"]) for one in anew]
    assert told == [
        ("call.answered", look),
        ("call.waiting", paid),
        ("call.decided", paid),
        ("call.answered", paid),
        ("session.ended", None),
    ]
    assert set(json.loads(decided.data)) == {"id", "event", "call", "at"}


def test_whoever_waits_as_the_server_ends_is_told_to_ask_again(scene: Scene) -> None:
    run, agent, key = start(scene)
    call = agent.calls.get(key="k1").pk
    with printing_server() as (site, server):
        where = f"{site}/api/v1"
        with (
            opened(where, f"/api/v1/runs/{run.pk}/events", key) as stream,
            ThreadPoolExecutor(1) as threads,
        ):
            stream.next("call.waiting")
            agent.keys.update(used_at=None)  # so that its next use shows
            asked = urllib.request.Request(f"{where}/calls/{call}?wait=25", headers=key)  # noqa: S310 - the test's own
            waits = threads.submit(urllib.request.urlopen, asked, timeout=60)
            until(lambda: agent.keys.filter(used_at__isnull=False).exists())
            server.send_signal(signal.SIGTERM)
            with pytest.raises(urllib.error.HTTPError) as ended:
                waits.result(60)
            assert list(stream) == []
        printed, _ = server.communicate(timeout=120)

    assert (ended.value.code, ended.value.headers["Retry-After"]) == (503, "1")
    assert json.load(ended.value)["code"] == "ending"
    assert (server.returncode, printed) == (0, "")
