"""What is sent counts once, and the page says what is known of it while no answer comes."""

import os
import signal
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Browser, Page, Route, expect

from agents.models import Escalation, Role, SwitchStage
from agents.requests import deciding, sharing
from agents.runs import kill_switch
from agents.shell import refusal
from tests.engine.scene import Scene, decide_request, go, payments
from tests.engine.tiered import Tiered
from tests.web.serving import Card, advance_run, is_live, open_page, serving, sign_in

pytestmark = [pytest.mark.django_db(transaction=True)]

BROWSER = pytest.mark.slow


def kinds(held: Escalation) -> list[str]:
    """Return the events of what people did with a request, in order."""
    about = ("decision.refused", "escalation.decided", "approval.given")
    return list(
        held.run.events.filter(kind__in=about).order_by("seq").values_list("kind", flat=True)
    )


FORM: dict[str, Any] = {"approve": True, "comment": "partly", "patch": {"amount_minor": 80000}}


def send(held: Escalation, by: User, **changed: Any) -> Escalation:
    """Send a form in which the request is seen as it was proposed."""
    return decide_request(held, by, **{**FORM, "action_sha256": held.action_sha256, **changed})


@pytest.mark.proves("F42")
def test_the_same_form_of_the_same_person_is_the_same_decision(scene: Scene) -> None:
    held = Escalation.objects.get(run=go(scene.launch()))
    send(held, scene.rita)
    go(held.run)

    again = send(held, scene.rita)

    assert (again.state, again.decided_by) == ("adjusted", scene.rita)
    assert (kinds(held), payments(go(held.run))) == (["escalation.decided"], [80000])


@pytest.mark.parametrize(
    "changed",
    [
        {"comment": "other"},
        {"patch": {"amount_minor": 70000}},
        {"approve": False, "patch": None},
        {"approve": False, "patch": None, "send_back": True},
        {"action_sha256": "0" * 64},
        {"action_sha256": None},
        {"by": "mara"},
    ],
    ids=str,
)
def test_another_form_or_person_comes_too_late(scene: Scene, changed: dict[str, Any]) -> None:
    held = Escalation.objects.get(run=go(scene.launch()))
    send(held, scene.rita)
    mara = scene.add("mara", Role.ADMIN)
    by = mara if changed.pop("by", "") else scene.rita

    with pytest.raises(deciding.AlreadyDecided):
        send(held, by, **changed)

    assert kinds(held) == ["escalation.decided", "decision.refused"]


@pytest.mark.parametrize(
    "answer",
    [{"approve": False}, {"approve": False, "send_back": True}, {"patch": None, "comment": ""}],
    ids=["rejected", "sent back", "as proposed"],
)
def test_each_answer_counts_once(scene: Scene, ada: User, answer: dict[str, Any]) -> None:
    held = Escalation.objects.get(run=go(scene.launch()))
    for _ in range(2):
        send(held, ada, **answer)

    assert kinds(held) == ["escalation.decided"]


def test_first_of_two_approvals_counts_once(tiered: Tiered) -> None:
    request = tiered.ask()
    form: dict[str, Any] = {**FORM, "patch": {"amount_minor": 100_000}}

    for _ in range(2):
        send(request, tiered.finn, **form, approval=0)

    request.refresh_from_db()
    assert kinds(request) == ["approval.given"]
    with pytest.raises(refusal.Refused) as no:
        send(request, tiered.finn, **form, approval=request.approval_id)
    assert no.value.code == "two_people"


def test_a_hand_over_sent_twice_is_one(scene: Scene) -> None:
    held = Escalation.objects.get(run=go(scene.launch()))
    for _ in range(2):
        sharing.assign(
            escalation_id=held.pk, by=scene.rita, to_user=scene.rita, note="mine", at=timezone.now()
        )

    assert held.run.events.filter(kind="escalation.assigned").count() == 1


@pytest.fixture
def held(scene: Scene) -> Escalation:
    return Escalation.objects.get(run=advance_run(scene.launch()))


@pytest.fixture
def desk(scene: Scene, held: Escalation, browser: Browser) -> Iterator[tuple[Page, int]]:
    """Rita's tab with a decision filled in, and the server's process."""
    with serving() as (site, server):
        page = open_page(browser)
        sign_in(page, site, "rita")
        page.goto(f"{site}/approvals/{held.pk}/")
        is_live(page)
        page.locator(Card.AMOUNT).fill("800.00")
        page.locator(Card.REASON).fill("Four seats")
        expect(page.locator("#judged[data-allowed=yes]")).to_contain_text("USD 800.00")
        yield page, server


@pytest.mark.proves("F42")
@BROWSER
def test_a_double_click_pays_once_and_leads_on(desk: tuple[Page, int], held: Escalation) -> None:
    page, _ = desk

    page.locator(Card.SEND).dblclick()

    expect(page.locator("#strip")).to_contain_text("USD 800.00")
    expect(page.locator("#notice > *")).to_have_count(0)
    assert kinds(held) == ["escalation.decided"]


@BROWSER
def test_the_next_card_takes_no_press_for_a_second(desk: tuple[Page, int], scene: Scene) -> None:
    page, _ = desk
    following = Escalation.objects.get(run=advance_run(scene.launch()))
    page.clock.install()
    page.clock.pause_at(timezone.now() + timedelta(minutes=1))

    page.locator(Card.SEND).click()

    page.wait_for_url(f"**/approvals/{following.pk}/**")
    acts = page.locator("#dform .acts")
    expect(acts).to_have_js_property("disabled", True)
    page.clock.run_for(900)
    expect(acts).to_have_js_property("disabled", True)
    page.clock.run_for(200)
    expect(acts).to_have_js_property("disabled", False)


@BROWSER
def test_two_tabs_that_send_the_same_form_both_lead_on(
    desk: tuple[Page, int], held: Escalation
) -> None:
    """As a browser does that sends again what a lost answer left open."""
    page, _ = desk
    page.route("**/live/**", lambda route: route.abort())  # neither page learns of the other
    other = page.context.new_page()
    other.route("**/live/**", lambda route: route.abort())
    other.goto(page.url)
    other.locator(Card.AMOUNT).fill("800.00")
    other.locator(Card.REASON).fill("Four seats")

    for tab in (page, other):
        tab.locator(Card.SEND).click()
        expect(tab.locator("#strip")).to_contain_text("USD 800.00")

    assert kinds(held) == ["escalation.decided"]


@BROWSER
@pytest.mark.parametrize("presses", [1, 2])
def test_page_says_what_is_known_until_an_answer_comes(
    desk: tuple[Page, int], held: Escalation, presses: int
) -> None:
    page, server = desk
    button = page.locator("#dform .acts button.if-adjust")
    os.kill(server, signal.SIGSTOP)
    try:
        button.click(no_wait_after=True)
        sending = page.locator("#dform .sending")
        expect(sending).not_to_be_empty()
        at_once = sending.inner_text()
        expect(button).to_be_disabled()
        expect(sending).not_to_have_text(at_once)  # after a while it says what is not known
        expect(page.locator("#live.stale")).to_be_attached()
        for _ in range(presses - 1):
            button.click(no_wait_after=True)
            expect(sending).to_have_text(at_once)
    finally:
        os.kill(server, signal.SIGCONT)

    expect(page.locator("#strip")).to_contain_text("USD 800.00")
    assert kinds(held) == ["escalation.decided"]


@BROWSER
def test_a_server_that_hangs_is_not_shown_as_live(desk: tuple[Page, int]) -> None:
    """Its stream stays open, so that only silence tells."""
    page, server = desk
    page.clock.install()
    os.kill(server, signal.SIGSTOP)
    try:
        page.clock.fast_forward(60_000)
        expect(page.locator("#live.stale")).to_be_attached()
        expect(page.locator("#away")).to_be_visible()
        known = page.locator("#away time").get_attribute("datetime") or ""
        assert datetime.fromisoformat(known) < timezone.now()  # not when the silence was noticed
    finally:
        os.kill(server, signal.SIGCONT)
    is_live(page)
    expect(page.locator("#away")).to_be_hidden()


def lose_answer(route: Route) -> None:
    """Let a decision arrive, and its answer not; a browser stays where it is after a 204."""
    route.fetch(max_redirects=0)
    route.fulfill(status=204)


@BROWSER
def test_page_tells_what_was_done_without_an_answer(
    desk: tuple[Page, int], held: Escalation
) -> None:
    page, _ = desk
    page.route("**/decide/**", lose_answer)

    page.locator(Card.SEND).click(no_wait_after=True)

    expect(page.locator(Card.SEND)).to_have_count(0)
    expect(page.locator("#consequence")).to_contain_text("USD 800.00")
    expect(page.locator("#draft")).to_have_count(0)
    assert kinds(held) == ["escalation.decided"]


@BROWSER
def test_a_snooze_and_a_hand_over_say_that_they_are_being_sent(desk: tuple[Page, int]) -> None:
    page, server = desk
    page.locator("body").evaluate("() => document.activeElement.blur()")
    page.keyboard.press("s")
    os.kill(server, signal.SIGSTOP)
    try:
        page.locator("#snooze button").click(no_wait_after=True)
        expect(page.locator("#snooze .sending")).not_to_be_empty()
    finally:
        os.kill(server, signal.SIGCONT)
    expect(page.locator("#strip")).to_contain_text("snoozed for you until")


@BROWSER
@pytest.mark.parametrize("replaced", ["", "form.replaceWith(form.cloneNode(true))"])
def test_an_update_between_press_and_sending_loses_nothing(
    desk: tuple[Page, int], replaced: str
) -> None:
    page, _ = desk
    held_back: list[Route] = []
    page.route("**/healthz", lambda route: held_back.append(route))

    page.locator(".claiming button").click()
    expect(page.locator(".claiming .sending")).to_be_attached()
    page.evaluate(
        "async () => { const form = document.querySelector('.claiming');"
        f"{replaced}; await refresh(['#claim']); }}"
    )
    held_back[0].continue_()

    expect(page.locator(Card.RELEASE)).to_be_visible()


def claim(held: Escalation, by: User) -> Callable[[], object]:
    sharing.claim(escalation_id=held.pk, by=by, at=timezone.now())
    return lambda: sharing.release_claim(escalation_id=held.pk, by=by, at=timezone.now())


def kill(held: Escalation, by: User) -> Callable[[], object]:
    here = held.run.workspace
    about: dict[str, Any] = {"workspace": here, "by": by, "reason": "look", "at": timezone.now()}
    kill_switch.kill(**about)

    def release() -> None:
        for stage in (SwitchStage.TRIAL, SwitchStage.OFF):
            kill_switch.release(**about, to=stage)

    return release


@BROWSER
@pytest.mark.parametrize("come_between", [claim, kill])
def test_what_comes_between_locks_the_fields(
    desk: tuple[Page, int],
    held: Escalation,
    scene: Scene,
    come_between: Callable[[Escalation, User], Callable[[], object]],
) -> None:
    page, _ = desk

    end = come_between(held, scene.add("mara", Role.ADMIN))

    expect(page.locator(Card.REASON)).to_have_js_property("readOnly", True)
    expect(page.locator(Card.AMOUNT)).to_have_js_property("readOnly", True)
    expect(page.locator("#dform .acts")).to_be_hidden()
    footer = page.locator("#dform ~ *, .cq + #draft")
    expect(footer).to_contain_text("Four seats")
    end()
    expect(page.locator("#draft")).to_have_count(0)
    expect(page.locator(Card.REASON)).to_have_js_property("readOnly", False)
    expect(page.locator(Card.REASON)).to_have_value("Four seats")
    expect(page.locator(Card.SEND)).to_be_enabled()


@BROWSER
@pytest.mark.parametrize("typed", ["", "Four seats"])
def test_a_form_opened_during_a_stop_returns_to_its_first_choice(
    desk: tuple[Page, int], held: Escalation, scene: Scene, typed: str
) -> None:
    page, _ = desk
    page.locator(Card.REASON).fill(typed)
    page.locator(Card.AMOUNT).fill("800.00" if typed else "")
    end = kill(held, scene.add("mara", Role.ADMIN))
    expect(page.locator("#stopped .banner")).to_be_visible()
    page.reload()
    expect(page.locator("[name=verdict]:checked")).to_have_count(0)
    expect(page.locator("#draft pre")).to_have_count(1 if typed else 0)

    end()

    first = "adjust" if typed else "pass"  # what was typed is an amount
    expect(page.locator("[name=verdict]:checked")).to_have_value(first)
    expect(page.locator(Card.REASON)).to_have_value(typed)
