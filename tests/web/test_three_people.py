"""Rita, Finn and Faye work on requests in three browsers, by keyboard alone, Finn on a phone."""

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect

from agents.core.money import format_sums
from agents.core.requests import EscalationState
from agents.models import Approval, Escalation, Event, Invitation, Membership, Role
from agents.models.record import facts_of
from agents.people import sign_in as second_factor
from tests.e2e.workers import until
from tests.engine.scene import fresh, mails, payments
from tests.engine.test_two_people import BELOW
from tests.engine.tiered import Tiered
from tests.web.serving import Card, Desk, advance_run, desk_of, is_live, own_page, serve
from tests.web.test_accessible import AXE, findings
from tests.web.test_bulk import RULE
from tests.web.test_second_factor import PASSWORD, code_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

SIZES = {"rita": (1440, 900), "finn": (390, 844), "faye": (1280, 800)}
WHY_FAYE, WHY_FINN = "partly used, by her own figures", "two seats less"
NOTE, ADVICE = "You know this customer.", "USD 300 is what two months cost."


def ask(tiered: Tiered, goal: str = "") -> Escalation:
    run = advance_run(tiered.scene.launch(goal) if goal else tiered.scene.launch())
    return Escalation.objects.get(run=run)


def reads(page: Page, where: str, *sentences: str) -> None:
    """Wait until a page shows a text, with nothing beyond the screen's edge."""
    for sentence in sentences:
        expect(page.locator(where)).to_contain_text(sentence)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def opens(page: Page, view: str, request: Escalation) -> None:
    """Open a request from a view of the list, by keyboard."""
    if not page.locator("#views").count():
        page.goto(page.url.partition("/approvals/")[0] + "/approvals/")
    page.keyboard.press(view)
    expect(page.locator(f'#views [data-key="{view}"][aria-current]')).to_be_visible()
    is_live(page)  # from here on it answers keys
    link = page.locator(f"#q-{request.pk} a")
    expect(link).to_be_attached()
    for _ in range(5):
        page.keyboard.press("j")
        if link.evaluate("(link) => link === document.activeElement"):
            break
    page.keyboard.press("Enter")
    expect(page.locator(f"#card[data-draft$='/{request.pk}']")).to_be_visible()
    is_live(page)


def tabs_to(page: Page, selector: str) -> None:
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.locator(selector).evaluate("(one) => one === document.activeElement"):
            return
    raise AssertionError(f"no Tab leads to {selector}")


def sends(page: Page, key: str, *typed: str) -> None:
    """Choose an answer, fill in its fields one after another, and send it."""
    headline = page.locator("#consequence h2")
    headline.evaluate("(one) => one.focus()")
    page.keyboard.press(key)
    for number, text in enumerate(typed):
        if number:
            tabs_to(page, "#comment")
        page.keyboard.press("Control+A")
        page.keyboard.type(text)
    with page.expect_navigation():  # or the next page asked for would cut it short
        page.keyboard.press("Control+Enter")


def events_of(request: Escalation, kind: str) -> list[tuple[str, dict[str, object]]]:
    events = Event.objects.filter(run=request.run_id, kind=kind).order_by("seq")
    return [(event.actor, facts_of(event)) for event in events]


def first_of(request: Escalation, by: User) -> Approval:
    """Return the valid first approval, once it is this person's."""
    found = Approval.objects.filter(
        pk__in=Escalation.objects.filter(pk=request.pk).values("approval")
    )
    until(lambda: found.filter(by=by).exists())
    return found.get()


@pytest.mark.proves("I19")
def test_three_people_share_requests(tiered: Tiered, site: str, worker: None, desk: Desk) -> None:
    large, small = ask(tiered), ask(tiered, BELOW)
    rita, finn, faye = (desk(name, "/approvals/") for name in SIZES)
    for page, (width, height) in zip((rita, finn, faye), SIZES.values(), strict=True):
        page.set_viewport_size({"width": width, "height": height})
    is_live(rita, finn, faye)

    # Rita is below the tier and passes it on.
    opens(rita, "3", large)
    reads(rita, "#below", large.asked)
    rita.keyboard.press("Control+Enter")
    reads(rita, "#strip", "assigned to faye")
    opens(rita, "3", large)
    rita.keyboard.press("h")
    rita.keyboard.type("finn")
    rita.keyboard.press("Control+Enter")
    reads(rita, "#strip", "assigned to finn")
    told = [(by, facts["to"]) for by, facts in events_of(large, "escalation.assigned")]
    assert told == [("rita", "faye"), ("rita", "finn")]

    # Finn snoozes it for five minutes, ends that, and hands it on.
    opens(finn, "1", large)
    finn.keyboard.press("s")
    finn.keyboard.press("Control+Enter")
    reads(finn, "#strip", "snoozed for you")
    opens(finn, "4", large)
    [snooze] = large.snoozes.all()
    at = finn.locator("#claim time").last.get_attribute("datetime") or ""
    assert at.startswith(f"{snooze.until:%Y-%m-%dT%H:%M}")
    finn.keyboard.press("s")
    expect(finn.locator("#wake")).to_have_count(0)
    assert not large.snoozes.exists()
    finn.keyboard.press("h")
    finn.keyboard.type("faye")
    finn.keyboard.press("Tab")
    finn.keyboard.type(NOTE)
    finn.keyboard.press("Control+Enter")
    reads(finn, "#strip", "assigned to faye")
    opens(finn, "6", large)
    opens(faye, "1", large)
    reads(faye, "#newest", NOTE)
    assert events_of(large, "escalation.assigned")[-1][1]["note"] == NOTE

    # Faye approves a part. Finn reads why, and wants another amount.
    expect(faye.locator("#two")).to_be_visible()
    sends(faye, "e", "1000", WHY_FAYE)
    yes = first_of(large, tiered.faye)
    assert yes.granted == "USD 1,000.00"
    reads(faye, "#strip", yes.granted)
    reads(finn, "#two", "faye", yes.granted, WHY_FAYE)
    reads(finn, "#consequence", yes.granted, large.asked)
    sends(finn, "e", "900", WHY_FINN)
    other = first_of(large, tiered.finn)
    assert (other.granted, payments(fresh(large.run))) == ("USD 900.00", [])
    reads(faye, "#strip", "finn", other.granted)
    faye.locator("body").evaluate("() => document.activeElement.blur()")
    faye.keyboard.press("u")
    reads(faye, "#two", "finn", other.granted, WHY_FINN)
    sends(faye, "a")
    until(lambda: payments(fresh(large.run)) == [other.granted_minor])
    for page in (faye, finn):
        reads(page, "#strip", other.granted)
    faye.keyboard.press("u")
    reads(faye, "#consequence", "faye", "finn", other.granted)
    reads(faye, "#two", WHY_FINN)
    until(lambda: mails(fresh(large.run)) == [other.granted_minor])

    # Rita sends back a request for the leads; the next one she may approve herself.
    opens(rita, "6", small)
    reads(rita, "#below", small.asked)
    sends(rita, "b", ADVICE)
    until(lambda: small.run.escalations.count() == 2)
    again = small.run.escalations.latest("pk")
    opens(rita, "6", again)
    reads(rita, "#sent-back", f"{small.pk}", ADVICE, small.asked, again.asked)
    sends(rita, "a")
    reads(rita, "#strip, .queuepage > #strip", again.asked)
    until(lambda: payments(fresh(small.run)) == [30_000])

    # On his phone Finn rejects the rest of one rule; Faye is faster with one of them.
    for _ in range(2):
        tiered.scene.launch(BELOW)
    left = Escalation.objects.filter(state=EscalationState.OPEN).order_by("pk")
    until(lambda: left.all().count() == 2)
    mine, hers = left
    finn.goto(f"{site}/approvals/?{RULE}")
    finn.keyboard.press("x")
    reads(finn, "#ticked", format_sums((one.currency, one.amount_minor or 0) for one in left))
    tabs_to(finn, "#refusal")
    finn.keyboard.type("Not one of ours.")
    tabs_to(finn, "[name^='total.']")
    finn.keyboard.type("2100")
    opens(faye, "6", hers)
    sends(faye, "r", "Asked twice.")
    until(lambda: left.all().count() == 1)
    finn.keyboard.press("Tab")
    finn.keyboard.press("Enter")
    reads(finn, "#bulk-outcome", mine.asked)
    reads(finn, "main", f"{hers.pk}", "faye")

    large.refresh_from_db()
    assert (str(large.decided_by), large.granted_minor, large.state) == ("faye", 90_000, "adjusted")
    assert [by for by, _ in events_of(large, "approval.given")] == ["faye", "finn"]
    decided = [facts["decision"] for _, facts in events_of(small, "escalation.decided")]
    assert decided == ["sent_back", "approved"]
    for one, by in ((mine, "finn"), (hers, "faye")):
        one.refresh_from_db()
        assert (str(one.decided_by), one.state, payments(fresh(one.run))) == (by, "rejected", [])


def test_invited_reviewer_enrols_and_is_removed(
    tiered: Tiered, browser: Browser, complaints: list[str]
) -> None:
    where, at = tiered.scene.workspace, timezone.now()
    second_factor.require_factor(workspace=where, by=tiered.ada, roles=[Role.REVIEWER], at=at)
    large = ask(tiered)
    with serve(OPSCONSOLE_LIVE_RECHECK_SECONDS="1") as site:
        ada = desk_of(browser, site, "ada", complaints)
        ada.goto(f"{site}/members/")
        tabs_to(ada, "#email")
        for typed in ("mia@example.com", "Reviewer", "Finance"):
            ada.keyboard.type(typed)
            ada.keyboard.press("Tab")
        ada.keyboard.press("Enter")
        reads(ada, "main", "mia@example.com")

        phone = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}
        mia = own_page(browser, "mia", complaints, **phone)
        mia.goto(f"{site}/invitations/{Invitation.objects.get().token}/")
        reads(mia, "h1", where.name)
        tabs_to(mia, "#name")
        signs_in(mia, "mia")
        expect(mia.locator("[name=username]")).to_be_visible()
        signs_in(mia, "mia")
        expect(mia.locator("[value=begin]")).to_be_visible()
        answers(mia, PASSWORD)
        expect(mia.locator("#scan")).to_be_visible()
        is_accessible(mia)
        answers(mia, code_of(User.objects.get(username="mia")))
        expect(mia.locator(".codes code")).to_have_count(10)
        is_accessible(mia)
        code = mia.locator(".codes code").first.inner_text()
        tabs_to(mia, "main a.primary")
        mia.keyboard.press("Enter")
        expect(mia.locator("#overview")).to_be_visible()

        mia.goto("about:blank")  # an open page would go to the sign-in by itself
        mia.context.clear_cookies()  # another day, without the app
        mia.goto(f"{site}/approvals/")
        signs_in(mia, "mia")
        expect(mia.locator("#code")).to_be_visible()
        answers(mia, code)
        mia.wait_for_url(f"{site}/approvals/")
        opens(mia, "2", large)
        mia.keyboard.press("c")
        expect(mia.locator(Card.RELEASE)).to_be_visible()

        tabs_to(ada, "#name")
        answers(ada, "mia")
        reads(ada, ".members", "mia")
        tabs_to(ada, f'a[href="/members/{Membership.objects.get(user__username="mia").pk}/"]')
        ada.keyboard.press("Enter")
        expect(ada.locator("[value=remove]")).to_be_visible()
        tabs_to(ada, "[value=remove]")
        ada.keyboard.press("Enter")
        expect(ada.locator("#people")).to_be_visible()
        expect(ada.locator(".members")).not_to_contain_text("mia")
        # Her open page notices by itself.
        expect(mia.locator("[name=username]")).to_be_visible()

    large.refresh_from_db()
    assert (large.claimed_by, large.state) == (None, EscalationState.OPEN)


def signs_in(page: Page, name: str) -> None:
    """Type name and password where the focus is, and send them."""
    answers(page, name, key="Tab")
    answers(page, PASSWORD)


def answers(page: Page, text: str, *, key: str = "Enter") -> None:
    """Type into the focused field, and press a key."""
    expect(page.locator("input:focus")).to_have_count(1)
    page.keyboard.type(text)
    page.keyboard.press(key)


def is_accessible(page: Page) -> None:
    page.evaluate(AXE)
    assert findings(page) == []
