"""A worker verifies the record; the page shows its progress and can cancel it."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.audit.verify import verify_next
from agents.models import Event, Membership, Role, Verification
from agents.people import workspaces
from tests.engine.scene import REFUND_500, Scene, go, set_scene
from tests.web.test_pages import client_of
from tests.web.verifying import verify_log

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.fixture
def scene() -> Scene:
    scene = set_scene()
    go(scene.launch(REFUND_500))
    return scene


@pytest.fixture
def auditor(scene: Scene) -> Client:
    return client_of(scene.add("auditor", Role.AUDITOR))


def count_events() -> int:
    return Event.objects.filter(kind="audit.verified").count()


def test_check_is_requested_once_shown_and_cancelled(
    auditor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[str] = []

    def look(*args: object) -> bool:
        if not pages:
            Verification.objects.update(done=1)
            pages.append(auditor.get(reverse("audit")).text)
            auditor.post(reverse("verify-cancel"))
        return False

    monkeypatch.setattr(Verification, "BETWEEN", 0.0)
    for _ in range(2):
        auditor.post(reverse("verify"))
    assert Verification.objects.count() == 1
    assert "A worker begins within seconds" in auditor.get(reverse("audit")).text

    assert verify_next(look)

    assert "1 of about 2 chains are checked" in pages[0]
    assert (count_events(), Verification.objects.get().outcome) == (0, None)
    assert "Not verified yet" in auditor.get(reverse("audit")).text
    assert not verify_next(), "nothing is left to do"
    assert "All 2 chains were read" in verify_log(auditor)
    assert count_events() == 1


def test_what_a_worker_left_is_taken_up_and_ends_at_last(auditor: Client) -> None:
    def die() -> bool:
        raise KeyboardInterrupt

    auditor.post(reverse("verify"))
    assert verify_next(lambda: True), "told to stop, it gives it back"
    for _ in range(Verification.TRIES):
        with pytest.raises(KeyboardInterrupt):
            verify_next(die)
        assert not verify_next(), "its worker may be alive"
        Verification.objects.update(seen_at=timezone.now() - timedelta(minutes=2))

    assert not verify_next()

    assert "each time what did it ended" in auditor.get(reverse("audit")).text
    assert count_events() == 0
    assert "All 2 chains were read" in verify_log(auditor)


def test_findings_stay_within_their_workspace(scene: Scene, auditor: Client) -> None:
    """A fault quotes rows, like a log that they may no longer read."""
    at = timezone.now()
    eu = workspaces.add_workspace(desks=["refunds"], slug="eu", name="EU", at=at)
    mine = Membership.objects.create(
        workspace=eu, user=User.objects.get(username="auditor"), role=Role.AUDITOR
    )
    shown = verify_log(auditor)
    assert "chains were read" in shown or "in the log" in shown

    mine.delete()

    shown = auditor.get(reverse("audit")).text
    assert "chains were read" not in shown
    assert "workspace eu" not in shown
