"""A policy that people change in a browser: drafted by one admin, published by another."""

import re
from dataclasses import replace

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from agents.core.limits import Limits
from agents.desks.refunds.limits import STRICT
from agents.models import Event, PolicyDraft, Role
from tests.engine.scene import REFUND_1200, Scene
from tests.limits import with_limits
from tests.web.serving import Desk, advance_run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

LIMIT, MOST = "Automatic approval limit", "Most refunded in one run"
BY_TWO = replace(STRICT, second_admin=True)


@pytest.fixture
def admins(scene: Scene) -> dict[str, User]:
    found = {name: scene.add(name, Role.ADMIN) for name in ("ada", "nora", "olga")}
    scene.publish(BY_TWO.as_json(), found["ada"])
    return found


def draft(page: Page, label: str, amount: str) -> None:
    """Begin a draft on the policy page, and enter one amount."""
    page.get_by_role("button", name="Draft", exact=True).click()
    expect(page.get_by_role("heading", name="Draft of a policy")).to_be_visible()
    page.get_by_label(label).first.fill(amount)
    page.get_by_label("Reason").fill("Most refunds of 1,050 to 1,200 are approved as asked.")


def in_force(scene: Scene) -> Limits:
    scene.workspace.refresh_from_db()
    assert scene.workspace.policy
    return scene.workspace.policy.limits()


def test_a_limit_is_changed_by_two_and_nothing_is_undone(
    scene: Scene, admins: dict[str, User], site: str, desk: Desk
) -> None:
    waiting, first = advance_run(scene.launch(REFUND_1200)), scene.workspace.policy
    olga = desk("olga", "/policy/")
    draft(olga, "Refund window", "30")
    olga.get_by_role("button", name="Save").click()
    expect(olga.get_by_role("row", name="Refund window")).to_contain_text("30 days")

    ada = desk("ada", "/policy/")
    draft(ada, LIMIT, "2500")
    ada.get_by_role("button", name="Ask for a second admin").click()
    expect(ada.get_by_text(f"is above “{MOST}”, USD 2,000.00").first).to_be_visible()
    ada.get_by_label(LIMIT).first.fill("1500")
    ada.get_by_role("button", name="Ask for a second admin").click()
    expect(ada.get_by_role("heading", name="Waits for a second admin")).to_be_visible()
    expect(ada.get_by_role("button", name="Publish")).to_have_count(0)

    asked = PolicyDraft.objects.get(by=admins["ada"])
    nora = desk("nora", f"/policy/drafts/{asked.pk}/")
    told = "Refunds up to USD 1,500.00, before USD 1,000.00, are paid without asking."
    expect(nora.get_by_text(told)).to_be_visible()
    nora.get_by_role("button", name="Publish").click()
    expect(nora.get_by_role("heading", name="Policy", exact=True)).to_be_visible()
    assert in_force(scene).part_of("refunds", "limits")["auto_limit_minor"] == 150_000
    waiting.refresh_from_db()
    assert waiting.policy == first
    nora.goto(f"{site}/policy/drafts/{asked.pk}/")
    expect(nora.get_by_role("alert")).to_contain_text("may have been published or")

    # A week later: the old limit, by an event with its own reason.
    draft(nora, LIMIT, "1000")
    nora.get_by_role("button", name="Ask for a second admin").click()
    expect(nora.get_by_role("heading", name="Waits for a second admin")).to_be_visible()
    again = PolicyDraft.objects.get(by=admins["nora"])
    ada.goto(f"{site}/policy/drafts/{again.pk}/")
    ada.get_by_role("button", name="Publish").click()
    expect(ada.get_by_role("heading", name="Policy", exact=True)).to_be_visible()
    assert in_force(scene) == BY_TWO
    published = Event.objects.filter(kind="policy.published").latest("pk")
    assert (published.actor, published.facts["asked_by"]) == ("ada", "nora")

    # A draft that is older than both.
    olga.reload()
    expect(olga.get_by_text("Another version was published after this draft")).to_be_visible()
    olga.get_by_role("button", name="Rebase").click()
    expect(olga.get_by_text("Another version was published")).to_have_count(0)
    olga.get_by_role("button", name="Ask for a second admin").click()
    expect(olga.get_by_role("heading", name="Waits for a second admin")).to_be_visible()
    mine = PolicyDraft.objects.get(by=admins["olga"])
    assert mine.document == with_limits(BY_TWO, window_days=30).as_json()


def test_a_draft_is_tried_on_what_was_before_it_is_published(
    scene: Scene, admins: dict[str, User], site: str, worker: None, desk: Desk
) -> None:
    for amount in (400, 800, 950, 1200):
        advance_run(scene.launch(REFUND_1200.replace("1200", f"{amount}")))
    ada = desk("ada", "/policy/", viewport={"width": 1280, "height": 720})
    draft(ada, LIMIT, "500")
    ada.get_by_role("button", name="Try on the last 14 days").click()

    told = "Issue refund (Refunds): 2 of 3 that v2 allows would have waited for a person"
    expect(ada.get_by_role("heading", name=told)).to_be_visible()
    expect(ada.get_by_text("At most 2 more requests in 14 days")).to_be_visible()
    expect(ada.get_by_role("row", name="Issue refund")).to_contain_text("USD 1,750.00")
    for _ in range(4):
        ada.get_by_role("slider", name=LIMIT).press("ArrowRight")
    expect(ada.get_by_text("USD 900.00: 1 more run waits, USD 950.00 asked")).to_be_visible()
    expect(ada.get_by_role("heading", name="at USD 900.00: 1 of 3 that v2 allows")).to_be_visible()

    ada.get_by_role("link", name=re.compile("Walk it.*950")).click()
    expect(ada.get_by_role("heading", name="The walk ends after proposal 2")).to_be_visible()
    expect(ada.get_by_role("row", name="2. Issue refund")).to_contain_text("USD 450.00 over")
    expect(ada.get_by_role("row", name="3. ")).to_contain_text("not reached")
    ada.get_by_role("link", name="What if").click()
    expect(ada.get_by_role("heading", name=told)).to_be_visible()

    ada.get_by_role("link", name="Draft 1").click()
    ada.get_by_role("button", name="Ask for a second admin").click()
    expect(ada.get_by_role("heading", name="Waits for a second admin")).to_be_visible()
    nora = desk("nora", "/policy/drafts/1/")
    nora.get_by_role("link", name=told).click()
    expect(nora.get_by_role("heading", name=told)).to_be_visible()
