"""A failed run is launched again: linked to the first one and bound by its calls."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings
from django.urls import reverse
from django.utils import timezone

from agents.core.requests import RunState
from agents.desks.refunds.limits import STRICT
from agents.engine.runtime import crashpoints
from agents.models import Effect, Role, Run, Scope, SwitchStage
from agents.overview.pages import overview
from agents.runs import launching
from tests.conformance import harness
from tests.conformance.replay_server import ReplayServer
from tests.engine.scene import (
    REFUND_500,
    Scene,
    fresh,
    go,
    go_elsewhere,
    in_thread,
    mails,
    payments,
)
from tests.engine.test_kill_switch import press, release
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)

CONTEXT = '{"kind": "tool", "name": "get_refund_context", "args": {"user_id": 42}}'
REFUND = (
    '{"kind": "tool", "name": "issue_refund", '
    '"args": {"user_id": 42, "amount_usd": %s, "reason": "r"}}'
)
MAIL = (
    '{"kind": "tool", "name": "send_refund_email", '
    '"args": {"user_id": 42, "amount_usd": 500, "message": "paid"}}'
)
FINAL = '{"kind": "final", "answer": "The refund was looked into."}'
BY_SMTP = "agents.notifications.channels.mail.LimitedBackend"
LOST = {"fault": "http", "status": 400}  # the model's fault, which ends the run


@pytest.fixture
def server() -> Iterator[ReplayServer]:
    with (
        harness.replaying() as server,
        override_settings(OPENAI_BASE_URL=server.base_url("model"), OPENAI_API_KEY="any"),
    ):
        yield server


def ended_after_paying(scene: Scene, server: ReplayServer) -> Run:
    server.load("model", [CONTEXT, REFUND % 500, LOST])
    run = go(scene.launch(REFUND_500))
    assert (run.stop_reason, payments(run), mails(run)) == ("llm_error", [50000], [])
    return run


def again(scene: Scene, run: Run) -> Run:
    return launching.launch_again(run_id=run.pk, by=scene.omar, at=timezone.now())


@pytest.mark.proves("F46")
def test_the_mail_that_is_missing_is_sent_and_nothing_paid_twice(
    scene: Scene, server: ReplayServer
) -> None:
    first = ended_after_paying(scene, server)
    server.load("model", [CONTEXT, MAIL, FINAL])

    second = go(again(scene, first))

    assert second.stop_reason == "success"
    assert (payments(second), mails(second)) == ([50000], [50000])
    assert second.outcome
    assert second.outcome["answer"].startswith("USD 500.00 was refunded to customer 42.")
    assert not overview(scene.omar, at=timezone.now())["attention"]


@pytest.mark.proves("F46")
def test_demo_model_sends_the_owed_mail(scene: Scene) -> None:
    admin, mailing = scene.add("ada", Role.ADMIN), (Scope.TOOL, "send_refund_email")
    scene.publish(STRICT.as_json(), admin)
    press(scene, admin, *mailing)
    first = go(scene.launch(REFUND_500))
    assert (first.stop_reason, payments(first)) == ("killed", [50000])
    release(scene, admin, SwitchStage.TRIAL, *mailing)

    second = go(again(scene, first))

    assert (second.stop_reason, mails(second)) == ("success", [50000])
    assert payments(second) == [50000]


@pytest.mark.proves("F41")
def test_a_mail_that_failed_is_sent_by_running_the_run_again(scene: Scene, settings: Any) -> None:
    scene.publish(STRICT.as_json(), scene.add("ada", Role.ADMIN))
    works, settings.EMAIL_BACKEND = settings.EMAIL_BACKEND, BY_SMTP
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", 1, False
    first, omar = go(scene.launch(REFUND_500)), client_of(scene.omar)
    assert (first.state, payments(first), mails(first)) == ("done", [50000], [])
    home, page = reverse("home"), reverse("run", args=[first.pk])
    assert "its email failed; write to them" in omar.get(home).text
    assert 'id="again"' in omar.get(page).text

    second = go(again(scene, first))
    assert (second.state, mails(second)) == ("done", [])

    settings.EMAIL_BACKEND = works
    omar.post(reverse("run-again", args=[second.pk]))
    third = go(Run.objects.get(again_of=second))

    assert (third.stop_reason, mails(third)) == ("success", [50000])
    assert payments(third) == [50000]
    assert "carried out, and nobody was told" not in omar.get(home).text
    for run in (first, second, third):
        page = omar.get(reverse("run", args=[run.pk])).text
        assert ('id="again"' in page, 'id="untold"' in page) == (False, False)


@pytest.mark.both
@pytest.mark.proves("F46")
def test_untold_paid_customer_needs_attention(scene: Scene, server: ReplayServer) -> None:
    eve, home = client_of(scene.eve), reverse("home")
    first = ended_after_paying(scene, server)
    page = eve.get(home).text
    assert "USD 500.00</span> for Anna #42</bdi></a><small>Carried out, and nobody was" in page
    assert "opsconsole_refunds_untold 1.0" in eve.get("/metrics").text

    server.load("model", [CONTEXT, MAIL, FINAL])
    go(again(scene, first))

    assert "nobody was told" not in eve.get(home).text
    assert "opsconsole_refunds_untold 0.0" in eve.get("/metrics").text


NO_EMAIL = "nobody was told, because the agent sent no email"
NO_AMOUNT = "no email states this amount"


@pytest.mark.both
@pytest.mark.breaks("I2", "I9", "I11", "I32")
@pytest.mark.parametrize(
    ("letter", "why"),
    [
        ({}, ""),
        ({"state": "unknown"}, ""),  # somebody is asked about that
        ({"amount_minor": 120000}, f"{NO_AMOUNT} (told of USD 1,200.00)"),
        ({"currency": "EUR"}, f"{NO_AMOUNT} (told of EUR 500.00)"),
        ({"amount_minor": 1, "state": "unknown"}, NO_AMOUNT),
        ({"amount_minor": None, "currency": "", "tool": "send_reply"}, NO_AMOUNT),
        ({"state": "refused"}, "nobody was told, because its email failed"),
        ({"amount_minor": 1, "state": "refused"}, NO_EMAIL),
    ],
)
def test_a_payment_is_told_by_a_letter_of_its_amount(
    scene: Scene, letter: dict[str, Any], why: str
) -> None:
    run = scene.done_refund()
    run.effects.filter(tool="send_refund_email").update(**letter)

    cases = overview(scene.omar, at=timezone.now())["attention"]
    page = words(client_of(scene.omar).get(reverse("run", args=[run.pk])).text)

    told = [case.matter for case in cases if case.kind == "untold"]
    assert told == ([f"carried out, and {why}; write to them"] if why else [])
    banner = f"was not told of USD 500.00 It was carried out in this run, and {why}. Write to them."
    assert (banner in page) == bool(why)
    assert ("not told" in page) == bool(why)


@pytest.mark.proves("F46")
def test_the_same_amount_is_a_duplicate(scene: Scene, server: ReplayServer) -> None:
    first = ended_after_paying(scene, server)
    server.load("model", [CONTEXT, *[REFUND % 500] * 8])

    second = go(again(scene, first))

    reviews = second.steps.filter(kind="review", key__startswith="2/")
    reasons = [review.reply["deciding"]["reason"] for review in reviews if review.reply]
    assert reasons[0] == "duplicate_refund"
    assert payments(second) == [50000]


@pytest.mark.both
@pytest.mark.proves("F46")
def test_another_amount_is_put_to_a_person_also_in_a_third_run(
    scene: Scene, server: ReplayServer
) -> None:
    first = ended_after_paying(scene, server)
    server.load("model", [LOST])
    second = go(again(scene, first))
    server.load("model", [CONTEXT, REFUND % 100])

    third = go(again(scene, second))

    assert third.state == RunState.WAITING
    rulings = third.escalations.get().review["rulings"]
    [asked] = [one for one in rulings if one["reason"] == "refunded_by_earlier_run"]
    assert (asked["verdict"], "USD 500.00" in asked["sentence"]) == ("escalate", True)
    assert payments(third) == [50000]


def test_it_asks_for_the_same_and_both_pages_name_the_other(
    scene: Scene, server: ReplayServer
) -> None:
    first, omar = ended_after_paying(scene, server), client_of(scene.omar)
    page = reverse("run", args=[first.pk])
    assert "Run again" in omar.get(page).text
    assert "Run again" not in client_of(scene.eve).get(page).text

    answered = omar.post(reverse("run-again", args=[first.pk]))
    twice = omar.post(reverse("run-again", args=[first.pk]))

    second = Run.objects.get(again_of=first)
    assert answered["Location"] == twice["Location"] == reverse("run", args=[second.pk])
    for name in ("goal", "subject_key", "pattern", "book_id", "model", "scope", "workflow"):
        assert getattr(second, name) == getattr(first, name)
    assert second.events.get(kind="run.queued").facts["again_of"] == str(first.pk)
    assert answered["Location"] in omar.get(page).text
    assert "Run again" not in omar.get(page).text
    assert page in omar.get(answered["Location"]).text


@pytest.mark.usefixtures("sources_answer_at_once")
@pytest.mark.parametrize("key", ["reply", "morning-report"])
def test_other_patterns_are_run_again_too(scene: Scene, key: str) -> None:
    first = scene.launch_scenario(key)
    launching.cancel(run_id=first.pk, by=scene.omar, reason="by mistake", at=timezone.now())

    second = go(again(scene, first))

    assert second.stop_reason == "success"


def test_what_may_not_be_run_again_says_why(scene: Scene) -> None:
    done, waiting = go(scene.launch(REFUND_500)), go(scene.launch())
    omar = client_of(scene.omar)

    for run, said in ((done, "is done"), (waiting, "has not ended")):
        refused = omar.post(reverse("run-again", args=[run.pk]))
        assert refused.status_code == 409
        assert said in refused.text
    assert client_of(scene.eve).post(reverse("run-again", args=[done.pk])).status_code == 403
    assert not Run.objects.filter(again_of__isnull=False).exists()
    assert fresh(waiting).state == RunState.WAITING


@pytest.mark.both
@pytest.mark.proves("F46")
@pytest.mark.parametrize("point", ["gateway.before_call", "gateway.after_call"])
@pytest.mark.usefixtures("_nothing_takes_long")
def test_payment_of_a_cancelled_run_counts_for_the_next(scene: Scene, point: str) -> None:
    """The run is cancelled and launched again during its call, which then pays."""
    first = scene.launch(REFUND_500)
    later: list[Run] = []

    def cancel_and_run_again() -> None:
        if not later and Effect.objects.filter(run=first, tool="issue_refund").exists():
            launching.cancel(run_id=first.pk, by=scene.omar, reason="late", at=timezone.now())
            later.append(again(scene, first))
            go_elsewhere(later[0])

    crashpoints.watch(lambda name: in_thread(cancel_and_run_again) if name == point else None)
    go(first)
    crashpoints.watch(None)

    second = fresh(later[0])
    assert second.stop_reason == "supervisor_block:duplicate_refund"
    assert payments(first) == [50000]
    assert fresh(first).stop_reason == "cancelled"
