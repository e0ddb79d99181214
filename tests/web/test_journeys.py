"""Daily work in real browsers, with a real server and worker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone
from playwright.sync_api import Browser, Page, Route, expect

from agents.core.states import EscalationState, RunState
from agents.desks.refunds.scenarios import BY_KEY, SCENARIOS
from agents.models import Escalation, Membership, Role, Run
from agents.runs.launch_page import examples
from tests.e2e.workers import has_state, until
from tests.engine.scene import Scene, decide_request, fresh, go, has_ended, mails, payments
from tests.limits import first_limit
from tests.ports import free_port
from tests.processes import running
from tests.web.serving import chromium, open_page, serve, sign_in

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

CUT = ("Failed to load resource", "Failed to fetch", "network error", "ERR_", "reconnect failed")
OWN_WORDS = "Anna (customer 42) asks for her last charge to be explained in plain words."
MARKUP = "<img src=x onerror=document.title='gotcha'>"


@pytest.fixture(scope="module")
def open_browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def browser(open_browser: Browser) -> Iterator[Browser]:
    """Lend the module's browser, and close what a test opens in it."""
    yield open_browser
    for context in open_browser.contexts:
        context.close()


@pytest.fixture
def complaints() -> Iterator[list[str]]:
    """Collect the browsers' complaints, of which none may be left at the end."""
    found: list[str] = []
    yield found
    assert not found


def desk(browser: Browser, site: str, name: str, complaints: list[str]) -> Page:
    """Return a separate browser for a person who has signed in."""
    page = own_page(browser, name, complaints)
    sign_in(page, site, name)
    return page


def own_page(browser: Browser, name: str, complaints: list[str], **context: Any) -> Page:
    """Return a separate browser in which nobody has signed in yet."""
    page = open_page(browser, **context)

    def hear(text: str) -> None:
        # The browser rightly reports connections that a test cuts, and refusals.
        if not any(cut in text for cut in CUT):
            complaints.append(f"{name}: {text}")

    page.on("console", lambda message: hear(message.text))
    page.on("pageerror", lambda error: hear(str(error)))
    return page


@contextmanager
def console() -> Iterator[str]:
    """Serve the pages, with a worker beside them."""
    with serve() as site, running("manage.py", "work"):
        yield site


def advance_run(run: Run) -> Run:
    """Advance a run once in a thread, as this one has the browser's event loop."""

    def work() -> Run:
        try:
            return go(run)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def second_reviewer(scene: Scene) -> User:
    return scene.add("second", Role.REVIEWER, desk_limits=first_limit(90000))


def both_at(address: str, browser: Browser, site: str, complaints: list[str]) -> tuple[Page, Page]:
    """Sign in Rita and the second reviewer, and open the same page for each."""
    rita, second = (desk(browser, site, name, complaints) for name in ("rita", "second"))
    for page in (rita, second):
        page.goto(address)
    return rita, second


def test_two_people_see_one_refund_to_its_end(
    scene: Scene, browser: Browser, complaints: list[str]
) -> None:
    with console() as site:
        omar = desk(browser, site, "omar", complaints)
        rita = desk(browser, site, "rita", complaints)
        rita.goto(f"{site}/approvals/")
        expect(rita.locator("#live")).to_have_text("Live")
        omar.goto(f"{site}/launch/")
        omar.get_by_role("button", name="Launch: Refund over the limit waits for approval").click()

        # From here on pages reload only by what each of them clicks.
        expect(omar.locator("#run")).to_contain_text("Waiting for a person")
        expect(omar.locator("#step-2")).to_contain_text("Issue refund")
        expect(rita.locator("#waiting")).to_have_text(", waiting: 1")
        rita.locator(".qlist a").click()
        expect(rita.get_by_label("Pay Anna")).to_have_value("")  # it is more than she may grant
        expect(rita.locator("#dform")).to_contain_text("Up to USD 800.00, your approval limit")
        expect(rita.get_by_role("button", name="Pay the amount you enter")).to_be_disabled()
        rita.get_by_label("Pay Anna").fill("750")
        expect(rita.locator("#consequence")).to_contain_text(
            "Pay Anna USD 750.00 instead of USD 1,200.00"
        )
        expect(rita.get_by_role("button", name="Pay USD 750.00 to Anna")).to_be_visible()

        held: list[Route] = []  # an answer that never comes does not hold back later ones
        judging = "**/judge/**"
        rita.route(judging, lambda route: route.continue_() if held else held.append(route))
        with rita.expect_request(judging):
            rita.get_by_label("Pay Anna").fill("760")
        rita.get_by_label("Pay Anna").fill("900")
        expect(rita.locator("#judged[data-allowed=no]")).to_contain_text("USD 900.00")
        rita.unroute(judging)

        sentences = []
        for amount in ("1000", "1300"):
            rita.get_by_label("Pay Anna").fill(amount)
            rita.get_by_label("Reason").fill("partly used")
            expect(rita.locator("#judged[data-allowed=no]")).to_contain_text("USD 1,")
            expect(rita.get_by_role("button", name="to Anna")).to_be_disabled()
            sentences.append(rita.locator("#judged").inner_text())
        rita.get_by_label("Pay Anna").fill("800")
        rita.get_by_role("button", name="Pay USD 800.00 to Anna").click()

        expect(rita.locator("#strip")).to_contain_text("USD 800.00 was paid to Anna")
        expect(omar.locator("#run")).to_contain_text("StatusDone")
        approved = "rita: approved USD 800.00 instead of USD 1,200.00"
        expect(omar.locator("#run")).to_contain_text(approved)
        expect(omar.locator("#run")).to_contain_text("of USD 1,200.00 proposed")

    run = Run.objects.get()
    assert "your own limit of USD 800.00" in sentences[0]
    assert sentences[1].startswith("USD 1,300.00 is above your own limit of USD 800.00.")
    assert (payments(run), mails(run)) == ([80000], [80000])


@pytest.mark.proves("F42")
def test_the_second_of_two_reviewers_is_told_who_was_first(
    scene: Scene, browser: Browser, complaints: list[str]
) -> None:
    second_reviewer(scene)
    escalation = Escalation.objects.get(run=advance_run(scene.launch()))

    with serve() as site:
        rita, second = both_at(f"{site}/approvals/{escalation.pk}/", browser, site, complaints)
        for page, amount in ((rita, "800"), (second, "900")):
            page.get_by_label("Pay Anna").fill(amount)
            page.get_by_label("Reason").fill("partly used")
        second.route("**/live/**", lambda route: route.abort())  # a live update cannot warn in time
        second.reload()
        second.get_by_label("Pay Anna").fill("900")
        second.get_by_label("Reason").fill("mine")
        rita.get_by_role("button", name="Pay USD 800.00 to Anna").click()
        expect(rita.locator("#strip")).to_contain_text("800.00 was approved")
        with second.expect_response("**/decide/") as answered:
            second.get_by_role("button", name="Pay USD 900.00 to Anna").click()

        assert answered.value.status == 409
        expect(second.locator("#card")).to_contain_text(
            "rita approved USD 800.00 instead of USD 1,200.00, at"
        )
        expect(second.locator("#card")).to_contain_text("USD 800.00 was approved")
        expect(second.locator("#card")).to_contain_text("What you filled in was not sent")

    escalation.refresh_from_db()
    assert (escalation.decided_by, escalation.granted_minor) == (scene.rita, 80000)


def test_a_claim_keeps_the_others_out_until_it_is_released(
    scene: Scene, browser: Browser, complaints: list[str]
) -> None:
    second_reviewer(scene)
    escalation = Escalation.objects.get(run=advance_run(scene.launch()))

    with serve() as site:
        rita, second = both_at(f"{site}/approvals/{escalation.pk}/", browser, site, complaints)
        for page in (rita, second):
            expect(page.locator("#live")).to_have_text("Live")
        second.get_by_label("Pay Anna").fill("900")
        second.get_by_label("Reason").fill("half written")
        rita.get_by_role("button", name="Claim").click()
        expect(rita.locator("#claim")).to_contain_text("You have claimed it")
        expect(second.locator("#claim")).to_contain_text("rita has claimed it")
        expect(second.get_by_label("Reason")).to_have_value("half written")
        expect(second.locator("#card")).to_contain_text("rita has claimed it until")
        pay = second.get_by_role("button", name="Pay USD 900.00 to Anna")
        expect(pay).to_be_hidden()

        second.evaluate("document.querySelector('#dform').submit()")  # there is no button for it
        expect(second.locator("#notice")).to_contain_text("rita has claimed it until")
        expect(second.locator("#live")).to_have_text("Live")
        rita.get_by_role("button", name="Release").click()
        expect(second.locator("#claim")).to_contain_text("Unclaimed")
        # The refusal stays readable while the card updates.
        expect(second.locator("#notice")).to_contain_text("What you filled in was not sent.")
        expect(pay).to_be_visible()
        second.get_by_role("link", name="Dismiss").click()
        expect(second.locator("#notice")).to_be_empty()

        second.get_by_label("Reason").fill("partly used")
        pay.click()
        expect(second.locator("#strip")).to_contain_text("USD 900.00 was approved")


def test_what_is_live_leaves_the_focus_where_somebody_types(
    scene: Scene, browser: Browser, complaints: list[str]
) -> None:
    second_reviewer(scene)
    escalation = Escalation.objects.get(run=advance_run(scene.launch()))

    with serve() as site:
        rita, second = both_at(f"{site}/approvals/{escalation.pk}/", browser, site, complaints)
        rita.get_by_label("Pay Anna").fill("700")
        rita.get_by_label("Pay Anna").press("Control+Enter")
        expect(rita.locator("#comment-error")).to_have_text("Enter a reason for the change.")
        expect(rita.get_by_label("Reason")).to_be_focused()
        expect(rita.locator("#live")).to_have_text("Live")
        rita.get_by_label("Reason").fill("partly")
        second.get_by_role("button", name="Claim").click()
        expect(rita.locator("#claim")).to_contain_text("second has claimed it")
        rita.keyboard.type(" used")

        expect(rita.get_by_label("Reason")).to_be_focused()
        expect(rita.get_by_label("Pay Anna")).to_have_value("700")


def test_time_runs_out_while_the_card_is_open(
    scene: Scene, browser: Browser, complaints: list[str]
) -> None:
    run = advance_run(scene.launch())
    escalation = Escalation.objects.get(run=run)

    with console() as site:
        rita = desk(browser, site, "rita", complaints)
        rita.goto(f"{site}/approvals/{escalation.pk}/")
        expect(rita.locator("#live")).to_have_text("Live")
        soon = timezone.now() + timedelta(seconds=1)
        Escalation.objects.filter(pk=escalation.pk).update(expires_at=soon)

        expect(rita.locator("#card")).to_contain_text("Expired and rejected automatically")
        expect(rita.locator("#dform")).to_have_count(0)
        expect(rita.locator("#waiting")).to_have_text("")

    until(lambda: has_ended(run))
    assert payments(run) == []
    assert fresh(run).stop_reason == "escalation_expired"


@pytest.mark.proves("F39")
def test_a_restart_while_pages_are_open_loses_nothing(
    scene: Scene, browser: Browser, complaints: list[str]
) -> None:
    """Each page says that the server is away, on a phone too, and resumes by itself."""
    held, run, port = (
        Escalation.objects.get(run=advance_run(scene.launch())),
        scene.launch(),
        free_port(),
    )

    with serve(port) as site:
        trace = desk(browser, site, "rita", complaints)
        # Its first stream fails before its script is loaded.
        trace.add_init_script(
            "addEventListener('htmx-finally-request', (event) => event.stopPropagation(), "
            "{ capture: true, once: true })"
        )
        trace.route("**/live/**", lambda route: route.abort(), times=1)
        trace.goto(f"{site}/runs/{run.pk}/")
        pages = [trace]
        for address in (f"approvals/{held.pk}/", "approvals/", ""):
            pages.append(trace.context.new_page())
            pages[-1].goto(f"{site}/{address}")
        for page in pages:
            expect(page.locator("#live")).to_have_text("Live")
            expect(page.locator("#away")).to_be_hidden()
        scene.add("audrey", Role.AUDITOR)
        checked = desk(browser, site, "audrey", complaints)
        checked.route("**/live/**", lambda route: route.abort())
        checked.goto(f"{site}/audit/")
        # A refused form's page has an address that takes only POST.
        checked.evaluate("history.replaceState(null, '', '/audit/verify/')")
        for _ in range(2):  # the page polls; the server answers, but has nothing to GET there
            checked.wait_for_event("response", lambda answer: answer.status == 405)
        expect(checked.locator("#live")).to_have_text("Not live")
        expect(checked.locator("#away")).to_be_hidden()
        checked.close()
    for page in pages:
        expect(page.locator("#live")).to_have_text("Not live")
        expect(page.locator("#away")).to_contain_text(
            re.compile(r"server is not answering.*\d\d:\d\d:\d\d.*you send.* may not", re.DOTALL)
        )
        page.set_viewport_size({"width": 390, "height": 844})
        expect(page.locator("#away")).to_be_in_viewport(ratio=1)
    advance_run(run)
    with serve(port):
        expect(trace.locator("#run")).to_contain_text("Waiting for a person")
        for page in pages:
            expect(page.locator("#live")).to_have_text("Live")
            expect(page.locator("#away")).to_be_hidden()
        expect(pages[2].locator("#queue .qlist li")).to_have_count(2)
        expect(trace.locator("#run .step")).to_have_count(2)
        scene.decide(run)
        advance_run(run)
        expect(trace.locator("#run .step")).to_have_count(4)
        expect(trace.locator("#run")).to_contain_text("of USD 1,200.00 proposed")


OVERFLOWS = (
    "[...document.querySelectorAll('.scroll-x')].some((it) => it.scrollWidth > it.clientWidth)"
)


def test_a_filter_is_folded_where_it_would_hide_the_first_row(
    scene: Scene, browser: Browser, complaints: list[str]
) -> None:
    advance_run(scene.launch())
    scene.add("ada", Role.ADMIN)
    with console() as site:
        ada = desk(browser, site, "ada", complaints)
        for name, field in (("runs", "#by-launcher"), ("audit", "#by-person")):
            for width in (1440, 720, 390):  # 720: 1440 at a zoom of 200 %
                ada.set_viewport_size({"width": width, "height": 844})
                ada.goto(f"{site}/{name}/")
                expect(ada.locator("tbody tr").first).to_be_in_viewport()
                assert not ada.evaluate(
                    OVERFLOWS
                )  # nothing stands beyond the right edge of its table
                if width == 1440:
                    expect(ada.locator(field)).to_be_visible()
                    continue
                ada.locator(".filter > summary").press("Enter")
                ada.locator(field).fill("omar")
                ada.locator(field).press("Enter")
                ada.wait_for_load_state()
                expect(ada.locator(field)).to_have_value("omar")  # what narrows a list is shown


# Why each run of the refund desk ends where a person rejects what it asks.
ENDS = {
    "within-limit": "success",
    "above-limit": "human_rejected",
    "no-reason": "human_rejected",
    "another-customer": "supervisor_block:subject_mismatch",
    "no-context": "supervisor_block:context_required",
    "outside-window": "supervisor_block:outside_refund_window",
    "twice": "supervisor_block:duplicate_refund",
    "loop": "loop_detected:signature_repeat",
    "rejected": "human_rejected",
    "false-claim": "success",
    "broken-json": "invalid_action:non_json",
    "routed": "success",
    "rerouted": "success",
    "nobodys": "max_route_attempts",
    "false-promise": "success",
    "reply": "success",
    "reoriented": "success",
    "own-words": "human_rejected",
    "capped": "success",
    "judge-asks": "denied_by_human",
    "halted": "halted_by_supervision",
    "exception": "denied_by_human",
    "morning-report": "success",
    "partial-report": "success",
    "critical-failure": "critical_task_failed",
    "payments-left-out": "invalid_plan:worker_required:payments_worker",
    "another-region": "invalid_plan:args_mismatch",
    "rosy-brief": "success",
}


def test_every_scenario_comes_to_its_end(
    scene: Scene, browser: Browser, complaints: list[str]
) -> None:
    with console() as site:
        omar = desk(browser, site, "omar", complaints)
        omar.goto(f"{site}/launch/")
        forms = omar.locator("form.scenario")
        scenarios = {s.title: s.goal for _, s in examples().values()}
        names = [f"Launch: {title}" for title in scenarios]
        assert forms.locator("button").evaluate_all("all => all.map(b => b.ariaLabel)") == names
        # Sent like the buttons' forms; drawing each run's page as it moves takes seconds.
        sent = forms.evaluate_all(
            """async (all) => {
                const answers = [];
                for (const one of all) {
                    const sent = { method: "POST", body: new FormData(one), redirect: "manual" };
                    answers.push((await fetch(one.action, sent)).type);
                }
                return answers;
            }"""
        )
        assert set(sent) == {"opaqueredirect"}
        launched = Run.objects.values_list("goal", flat=True)
        assert sorted(launched) == sorted(scenarios.values())
        omar.close()
        slow = {s.goal for s in SCENARIOS if s.key == "model-timeout"}
        quick = Run.objects.exclude(goal__in=slow)
        until(lambda: not quick.filter(state__in=["queued", "running"]).exists())
        rita = desk(browser, site, "rita", complaints)
        drawn: set[str] = set()
        for escalation in Escalation.objects.filter(state=EscalationState.OPEN):
            if escalation.kind in drawn:  # one of each kind; test_states has them all
                scene.decide(escalation.run, approve=False)
                continue
            drawn.add(escalation.kind)
            rita.goto(f"{site}/approvals/{escalation.pk}/")
            rita.locator('.dform input[value="reject"]').check(force=True)
            why = rita.locator(".dform textarea:visible").last
            why.fill("not eligible")
            rita.locator(".dform .acts button:visible").last.click()
            # Says why, if it was refused.
            expect(rita.locator("#strip .strip, #deciding .error")).to_contain_text(
                re.compile("ejected|closed the case")
            )
        rita.goto("about:blank")  # no page to keep live
        until(lambda: all(has_ended(run) for run in quick))
        for run in quick:
            page = rita.request.get(f"{site}/runs/{run.pk}/").text()
            assert "data-ended" in page
            if run.goal == BY_KEY["capped"].goal:
                assert "stopped at the maximum number of drafts" in page
            if run.pattern not in drawn:
                drawn.add(run.pattern)
                rita.goto(f"{site}/runs/{run.pk}/")
                expect(rita.locator("#run[data-ended]")).to_be_visible()

    assert not quick.filter(state=RunState.FAILED).exists()
    reasons = dict(quick.values_list("goal", "stop_reason"))
    assert {one.key: reasons[one.goal] for one in SCENARIOS if one.goal not in slow} == ENDS


def test_rita_answers_for_outputs_while_omar_watches(
    scene: Scene, browser: Browser, complaints: list[str]
) -> None:
    with console() as site:
        omar = desk(browser, site, "omar", complaints)
        rita = desk(browser, site, "rita", complaints)

        launch_memo(omar, site)
        answer_request(rita, site, "Send back", {"What should change?": "Name it."})
        expect(omar.locator("#run")).to_contain_text("rita sent the draft back with instructions.")
        expect(omar.get_by_role("list", name="Memo, round 2")).to_be_visible()
        answer_request(rita, site, "Approve", {})
        expect(omar.locator("#run")).to_contain_text("rita approved the draft.")
        expect(omar.locator("#run[data-ended]")).to_be_visible()

        launch_memo(omar, site)
        answer_request(rita, site, "Reject", {"Why not": "The terms are clear."})
        expect(omar.locator("#run")).to_contain_text("A reviewer rejected the draft.")
        expect(omar.locator("#run[data-ended]")).to_be_visible()

    ends = list(Run.objects.order_by("created_at").values_list("state", flat=True))
    assert ends == [RunState.DONE, RunState.STOPPED]


def launch_memo(omar: Page, site: str) -> None:
    omar.goto(f"{site}/launch/")
    omar.get_by_role("button", name="Launch: Memo needs a reviewer’s signature").click()
    omar.wait_for_url(f"{site}/runs/*/")
    expect(omar.locator("#run")).to_contain_text("Waiting for a person")


def answer_request(rita: Page, site: str, choice: str, words: dict[str, str]) -> None:
    """Answer the longest-waiting request in its card."""
    rita.goto(f"{site}/approvals/")
    rita.locator("#queue li a").first.click()
    rita.get_by_role("radio", name=choice).check(force=True)
    for label, text in words.items():
        rita.get_by_label(label).fill(text)
    rita.locator("#dform .acts button:visible").click()
    expect(rita.locator("#strip a")).to_be_visible()


def test_the_whole_way_by_keyboard(scene: Scene, browser: Browser, complaints: list[str]) -> None:
    with console() as site:
        omar = desk(browser, site, "omar", complaints)
        omar.goto(site)
        omar.keyboard.press("Tab")
        expect(omar.get_by_role("link", name="Skip to content")).to_be_focused()
        omar.goto(f"{site}/launch/")
        omar.get_by_role("button", name="Launch: Refund over the limit waits for approval").focus()
        omar.keyboard.press("Enter")
        expect(omar.locator("#run")).to_contain_text("Waiting for a person")

        rita = desk(browser, site, "rita", complaints)
        rita.goto(f"{site}/approvals/")
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
            expect(rita.locator("#keys").get_by_role("button", name="Close")).to_be_focused()
            rita.keyboard.press(closing)
            expect(rita.locator("#keys")).to_be_hidden()
        rita.keyboard.press("?")
        rita.keyboard.press("c")  # what was read there does what it says
        expect(rita.locator("#keys")).to_be_hidden()
        expect(rita.locator("#claim")).to_contain_text("You have claimed it")
        rita.keyboard.press("r")
        expect(rita.get_by_label("Why not")).to_be_focused()
        rita.keyboard.type("ear, jack?")  # letters are text while typing
        rita.locator("body").evaluate("() => document.activeElement.blur()")
        rita.keyboard.press("e")
        expect(rita.get_by_label("Pay Anna")).to_be_focused()
        rita.keyboard.type("650")
        rita.keyboard.press("Enter")  # never pays
        assert Escalation.objects.get().state == EscalationState.OPEN
        rita.keyboard.press("Tab")
        rita.keyboard.press("Tab")
        rita.keyboard.type("partly used")
        rita.keyboard.press("Control+Enter")
        expect(rita.locator("#strip")).to_contain_text("USD 650.00 was paid to Anna")
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


def test_single_keys_can_be_switched_off(
    scene: Scene, browser: Browser, complaints: list[str]
) -> None:
    escalation = Escalation.objects.get(run=advance_run(scene.launch()))

    with serve() as site:
        rita = desk(browser, site, "rita", complaints)
        rita.goto(f"{site}/approvals/{escalation.pk}/")
        rita.keyboard.press("?")
        rita.get_by_role("button", name="Turn single-key shortcuts off").click()
        rita.wait_for_url(f"{site}/approvals/{escalation.pk}/")
        rita.keyboard.press("r")

        expect(rita.get_by_label("Why not")).to_be_hidden()


@pytest.mark.proves("W10")
def test_rows_that_arrive_move_neither_form_nor_pointer(
    scene: Scene, browser: Browser, complaints: list[str]
) -> None:
    first = Escalation.objects.get(run=advance_run(scene.launch()))

    with serve() as site:
        rita = desk(browser, site, "rita", complaints)
        rita.goto(f"{site}/approvals/{first.pk}/")
        expect(rita.locator("#live")).to_have_text("Live")
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
        rita.get_by_label("Reason").fill("half wri")
        before = rita.locator("#dform").bounding_box()
        advance_run(scene.launch())
        expect(rita.locator("#queue li")).to_have_count(2)
        rita.locator("#queue li a").first.hover()
        advance_run(scene.launch())
        news = rita.get_by_role("button", name="1 new request")
        expect(news).to_be_visible()
        expect(rita.locator("#queue li")).to_have_count(2)  # the row under the pointer stays
        rita.evaluate("refresh(['#card'])")  # it names the requests that are for the same
        expect(rita.locator("#same")).to_be_visible()
        assert rita.locator("#dform").bounding_box() == before
        assert rita.evaluate("window.shift") == 0
        expect(rita.get_by_label("Reason")).to_have_value("half wri")
        news.click()
        expect(rita.locator("#queue li")).to_have_count(3)


@pytest.mark.proves("W4", "W5")
def test_markup_stays_text_in_what_arrives_live(
    scene: Scene, browser: Browser, complaints: list[str]
) -> None:
    goal = f"Refund 1200 USD to user_id=42. {MARKUP}"
    run = scene.launch(goal)

    with serve() as site:
        eve = desk(browser, site, "eve", complaints)
        eve.goto(f"{site}/runs/{run.pk}/")
        rita = desk(browser, site, "rita", complaints)
        rita.goto(f"{site}/approvals/")
        for page in (eve, rita):
            expect(page.locator("#live")).to_have_text("Live")
        advance_run(run)
        escalation = Escalation.objects.get()
        decide_request(escalation, scene.rita, patch={"amount_minor": 80000}, comment=MARKUP)
        expect(eve.locator("#run")).to_contain_text(f"“{MARKUP}”")
        expect(eve.locator("#run h2").first).to_have_text(goal)
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
        eve = desk(browser, site, "eve", complaints)
        eve.goto(f"{site}/runs/{run.pk}/")
        expect(eve.locator("#live")).to_have_text("Live")
        Membership.objects.filter(user=scene.eve).delete()

        expect(eve.get_by_role("heading", name="Page not found")).to_be_visible()


def test_rita_decides_a_refund_with_javascript_off(scene: Scene, browser: Browser) -> None:
    run = advance_run(scene.launch())

    with console() as site:
        page = open_page(browser, java_script_enabled=False)
        sign_in(page, site, "rita")
        page.goto(site)
        page.get_by_role("link", name="Approvals").click()
        page.locator(".qlist a").click()
        amount, pay = page.get_by_label("Pay Anna"), page.get_by_role("button", name="Pay the")
        page.get_by_label("Reason").fill("partly used")
        amount.fill("1300")
        pay.click()
        expect(page.locator("#set-amount_minor-error")).to_contain_text("your own limit of USD 800")
        amount.fill("800")
        pay.click()
        until(lambda: has_ended(run))
        page.reload()
        expect(page.locator("#strip")).to_contain_text("USD 800.00 was paid to Anna")

    assert (payments(run), mails(run)) == ([80000], [80000])


def test_omar_launches_and_stops_a_run_with_javascript_off(scene: Scene, browser: Browser) -> None:
    with console() as site:
        page = open_page(browser, java_script_enabled=False)
        sign_in(page, site, "omar")
        page.goto(site)
        page.get_by_role("link", name="Launch", exact=True).click()
        page.get_by_label("Goal", exact=True).fill("Refund 1200 USD to user_id=42.")
        page.get_by_label("About").fill("Anna")
        page.get_by_role("button", name="Launch", exact=True).last.click()
        run = Run.objects.get()
        until(has_state(run, RunState.WAITING))
        page.reload()
        expect(page.locator("#run")).to_contain_text("Waiting for a person")
        page.get_by_text("Stop this run").click()
        page.get_by_label("Reason").fill("launched by mistake")
        page.get_by_role("button", name="Stop the run").click()
        expect(page.locator("#run")).to_contain_text("cancelled")
        page.get_by_role("link", name="Approvals").click()
        expect(page.locator("#queue")).to_contain_text("all caught up")


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


def test_a_letter_that_is_edited_stands_once_and_is_not_erased(
    scene: Scene, browser: Browser, complaints: list[str]
) -> None:
    run = advance_run(scene.launch(OWN_WORDS, workflow="customer-reply", pattern="workflow"))
    letter = Escalation.objects.get(run=run).action["args"]["message"]

    with console() as site:
        rita = desk(browser, site, "rita", complaints)
        rita.goto(f"{site}/approvals/{Escalation.objects.get(run=run).pk}/")
        quoted = rita.locator(".quote.quoted")
        marked = quoted.locator("mark").all_inner_texts()
        assert marked[0].startswith("As promised we know that Customer")
        assert all(passage in letter for passage in marked)
        expect(rita.locator("#card")).to_contain_text("Compare the email with the record:")
        expect(rita.locator("#card")).not_to_contain_text("no record confirms")

        rita.keyboard.press("e")
        field = rita.locator("#correction")
        expect(field).to_be_focused()
        expect(quoted).to_be_hidden()
        expect(field).to_have_value(letter)
        expect(rita.locator("#own-words mark")).to_have_text(marked)
        expect(field).to_have_accessible_description(re.compile(re.escape(marked[0])))
        behind = rita.locator(".behind")
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
        rita.get_by_text("Send as is").click()
        expect(quoted).to_be_visible()


def test_requests_about_the_same_name_each_other_and_say_what_is_so(
    scene: Scene, browser: Browser, complaints: list[str]
) -> None:
    first, second = (advance_run(scene.launch()) for _ in range(2))
    one, other = (Escalation.objects.get(run=run) for run in (first, second))

    with console() as site:
        rita = desk(browser, site, "rita", complaints)
        rita.goto(f"{site}/approvals/{one.pk}/")
        expect(rita.locator("#same")).to_contain_text(
            f"Also waiting: request {other.pk}, Refund USD 1,200.00 to Anna"
        )
        headline = rita.locator("#consequence h2")
        expect(headline).to_have_text("Refund USD 1,200.00 to Anna", use_inner_text=True)
        rita.get_by_label("Pay Anna").fill("750")
        expect(headline).to_have_text(
            "Pay Anna USD 750.00 instead of USD 1,200.00", use_inner_text=True
        )
        rita.get_by_label("Pay Anna").fill("")
        expect(headline).to_have_text("Refund USD 1,200.00 to Anna", use_inner_text=True)
        expect(rita.locator(".stages .now")).to_contain_text("Decision")
        expect(rita.locator(".stages .now")).to_contain_text("none yet")
        rita.locator("#same a").click()
        expect(rita.locator("#same")).to_contain_text(f"request {one.pk}")

        Escalation.objects.filter(pk=one.pk).update(expires_at=timezone.now())
        until(lambda: has_ended(first))
        rita.reload()
        expect(rita.locator("#same")).to_have_count(0)
        rita.goto(f"{site}/approvals/{one.pk}/")
        expect(rita.locator("#consequence")).to_contain_text(
            "It was asked: “Refund USD 1,200.00 to Anna”. Nobody decided it by"
        )
