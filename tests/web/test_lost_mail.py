"""A mail with unknown outcome: the card shows what helps to find out."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from django.urls import reverse

from agents.desks.refunds.mail import message_id
from agents.desks.refunds.models import SentMail
from agents.models import Effect, Escalation, Run
from tests.engine.memory import Crash
from tests.engine.scene import REFUND_500, Scene, go, recover
from tests.web.test_pages import client_of

pytestmark = pytest.mark.django_db(transaction=True)


def card_of(scene: Scene, run: Run) -> str:
    escalation = Escalation.objects.get(run=run, kind="effect_unknown")
    return client_of(scene.rita).get(reverse("approval", args=[escalation.pk])).text


@pytest.mark.proves("F8", "F41")
def test_the_card_tells_what_the_mail_server_said(scene: Scene, settings: Any) -> None:
    settings.EMAIL_BACKEND = "tests.desk.letterboxes.Broken"

    run = go(scene.launch(REFUND_500))

    page, key = card_of(scene, run), Effect.objects.get(run=run, tool="send_refund_email").key
    assert "ConnectionResetError: the server hung up" in page
    assert message_id(key).strip("<>") in page
    assert SentMail.objects.get(key=key).to in page
    assert "on attempt 1 of this step" in page


@pytest.mark.proves("F41")
def test_where_no_mail_server_listens_nobody_is_asked_and_the_answer_says_so(
    scene: Scene, settings: Any
) -> None:
    settings.EMAIL_BACKEND = "agents.notifications.channels.mail.LimitedBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", 1, False

    run = go(scene.launch(REFUND_500))

    mail = Effect.objects.get(run=run, tool="send_refund_email")
    assert mail.result == {"status": "error", "error": "email_not_taken:ConnectionRefusedError"}
    assert (run.outcome or {})["answer"].endswith("The customer has not been told.")
    assert not Escalation.objects.filter(run=run).exists()
    page = client_of(scene.omar).get(reverse("run", args=[run.pk])).text
    assert "because its email failed. Write to them." in page


@pytest.mark.proves("F8")
def test_a_worker_that_died_meanwhile_noted_no_answer(scene: Scene, settings: Any) -> None:
    settings.EMAIL_BACKEND = "tests.desk.letterboxes.Deadly"
    run = scene.launch(REFUND_500)
    with suppress(Crash):
        go(run)
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    recover(run.pk)

    run = go(run)

    page = card_of(scene, run)
    assert "none was noted" in page
    assert "on attempt 2 of this step" in page
