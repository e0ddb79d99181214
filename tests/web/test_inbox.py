"""The inbox reaches every request that waits, by pages, and says how many there are."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from agents import operations
from agents.models import Escalation, Role, Scope
from agents.web.approvals import inbox
from agents.web.live.topics import InboxTopic, changed, read_update
from tests.engine.scene import REFUND_1200, Scene, go, set_scene
from tests.web.test_pages import signed_in

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Seven requests, of which a page holds three."""
    monkeypatch.setattr(inbox, "INBOX", 3)
    scene = set_scene()
    for _ in range(7):
        go(scene.launch(REFUND_1200))
    # All but the first expire at the same moment: then their ids order them.
    later = timezone.now() + timedelta(hours=1)
    Escalation.objects.exclude(pk=Escalation.objects.earliest("pk").pk).update(expires_at=later)
    return scene


def shown(page: str) -> list[int]:
    return [int(pk) for pk in re.findall(r'id="q-(\d+)"', page)]


def following(page: str) -> str:
    found = re.search(r'rel="next" href="([^"]+)"', page)
    return found[1] if found else ""


def walk(scene: Scene) -> list[list[int]]:
    """Return what each page shows, from the first to the last."""
    client, address, pages = signed_in(scene.rita), reverse("approvals"), []
    while address:
        page = client.get(address).text
        assert 'Waiting <span class="count">7</span>' in page
        pages.append(shown(page))
        address = following(page)
    return pages


def test_every_request_is_on_one_page(scene: Scene) -> None:
    every = list(Escalation.objects.order_by("expires_at", "pk").values_list("pk", flat=True))

    assert walk(scene) == [every[:3], every[3:6], every[6:]]


def test_what_is_frozen_comes_last_and_is_reached_too(scene: Scene) -> None:
    every = list(Escalation.objects.order_by("expires_at", "pk").values_list("pk", flat=True))
    frozen = every[:4]
    Escalation.objects.filter(pk__in=frozen).update(frozen_at=timezone.now())

    assert walk(scene) == [[*every[4:]], frozen[:3], frozen[3:]]


def test_a_mark_that_nobody_wrote_is_the_first_page(scene: Scene) -> None:
    client = signed_in(scene.rita)
    first = shown(client.get(reverse("approvals")).text)

    for mark in (
        "x",
        "0_x_1",
        "2_2026-01-01T00:00:00+00:00_1",
        "0_2026-01-01T00:00:00+00:00_" + "9" * 30,
    ):
        assert shown(client.get(reverse("approvals"), {"after": mark}).text) == first


def test_the_live_badge_counts_what_no_page_shows(scene: Scene) -> None:
    topic = InboxTopic((scene.workspace.pk,))

    lines = read_update(topic, changed({topic: ""})[topic]).lines.decode()

    assert '<span class="vh">, waiting: </span>7</span>' in lines


def test_the_inbox_takes_few_queries(
    scene: Scene, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    ada = scene.add("ada", Role.ADMIN)
    operations.kill(
        workspace=scene.workspace,
        by=ada,
        reason="look",
        at=timezone.now(),
        scope=Scope.TOOL,
        target="send_reply",
    )
    client = signed_in(scene.rita)

    with django_assert_max_num_queries(12):
        client.get(reverse("approvals"))
