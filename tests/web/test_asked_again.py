"""An approval that was asked again needs a look only while nobody answered what took its place."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents.core.notifications import Kind
from agents.core.requests import EscalationState
from agents.engine.turns.answering import expire
from agents.models import Delivery, Escalation, Notification, Role, Run
from agents.notifications.messages import note_of
from agents.overview.pages import attention
from agents.runs import launching
from tests.engine.scene import REFUND_500, Scene, decide_request, go, on_the_charge_of
from tests.engine.test_approvals import approve, refund_by_phone
from tests.engine.tiered import Tiered, say_yes
from tests.golden import Golden
from tests.notifications.sinks import receiver
from tests.notifications.telling import hook, tell
from tests.web.test_card import page_of

pytestmark = pytest.mark.django_db(transaction=True)


def asked_again(scene: Scene, ada: User, times: int = 1) -> tuple[Run, list[Escalation]]:
    """Return a run whose approvals were asked again so often, and its requests."""
    run = go(scene.launch())
    for nth in range(times):
        approve(run, ada)
        refund_by_phone(run, 1000 + nth)
        run = go(run)
    return run, list(Escalation.objects.filter(run=run).order_by("pk"))


def shown(scene: Scene) -> list[tuple[int | None, str]]:
    """Return the approvals that need a look, each with what is told of it."""
    since = timezone.now() - timedelta(days=1)
    found, _ = attention([scene.workspace.pk], since=since, today=timezone.now())
    return [(one.escalation, one.matter) for one in found if one.kind == "not_carried_out"]


def expires(request: Escalation) -> None:
    Escalation.objects.filter(pk=request.pk).update(
        expires_at=timezone.now() - timedelta(seconds=1)
    )
    expire(request.pk, at=timezone.now())


@pytest.mark.both
@pytest.mark.proves("I41")
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("end", ["paid", "rejected", "open", "expired", "cancelled", "refused"])
def test_one_line_stands_for_a_chain_of_approvals(
    scene: Scene, golden: Golden, ada: User, end: str, times: int
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
        expires(last)
        go(run)
    elif end == "cancelled":
        stop(run, scene)
    elif end == "refused":
        approve(run, ada)
        stop(run, scene)

    lines, line = shown(scene), last.pk if end == "refused" else approved.pk
    assert [pk for pk, _ in lines] == ([] if end in ("paid", "rejected") else [line])
    if lines and times == 1:
        golden.check(f"attention/{end}", {"told": lines[0][1]})


def test_half_approved_request_was_not_left_unanswered(tiered: Tiered, golden: Golden) -> None:
    first = tiered.ask()
    for person in (tiered.finn, tiered.faye):
        say_yes(first, person)
    refund_by_phone(first.run, 1000)
    go(first.run)
    last = Escalation.objects.get(run=first.run, state=EscalationState.OPEN)
    say_yes(last, tiered.finn)

    expires(last)

    golden.check("attention/half-approved", {"told": shown(tiered.scene)[0][1]})


@pytest.mark.parametrize("end", ["paid", "expired"])
def test_nobody_is_told_before_it_is_known(
    scene: Scene, golden: Golden, ada: User, settings: Any, end: str
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
            expires(last)
        tell(timezone.now() + timedelta(minutes=2))

    assert {request for request, _ in told()} == (set() if end == "paid" else {approved.pk})
    notified = Notification.objects.get(kind=Kind.NOT_CARRIED_OUT, escalation=approved)
    assert notified.addressed_at is not None
    if end == "expired":
        golden.check("mail/not-carried-out", {"ada": text_of_note(notified)})


def told_again() -> list[tuple[str, int | None]]:
    """Return who was told that an approval of theirs is asked again."""
    sent = Delivery.objects.filter(notification__kind=Kind.ASKED_AGAIN).order_by("pk")
    return list(sent.values_list("user__username", "notification__escalation"))


def text_of_note(notification: Notification) -> str:
    note = note_of(notification)
    return "\n".join((note.headline, *note.lines))


def test_approver_is_told_at_once_of_being_asked_again(
    scene: Scene, golden: Golden, ada: User
) -> None:
    scene.add("mara", Role.ADMIN)
    _, (approved, last) = asked_again(scene, ada)

    tell()

    assert told_again() == [(ada.username, approved.pk)]
    told = Notification.objects.get(kind=Kind.ASKED_AGAIN)
    assert note_of(told).url.endswith(f"/approvals/{last.pk}/")
    golden.check("mail/asked-again", {"ada": text_of_note(told)})


def test_card_says_who_approved_before_and_what_changed(
    scene: Scene, golden: Golden, ada: User
) -> None:
    _, (_, by_the_policy) = asked_again(scene, ada)
    run = go(scene.launch())
    go(on_the_charge_of(run, scene.launch(REFUND_500)))
    approve(run, ada, 70000)
    go(run)
    by_ada = Escalation.objects.get(run=run, state=EscalationState.OPEN)

    requests = {"changed by the policy": by_the_policy, "changed by ada": by_ada}
    pages = {name: page_of("ada", request) for name, request in requests.items()}
    golden.check("card/asked-again", pages)


@pytest.mark.proves("I41")
@pytest.mark.parametrize("end", ["waiting", "paid", "rejected", "stopped"])
@pytest.mark.parametrize("first", ["stopped", "expired"])
def test_approval_is_over_once_a_repeated_run_ended(
    scene: Scene, ada: User, first: str, end: str
) -> None:
    run, (approved, last) = asked_again(scene, ada)
    if first == "stopped":
        approve(run, ada)
        approved = last
        stop(run, scene)
    else:
        expires(last)
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
