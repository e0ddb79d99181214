"""Sending back over HTTP: the button, all mentions of it, and the next request."""

import io
from unittest import mock

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.urls import reverse

from agents.models import Escalation, Run
from tests.engine.scene import Scene, fresh, go, payments
from tests.golden import Golden
from tests.web.test_card import card_of, page_of, pay
from tests.web.test_pages import client_of
from tests.web.test_two_people import form_of, verdicts_of

pytestmark = pytest.mark.django_db(transaction=True)
WHY = "USD 300 is what two months cost."


def waits(run: Run) -> Escalation:
    return run.escalations.get(state="open")


@pytest.mark.proves("I52")
def test_sent_back_requests_return_as_often_as_allowed(
    scene: Scene, golden: Golden, ada: User
) -> None:
    run = go(scene.launch())
    first, rita = waits(run), client_of(scene.rita)
    card = card_of("rita", first)
    assert verdicts_of(card) == ["pass", "adjust", "send_back", "reject"]

    empty = pay("rita", first, **form_of(card), verdict="send_back")
    assert empty.status_code == 422
    sent = pay("rita", first, **form_of(card), verdict="send_back", advice=WHY)
    pages = {"after it": rita.get(sent.url).text}

    second = waits(go(run))
    pages["the next request"] = page_of("rita", second)
    pages["the first request"] = page_of("rita", first)
    pages["the decided ones"] = rita.get(reverse("decided"), {"outcome": "sent_back"}).text
    assert WHY in pages["the next request"]
    assert WHY in pages["the decided ones"]
    assert WHY in client_of(ada).get(reverse("audit")).text

    out = io.StringIO()
    with mock.patch("agents.management.operation_command.account", return_value="ops"):
        back = ["--send-back", "--reason=USD 200, please.", "--as=rita"]
        call_command("decide", second.pk, *back, stdout=out)
    assert f"request {second.pk} sent back" in out.getvalue()
    third = waits(go(run))
    card = card_of("rita", third)
    assert verdicts_of(card) == ["adjust", "approve", "reject"]
    refused = pay("rita", third, **form_of(card), verdict="send_back", advice=WHY)
    pages["a third time"] = refused.text
    assert refused.status_code == 422
    with pytest.raises(CommandError):
        call_command("decide", third.pk, "--send-back", "--reason=again", "--as=rita")
    third.refresh_from_db()
    assert (third.state, fresh(run).state, payments(run)) == ("open", "waiting", [])
    golden.check("card/sent-back-twice", pages)
