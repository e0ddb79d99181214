"""A refund of an amount that nobody named waits for a person, as a transfer at the bank does."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from django.urls import reverse

from agents import operations
from agents.core.requests import Json
from agents.core.states import RunState
from agents.desks.refunds.models import Charge
from agents.models import Escalation, Role, Run
from tests.engine.faulty import FaultyServer, advance_all, faulty_server
from tests.engine.scene import Scene, decide_request, payments
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = [pytest.mark.django_db(transaction=True)]
RULE = "refunds.amount_named"
ASKS = "Anna (user_id=42) asks what could be refunded of her annual plan. Tell me."


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with faulty_server(timeout=30) as one:
        yield one


def paying(server: FaultyServer, amount: float) -> None:
    """Let the model read, propose a refund until one was carried out, and end."""

    def says(role: str, inputs: Json) -> str:
        made = {step["executed_tool"] for step in inputs["recent_step_summaries"]}
        if "get_refund_context" not in made:
            said: Json = {"kind": "tool", "name": "get_refund_context", "args": {"user_id": 42}}
        elif "issue_refund" not in made:
            args = {"user_id": 42, "amount_usd": amount, "reason": "Asked for"}
            said = {"kind": "tool", "name": "issue_refund", "args": args}
        else:
            said = {"kind": "final", "answer": "Done."}
        return json.dumps(said)

    server.says = says


def advance(run: Run) -> Run:
    return advance_all([run])[0]


def rules_asking(run: Run) -> list[list[str]]:
    rows = Escalation.objects.filter(run=run).order_by("pk").values_list("review", flat=True)
    return [review["escalating"] for review in rows]


def charge_of(run: Run, amount_minor: int) -> None:
    charge = Charge.objects.filter(customer__book_id=run.book_id, customer__number=42)
    charge.update(amount_minor=amount_minor)


def test_what_the_agent_chose_from_a_limit_that_it_was_told_waits(
    scene: Scene, server: FaultyServer
) -> None:
    paying(server, 1000.0)

    run = advance(scene.launch(ASKS))

    assert (run.state, payments(run)) == (RunState.WAITING, [])
    held = Escalation.objects.get(run=run)
    assert held.review["deciding"]["rule"] == RULE
    page = words(client_of(scene.rita).get(reverse("approval", args=[held.pk])).text)
    assert "Neither the request nor a person named USD 1,000.00: the agent chose it." in page
    assert "To approve it, give a reason." in page
    scene.decide(run, amount_minor=30000)  # lowered: a person has named it
    run = advance(run)
    assert (run.state, payments(run)) == (RunState.DONE, [30000])
    assert rules_asking(run) == [[RULE]]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("300 USD", "The amount is in the system of record. The request names another."),
        ("1 150,00 USD", "The console cannot tell which amount the request means."),
    ],
)
def test_what_only_the_charge_names_is_compared_with_the_request(
    scene: Scene, server: FaultyServer, asked: str, told: str
) -> None:
    paying(server, 1200.0)
    run = advance(scene.launch(f"Refund Anna (user_id=42) {asked} of her annual plan."))
    held = Escalation.objects.get(run=run)

    page = client_of(scene.rita).get(reverse("approval", args=[held.pk])).text

    assert told in words(page)
    assert f"Asked for: {asked}. Would be paid: USD 1,200.00." in words(page)
    assert 'name="verdict" value="approve" checked' not in page
    with pytest.raises(operations.Refused, match="Enter a reason for the approval"):
        decide_request(held, scene.add("ada", Role.ADMIN))


@pytest.mark.parametrize(
    ("goal", "charged", "amount"),
    [
        ("Refund Anna (user_id=42) 300 USD of her annual plan.", 120000, 300.0),
        ("Refund Anna (user_id=42) what she was charged for her annual plan.", 45000, 450.0),
        ("Refund Anna (user_id=42) 800 USD.", 50000, 800.0),  # the policy lowers it
    ],
)
def test_what_the_request_or_the_charge_names_is_paid_at_once(
    scene: Scene, server: FaultyServer, goal: str, charged: int, amount: float
) -> None:
    paying(server, amount)
    run = scene.launch(goal)
    charge_of(run, charged)

    run = advance(run)

    assert (run.state, payments(run)) == (RunState.DONE, [min(charged, int(amount * 100))])
    assert rules_asking(run) == []


def test_an_amount_that_the_policy_lowers_keeps_who_named_it(
    scene: Scene, server: FaultyServer
) -> None:
    paying(server, 2500.0)
    run = scene.launch("Refund Anna (user_id=42) 2500 USD.")
    charge_of(run, 300000)
    run = advance(run)
    assert rules_asking(run) == [["refunds.auto_limit"]]

    decide_request(Escalation.objects.get(run=run), scene.add("ada", Role.ADMIN))

    run = advance(run)
    assert (run.state, payments(run)) == (RunState.DONE, [200000])
    assert len(rules_asking(run)) == 1


def test_an_amount_of_what_a_person_wrote_who_sent_it_back_is_theirs(
    scene: Scene, server: FaultyServer
) -> None:
    paying(server, 700.0)
    run = advance(scene.launch(ASKS))
    held = Escalation.objects.get(run=run)
    advice = {"verdict": "send_back", "advice": "Refund USD 400.00, not more."}
    form = {**advice, "action_sha256": held.action_sha256}
    client_of(scene.rita).post(reverse("decide", args=[held.pk]), form)
    paying(server, 400.0)

    run = advance(run)

    assert rules_asking(run)[1:] == [["policy.sent_back"]]
