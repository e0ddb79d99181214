"""Daily work in real browsers, with a real server and worker."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Browser, Page, Route, expect

from agents.core.requests import EscalationState, RunState
from agents.models import Escalation, Membership, Role, Run
from tests.e2e.workers import reach, until
from tests.engine.scene import Scene, decide_request, fresh, has_ended, mails, payments
from tests.limits import first_limit
from tests.ports import free_port
from tests.web.serving import Card, Desk, advance_run, desk_of, is_live, open_page, serve, sign_in

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

OWN_WORDS = "Anna (customer 42) asks for her last charge to be explained in plain words."
MARKUP = "<img src=x onerror=document.title='gotcha'>"
WAITS = "#run .runhead a[href^='/approvals/']"  # in the head of a run's page


def second_reviewer(scene: Scene) -> User:
    return scene.add("second", Role.REVIEWER, desk_limits=first_limit(90000))


@pytest.fixture
def waiting(scene: Scene) -> Escalation:
    """Return a request for USD 1,200.00; a second reviewer may grant USD 900.00."""
    second_reviewer(scene)
    return Escalation.objects.get(run=advance_run(scene.launch()))


@pytest.fixture
def both(waiting: Escalation, desk: Desk) -> tuple[Page, Page]:
    """Open that request for Rita and the second reviewer."""
    rita, second = (desk(name, f"/approvals/{waiting.pk}/") for name in ("rita", "second"))
    is_live(rita, second)
    return rita, second


def launch(omar: Page, site: str, scenario: str) -> None:
    omar.goto(f"{site}/launch/")
    omar.locator(f"form.scenario:has([value='{scenario}']) button").click()
    expect(omar.locator(WAITS)).to_be_visible()


def test_two_people_see_one_refund_to_its_end(
    scene: Scene, site: str, worker: None, desk: Desk
) -> None:
    omar, rita = desk("omar"), desk("rita", "/approvals/")
    is_live(rita)
    launch(omar, site, "above-limit")

    # From here on pages reload only by what each of them clicks.
    expect(omar.locator("#step-2")).to_be_visible()
    expect(rita.locator("#waiting[data-count='1']")).to_be_visible()
    rita.locator(".qlist a").click()
    expect(rita.locator(Card.AMOUNT)).to_have_value("")  # it is more than she may grant
    expect(rita.locator(Card.SEND)).to_be_disabled()
    rita.locator(Card.AMOUNT).fill("750")
    for place in ("#consequence", Card.SEND):
        expect(rita.locator(place)).to_contain_text("USD 750.00")

    held: list[Route] = []  # an answer that never comes does not hold back later ones
    judging = "**/judge/**"
    rita.route(judging, lambda route: route.continue_() if held else held.append(route))
    with rita.expect_request(judging):
        rita.locator(Card.AMOUNT).fill("760")
    rita.locator(Card.AMOUNT).fill("900")
    expect(rita.locator("#judged[data-allowed=no]")).to_contain_text("USD 900.00")
    rita.unroute(judging)

    for amount, told in (("1000", "USD 1,000.00"), ("1300", "USD 1,300.00")):
        rita.locator(Card.AMOUNT).fill(amount)
        rita.locator(Card.REASON).fill("partly used")
        expect(rita.locator("#judged[data-allowed=no]")).to_contain_text(told)
        expect(rita.locator(Card.SEND)).to_be_disabled()
    rita.locator(Card.AMOUNT).fill("800")
    rita.locator(Card.SEND).click()

    expect(rita.locator("#strip")).to_contain_text("USD 800.00")
    expect(omar.locator("#run[data-ended]")).to_contain_text("USD 800.00")
    run = Run.objects.get()
    assert (payments(run), mails(run)) == ([80000], [80000])


@pytest.mark.proves("F42")
def test_second_of_two_reviewers_comes_too_late(
    scene: Scene, waiting: Escalation, both: tuple[Page, Page]
) -> None:
    rita, second = both
    second.route("**/live/**", lambda route: route.abort())  # a live update cannot warn in time
    second.reload()
    for page, amount in ((rita, "800"), (second, "900")):
        page.locator(Card.AMOUNT).fill(amount)
        page.locator(Card.REASON).fill("partly used")
    rita.locator(Card.SEND).click()
    expect(rita.locator("#strip")).to_contain_text("USD 800.00")
    with second.expect_response("**/decide/") as answered:
        second.locator(Card.SEND).click()

    assert answered.value.status == 409
    expect(second.locator("#notice")).to_contain_text("USD 800.00")
    waiting.refresh_from_db()
    assert (waiting.decided_by, waiting.granted_minor) == (scene.rita, 80000)


def test_claim_keeps_others_out_until_released(both: tuple[Page, Page]) -> None:
    rita, second = both
    second.locator(Card.AMOUNT).fill("900")
    second.locator(Card.REASON).fill("half written")
    rita.locator(Card.CLAIM).click()
    expect(rita.locator(Card.RELEASE)).to_be_visible()
    expect(second.locator("#held b")).to_contain_text("rita")
    expect(second.locator(Card.REASON)).to_have_value("half written")
    expect(second.locator(Card.SEND)).to_have_count(0)

    second.evaluate("document.querySelector('#dform').submit()")  # there is no button for it
    expect(second.locator("#notice")).to_contain_text("rita")
    is_live(second)
    rita.locator(Card.RELEASE).click()
    expect(second.locator(Card.CLAIM)).to_be_visible()
    expect(second.locator("#notice .banner")).to_be_visible()  # while the card updates
    expect(second.locator(Card.SEND)).to_be_visible()
    second.locator("#notice a").click()
    expect(second.locator("#notice")).to_be_empty()

    second.locator(Card.REASON).fill("partly used")
    second.locator(Card.SEND).click()
    expect(second.locator("#strip")).to_contain_text("USD 900.00")


def test_live_updates_leave_the_focus_where_it_is(both: tuple[Page, Page]) -> None:
    rita, second = both
    rita.locator(Card.AMOUNT).fill("700")
    rita.locator(Card.AMOUNT).press("Control+Enter")
    expect(rita.locator("#comment-error")).to_be_visible()
    expect(rita.locator(Card.REASON)).to_be_focused()
    assert "/decide/" not in rita.url
    rita.get_by_role("button", name="Goodwill", exact=True).click()
    expect(rita.locator(Card.REASON)).to_have_value("Goodwill")
    expect(rita.locator("#comment-error")).to_have_count(0)
    is_live(rita)
    rita.locator(Card.REASON).focus()
    rita.locator(Card.REASON).fill("partly")
    second.locator(Card.CLAIM).click()
    expect(rita.locator("#held b")).to_contain_text("second")
    rita.keyboard.type(" used")

    expect(rita.locator(Card.REASON)).to_be_focused()
    expect(rita.locator(Card.AMOUNT)).to_have_value("700")


def test_time_runs_out_while_the_card_is_open(
    waiting: Escalation, worker: None, desk: Desk
) -> None:
    rita = desk("rita", f"/approvals/{waiting.pk}/")
    is_live(rita)
    soon = timezone.now() + timedelta(seconds=1)
    Escalation.objects.filter(pk=waiting.pk).update(expires_at=soon)

    expect(rita.locator("#dform")).to_have_count(0)
    expect(rita.locator("#waiting[data-count='0']")).to_be_attached()
    until(lambda: has_ended(waiting.run))
    assert payments(waiting.run) == []
    assert fresh(waiting.run).stop_reason == "escalation_expired"


@pytest.mark.proves("F39")
def test_restart_while_pages_are_open_loses_nothing(
    scene: Scene, waiting: Escalation, browser: Browser, complaints: list[str]
) -> None:
    """Each page says that the server is away, on a phone too, and resumes by itself."""
    run, port = scene.launch(), free_port()

    with serve(port) as site:
        trace = desk_of(browser, site, "rita", complaints)
        # Its first stream fails before its script is loaded.
        trace.add_init_script(
            "addEventListener('htmx-finally-request', (event) => event.stopPropagation(), "
            "{ capture: true, once: true })"
        )
        trace.route("**/live/**", lambda route: route.abort(), times=1)
        trace.goto(f"{site}/runs/{run.pk}/")
        pages = [trace]
        for address in (f"approvals/{waiting.pk}/", "approvals/", ""):
            pages.append(trace.context.new_page())
            pages[-1].goto(f"{site}/{address}")
        is_live(*pages)
        for page in pages:
            expect(page.locator("#away")).to_be_hidden()
        scene.add("audrey", Role.AUDITOR)
        checked = desk_of(browser, site, "audrey", complaints)
        checked.route("**/live/**", lambda route: route.abort())
        checked.goto(f"{site}/audit/")
        # A refused form's page has an address that takes only POST.
        checked.evaluate("history.replaceState(null, '', '/audit/verify/')")
        for _ in range(2):  # the page polls; the server answers, but has nothing to GET there
            checked.wait_for_event("response", lambda answer: answer.status == 405)
        expect(checked.locator("#live.stale")).to_be_attached()
        expect(checked.locator("#away")).to_be_hidden()
        checked.close()
    for page in pages:
        expect(page.locator("#live.stale")).to_be_attached()
        expect(page.locator("#away time")).to_have_text(re.compile(r"\d\d:\d\d:\d\d"))
        page.set_viewport_size({"width": 390, "height": 844})
        expect(page.locator("#away")).to_be_in_viewport(ratio=1)
    advance_run(run)
    with serve(port):
        expect(trace.locator(WAITS)).to_be_visible()
        is_live(*pages)
        for page in pages:
            expect(page.locator("#away")).to_be_hidden()
        expect(pages[2].locator("#queue li[id]")).to_have_count(2)
        expect(trace.locator("#run .step")).to_have_count(2)
        scene.decide(run)
        advance_run(run)
        expect(trace.locator("#run .step")).to_have_count(4)


OVERFLOWS = (
    "[...document.querySelectorAll('.scroll-x')].some((it) => it.scrollWidth > it.clientWidth)"
)


def test_filter_folds_where_it_would_hide_the_rows(
    scene: Scene, ada: User, site: str, desk: Desk
) -> None:
    advance_run(scene.launch())
    page = desk("ada")
    for name, field in (("runs", "[name=launcher]"), ("audit", "[name=person]")):
        for width in (1440, 720, 390):  # 720: 1440 at a zoom of 200 %
            page.set_viewport_size({"width": width, "height": 844})
            page.goto(f"{site}/{name}/")
            expect(page.locator("tbody tr").first).to_be_in_viewport()
            assert not page.evaluate(OVERFLOWS)  # nothing is beyond the right edge of its table
            page.locator("#narrow > summary").press("Enter")
            page.locator(field).fill("omar")
            page.locator(field).press("Enter")
            page.wait_for_load_state()
            expect(page.locator(field).first).to_have_value("omar")  # what narrows a list is shown


def test_drafts_are_answered_while_omar_watches(
    scene: Scene, site: str, worker: None, desk: Desk
) -> None:
    omar, rita = desk("omar"), desk("rita")

    launch(omar, site, "exception")
    answer_request(rita, site, "adjust", "Name it.")
    expect(omar.locator("#run .rounds [id$='-2']").first).to_be_visible()
    answer_request(rita, site, "approve")
    expect(omar.locator("#run[data-ended]")).to_be_visible()

    launch(omar, site, "exception")
    answer_request(rita, site, "reject", "The terms are clear.")
    expect(omar.locator("#run[data-ended]")).to_be_visible()

    ends = list(Run.objects.order_by("created_at").values_list("state", flat=True))
    assert ends == [RunState.DONE, RunState.STOPPED]


def answer_request(rita: Page, site: str, verdict: str, text: str = "") -> None:
    """Answer the longest-waiting request in its card."""
    rita.goto(f"{site}/approvals/")
    rita.locator("#queue li a").first.click()
    rita.locator(f"[name=verdict][value={verdict}]").check(force=True)
    if text:
        rita.locator("#dform textarea:visible").first.fill(text)
    rita.locator(Card.SEND).click()
    expect(rita.locator("#strip a")).to_be_visible()


def test_the_whole_way_by_keyboard(scene: Scene, site: str, worker: None, desk: Desk) -> None:
    omar = desk("omar")
    omar.keyboard.press("Tab")
    expect(omar.locator("a.skip")).to_be_focused()
    omar.goto(f"{site}/launch/")
    omar.locator("form.scenario:has([value='above-limit']) button").focus()
    omar.keyboard.press("Enter")
    expect(omar.locator(WAITS)).to_be_visible()

    rita = desk("rita", "/approvals/")
    expect(rita.locator(".qlist a")).to_be_visible()
    for key in "ear":  # no card is open: a key decides nothing and opens nothing
        rita.keyboard.press(key)
    rita.keyboard.press("Control+Enter")
    assert Escalation.objects.get().state == EscalationState.OPEN
    rita.keyboard.press("j")
    rita.keyboard.press("Enter")
    expect(rita.locator("#dform")).to_be_visible()
    headline = rita.locator("#consequence h2")
    for closing in ("?", "Escape"):
        expect(headline).to_be_focused()
        rita.keyboard.press("?")
        expect(rita.locator("#keys button").first).to_be_focused()
        rita.keyboard.press(closing)
        expect(rita.locator("#keys")).to_be_hidden()
    rita.keyboard.press("?")
    rita.keyboard.press("c")  # what was read there does what it says
    expect(rita.locator("#keys")).to_be_hidden()
    expect(rita.locator(Card.RELEASE)).to_be_visible()
    rita.keyboard.press("r")
    expect(rita.locator(Card.WHY_NOT)).to_be_focused()
    rita.keyboard.type("ear, jack?")  # letters are text while typing
    rita.locator("body").evaluate("() => document.activeElement.blur()")
    rita.keyboard.press("e")
    expect(rita.locator(Card.AMOUNT)).to_be_focused()
    rita.keyboard.type("650")
    rita.keyboard.press("Enter")  # never pays
    assert Escalation.objects.get().state == EscalationState.OPEN
    for _ in range(2):  # past an offered amount
        rita.keyboard.press("Tab")
    rita.keyboard.type("partly used")
    rita.keyboard.press("Control+Enter")
    expect(rita.locator("#strip")).to_contain_text("USD 650.00")
    rita.goto(f"{site}/runs/")
    rita.keyboard.press("j")
    row = rita.locator(".rowlink").first
    expect(row).to_be_focused()
    rita.keyboard.press("/")
    rita.keyboard.type("anna")
    rita.keyboard.press("Escape")
    expect(row).to_be_focused()
    rita.keyboard.press("Enter")
    steps = rita.locator(".trace summary")
    expect(steps.first).to_be_visible()
    for key, at in (("j", 0), ("j", 1), ("k", 0)):
        rita.keyboard.press(key)
        expect(steps.nth(at)).to_be_focused()
    rita.keyboard.press("Enter")
    expect(rita.locator("#step-1")).to_have_attribute("open", "")
    rita.keyboard.press("/")
    rita.keyboard.type("anna")
    expect(rita.locator("#found a").first).to_be_visible()
    rita.keyboard.press("Enter")
    rita.wait_for_url(f"{site}/search/?q=anna")

    assert Escalation.objects.get().comment == "partly used"


def test_single_keys_can_be_switched_off(waiting: Escalation, desk: Desk) -> None:
    rita = desk("rita", f"/approvals/{waiting.pk}/")
    rita.keyboard.press("?")
    rita.locator("#keys form button").click()
    expect(rita.locator("body[data-keys=off]")).to_be_attached()
    rita.keyboard.press("r")

    expect(rita.locator(Card.WHY_NOT)).to_be_hidden()


@pytest.mark.proves("W10")
def test_rows_that_arrive_move_neither_form_nor_pointer(
    scene: Scene, waiting: Escalation, desk: Desk
) -> None:
    rita = desk("rita", f"/approvals/{waiting.pk}/")
    is_live(rita)
    rita.locator(Card.REASON).fill("half wri")
    # What typing itself moves has moved before the watch begins.
    rita.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    rita.evaluate(
        """() => {
            window.shift = 0;
            new PerformanceObserver((list) => {
                for (const entry of list.getEntries())
                    for (const { node } of entry.sources)
                        if (node?.parentElement?.closest("#card")) window.shift += entry.value;
            }).observe({ type: "layout-shift", buffered: false });
        }"""
    )
    before = rita.locator("#dform").bounding_box()
    advance_run(scene.launch())
    expect(rita.locator("#queue li")).to_have_count(2)
    rita.locator("#queue li a").first.hover()
    advance_run(scene.launch())
    in_one_book(waiting)
    news = rita.locator("#queue .news")
    expect(news).to_be_visible()
    expect(rita.locator("#queue li")).to_have_count(2)  # the row under the pointer stays
    rita.evaluate("refresh(['#card'])")  # it names the requests that are for the same
    expect(rita.locator("#same")).to_be_visible()
    assert rita.locator("#dform").bounding_box() == before
    assert rita.evaluate("window.shift") == 0
    expect(rita.locator(Card.REASON)).to_have_value("half wri")
    news.click()
    expect(rita.locator("#queue li")).to_have_count(3)


@pytest.mark.proves("W4", "W5")
def test_markup_stays_text_in_what_arrives_live(scene: Scene, site: str, desk: Desk) -> None:
    goal = f"Refund 1200 USD to user_id=42. {MARKUP}"
    run = scene.launch(goal)
    eve, rita = desk("eve", f"/runs/{run.pk}/"), desk("rita", "/approvals/")
    is_live(eve, rita)
    advance_run(run)
    escalation = Escalation.objects.get()
    decide_request(escalation, scene.rita, patch={"amount_minor": 80000}, comment=MARKUP)
    expect(eve.locator("#run")).to_contain_text(f"“{MARKUP}”")
    expect(eve.locator("#run .runhead")).to_contain_text(goal)
    rita.goto(f"{site}/approvals/decided/")
    expect(rita.locator("main")).to_contain_text(MARKUP)

    assert eve.locator("main img").count() == rita.locator("main img").count() == 0
    assert "gotcha" not in (eve.title(), rita.title())


@pytest.mark.proves("I40")
def test_access_that_is_taken_away_ends_an_open_page(
    scene: Scene, browser: Browser, complaints: list[str]
) -> None:
    run = scene.launch()

    with serve(OPSCONSOLE_LIVE_RECHECK_SECONDS="0.3") as site:
        eve = desk_of(browser, site, "eve", complaints)
        eve.goto(f"{site}/runs/{run.pk}/")
        is_live(eve)
        Membership.objects.filter(user=scene.eve).delete()

        expect(eve.locator("#run")).to_have_count(0)


def test_rita_decides_a_refund_with_javascript_off(
    scene: Scene, browser: Browser, site: str, worker: None
) -> None:
    run = advance_run(scene.launch())
    page = open_page(browser, java_script_enabled=False)
    sign_in(page, site, "rita")
    page.goto(site)
    page.locator(".rail a[href='/approvals/']").click()
    page.locator(".qlist a").click()
    page.locator(Card.REASON).fill("partly used")
    for amount in ("1300", "800"):
        page.locator(Card.AMOUNT).fill(amount)
        page.locator(Card.SEND).click()
        if amount == "1300":
            expect(page.locator("#set-amount_minor-error")).to_contain_text("USD 800")
    until(lambda: has_ended(run))
    page.reload()
    expect(page.locator("#strip")).to_contain_text("USD 800.00")

    assert (payments(run), mails(run)) == ([80000], [80000])


def test_omar_launches_and_stops_a_run_with_javascript_off(
    scene: Scene, browser: Browser, site: str, worker: None
) -> None:
    page = open_page(browser, java_script_enabled=False)
    sign_in(page, site, "omar")
    page.goto(site)
    page.locator(".rail a[href='/launch/']").click()
    page.locator("#goal").fill("Refund 1200 USD to user_id=42.")
    page.locator("#subject").fill("Anna")
    page.locator("form:has(#goal) button[type=submit]").click()
    run = Run.objects.get()
    reach(RunState.WAITING, run)
    page.reload()
    expect(page.locator(WAITS)).to_be_visible()
    page.locator("details:has(form[action$='/cancel/']) > summary").click()
    page.locator("form[action$='/cancel/'] [name=reason]").fill("launched by mistake")
    page.locator("form[action$='/cancel/'] button").click()
    expect(page.locator("#run[data-ended]")).to_be_visible()
    page.locator(".rail a[href='/approvals/']").click()
    expect(page.locator("#queue")).to_be_visible()
    expect(page.locator("#queue li")).to_have_count(0)


# Where text begins and how it breaks, in a field and in what lies behind it.
PLACES = """field => [field, field.previousElementSibling].map((one) => {
  const { x, y, width, height } = one.getBoundingClientRect();
  return [x, y, width, height, one.clientWidth, one.scrollHeight].join();
})"""


# The page's own policy refuses Playwright's `wait_for_function` where it has to ask twice.
SCROLLED_TOGETHER = """one => new Promise((done) => {
    const behind = document.querySelector(".behind");
    const look = () => behind.scrollTop === one.scrollTop ? done() : requestAnimationFrame(look);
    look();
})"""


def test_letter_that_is_edited_is_shown_once(scene: Scene, worker: None, desk: Desk) -> None:
    run = advance_run(scene.launch(OWN_WORDS, workflow="customer-reply", pattern="workflow"))
    held = Escalation.objects.get(run=run)
    letter = held.action["args"]["message"]
    rita = desk("rita", f"/approvals/{held.pk}/")
    quoted = rita.locator(".quote.quoted")
    marked = quoted.locator("mark").all_inner_texts()
    assert marked
    assert all(passage in letter for passage in marked)

    rita.keyboard.press("e")
    field, behind = rita.locator("#correction"), rita.locator(".behind")
    expect(field).to_be_focused()
    expect(quoted).to_be_hidden()
    expect(field).to_have_value(letter)
    expect(rita.locator("#own-words mark")).to_have_text(marked)
    expect(field).to_have_accessible_description(re.compile(re.escape(marked[0])))
    expect(behind.locator("mark")).to_have_text(marked)
    expect(behind).to_have_attribute("aria-hidden", "true")
    rita.keyboard.type("X")
    expect(field).to_have_value(f"X{letter}")
    for width in (1440, 390):
        rita.set_viewport_size({"width": width, "height": 844})
        places = field.evaluate(PLACES)
        assert places[0] == places[1], f"at {width} the marks stand beside the words"
    field.fill("\n" * 40 + letter.replace(marked[0], "Hello Anna"))
    field.evaluate("one => one.scrollTop = one.scrollHeight")
    expect(behind.locator("mark")).to_have_text(marked[1:])
    expect(rita.locator("#own-words q:visible mark")).to_have_text(marked[1:])
    field.evaluate(SCROLLED_TOGETHER)
    field.fill(letter)
    rita.keyboard.press("Escape")
    rita.locator("label:has([name=verdict][value=approve])").click()
    expect(quoted).to_be_visible()


def in_one_book(one: Escalation) -> None:
    """Move all requests to one's money, as each launch of a demo has a book of its own."""
    Run.objects.update(book=one.run.book_id)
    Escalation.objects.update(resource=one.resource)


def test_requests_about_the_same_name_each_other(
    scene: Scene, waiting: Escalation, site: str, worker: None, desk: Desk
) -> None:
    other = Escalation.objects.get(run=advance_run(scene.launch()))
    in_one_book(waiting)
    rita = desk("rita", f"/approvals/{waiting.pk}/")
    expect(rita.locator(f"#same a[href='/approvals/{other.pk}/']")).to_be_visible()
    rita.locator("label:has([name=verdict][value=adjust])").click()  # nothing is preselected
    headline = rita.locator("#consequence h2")
    before = headline.inner_text()
    rita.locator(Card.AMOUNT).fill("750")
    expect(headline).to_contain_text("USD 750.00")
    rita.locator(Card.AMOUNT).fill("")
    expect(headline).to_have_text(before, use_inner_text=True)
    rita.locator("#same a").click()
    expect(rita.locator(f"#same a[href='/approvals/{waiting.pk}/']")).to_be_visible()

    Escalation.objects.filter(pk=waiting.pk).update(expires_at=timezone.now())
    until(lambda: has_ended(waiting.run))
    rita.reload()
    expect(rita.locator("#same")).to_have_count(0)
    rita.goto(f"{site}/approvals/{waiting.pk}/")
    expect(rita.locator("#consequence")).to_contain_text("USD 1,200.00")
