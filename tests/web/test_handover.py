"""Two reviewers work on one request, by keyboard in two browsers and by forms."""

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Page, expect

from agents.models import Escalation
from agents.models.record import facts_of
from agents.requests import sharing
from tests.engine.scene import Scene
from tests.web.serving import Card, advance_run, is_live
from tests.web.test_journeys import both, waiting

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
__all__ = ["both", "waiting"]

TEXT = "She called twice.\nSee <b>ticket</b> 77."


@pytest.mark.proves("I50")
def test_two_reviewers_comment_hand_over_and_snooze(
    scene: Scene, waiting: Escalation, both: tuple[Page, Page], site: str
) -> None:
    """By keyboard alone; unsent text survives what the other does."""
    rita, second = both
    user, one = User.objects.get(username="second"), waiting
    later = Escalation.objects.get(run=advance_run(scene.launch()))
    second.keyboard.press("m")
    second.keyboard.type("half a thought")
    rita.keyboard.press("m")
    rita.keyboard.insert_text(TEXT)
    rita.keyboard.press("Control+Enter")  # of the comment, not of the decision
    expect(second.locator(".comments .d")).to_have_text(TEXT.replace("\n", ""))
    expect(second.locator("#newest")).to_contain_text("She called twice.")
    expect(second.locator(Card.COMMENT)).to_have_value("half a thought")
    expect(second.locator(Card.COMMENT)).to_be_focused()

    expect(rita.locator(".comments li")).to_have_count(1)
    rita.keyboard.press("h")
    rita.locator("#to").select_option("person:second")
    rita.keyboard.press("Tab")
    rita.keyboard.type("Above my limit.")
    rita.keyboard.press("Control+Enter")
    expect(rita.locator("#strip")).to_contain_text("assigned to second")
    expect(rita.locator(f"#card[data-draft$='/{later.pk}']")).to_be_visible()
    expect(second.locator("#newest")).to_contain_text("Above my limit.")

    rita.goto(f"{site}/approvals/{one.pk}/")
    is_live(rita)
    rita.keyboard.press("s")
    expect(rita.locator("#minutes")).to_be_focused()
    rita.keyboard.press("Control+Enter")
    expect(rita.locator("#strip")).to_contain_text("snoozed for you until")
    rita.goto(f"{site}/approvals/{one.pk}/")
    expect(rita.locator("#wake")).to_be_visible()
    is_live(rita)
    expect(rita.locator("header .countdown")).to_be_visible()
    expect(second.locator("#wake")).to_have_count(0)
    rita.keyboard.press("m")
    rita.keyboard.type("too late?")

    second.locator("body").evaluate("() => document.activeElement.blur()")
    second.keyboard.press("r")
    second.keyboard.type("outside the terms")
    second.keyboard.press("Control+Enter")
    expect(second.locator(f"#card[data-draft$='/{later.pk}']")).to_be_visible()
    second.goto(f"{site}/approvals/{one.pk}/")
    expect(second.locator("#unsent-comment pre")).to_have_text("half a thought")
    expect(rita.locator("#unsent-comment pre")).to_have_text("too late?")

    rita.goto(f"{site}/approvals/{later.pk}/")  # a refused text stays in its form
    is_live(rita)
    sharing.claim(escalation_id=later.pk, by=user, at=timezone.now())
    expect(rita.locator("#held b")).to_contain_text("second")
    expect(rita.locator("#hand-over")).to_have_count(0)
    rita.keyboard.press("c")  # she has nothing to release
    rita.keyboard.press("s")
    expect(rita.locator("#minutes")).to_be_focused()
    expect(rita.locator(f"#wake, {Card.RELEASE}")).to_have_count(0)

    one.refresh_from_db()
    assert (one.state, one.decided_by, one.assigned_to) == ("rejected", user, user)
    told = [facts_of(e).get("comment") for e in one.run.events.filter(kind__endswith="commented")]
    assert told == [TEXT]
    assert not later.snoozes.exists()
    assert one.snoozes.get().until < one.expires_at
