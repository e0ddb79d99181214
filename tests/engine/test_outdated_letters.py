"""A letter matches the books when it is sent, not when the agent looked."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from agents.core.requests import EscalationState, Json, RunState
from agents.desks.refunds.models import Charge, SentMail
from agents.models import Escalation, Run
from agents.shell.refusal import Refused
from tests.engine.faulty import advance_all, as_demo, faulty_server
from tests.engine.scene import Scene, decide_request, go

pytestmark = pytest.mark.django_db(transaction=True)

OURS = "[[greeting]]\n\nthank you for your question.\n\n[[charge]] [[window]]"
OWN = OURS.replace("thank", "Max says thank")


def reply(scene: Scene, draft: str, *, meanwhile: Any = lambda: None) -> Run:
    """Launch a reply with this draft; something happens before the agent sends it."""

    def says(role: str, inputs: Json) -> str:
        if role == "executor" and inputs["step"] == "draft":
            return draft
        if role == "executor" and inputs["step"] == "send":
            meanwhile()
            connections.close_all()
        return as_demo(role, inputs)

    with faulty_server(timeout=30) as server:
        server.says = says
        [run] = advance_all([scene.launch_scenario("reply")])
    return run


def last_charge() -> Charge:
    return Charge.objects.get(customer__number=42, customer__book=Run.objects.get().book)


def charge_anew() -> None:
    """Import a newer charge of Anna's."""
    last = last_charge()
    Charge.objects.create(
        customer=last.customer, plan=last.plan, amount_minor=99_00, currency="USD",
        paid_at=timezone.now(),
    )  # fmt: skip


def let_a_day_pass() -> None:
    charge = last_charge()
    charge.paid_at -= timedelta(days=1)
    charge.save()


def request_of(run: Run) -> Escalation:
    assert run.state == RunState.WAITING
    assert not SentMail.objects.exists()
    return Escalation.objects.get(run=run, state=EscalationState.OPEN)


def decide(scene: Scene, escalation: Escalation, correction: str = "") -> None:
    decide_request(escalation, scene.rita, correction=correction)


def test_a_letter_that_the_books_bear_out_leaves_by_itself(scene: Scene) -> None:
    assert reply(scene, OURS).stop_reason == "success"

    [mail] = SentMail.objects.all()
    assert "The last charge was USD 1,200.00" in mail.body


@pytest.mark.proves("I10")
def test_charge_during_the_agents_turn_sends_letter_to_a_person(scene: Scene) -> None:
    escalation = request_of(reply(scene, OURS, meanwhile=charge_anew))

    deciding = escalation.review["deciding"]
    assert deciding["reason"] == "letter_out_of_date"
    assert "says “The last charge was USD 1,200.00 for annual" in deciding["sentence"]
    assert "Now it would say “The last charge was USD 99.00 for annual" in deciding["sentence"]
    with pytest.raises(Refused, match=r"USD 99\.00"):
        decide(scene, escalation)
    letter = escalation.action["args"]["message"]
    decide(scene, escalation, letter.replace("1,200.00", "99.00").replace("10 days", "0 days"))
    assert go(escalation.run).stop_reason == "success"
    assert "USD 99.00" in SentMail.objects.get().body


@pytest.mark.proves("I10")
def test_passed_day_is_shown_before_a_letter_is_sent(scene: Scene) -> None:
    escalation = request_of(reply(scene, OWN))
    assert escalation.review["deciding"]["reason"] == "letter_in_own_words"
    let_a_day_pass()
    letter = escalation.action["args"]["message"]

    for correction in ("", letter.replace("Max", "Moritz")):
        with pytest.raises(Refused, match=r"Now it would say “The last charge .* 11 days ago"):
            decide(scene, escalation, correction)

    decide(scene, escalation, letter.replace("10 days", "11 days"))
    assert go(escalation.run).stop_reason == "success"


@pytest.mark.proves("I10")
@pytest.mark.parametrize("corrected", [False, True])
def test_change_between_approval_and_mail_asks_again(scene: Scene, corrected: bool) -> None:
    escalation = request_of(reply(scene, OWN))
    letter = escalation.action["args"]["message"]
    decide(scene, escalation, letter.replace("Max", "Moritz") if corrected else "")
    charge_anew()

    again = request_of(go(escalation.run))

    assert again.pk != escalation.pk
    assert again.review["deciding"]["reason"] == "letter_out_of_date"
    decide(scene, again, letter.replace("1,200.00", "99.00").replace("10 days", "0 days"))
    assert go(again.run).stop_reason == "success"
    assert "USD 99.00" in SentMail.objects.get().body
