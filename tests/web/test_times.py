"""Times are in the reader's zone, named once per page; the record's are UTC for all."""

from datetime import UTC, datetime

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from agents.core.decisions import Decision
from agents.models import Role, Run
from agents.requests import deciding, sharing
from agents.runs import kill_switch
from agents.shell.formats import moment
from agents.shell.refusal import time_here
from tests.engine.scene import Scene
from tests.web.serving import chromium, open_page, serve, sign_in
from tests.web.test_card import waiting
from tests.web.test_journeys import advance_run
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)

NEW_YORK, SUMMER = "America/New_York", datetime(2026, 7, 4, 3, 30, tzinfo=UTC)


def in_zone(client: Client, name: str) -> Client:
    client.cookies["zone"] = name
    return client


def test_list_shows_the_viewers_times_and_zone(scene: Scene) -> None:
    run = scene.launch()
    Run.objects.filter(pk=run.pk).update(created_at=SUMMER)

    page = in_zone(client_of(scene.eve), NEW_YORK).get(reverse("runs")).text

    assert f'<time datetime="{SUMMER.isoformat(timespec="milliseconds")}"' in page
    assert ">3 Jul 23:30</time>" in page
    assert page.count(f"<span data-zone-name>{NEW_YORK}</span></span></div>") == 1
    assert "UTC" not in page


def test_a_typed_time_is_the_viewers(scene: Scene) -> None:
    Run.objects.filter(pk=scene.launch().pk).update(created_at=SUMMER)
    client = in_zone(client_of(scene.eve), NEW_YORK)

    within = client.get(reverse("runs"), {"since": "2026-07-03T23:00", "until": "2026-07-04"})
    beyond = client.get(reverse("runs"), {"since": "2026-07-04"})

    assert len(within.context["found"].rows) == 1
    assert len(beyond.context["found"].rows) == 0


@pytest.mark.parametrize(
    ("refusal", "says"),
    [
        ("claimed", "rita has claimed it until {}."),
        ("decided", "rita rejected USD 1,200.00, at {}."),
        ("switch", "ada pressed it at {}. Nothing it stops"),
        ("switch again", "ada turned this switch on, at {}: “A test of times”."),
        ("snooze", "before the deadline, {}."),
    ],
)
def test_a_refusal_tells_times_of_the_viewer_too(scene: Scene, refusal: str, says: str) -> None:
    ada, escalation = scene.add("ada", Role.ADMIN), waiting(scene)
    one, pk = in_zone(client_of(ada), "Asia/Kathmandu"), escalation.pk
    at = timezone.now()
    place, form, named = reverse("decide", args=[pk]), {"verdict": "approve"}, at
    if refusal == "claimed":
        named = sharing.claim(escalation_id=pk, by=scene.rita, at=at).claimed_until or at
    elif refusal == "decided":
        deciding.decide(
            escalation_id=pk, by=scene.rita, at=at, wanted=Decision(approve=False, comment="no")
        )
    elif refusal == "snooze":
        place = reverse("snooze", args=[pk])
        form, named = {"minutes": "1440"}, escalation.expires_at
    else:
        kill_switch.kill(workspace=scene.workspace, by=ada, reason="A test of times", at=at)
    if refusal == "switch again":
        place = reverse("kill-press")
        form = {"workspace": str(scene.workspace.pk), "scope": "workspace:", "reason": "again"}

    refused = one.post(place, form)

    with timezone.override("Asia/Kathmandu"):
        assert says.format(time_here(named)) in words(refused.text)
    assert refused.status_code in (409, 422)


@pytest.mark.slow
def test_what_comes_live_is_told_in_the_viewers_zone(scene: Scene) -> None:
    """The stream is the same for all viewers; the browser writes times like the server."""
    run = scene.launch()
    with chromium() as browser, serve() as site:
        page = open_page(browser, timezone_id="Asia/Tokyo")
        sign_in(page, site, "eve")
        page.goto(f"{site}/runs/{run.pk}/")
        expect(page.locator("[data-zone-name]").first).to_have_text("Asia/Tokyo")
        served_text = page.locator("#run time").first.inner_text()
        expect(page.locator("#live")).to_have_text("Live")
        advance_run(run)
        expect(page.locator("#run")).to_contain_text("a person was asked")
        assert page.locator("#run time").first.inner_text() == served_text
        written = page.locator("#run .timeline time").first.inner_text()
        exact = page.locator("#run .timeline time").first.get_attribute("datetime")

    with timezone.override("Asia/Tokyo"):
        assert exact is not None
        assert f">{written}<" in moment(datetime.fromisoformat(exact))


@pytest.mark.slow
def test_a_phone_reaches_kill_switches_policy_search_and_help(scene: Scene) -> None:
    scene.add("ada", Role.ADMIN)
    with chromium() as browser, serve() as site:
        page = open_page(browser)
        sign_in(page, site, "ada")
        for width in (390, 900):
            page.set_viewport_size({"width": width, "height": 844})
            page.goto(site)
            for name in ("Kill switches", "Settings"):
                page.get_by_role("button", name="More").click()
                page.locator("#more").get_by_role("link", name=name).click()
                expect(page.get_by_role("heading", level=1)).to_have_text(name)
            page.get_by_role("button", name="More").click()
            page.locator("#more").get_by_role("link", name="Search").click()
            expect(page.locator("#words")).to_be_in_viewport()
            page.get_by_role("button", name="More").click()
            page.locator("#more").get_by_role("button", name="Keyboard shortcuts").click()
            expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
