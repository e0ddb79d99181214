"""Sending back over HTTP: the button, all mentions of it, and the next request."""

from __future__ import annotations

import io
from unittest import mock

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from agents.models import Escalation, Role, Run
from tests.engine.scene import Scene, fresh, go, payments
from tests.web.test_card import card_of, pay
from tests.web.test_pages import client_of
from tests.web.test_two_people import form_of, verdicts_of
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)
WHY = "USD 300 is what two months cost."


def waits(run: Run) -> Escalation:
    return run.escalations.get(state="open")


@pytest.mark.proves("I52")
def test_what_rita_sends_back_comes_again_with_what_changed_as_often_as_the_policy_says(
    scene: Scene,
) -> None:
    run = go(scene.launch())
    first, rita = waits(run), client_of(scene.rita)
    card = card_of("rita", first)
    assert verdicts_of(card) == ["adjust", "send_back", "reject"]
    assert "What should be different required" in words(card)

    empty = pay("rita", first, **form_of(card), verdict="send_back")
    assert (empty.status_code, "Enter a reason for the agent." in empty.text) == (422, True)
    sent = pay("rita", first, **form_of(card), verdict="send_back", advice=WHY)
    told = words(rita.get(sent.url).text)
    assert "Sent back to the agent. Nothing was paid on this request." in told

    second = waits(go(run))
    card = card_of("rita", second)
    said = words(card)
    assert f"rita sent back request {first.pk}, Refund USD 1,200.00 to Anna #42, " in said
    assert f"“{WHY}”" in said
    assert "Amount USD 1,200.00 USD 300.00" in said
    assert "rita sent an earlier proposal of this run back" in said
    assert f"Request {second.pk} followed." in words(card_of("rita", first))
    page = words(rita.get(reverse("run", args=[run.pk])).text)
    assert "rita: sent USD 1,200.00 back to the agent" in page
    audrey = client_of(scene.add("audrey", Role.AUDITOR))
    log = words(audrey.get(reverse("audit")).text)
    assert f"Sent USD 1,200.00 back to the agent for customer 42. “{WHY}”" in log
    listed = rita.get(reverse("decided"), {"outcome": "sent_back"}).text
    assert (first.comment or WHY) in words(listed)

    out = io.StringIO()
    with mock.patch("agents.management.operation_command.account", return_value="ops"):
        back = ["--send-back", "--reason=USD 200, please.", "--as=rita"]
        call_command("decide", second.pk, *back, stdout=out)
    assert f"request {second.pk} sent back" in out.getvalue()
    third = waits(go(run))
    card = card_of("rita", third)
    assert verdicts_of(card) == ["adjust", "approve", "reject"]
    assert "This run was sent back 2 times, as often as its policy allows." in words(card)
    refused = pay("rita", third, **form_of(card), verdict="send_back", advice=WHY)
    assert refused.status_code == 422
    assert "as often as its policy allows. Decide this one." in words(refused.text)
    with pytest.raises(CommandError, match="as often as its policy allows"):
        call_command("decide", third.pk, "--send-back", "--reason=again", "--as=rita")
    third.refresh_from_db()
    assert (third.state, fresh(run).state, payments(run)) == ("open", "waiting", [])
