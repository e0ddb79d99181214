"""An approval that was asked again needs a look only while nobody answered what took its place."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from agents.core.notifications import Kind
from agents.core.states import EscalationState
from agents.engine.turns.answering import expire
from agents.models import Delivery, Escalation, Notification, Role, Run
from agents.notifications.messages import note_of
from agents.overview.pages import Attention, attention
from agents.runs import launching
from tests.engine.scene import REFUND_500, Scene, decide_request, go, on_the_charge_of
from tests.engine.test_approvals import approve, refund_by_phone
from tests.engine.tiered import Tiered, say_yes
from tests.notifications.sinks import receiver
from tests.notifications.telling import hook, tell
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def asked_again(scene: Scene, ada: User, times: int = 1) -> tuple[Run, list[Escalation]]:
    """Return a run whose approvals were asked again so often, and its requests."""
    run = go(scene.launch())
    for nth in range(times):
        approve(run, ada)
        refund_by_phone(run, 1000 + nth)
        run = go(run)
    return run, list(Escalation.objects.filter(run=run).order_by("pk"))


def shown(scene: Scene) -> list[tuple[int | None, str]]:
    since = timezone.now() - timedelta(days=1)
    found, _ = attention([scene.workspace.pk], since=since, today=timezone.now())
    return [(one.escalation, one.matter) for one in found if _is_of_approval(one)]


def _is_of_approval(one: Attention) -> bool:
    return one.kind == "not_carried_out"


@pytest.mark.proves("I41")
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("end", ["paid", "rejected", "open", "expired", "cancelled", "refused"])
def test_one_line_stands_for_a_chain_as_long_as_it_needs_a_look(
    scene: Scene, ada: User, end: str, times: int
) -> None:
    run, requests = asked_again(scene, ada, times)
    *_, approved, last = requests
    if end == "paid":
        approve(run, ada)
        go(run)
    elif end == "rejected":
        decide_request(last, ada, approve=False, comment="no")
        go(run)
    elif end == "expired":
        Escalation.objects.filter(pk=last.pk).update(expires_at=timezone.now())
        expire(last.pk, at=timezone.now())
        go(run)
    elif end == "cancelled":
        stop(run, scene)
    elif end == "refused":
        approve(run, ada)
        stop(run, scene)

    asked = f"it was asked again as request {last.pk}"
    matter = {
        "open": f"; facts had changed, so it was asked again: see request {last.pk}",
        "expired": f", not carried out: {asked}, which was not decided in time",
        "cancelled": f", not carried out: {asked}, which was closed before an answer",
        "refused": f", in place of request {approved.pk}, not carried out: a person stopped the "
        "run",
    }
    line = last.pk if end == "refused" else approved.pk
    told = f"approved by {ada.username}{matter.get(end)}"
    assert shown(scene) == ([] if end in ("paid", "rejected") else [(line, told)])


def test_an_approval_whose_amount_was_not_possible_any_more_is_over_once_another_was_paid(
    scene: Scene, ada: User
) -> None:
    run, _ = asked_again(scene, ada)
    approve(run, ada)
    refund_by_phone(run, 20000)

    run = go(run)

    paid = [effect.amount_minor for effect in run.effects.filter(tool="issue_refund")]
    assert (paid, shown(scene)) == ([99000], [])


def test_a_request_that_one_of_two_people_approved_was_not_left_without_an_answer(
    tiered: Tiered,
) -> None:
    first = tiered.ask()
    for person in (tiered.finn, tiered.faye):
        say_yes(first, person)
    refund_by_phone(first.run, 1000)
    go(first.run)
    last = Escalation.objects.get(run=first.run, state=EscalationState.OPEN)
    say_yes(last, tiered.finn)

    Escalation.objects.filter(pk=last.pk).update(expires_at=timezone.now())
    expire(last.pk, at=timezone.now())

    [(_, told)] = shown(tiered.scene)
    assert told.endswith(f"asked again as request {last.pk}, which was not decided in time")


@pytest.mark.parametrize("end", ["paid", "expired"])
def test_nobody_is_told_that_something_was_not_carried_out_while_that_is_not_known(
    scene: Scene, ada: User, settings: Any, end: str
) -> None:
    settings.OPSCONSOLE_WEBHOOK_HOSTS = ["localhost"]

    def told() -> list[Any]:
        sent = Delivery.objects.filter(notification__kind=Kind.NOT_CARRIED_OUT)
        return list(sent.values_list("notification__escalation", "state"))

    with receiver() as sink:
        hook(scene, ada, sink, [Kind.NOT_CARRIED_OUT])
        run, (approved, last) = asked_again(scene, ada)
        tell()
        assert told() == []
        if end == "paid":
            approve(run, ada)
        else:
            Escalation.objects.filter(pk=last.pk).update(expires_at=timezone.now())
            expire(last.pk, at=timezone.now())
        tell(timezone.now() + timedelta(minutes=2))

    assert {request for request, _ in told()} == (set() if end == "paid" else {approved.pk})
    notified = Notification.objects.get(kind=Kind.NOT_CARRIED_OUT, escalation=approved)
    assert notified.addressed_at is not None
    if end == "expired":
        assert f"as request {last.pk}, which was not decided" in " ".join(note_of(notified).lines)


def told_again() -> list[tuple[str, int | None]]:
    """Return who was told that an approval of theirs is asked again."""
    sent = Delivery.objects.filter(notification__kind=Kind.ASKED_AGAIN).order_by("pk")
    return list(sent.values_list("user__username", "notification__escalation"))


def test_whoever_approved_is_told_at_once_that_it_is_asked_again(scene: Scene, ada: User) -> None:
    scene.add("mara", Role.ADMIN)
    _, (approved, last) = asked_again(scene, ada)

    tell()

    assert told_again() == [(ada.username, approved.pk)]
    note = note_of(Notification.objects.get(kind=Kind.ASKED_AGAIN))
    assert note.headline.startswith("Approved, and asked again: ")
    assert note.lines[0] == f"Approved by {ada.username}: USD 1,200.00"
    again = f"Facts had changed, so it was asked again, as request {last.pk}."
    assert note.lines[1:3] == [again, last.review["deciding"]["sentence"]]
    assert note.url.endswith(f"/approvals/{last.pk}/")


def test_the_card_says_who_approved_it_before_and_what_has_changed(scene: Scene, ada: User) -> None:
    _, (approved, last) = asked_again(scene, ada)

    page = words(client_of(ada).get(reverse("approval", args=[last.pk])).text)

    assert f"Asked again: {ada.username} approved USD 1,200.00 at " in page
    assert f"(request {approved.pk}). Then facts changed: " in page
    assert "USD 1,190.00" in page.partition("Then facts changed: ")[2][:120]
    assert "Not as the agent proposed: changed by the policy." in page
    assert "As the agent proposed." not in page


def test_the_card_says_that_a_person_changed_it_and_which_rule_asks_now(
    scene: Scene, ada: User
) -> None:
    run = go(scene.launch())
    go(on_the_charge_of(run, scene.launch(REFUND_500)))
    approve(run, ada, 70000)
    go(run)
    last = Escalation.objects.get(run=run, state=EscalationState.OPEN)

    page = words(client_of(ada).get(reverse("approval", args=[last.pk])).text)

    assert f"Then facts changed: {last.review['deciding']['sentence']}" in page
    assert f"Not as the agent proposed: changed by {ada.username}." in page


def test_nobody_is_told_of_what_was_answered_before_the_message_went_out(
    scene: Scene, ada: User
) -> None:
    run, _ = asked_again(scene, ada)
    approve(run, ada)

    tell()

    assert told_again() == []


@pytest.mark.proves("I41")
@pytest.mark.parametrize("end", ["waiting", "paid", "rejected", "stopped"])
@pytest.mark.parametrize("first", ["stopped", "expired"])
def test_an_approval_is_over_once_a_run_that_repeats_its_run_paid_or_was_refused(
    scene: Scene, ada: User, first: str, end: str
) -> None:
    run, (approved, last) = asked_again(scene, ada)
    if first == "stopped":
        approve(run, ada)
        approved = last
        stop(run, scene)
    else:
        Escalation.objects.filter(pk=last.pk).update(expires_at=timezone.now())
        expire(last.pk, at=timezone.now())
        run = go(run)
    assert [line for line, _ in shown(scene)] == [approved.pk]

    run = go(launching.launch_again(run_id=run.pk, by=scene.omar, at=timezone.now()))
    held = Escalation.objects.get(run=run)
    if end in ("paid", "stopped"):
        approve(run, ada)
    if end == "rejected":
        decide_request(held, ada, approve=False, comment="no")
    if end == "stopped":
        stop(run, scene)
    elif end != "waiting":
        go(run)

    left = {"waiting": [approved.pk], "stopped": [held.pk]}
    assert [line for line, _ in shown(scene)] == left.get(end, [])


def stop(run: Run, scene: Scene) -> None:
    launching.cancel(run_id=run.pk, by=scene.omar, reason="enough", at=timezone.now())
