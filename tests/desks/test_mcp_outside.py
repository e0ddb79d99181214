"""A company's own desk by MCP: a slow tool, and calls whose masked values tell them apart."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from agents.external import sessions
from agents.models import AgentCall, ExternalAgent, Role
from tests.api.mcp_clients import Desk, drive, make_desk_agent, mcp_site
from tests.api.test_journey import open_request
from tests.desks import workshop
from tests.desks.post import ANNA, BEN, IBAN, install
from tests.e2e.workers import PATIENCE
from tests.engine.scene import Scene, decide_request, set_scene
from tests.privacy.searching import places_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.fixture
def scene(no_desk_left: None) -> Scene:
    scene = set_scene()
    scene.add("ada", Role.ADMIN)
    return scene


def drive_beside(agent: ExternalAgent) -> None:
    """Do what a worker does, in a thread of its own."""
    try:
        drive(agent)
    finally:
        connection.close()


class Gate(list[Any]):
    """What a desk's tool was called with; the tool acts once the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.is_open = Event(), Event()

    def append(self, call: Any) -> None:
        self.reached.set()
        assert self.is_open.wait(PATIENCE)
        super().append(call)


def test_a_call_that_was_begun_is_not_said_to_be_not_executed(scene: Scene) -> None:
    post = install(scene)
    gate = post.calls = Gate()
    agent, key = make_desk_agent(scene, "post")
    pay: dict[str, Any] = {
        "box": "box",
        "iban": IBAN,
        "amount": {"amount": "5.00", "currency": "EUR"},
    }
    with mcp_site() as site, ThreadPoolExecutor(1) as threads:
        desk = Desk(site, key, **{"opsconsole-subject": "box"})
        desk.call("pay", **pay)
        drive(agent)
        held = desk.call("pay", **pay)
        decide_request(open_request(), scene.rita, comment="as agreed")
        works = threads.submit(drive_beside, agent)
        assert gate.reached.wait(PATIENCE)
        begun = Desk(site, key, **{"opsconsole-subject": "box", "opsconsole-wait": ""}).call(
            "pay", limit=5, **pay
        )
        gate.is_open.set()
        works.result(PATIENCE)
        paid = desk.call("pay", **pay)

    assert held.text.startswith("NOT DONE. A person decides. Nothing was executed.")
    assert begun.text.startswith("OUTCOME NOT KNOWN YET. It is being executed.")
    assert (held.told["status"], begun.told["status"]) == ("waiting", "unknown")
    assert (held.is_error, begun.is_error, paid.is_error) == (False, False, False)
    assert paid.text.startswith("Carried out once on ")
    assert (len(gate), paid.told["arguments"]["iban"]) == (1, IBAN)
    assert places_of(IBAN) == []


def test_two_addresses_are_two_calls_and_one_sent_at_once_is_one(scene: Scene) -> None:
    install(scene)
    agent, key = make_desk_agent(scene, "post")
    with mcp_site() as site, ThreadPoolExecutor(4) as threads:
        desk = Desk(site, key, **{"opsconsole-subject": "box"})

        def send(to: str) -> int:
            return int(desk.call("send_message", box="box", to=[to], body="Hello").told["id"])

        told = list(threads.map(send, (ANNA, BEN, ANNA, ANNA)))

    assert (told[0] == told[2] == told[3], told[0] == told[1]) == (True, False)
    assert AgentCall.objects.filter(agent=agent).count() == 2
    assert places_of(ANNA) == []


def test_agent_executed_calls_need_http(no_desk_left: None) -> None:
    scene = set_scene()
    workshop.install(scene)
    agent, key = make_desk_agent(scene, "workshop")
    name, args = workshop.command("make")
    with mcp_site() as site:
        desk = Desk(site, key, **{"opsconsole-subject": workshop.SHOP})
        desk.call("read_orders", project=workshop.SHOP)
        run = drive(agent)
        refused = [desk.call(spelled, **args) for spelled in (name, f"{name} ")]
        at = timezone.now()
        call = sessions.propose(
            agent=agent, run_id=run.pk, key="by-http", name=name, args=args, at=at
        )
        drive(agent)
        sessions.withdraw_call(agent=agent, call_id=call.row.pk, at=at)
        drive(agent)
        refused.append(desk.call("again", call=call.row.pk))

    assert [one.text for one in refused] == [
        f"{name} is taken over HTTP only. Nothing was proposed. (not_by_mcp)"
    ] * 3
    assert AgentCall.objects.filter(agent=agent).count() == 2
