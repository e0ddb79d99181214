"""Two reviewers work on one request, by keyboard in two browsers and by forms."""

from __future__ import annotations

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from agents.models import Escalation
from agents.models.record import facts_of
from agents.requests import sharing
from tests.engine.scene import Scene
from tests.web.serving import serve
from tests.web.test_journeys import (
    Browser,
    advance_run,
    both_at,
    browser,
    complaints,
    open_browser,
    second_reviewer,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
__all__ = ["browser", "complaints", "open_browser"]

COMMENT = "She called twice.\nSee <b>ticket</b> 77."


@pytest.mark.proves("I50")
def test_two_reviewers_comment_hand_over_snooze_and_decide(
    scene: Scene, browser: Browser, complaints: list[str]
) -> None:
    """By keyboard alone; unsent text survives what the other does."""
    user = second_reviewer(scene)
    one = Escalation.objects.get(run=advance_run(scene.launch()))
    later = Escalation.objects.get(run=advance_run(scene.launch()))

    with serve() as site:
        rita, second = both_at(f"{site}/approvals/{one.pk}/", browser, site, complaints)
        for page in (rita, second):
            expect(page.locator("#live")).to_have_text("Live")
        second.keyboard.press("m")
        second.keyboard.type("half a thought")
        rita.keyboard.press("m")
        rita.keyboard.insert_text(COMMENT)
        rita.keyboard.press("Control+Enter")  # of the comment, not of the decision
        expect(second.locator(".comments .d")).to_have_text(COMMENT.replace("\n", ""))
        expect(second.locator("#newest")).to_contain_text("rita commented: “She called twice.")
        expect(second.get_by_label("Add a comment")).to_have_value("half a thought")
        expect(second.get_by_label("Add a comment")).to_be_focused()

        expect(rita.locator(".comments li")).to_have_count(1)
        rita.keyboard.press("h")
        rita.locator("#to").select_option("person:second")
        rita.keyboard.press("Tab")
        rita.keyboard.type("Above my limit.")
        rita.keyboard.press("Control+Enter")
        expect(rita.locator("#claim h3")).to_have_text("Assigned to second")
        expect(second.locator("#claim h3")).to_have_text("Assigned to you")
        expect(second.locator("#newest")).to_contain_text(
            "rita handed it over to second: “Above my limit.”"
        )

        rita.keyboard.press("s")
        expect(rita.locator("#minutes")).to_be_focused()
        rita.keyboard.press("Control+Enter")
        expect(rita.locator("#claim")).to_contain_text("Snoozed for you until")
        expect(rita.locator("header .countdown")).to_contain_text("→ rejected")
        expect(second.locator("#claim")).not_to_contain_text("Snoozed")
        rita.keyboard.press("m")
        rita.keyboard.type("too late?")

        second.locator("body").evaluate("() => document.activeElement.blur()")
        second.keyboard.press("r")
        second.keyboard.type("outside the terms")
        second.keyboard.press("Control+Enter")
        expect(second.locator("#card > header")).to_contain_text(f"request {later.pk}")
        second.goto(f"{site}/approvals/{one.pk}/")
        expect(second.locator("#card")).to_contain_text("Decided by second")
        expect(second.locator("#unsent-comment pre")).to_have_text("half a thought")
        expect(rita.locator("#unsent-comment")).to_contain_text("Your comment was not sent")
        expect(rita.locator("#unsent-comment pre")).to_have_text("too late?")

        rita.goto(f"{site}/approvals/{later.pk}/")  # a refused text stays in its form
        sharing.claim(escalation_id=later.pk, by=user, at=timezone.now())
        expect(rita.locator("#claim")).to_contain_text("second has claimed it")
        expect(rita.locator("#hand-over")).to_have_count(0)
        rita.keyboard.press("c")  # she has nothing to release
        rita.keyboard.press("s")
        expect(rita.locator("#minutes")).to_be_focused()
        expect(rita.locator("#wake")).to_have_count(0)

    one.refresh_from_db()
    assert (one.state, one.decided_by, one.assigned_to) == ("rejected", user, user)
    told = [facts_of(e).get("comment") for e in one.run.events.filter(kind__endswith="commented")]
    assert told == [COMMENT]
    assert not later.snoozes.exists()
    assert one.snoozes.get().until < one.expires_at
