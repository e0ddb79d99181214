"""A reviewer's no binds whoever proposes the same again, until a person approves it."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents.audit import erasing
from agents.core.decisions import Decision
from agents.core.requests import EscalationState, Json
from agents.engine.desk.repeats import identifying
from agents.engine.upkeep.sweep import sweep
from agents.models import Escalation, Role, Run, Step
from agents.requests import deciding
from agents.runs import launching
from agents.sdk.desk import DESKS
from tests.desks import workshop
from tests.desks.bank import PAID_AT_ONCE, bank_scene, launch
from tests.engine.faulty import faulty_server
from tests.engine.scene import (
    REFUND_500,
    Scene,
    decide_request,
    go,
    on_the_charge_of,
    payments,
    set_scene,
)
from tests.engine.test_amounts_named import add_charge, paying, taken
from tests.engine.test_external import (
    LOOK,
    Session,
    held,
    page,
    publish_for_agents,
    refund,
    transfer,
)

pytestmark = pytest.mark.django_db(transaction=True)

NO = "Fraud. Never pay this one."


@pytest.fixture
def scene() -> Scene:
    scene = set_scene()
    publish_for_agents(scene)
    return scene


def rejected(scene: Scene, name: str = "first", ago: timedelta = timedelta()) -> Session:
    """Return the session of an agent whose refund Rita has rejected."""
    session = Session(scene, name, name=name)
    session.propose("k0", LOOK)
    session.propose("k1", refund(1200))
    at = timezone.now() - ago
    asked = held(session).pk
    no = Decision(approve=False, comment=NO)
    deciding.decide(escalation_id=asked, by=scene.rita, wanted=no, at=at)
    session.drive()
    return session


def beside(first: Session, scene: Scene, name: str, **more: Any) -> Session:
    """Return another agent's session on the same books."""
    session = Session(scene, name, name=name, **more)
    on_the_charge_of(first.run, session.run)
    session.propose("k0", LOOK)
    return session


@pytest.mark.both
@pytest.mark.proves("I56")
def test_a_rejection_binds_every_agent_and_the_consoles_runs(scene: Scene) -> None:
    first = rejected(scene)
    olga = scene.add("olga", Role.OPERATOR)
    same_owner = beside(first, scene, "second")
    others = beside(first, scene, "third", owner=olga)
    console = go(on_the_charge_of(first.run, scene.launch(REFUND_500, by=olga)))
    elsewhere = Session(scene, "books of its own", name="fourth")
    elsewhere.propose("k0", LOOK)

    told = [one.propose("k1", refund(100)) for one in (same_owner, others, elsewhere)]

    assert [one["status"] for one in told] == ["waiting", "waiting", "executed"]
    no = Escalation.objects.get(state=EscalationState.REJECTED)
    asked = [held(same_owner), held(others), Escalation.objects.get(run=console)]
    for one in asked:
        assert one.review["escalating"] == ["policy.rejected"]
        assert one.review["facts"]["rejected"]["request"] == no.pk
    assert not Step.objects.filter(failed="review_changed")  # they knew it before a call
    card = page(scene.rita, f"/approvals/{asked[0].pk}/")
    assert "rita rejected the same USD 1,200.00 · " in card
    assert f" · request {no.pk} “{NO}”" in card
    assert card.index(NO) < card.index("Why a person is asked") < card.index("Approve")
    assert "1,200.00" not in told[0]["sentence"]


@pytest.mark.both
@pytest.mark.proves("I56")
def test_an_approval_of_the_same_ends_a_rejection(scene: Scene) -> None:
    first = rejected(scene)
    second, third = beside(first, scene, "second"), beside(first, scene, "third")
    second.propose("k1", refund(100))
    decide_request(held(second), scene.rita, comment="checked")
    second.drive()

    assert third.propose("k1", refund(200))["status"] == "executed"
    assert payments(first.run) == [10000, 20000]


@pytest.mark.both
@pytest.mark.proves("I56")
@pytest.mark.parametrize(("days", "status"), [(29, "waiting"), (31, "executed")])
def test_a_rejection_lapses_after_thirty_days(scene: Scene, days: int, status: str) -> None:
    first = rejected(scene, ago=timedelta(days=days))
    rejected(scene, "on-other-books")  # of the same customer

    assert beside(first, scene, "second").propose("k1", refund(100))["status"] == status


@pytest.mark.parametrize("end", ["expired", "withdrawn", "sent back"])
def test_what_is_no_rejection_binds_nobody(scene: Scene, end: str) -> None:
    run = go(scene.launch())
    asked = Escalation.objects.get(run=run)
    if end == "expired":
        Escalation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        sweep()
    elif end == "withdrawn":
        launching.cancel(run_id=run.pk, by=scene.omar, at=timezone.now(), reason="enough")
    else:
        decide_request(asked, scene.rita, approve=False, send_back=True, comment="less")

    other = go(on_the_charge_of(run, scene.launch(REFUND_500)))

    assert payments(other) == [50000]


def test_an_erased_rejection_binds_nobody(scene: Scene) -> None:
    first = rejected(scene)
    first.end("Nothing was refunded.")
    about: Any = {"desk": "refunds", "workspace": scene.workspace, "key": "42"}
    erasing.erase_subject(**about, reason="asked to", actor="cli:root", at=timezone.now())

    assert set(Escalation.objects.values_list("likeness", flat=True)) == {""}


@pytest.mark.both
def test_a_rejection_given_while_its_run_ends_counts(scene: Scene) -> None:
    run = go(scene.launch())
    scene.decide(run, approve=False)  # and no worker has seen it yet

    other = go(on_the_charge_of(run, scene.launch(REFUND_500)))

    assert "policy.rejected" in Escalation.objects.get(run=other).review["escalating"]


@pytest.mark.proves("I56")
def test_a_rejection_binds_the_charge_that_is_meant(scene: Scene) -> None:
    def ask(goal: str, amount: float, beside: Run | None = None) -> Run:
        run = scene.launch(goal)
        if beside is None:
            add_charge(run)
        with faulty_server(timeout=30) as server:
            paying(server, amount)
            return go(on_the_charge_of(beside or run, run))

    first = ask("Refund USD 40.", 40.0)  # whose charge nobody can tell: it may be each
    scene.decide(first, approve=False)
    asked = [ask(f"Refund USD 40 of the {of}.", 40.0, first) for of in ("add-on", "annual charge")]
    for run in asked:
        decide_request(run.escalations.get(), scene.rita, approve=run == asked[0], comment="Seen.")
        go(run)
    ask("Refund USD 5 of the add-on.", 5.0, first)
    asked.append(ask("Refund USD 5 of the annual charge.", 5.0, first))

    assert taken(first) == [("add on", 4000), ("add on", 500)]
    for run in asked:
        assert run.escalations.get().review["escalating"] == ["policy.rejected"]


@pytest.mark.proves("I56")
def test_a_no_to_one_payee_stops_no_other_transfer() -> None:
    scene = bank_scene()
    first = Session(scene, "one", desk="bank", subject="main")
    first.propose("k1", transfer("P-101", "480.00", "INV-7"))
    decide_request(held(first), scene.rita, approve=False, comment=NO)
    first.drive()
    second = Session(scene, "two", desk="bank", subject="main", name="second")
    on_the_charge_of(first.run, second.run)
    asked = {}
    for key, payee in (("k1", "P-102"), ("k2", "P-101")):
        second.propose(key, transfer(payee, "90.00", "INV-9"))
        asked[payee] = Escalation.objects.order_by("-pk")[0].review["escalating"]
    console = go(on_the_charge_of(first.run, launch(scene, PAID_AT_ONCE)))
    elsewhere = go(launch(scene, PAID_AT_ONCE))

    assert not Escalation.objects.filter(run=elsewhere)
    assert "policy.rejected" not in asked["P-102"]
    assert "policy.rejected" in asked["P-101"]
    assert Escalation.objects.get(run=console).review["escalating"] == ["policy.rejected"]


def test_a_command_is_rejected_by_its_words(no_desk_left: None) -> None:
    scene = set_scene()
    workshop.install(scene)
    asked: list[Json] = []
    for number, text in enumerate(("rm -r build", "rm -r dist", "rm  -r “build”")):
        session = Session(scene, str(number), name=f"a{number}", desk="workshop", subject="shop")
        if number:
            on_the_charge_of(Run.objects.earliest("created_at"), session.run)
        session.propose("k1", workshop.command(text))
        asked.append("policy.rejected" in held(session).review["escalating"])
        if not number:
            decide_request(held(session), scene.rita, approve=False, comment=NO)
            session.drive()

    assert asked == [False, False, True]
    assert identifying("workshop", DESKS["workshop"].tools["bash"]) == ["project", "command"]
