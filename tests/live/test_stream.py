"""The stream of a real server: access, content, restarts, and its end."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from agents.core.requests import EscalationState
from agents.models import AgentCall, Escalation, Membership, Role, Run, Session
from agents.requests import sharing
from agents.runs import kill_switch
from tests.api.mcp_clients import Desk
from tests.api.test_journey import make_agent
from tests.e2e.test_crowd import Browser
from tests.e2e.workers import PATIENCE, until
from tests.engine.scene import Scene, go, set_scene
from tests.live.watching import Message, cookie_of, watching
from tests.nursery import Program
from tests.ports import free_port
from tests.processes import ROOT, environment
from tests.web.serving import serve
from tests.web.test_pages import stranger

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


VIEWERS = 60


def version(message: Message, letter: str = "r") -> int:
    """Return a topic's version from a message's id."""
    return int(next(p for p in message.id.split(".") if p.startswith(letter))[1:])


def count(run: Run) -> int:
    return Run.objects.values_list("event_count", flat=True).get(pk=run.pk)


@pytest.mark.both
def test_a_run_fills_while_it_is_watched(scene: Scene) -> None:
    run = scene.launch()

    with serve() as site, watching(site, f"run={run.pk}", cookie=cookie_of(scene.eve)) as stream:
        queued = stream.next("#run")
        last = count(go(run))
        waiting = next(m for m in stream if "#run" in m.data and version(m) == last)

    assert stream.headers["X-Accel-Buffering"] == "no"
    assert stream.headers["Cache-Control"] == "no-store"
    assert "No step yet" in queued.data
    assert "Escalated" in waiting.data
    assert version(queued) < last


def test_the_inbox_tells_what_waits_and_what_no_longer_does(scene: Scene) -> None:
    run = scene.launch()

    with serve() as site, watching(site, "", cookie=cookie_of(scene.rita)) as stream:
        empty = stream.next("#waiting")
        go(run)
        one = stream.next("#waiting")
        scene.decide(run)
        none = stream.next("#waiting")

    assert ", waiting: " not in empty.data
    assert ", waiting: </span>1</span>" in one.data
    assert ", waiting: " not in none.data


def test_a_card_says_that_it_changed(scene: Scene) -> None:
    escalation = Escalation.objects.get(run=go(scene.launch()))

    with (
        serve() as site,
        watching(site, f"card={escalation.pk}", cookie=cookie_of(scene.rita)) as stream,
    ):
        stream.next("card")
        sharing.claim(escalation_id=escalation.pk, by=scene.rita, at=timezone.now())
        claimed = stream.next("card")
        press(scene)
        frozen = stream.next("card")

    assert claimed.id != frozen.id


def test_everybody_sees_at_once_what_is_stopped(scene: Scene) -> None:
    with serve() as site, watching(site, "", cookie=cookie_of(scene.eve)) as stream:
        before = stream.next("#stopped", "Agents may act")
        press(scene)
        after = stream.next(
            "#stopped",
            "Agents stopped",
            "Demo: all payments, emails and changes stopped",
            "looks odd",
        )

    assert "looks odd" not in before.data
    assert "Agents may act" not in after.data


def press(scene: Scene) -> None:
    """Let an admin stop all writes."""
    admin, at = scene.add("admin", Role.ADMIN), timezone.now()
    kill_switch.kill(workspace=scene.workspace, by=admin, reason="looks odd", at=at)


@pytest.mark.proves("F39")
@pytest.mark.both
def test_a_restart_loses_and_doubles_nothing(scene: Scene) -> None:
    run, cookie, port = scene.launch(), cookie_of(scene.eve), free_port()

    with serve(port) as site, watching(site, f"run={run.pk}", cookie=cookie) as stream:
        before = stream.next("#run")
    go(run)  # while nobody serves
    with serve(port) as site:
        with watching(site, f"run={run.pk}", cookie=cookie, seen=before.id) as stream:
            after = stream.next("#run")
        with watching(site, f"run={run.pk}", cookie=cookie, seen=after.id) as stream:
            scene.decide(run)
            again = stream.next("#run")

    assert "Escalated" in after.data
    assert version(before) < version(after) < version(again) == count(run)


@pytest.mark.proves("W2", "W9")
def test_a_stream_is_refused_where_the_page_is(scene: Scene) -> None:
    run = go(scene.launch())
    card = Escalation.objects.get(run=run).pk
    eve, nobodys = cookie_of(scene.eve), cookie_of(stranger())
    wanted = {
        ("", ""): 401,
        (nobodys, f"run={run.pk}"): 404,
        (nobodys, f"card={card}"): 404,
        (eve, "run=00000000-0000-0000-0000-000000000000"): 404,
        (eve, "run=x"): 400,
        (eve, f"card={quote('٣')}"): 400,
        (eve, f"card={2**70}"): 400,
    }
    answers = dict[tuple[str, str], int]()

    with serve() as site:
        for cookie, query in wanted:
            with watching(site, query, cookie=cookie) as stream:
                answers[cookie, query] = stream.status

    assert answers == wanted


@pytest.mark.proves("I40", "W9")
@pytest.mark.both
def test_access_that_is_lost_ends_the_stream(scene: Scene) -> None:
    run = scene.launch()
    watch = {"member": scene.eve, "signed out": scene.omar, "inactive": scene.rita}

    with serve(OPSCONSOLE_LIVE_RECHECK_SECONDS="0.2") as site:
        for why, user in watch.items():
            with watching(site, f"run={run.pk}", cookie=cookie_of(user)) as stream:
                stream.next("#run")
                _take_access(why, user)
                assert stream.next("sign in again").name == "ended"
                assert list(stream) == []


def _take_access(why: str, user: User) -> None:
    if why == "member":
        Membership.objects.filter(user=user).delete()
    elif why == "signed out":
        Session.objects.all().delete()
    else:
        User.objects.filter(pk=user.pk).update(is_active=False)


@pytest.mark.proves("F40")
@pytest.mark.both
def test_everybody_who_watches_gets_the_newest_state(scene: Scene) -> None:
    runs = [scene.launch(), scene.launch()]
    people = [scene.add(f"watcher-{n}", Role.VIEWER) for n in range(VIEWERS // 20)]
    cookies = [cookie_of(user) for user in people]

    def watch(number: int) -> str:
        query = f"run={runs[number % 2].pk}"
        with watching(site, query, cookie=cookies[number % len(cookies)]) as stream:
            # Opening the request is a run's last write before it waits.
            return stream.next("#run", "Waiting for a person").data

    with serve() as site, ThreadPoolExecutor(VIEWERS) as pool:
        seen = [pool.submit(watch, number) for number in range(VIEWERS)]
        for run in runs:
            go(run)
        states = [answer.result() for answer in seen]

    # Rendered for many at once; later viewers see other waiting times.
    assert len(set(states)) <= VIEWERS // 4


@pytest.mark.proves("F40")
@pytest.mark.both
def test_a_form_is_answered_while_many_streams_are_idle(scene: Scene) -> None:
    run = go(scene.launch())
    people = [scene.rita, scene.omar, scene.eve]

    with serve() as site, ExitStack() as stack:
        cookies = [cookie_of(people[number % 3]) for number in range(VIEWERS)]
        streams = [stack.enter_context(watching(site, "", cookie=c)) for c in cookies]
        for stream in streams:
            stream.next("#waiting")
        card = f"/approvals/{Escalation.objects.get(run=run).pk}/"
        form = {"verdict": "adjust", "set.amount_minor": "800.00", "comment": "partly used"}
        assert Browser(site, cookie_of(scene.rita)).send(card, f"{card}decide/", **form) == 302
        told = [stream.next("#waiting").data for stream in streams]

    assert Escalation.objects.get(run=run).state == EscalationState.ADJUSTED
    assert all(", waiting: " not in data for data in told)


@pytest.mark.proves("W9")
def test_nobody_opens_more_streams_than_a_person_needs(scene: Scene) -> None:
    cookie = cookie_of(scene.eve)

    with serve() as site, ThreadPoolExecutor(1):
        opened = [watching(site, "", cookie=cookie) for _ in range(31)]
        streams = [one.__enter__() for one in opened]
        try:
            statuses = [stream.status for stream in streams]
        finally:
            for one in opened:
                one.__exit__(None, None, None)

    assert statuses == [200] * 30 + [429]


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
    with printing_server(OPSCONSOLE_MCP="1") as (site, server), ThreadPoolExecutor(1) as threads:
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
