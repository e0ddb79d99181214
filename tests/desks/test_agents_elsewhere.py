"""A company's own desk from outside: what an agent sends is carried out, and kept by names."""

from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from opsconsole_client import Desk, Outcome
from opsconsole_client.outcomes import outcome_of
from pytest_django.live_server_helper import LiveServer

from agents.engine.desk import registry
from agents.engine.desk.repeats import comparable
from agents.external import keys
from agents.external import mcp as content_calls
from agents.external.calls import call_of
from agents.external.mcp import words_of
from agents.models import AgentCall, Escalation, Role, Run
from agents.people import members
from agents.sdk.values import Money
from agents.shell import refusal
from opsconsole import desks as declared
from tests.api.test_endpoints import Caller
from tests.checker.tool_arguments import TOOL_ARGUMENTS, ToolArguments
from tests.desks.post import ANNA, BEN, CARLA, IBAN, OTHER_IBAN, SPACED, Post, held_by, install
from tests.engine.scene import Scene, decide_request, go, set_scene
from tests.engine.test_external import Session
from tests.privacy.searching import places_of

pytestmark = pytest.mark.django_db(transaction=True)

EUROS = {"amount": "5.00", "currency": "EUR"}


@pytest.fixture
def scene(no_desk_left: None) -> Scene:
    scene = set_scene()
    scene.add("ada", Role.ADMIN)
    return scene


def test_addresses_and_accounts_are_used_and_stored_by_name(
    scene: Scene, live_server: LiveServer
) -> None:
    post: Post = install(scene)
    at = timezone.now()
    agent = keys.set_agent(
        workspace=scene.workspace, name="clerk", desk="post", owner=scene.omar, at=at
    )
    _, secret = keys.make_key(home=agent, lasts=timedelta(days=1), at=at)
    desk = Desk(live_server.url, secret)

    def call(tool: str, **arguments: object) -> Outcome:
        """Call as a process that has just been started."""
        named = {"goal": f"Answer {ANNA}.", "subject": "box", "patience": 0.0}
        session = desk.session("case-1", **named)  # type: ignore[arg-type]
        return session.call(tool, {"box": "box", **arguments})

    def carried_out(tool: str, **arguments: object) -> Outcome:
        assert call(tool, **arguments).status == "waiting"
        run = go(go(Run.objects.get(agent=agent)))
        assert call(tool, **arguments).status == "waiting"
        decide_request(held_by(run), scene.rita, comment=f"{CARLA} asked too")
        go(run)
        return call(tool, **arguments)

    wrote = carried_out("send_message", to=[ANNA, BEN], body="Hello")
    paid = carried_out("pay", iban=IBAN, amount=EUROS)
    again = call("pay", iban=IBAN, amount={**EUROS})
    other = call("pay", iban=OTHER_IBAN, amount=EUROS)
    desk.close()

    assert post.calls == [
        ("send_message", {"to": [ANNA, BEN], "body": "Hello"}),
        ("pay", {"iban": IBAN, "amount": Money(500, "EUR")}),
    ]
    assert (wrote.status, wrote.arguments["to"]) == ("executed", [ANNA, BEN])
    assert (paid.status, paid.arguments["iban"]) == ("executed", IBAN)
    assert (again.id, other.id > paid.id, other.key_from) == (paid.id, True, "arguments")
    assert AgentCall.objects.filter(agent=agent).count() == 3
    values = (ANNA, BEN, CARLA, IBAN, OTHER_IBAN)
    assert {value: places_of(value) for value in values} == {value: [] for value in values}


def test_the_same_call_spelled_in_another_way_is_put_to_a_person(scene: Scene) -> None:
    install(scene)
    session = Session(scene, desk="post", subject="box")
    messages: list[dict[str, object]] = [
        {"to": [ANNA, BEN], "body": "Hello"},
        {"to": [BEN, ANNA], "body": "Hello again"},
    ]
    payments: list[dict[str, object]] = [
        {"iban": iban, "amount": EUROS} for iban in (IBAN, IBAN.lower())
    ]
    for tool, calls in (("send_message", messages), ("pay", payments)):
        for number, call in enumerate(calls):
            session.propose(f"{tool}-{number}", (tool, {"box": "box", **call}))

    asked = Escalation.objects.filter(run=session.run).order_by("pk")
    assert ["policy.repeat" in one.review["escalating"] for one in asked] == [False, True] * 2


@pytest.fixture
def orders(scene: Scene) -> declared.Desk:
    """Put a desk in force whose orders are told apart by number and price. Return its agent's."""
    desk = declared.Desk(
        name="orders",
        title="Orders",
        subject=declared.Subject("customer", find={"k9": {"name": "Kim"}}.get, label="{name}"),
    )

    @desk.tool(
        declared.Touch.SAFE,
        title="Order",
        subject="customer",
        amount="price",
        before="Order one in {size} for {price}: {why}.",
        after="{sku} ordered.",
    )
    def place_order(
        call: declared.Call,
        *,
        customer: str,
        sku: str = declared.key(),
        size: Literal["s", "l"] = "s",
        price: Money,
        why: str,
        note: str | None = None,
        tags: list[str],
    ) -> Any:
        """Order something."""
        return {"status": "ok", "number": f"{sku}-{price}"}

    @desk.rule(place_order)
    def always() -> Any:
        """Orders are allowed."""
        return declared.approve("order", "Orders are allowed.")

    TOOL_ARGUMENTS["place_order"] = ToolArguments("customer", "price")
    registry.enter_desk(desk)
    policy = scene.workspace.policy
    assert policy is not None
    document = {**policy.document, "desks": {"orders": desk.document()}}
    scene.publish(document, User.objects.get(username="ada"))
    return desk


def order(sku: str, why: str, **more: Any) -> tuple[str, Any]:
    given = {"customer": "k9", "sku": sku, "price": EUROS, "why": why, "tags": ["office"]}
    return "place_order", {**given, **more}


def test_a_reworded_call_is_found_and_another_key_is_not(
    scene: Scene, orders: Any, live_server: LiveServer
) -> None:
    session = Session(scene, desk="orders", subject="k9", name="buyer")
    _, secret = keys.make_key(home=session.agent, lasts=timedelta(days=1), at=timezone.now())

    def call(*asked: Any) -> Outcome:
        """Call as a process that has just been started."""
        desk = Desk(live_server.url, secret)
        named: Any = {"goal": "Order chairs.", "subject": "k9", "patience": 0.0}
        desk.session("case-1", **named).call(*asked)
        session.drive()
        told = desk.session("case-1", **named).call(*asked)
        desk.close()
        return told

    first = call(*order("A", "two chairs", note="by Friday"))
    again = call(*order("A", "2 chairs", note="until Friday"))
    left_out = call(*order("A", "chairs"))
    others = [call(*order("B", "two chairs")), call(*order("A", "two chairs", size="l"))]

    assert [one.status for one in (first, again, left_out, *others)] == ["executed"] * 5
    assert (again.id, left_out.id, again.result) == (first.id, first.id, first.result)
    assert len({first.id, *(one.id for one in others)}) == 3
    assert not Escalation.objects.exists()


def test_a_repeat_is_told_what_the_first_came_to(scene: Scene, orders: Any) -> None:
    session = Session(scene, desk="orders", subject="k9", name="buyer")
    session.propose("k1", order("A", "two chairs"))
    first = session.agent.calls.get(key="k1").pk
    _, secret = keys.make_key(home=session.agent, lasts=timedelta(days=1), at=timezone.now())

    waits = session.propose("k2", order("A", "worded anew"))
    decide_request(held_by(session.run), scene.rita, approve=False, comment="A duplicate.")
    session.drive()
    number = session.agent.calls.get(key="k2").pk
    caller = Caller(secret)
    told = caller.get(f"/calls/{number}").json()

    assert [one["status"] for one in (waits, told)] == ["waiting", "not_executed"]
    for one in (waits, told):
        [repeated] = one["repeats"]
        assert (repeated["id"], repeated["status"]) == (first, "executed")
        assert repeated["result"]["number"] == "A-EUR 5.00"
    assert outcome_of(told, "k2", "given").told["repeats"] == told["repeats"]
    call = call_of(session.agent, number)
    said = words_of(content_calls.standing_of(call, session.agent))
    assert f"It repeats call {first}, executed on " in said
    assert "A-EUR 5.00" in said
    assert session.outcome("k1")["repeats"] == []


@pytest.mark.both
@pytest.mark.parametrize("is_masked", [True, False])
def test_limit_holds_for_every_spelling_of_an_account(scene: Scene, is_masked: bool) -> None:
    post: Post = install(scene)
    members.set_limit(
        workspace=scene.workspace,
        user=scene.rita,
        desk="post",
        currency="EUR",
        limit_minor=800,
        actor="cli:root",
        at=timezone.now(),
    )
    ways = (IBAN, SPACED, OTHER_IBAN) if is_masked else ("AC-100 200", "ac100200", "AC-100 201")
    refused = []
    for number, written in enumerate(ways):
        session = Session(scene, f"case-{number}", desk="post", subject="box")
        session.propose("pay", ("pay", {"box": "box", "iban": written, "amount": EUROS}))
        try:
            decide_request(held_by(session.run), scene.rita, comment="as agreed")
        except refusal.Refused as no:
            refused.append((number, no.code))
        session.drive()

    assert refused == [(1, "above_own_limit")]
    assert len(post.calls) == 2


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (IBAN, f" {SPACED}\u200b", True),
        (IBAN, f"IBAN {IBAN}", True),
        (IBAN, f"iban: DE\u00ad{IBAN[2:]}", True),
        (IBAN, f"{IBAN[:-1]}1", False),
        (Decimal("1.50"), Decimal("1.500"), True),
        (Decimal("1.50"), Decimal("15"), False),
        (["a", "b"], ["b", "a"], True),
        (["a", "b"], ["a"], False),
        ("--", "++", False),
    ],
)
def test_values_are_compared_whatever_their_spelling(one: Any, other: Any, is_same: bool) -> None:
    assert (comparable(one) == comparable(other)) is is_same
