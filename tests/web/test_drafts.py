"""A person's draft is kept whatever happens to the request, and sent by nobody else."""

import re
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import APIResponse, Browser, Page, Route, expect

from agents.engine.turns import answering
from agents.models import Escalation
from agents.requests import sharing
from agents.runs import kill_switch
from tests.engine.scene import Scene, decide_request
from tests.web.serving import (
    PASSWORD,
    Card,
    advance_run,
    is_live,
    open_page,
    sign_in,
    with_passwords,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def open_one(scene: Scene) -> Escalation:
    return Escalation.objects.get(run=advance_run(scene.launch()))


@pytest.fixture
def page(scene: Scene, open_one: Escalation, browser: Browser, site: str) -> Page:
    """Rita's tab, with a reason partly typed."""
    with_passwords(scene.rita)  # before she signs in, as a new password ends sessions
    page = open_page(browser)
    sign_in(page, site, "rita")
    page.route("**/hx-sse*", come_late)
    page.goto(f"{site}/approvals/{open_one.pk}/")
    is_live(page)
    page.locator(Card.AMOUNT).fill("800.00")
    page.locator(Card.REASON).fill("Four seats")
    return page


def come_late(route: Route) -> None:
    """Delay the htmx extensions until after htmx has started."""
    time.sleep(0.2)
    route.continue_()


def decide(open_one: Escalation, by: User) -> None:
    decide_request(open_one, by, approve=False, comment="no")


def expire(open_one: Escalation, by: User) -> None:
    over = timezone.now() - timedelta(seconds=1)
    Escalation.objects.filter(pk=open_one.pk).update(expires_at=over)
    answering.expire(open_one.pk, at=timezone.now())


@pytest.mark.proves("I48")
@pytest.mark.parametrize("end", [decide, expire])
def test_a_draft_outlives_the_request(
    page: Page, open_one: Escalation, ada: User, end: Callable[[Escalation, User], None]
) -> None:
    address = page.url
    end(open_one, ada)

    expect(page.locator("#draft")).to_be_visible()
    page.keyboard.type(" were / in use")  # she types on for a moment
    expect(page.locator(Card.REASON)).to_have_value("Four seats")
    expect(page.locator("#dform .acts")).to_be_hidden()
    page.reload()
    expect(page.locator("#draft pre")).to_have_text("800.00\nFour seats")
    assert page.url == address
    is_there = """() => {
        const box = document.querySelector("#draft");
        document.dispatchEvent(new Event("htmx-after-swap"));
        return box.isConnected;
    }"""  # at once, as live updates may change the page
    assert page.evaluate(is_there), "it can be pressed while the page changes"
    page.locator("#draft button").last.click()  # discards it
    page.reload()
    expect(page.locator("#draft")).to_have_count(0)


def test_card_shows_the_newest_answer(page: Page, open_one: Escalation, ada: User) -> None:
    """A lost answer is asked for again, a late one changes nothing, a refusal loads the page."""
    address = re.compile(r"/approvals/\d+/(\?|$)")
    late: list[tuple[Route, APIResponse]] = []
    page.route(address, lambda route: late.append((route, route.fetch())), times=1)
    sharing.claim(escalation_id=open_one.pk, by=ada, at=timezone.now())
    expect(page.locator("#queue")).to_contain_text("ada")  # asked for after the card
    page.route(address, lambda route: route.abort(), times=1)
    decide(open_one, ada)

    expect(page.locator("#draft")).to_contain_text("Your draft was not sent")
    late[0][0].fulfill(response=late[0][1])
    page.evaluate("() => fetch(location.href).then((answer) => answer.text())")  # comes after it
    expect(page.locator("#draft")).to_contain_text("Your draft was not sent")

    page.route(address, lambda route: route.fulfill(status=404))
    with page.expect_event("load"):  # not asked for again and again
        page.evaluate("document.querySelector('#live').dispatchEvent(new Event('card'))")


def test_empty_form_goes_with_the_request(page: Page, open_one: Escalation, ada: User) -> None:
    for field in (Card.AMOUNT, Card.REASON):
        page.locator(field).clear()
    page.locator("label:has([name=verdict][value=reject])").click()
    page.locator(Card.WHY_NOT).focus()

    expire(open_one, ada)

    expect(page.locator("#dform")).to_have_count(0)
    expect(page.locator("#draft")).to_have_count(0)


@pytest.mark.proves("I48")
def test_a_draft_comes_back_with_the_form(page: Page, open_one: Escalation, ada: User) -> None:
    sharing.claim(escalation_id=open_one.pk, by=ada, at=timezone.now())
    expect(page.locator("#held b")).to_contain_text("ada")
    page.reload()
    expect(page.locator("#draft pre")).to_contain_text("Four seats")

    sharing.release_claim(escalation_id=open_one.pk, by=ada, at=timezone.now())

    expect(page.locator(Card.REASON)).to_have_value("Four seats")
    expect(page.locator("#draft")).to_have_count(0)
    open_one.refresh_from_db()
    assert open_one.state == "open"


def test_kill_switch_leaves_what_was_typed(page: Page, scene: Scene, ada: User) -> None:
    expect(page.locator("#judged[data-allowed=yes]")).to_contain_text("USD 800.00")

    kill_switch.kill(workspace=scene.workspace, by=ada, reason="look", at=timezone.now())

    expect(page.locator("#stopped .banner")).to_be_visible()
    expect(page.locator("#judged")).to_be_empty()
    expect(page.locator(Card.SEND)).to_have_count(0)
    expect(page.locator(Card.REASON)).to_have_value("Four seats")


@pytest.mark.proves("I48")
def test_a_decision_that_cannot_arrive_is_kept(page: Page, open_one: Escalation) -> None:
    address = page.url
    page.route("**/healthz", lambda route: route.abort())

    page.locator(Card.SEND).click()

    expect(page.locator("#notice > *")).to_be_visible()
    expect(page.locator(Card.REASON)).to_have_value("Four seats")
    assert page.url == address
    page.unroute("**/healthz")
    page.locator(Card.SEND).click()
    expect(page.locator("#strip .strip")).to_be_visible()
    expect(page.locator("#draft")).to_have_count(0)


def end_session_at_post(page: Page, route: Route) -> None:
    """End the session just before the first form is posted."""
    if route.request.method == "POST":
        page.unroute("**/*")
        page.context.clear_cookies(name="sessionid")
    route.continue_()


@pytest.mark.proves("I48")
@pytest.mark.parametrize("typed", ["comment", "note", "decision"])
def test_typed_text_survives_the_end_of_a_session(
    page: Page, open_one: Escalation, typed: str
) -> None:
    """Signing in sends nothing; the form is then sent once."""
    address, key = page.url, {"comment": "m", "note": "h"}.get(typed)
    field = page.locator({"comment": Card.COMMENT, "note": "#note"}.get(typed, Card.REASON))
    if key:
        page.locator("body").evaluate("() => document.activeElement.blur()")
        page.keyboard.press(key)
        field.fill("She called twice.")
    if typed == "note":
        page.locator("#to").select_option("person:rita")
    page.route("**/*", partial(end_session_at_post, page))  # before that, the page would redirect
    field.press("Control+Enter")

    page.locator("[name=username]").fill("rita")
    page.locator("[name=password]").fill(PASSWORD)
    page.locator("[name=password]").press("Enter")

    expect(field).to_have_value("She called twice." if key else "Four seats")
    assert page.url == address
    open_one.refresh_from_db()
    assert (open_one.state, open_one.assigned_to) == ("open", None)
    assert not open_one.run.events.filter(kind="escalation.commented").exists()
    expect(page.locator(Card.REASON)).to_have_value("Four seats")
    if typed == "comment":
        field.press("Control+Enter")
        expect(page.locator(".comments li")).to_have_count(1)
        expect(field).to_have_value("")
        page.reload()
        expect(field).to_have_value("")
