"""A refund waits for a person where nobody named its amount, or which of several charges."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from agents.core.requests import Json, RunState
from agents.desks.refunds.facts import ChargeFact, RefundFact, RefundFacts
from agents.desks.refunds.limits import STRICT
from agents.desks.refunds.models import Charge, Customer, Refund
from agents.desks.refunds.rules import same_again
from agents.models import Effect, Escalation, Role, Run
from agents.shell import refusal
from opsconsole.desks import Args
from tests.engine.faulty import FaultyServer, advance_all, faulty_server
from tests.engine.scene import Scene, decide_request, payments
from tests.limits import with_part
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = [pytest.mark.django_db(transaction=True)]
RULE = "refunds.amount_named"
ASK = {"charge": {"CH-1": "pro", "CH-2": "pro"}}
ASKS = "Anna (user_id=42) asks what could be refunded of her annual plan. Tell me."


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with faulty_server(timeout=30) as one:
        yield one


def paying(server: FaultyServer, amount: float, **more: Json) -> None:
    """Let the model read, propose a refund until one was carried out, and end."""

    def says(role: str, inputs: Json) -> str:
        made = {step["executed_tool"] for step in inputs["recent_step_summaries"]}
        if "get_refund_context" not in made:
            said: Json = {"kind": "tool", "name": "get_refund_context", "args": {"user_id": 42}}
        elif "issue_refund" not in made:
            args = {"user_id": 42, "amount_usd": amount, "reason": "Asked for", **more}
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


def test_amount_taken_from_a_told_limit_needs_a_person(scene: Scene, server: FaultyServer) -> None:
    paying(server, 1000.0)

    run = advance(scene.launch(ASKS))

    assert (run.state, payments(run)) == (RunState.WAITING, [])
    held = Escalation.objects.get(run=run)
    assert held.review["deciding"]["rule"] == RULE
    page = words(client_of(scene.rita).get(reverse("approval", args=[held.pk])).text)
    assert "Neither the request nor a person names USD 1,000.00 in a form that" in page
    assert "To approve, give a reason." in page
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
    paying(server, 450.0)
    run = scene.launch(f"Refund Anna (user_id=42) {asked} of her annual plan.")
    charge_of(run, 45000)
    held = Escalation.objects.get(run=advance(run))

    page = client_of(scene.rita).get(reverse("approval", args=[held.pk])).text

    assert told in words(page)
    assert f"Asked for: {asked}. Would be paid: USD 450.00." in words(page).replace(" .", ".")
    assert rules_asking(run) == [[RULE]]
    assert 'name="verdict" value="approve" checked' not in page
    with pytest.raises(refusal.Refused, match="Enter a reason for the approval"):
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


def add_charge(run: Run, minor: int = 4900, *, days: int = 1, **more: Json) -> Charge:
    """Enter another charge of Anna's, whose annual one is USD 1,200.00 of ten days ago."""
    anna = Customer.objects.get(book_id=run.book_id, number=42)
    paid = {"paid_at": timezone.now() - timedelta(days=days), "currency": "USD"}
    given = {"plan": "add on", "amount_minor": minor, **paid, **more}
    return Charge.objects.create(customer=anna, **given)


def annual_of(run: Run) -> Charge:
    return Charge.objects.get(customer__book_id=run.book_id, plan="annual_enterprise")


def taken(run: Run) -> list[tuple[str, int]]:
    """Return what was paid back, each amount with the plan of its charge."""
    paid = Refund.objects.filter(charge__customer__book_id=run.book_id, state="paid")
    return list(paid.order_by("pk").values_list("charge__plan", "amount_minor"))


@pytest.mark.parametrize(
    ("goal", "amount", "state", "paid"),
    [
        ("Refund USD 300 of the annual charge.", 300.0, "done", [("annual_enterprise", 30000)]),
        ("Refund USD 40 of the add-on.", 40.0, "done", [("add on", 4000)]),
        ("Refund USD 49 to customer 42.", 49.0, "waiting", []),
        ("Refund USD 1300 to customer 42.", 1300.0, "waiting", []),
    ],
)
@pytest.mark.parametrize("without", [(), (RULE, "refunds.window", "refunds.charge_left")])
def test_money_is_taken_from_the_charge_that_is_meant(
    scene: Scene,
    server: FaultyServer,
    goal: str,
    amount: float,
    state: str,
    paid: list[tuple[str, int]],
    without: tuple[str, ...],
) -> None:
    paying(server, amount)
    rules = [name for name in STRICT.desks["refunds"]["rules"] if name not in without]
    run = scene.launch_under(with_part(rules=rules), goal)
    add_charge(run)

    run = advance(run)

    assert taken(run) == paid
    if not without:  # otherwise nobody is asked, and nothing is held that the tool could pay
        assert run.state == state
    effects = Effect.objects.filter(run=run, tool="issue_refund", state="done")
    held = Refund.objects.filter(charge__customer__book_id=run.book_id)
    assert [e.resource for e in effects] == [str(one.charge_id) for one in held]


@pytest.mark.parametrize("own", [True, False])
def test_window_holds_for_the_charge_that_is_meant(
    scene: Scene, server: FaultyServer, own: bool
) -> None:
    paying(server, 300.0)
    run = scene.launch("Refund the USD 300.00 that she paid 60 days ago for pro.")
    if own:
        add_charge(run, 30000, days=60, plan="pro")
    else:
        add_charge(run, 20000, days=3, plan="pro")

    run = advance(run)

    assert taken(run) == []
    assert (run.state, run.stop_reason.rpartition(":")[2]) == (
        (RunState.STOPPED, "outside_refund_window") if own else (RunState.WAITING, "")
    )


@pytest.mark.parametrize(
    ("named", "verdict"), [("own", "waiting"), ("foreign", "no_such_charge"), ("goal", "done")]
)
def test_agent_alone_chooses_no_charge(
    scene: Scene, server: FaultyServer, named: str, verdict: str
) -> None:
    run, other = scene.launch("Refund USD 40."), scene.launch("Refund USD 1.")
    mine, foreign = add_charge(run), annual_of(other)
    reference = f"CH-{foreign.pk if named == 'foreign' else mine.pk}"
    if named == "goal":
        Run.objects.filter(pk=run.pk).update(goal=f"Refund USD 40 of {reference}.")
    paying(server, 40.0, charge=reference)

    run = advance(run)

    assert verdict in (run.state, run.stop_reason.rpartition(":")[2])
    assert taken(run) == ([("add on", 4000)] if named == "goal" else [])


def test_person_chooses_among_charges_side_by_side(scene: Scene, server: FaultyServer) -> None:
    paying(server, 40.0)
    run = scene.launch("Refund USD 40 to customer 42.")
    mine, other = annual_of(run), add_charge(run)
    run = advance(run)
    held = Escalation.objects.get(run=run)
    client, address = client_of(scene.rita), reverse("decide", args=[held.pk])

    page = client.get(reverse("approval", args=[held.pk])).text

    for one in (mine, other):
        assert f'name="set.charge" value="CH-{one.pk}">' in page
    assert "checked" not in page.partition("set.charge")[2].partition("</fieldset>")[0]
    form = {"action_sha256": held.action_sha256, "verdict": "approve", "comment": "Asked by phone"}
    for wrong in ({}, {"set.charge": "CH-1"}):
        refused = client.post(address, {**form, **wrong})
        assert refused.status_code == 422
        assert "Nothing was decided." in words(refused.text)
    with pytest.raises(refusal.Refused, match="Choose the charge that is meant"):
        decide_request(held, scene.rita, comment="Yes")
    assert client.post(address, {**form, "set.charge": f"CH-{mine.pk}"}).status_code == 302
    add_charge(run, 120000, days=0)  # what was decided is kept
    run = advance(run)
    held.refresh_from_db()
    assert (run.state, taken(run)) == (RunState.DONE, [("annual_enterprise", 4000)])
    assert (held.patch, held.resource) == ({"charge": f"CH-{mine.pk}"}, str(mine.pk))
    assert rules_asking(run) == [["refunds.charge_left"]]


@pytest.mark.parametrize("stored", ["now", "before 0.3.0"])
def test_request_keeps_the_charge_that_its_card_showed(
    scene: Scene, server: FaultyServer, stored: str
) -> None:
    paying(server, 1200.0)
    run = advance(scene.launch("Refund 1200 USD to Anna (user_id=42)."))
    held, mine = Escalation.objects.get(run=run), annual_of(run)
    assert held.resource == str(mine.pk)
    if stored != "now":
        del held.review["facts"]["resource"]
        held.review["facts"] |= held.review["facts"].pop("own")
        held.resource = ""
        held.save(update_fields=["review", "resource"])
        step = held.step
        step.asked["review"] = held.review
        step.save(update_fields=["asked"])
    add_charge(run, 150000)

    page = words(client_of(scene.rita).get(reverse("approval", args=[held.pk])).text)
    decide_request(held, scene.add("ada", Role.ADMIN))

    assert f"CH-{mine.pk}: annual enterprise, USD 1,200.00 paid 10 days ago" in page
    run = advance(run)
    assert (run.state, taken(run)) == (RunState.DONE, [("annual_enterprise", 120000)])
    assert len(rules_asking(run)) == 1


def test_a_charge_named_when_sending_back_is_the_persons(
    scene: Scene, server: FaultyServer
) -> None:
    paying(server, 40.0)
    run = scene.launch("Refund USD 40 to customer 42.")
    mine = annual_of(run)
    add_charge(run)
    held = Escalation.objects.get(run=(run := advance(run)))
    decide_request(held, scene.rita, approve=False, send_back=True, comment=f"It is CH-{mine.pk}.")
    paying(server, 40.0, charge=f"CH-{mine.pk}")

    run = advance(run)

    assert rules_asking(run)[1:] == [["policy.sent_back"]]
    assert Escalation.objects.get(run=run, state="open").resource == str(mine.pk)


@pytest.mark.parametrize(
    ("paid_from", "to_choose", "reason"),
    [
        ("1", (), "duplicate_refund"),
        ("", (), "duplicate_refund"),
        ("2", (), None),
        ("1", ("CH-1", "CH-2"), None),
    ],
)
def test_only_refunds_of_one_charge_are_duplicates(
    paid_from: str, to_choose: tuple[str, ...], reason: str | None
) -> None:
    before = RefundFact(42, 4900, "rf_1", False, False, True, charge=paid_from)
    charge = None if to_choose else ChargeFact(4900, 4900, "USD", 1, key="1")
    facts = RefundFacts(refunds=(before,), charge=charge, to_choose=to_choose)

    said = same_again(Args(user_id=42, amount_minor=4900), facts)

    assert (said and said.reason) == reason
