"""A reviewer works through a mixed queue by keyboard, with one page load per decision."""

from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect

from agents.core.requests import EscalationState
from agents.models import Escalation, Membership, Role
from tests.engine.scene import Scene, set_scene
from tests.limits import first_limit
from tests.web.serving import Card, Desk, advance_run, go_by_key, is_live, open_page, sign_in

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

CASES = ("above-limit", "nobodys", "judge-asks", "above-limit", "above-limit", "own-words")


@pytest.fixture
def scene() -> Scene:
    """Six requests of three kinds; half of them are refunds above Rita's own limit."""
    scene = set_scene()
    for key in CASES:
        advance_run(scene.launch_scenario(key))
    assert Escalation.objects.filter(state=EscalationState.OPEN).count() == len(CASES)
    return scene


def decide_by_keys(rita: Page, key: str, *typed: str) -> None:
    """Choose an answer, fill in its fields one after another, and send it."""
    before = rita.locator("#card").get_attribute("data-draft") or ""
    rita.keyboard.press(key)
    for number, text in enumerate(typed):
        for _ in range(2 * bool(number)):  # past an offered amount
            rita.keyboard.press("Tab")
        rita.keyboard.type(text)
    expect(rita.locator(Card.SEND)).to_be_enabled()
    rita.keyboard.press("Control+Enter")
    expect(rita.locator(f'#card[data-draft="{before}"]')).to_have_count(0)


@pytest.mark.proves("W10")
def test_mixed_queue_is_worked_through_by_keyboard(scene: Scene, site: str, desk: Desk) -> None:
    order = list(Escalation.objects.order_by("expires_at", "pk").values_list("pk", flat=True))
    rita, loads = desk("rita", "/approvals/"), list[str]()
    is_live(rita)
    go_by_key(rita, "3", f"{site}/approvals/?view=above")
    expect(rita.locator("#queue li[id]")).to_have_count(3)
    expect(rita.locator("#views [aria-current]")).to_contain_text("USD 3,600.00")
    rita.keyboard.press("x")  # its rule is still to be chosen
    expect(rita.locator("#by-rule")).to_be_focused()
    rita.keyboard.press("ArrowDown")
    rita.keyboard.press("Control+Enter")
    expect(rita.locator("#narrowed")).to_be_visible()
    go_by_key(rita, "3", f"{site}/approvals/?view=above")
    rita.keyboard.press("f")
    rita.keyboard.type("Anna")
    go_by_key(rita, "Enter", f"{site}/approvals/?view=above&subject=Anna")
    go_by_key(rita, "2", f"{site}/approvals/?view=unclaimed")

    # New rows wait while the focus is in the list, which says how many.
    rita.keyboard.press("j")
    expect(rita.locator(f"#q-{order[0]} a")).to_be_focused()
    advance_run(scene.launch_scenario("above-limit"))
    expect(rita.locator("#queue .news")).to_be_visible()
    expect(rita.locator("#queue li[id]")).to_have_count(len(CASES))
    expect(rita.locator(f"#q-{order[0]} a")).to_be_focused()
    rita.keyboard.press(".")
    expect(rita.locator("#queue li[id]")).to_have_count(len(CASES) + 1)
    rita.keyboard.press("Enter")

    headline = rita.locator("#consequence h2")
    expect(headline).to_be_focused()
    expect(headline).to_have_css("border-inline-start-style", "solid")
    rita.evaluate("refresh(['#card'])")  # as when something about it comes live
    expect(headline).to_be_focused()
    go_by_key(rita, "j", f"{site}/approvals/{order[1]}/?view=unclaimed")
    go_by_key(rita, "k", f"{site}/approvals/{order[0]}/?view=unclaimed")
    expect(headline).to_be_focused()

    rita.on("load", lambda page: loads.append(page.url))
    decide_by_keys(rita, "e", "650", "partly used")
    rita.wait_for_url(f"{site}/approvals/{order[1]}/?view=unclaimed&done={order[0]}")
    expect(rita.locator("#strip")).to_contain_text("USD 650.00")
    expect(headline).to_be_focused()
    for number, pk in enumerate(order[1:4], 1):
        decide_by_keys(rita, "r", f"reason {number}")
        expect(headline).to_be_focused()
        following = order[number + 1]
        rita.wait_for_url(f"{site}/approvals/{following}/?view=unclaimed&done={pk}")
    assert len(loads) == 4  # one page load per decision

    # one key leads back to the decided request, and one leads on
    go_by_key(rita, "u", f"{site}/approvals/{order[3]}/?view=unclaimed")
    expect(rita.locator("#dform")).to_have_count(0)
    go_by_key(rita, "n", f"{site}/approvals/{order[4]}/?view=unclaimed")

    rita.keyboard.press("h")
    expect(rita.locator("#hand-over select").first).to_be_focused()
    rita.keyboard.press("Escape")
    expect(rita.locator("#hand-over > summary")).to_be_focused()
    expect(rita.locator("#hand-over")).not_to_have_attribute("open", "")

    # A snoozed request has left the view, and the next one opens.
    rita.keyboard.press("s")
    go_by_key(rita, "Control+Enter", f"{site}/approvals/{order[5]}/?view=unclaimed&done={order[4]}")
    expect(rita.locator("#strip")).to_contain_text("snoozed for you until")
    is_live(rita)
    go_by_key(rita, "l", f"{site}/approvals/?view=unclaimed#at-{order[5]}")
    expect(rita.locator(f"#q-{order[5]} a")).to_be_focused()
    rita.keyboard.press("Enter")
    expect(headline).to_be_focused()
    rita.keyboard.press("4")  # from a card too
    expect(rita.locator("#views [data-key='4'][aria-current] .count")).to_have_text("1")
    rita.keyboard.press("j")
    go_by_key(rita, "Enter", f"{site}/approvals/{order[4]}/?view=snoozed")
    rita.keyboard.press("s")
    expect(rita.locator("#snooze")).to_be_visible()
    rita.keyboard.press("2")
    expect(rita.locator("#views [data-key='2'][aria-current]")).to_be_visible()
    rita.keyboard.press("j")
    go_by_key(rita, "Enter", f"{site}/approvals/{order[4]}/?view=unclaimed")
    for _ in range(3):
        decide_by_keys(rita, "r", "the last ones")
    expect(rita.locator("#strip .strip")).to_be_visible()
    expect(rita.locator("#queue li[id]")).to_have_count(0)

    ends = Escalation.objects.values_list("state", flat=True)
    assert sorted(ends) == ["adjusted", *["rejected"] * len(CASES)]


@pytest.fixture
def series() -> list[str]:
    """Three refunds that Mara may pay as they were asked for; return their addresses."""
    scene = set_scene()
    scene.add("mara", Role.REVIEWER, desk_limits=first_limit(200000))
    for _ in range(3):
        advance_run(scene.launch_scenario("above-limit"))
    waiting = Escalation.objects.order_by("expires_at", "pk")
    return [f"/approvals/{pk}/" for pk in waiting.values_list("pk", flat=True)]


def decided() -> int:
    return Escalation.objects.exclude(state=EscalationState.OPEN).count()


def test_key_held_down_decides_one_request(series: list[str], site: str, desk: Desk) -> None:
    mara = desk("mara", series[0])
    expect(mara.locator("#consequence h2")).to_be_focused()
    mara.keyboard.down("Control")
    mara.keyboard.down("Enter")
    mara.wait_for_url(f"{site}{series[1]}?done=*")
    expect(mara.locator("#consequence h2")).to_be_focused()
    expect(mara.locator(Card.SEND)).to_be_enabled()
    mara.keyboard.down("Enter")  # repeats, as it was never up
    assert mara.evaluate("document.querySelector('#dform').sending") is None
    mara.keyboard.up("Enter")
    go_by_key(mara, "Enter", f"{site}{series[2]}?done=*")

    assert decided() == 2


def test_second_press_does_not_decide_the_next_card(
    series: list[str], site: str, desk: Desk
) -> None:
    mara = desk("mara", "/kill/")
    pay = mara.locator(Card.SEND)
    mara.clock.install()
    mara.goto(site + series[0])
    is_live(mara)
    mara.clock.pause_at(timezone.now() + timedelta(minutes=5))
    pay.click()
    mara.wait_for_url(f"{site}{series[1]}?done=*")

    # Nothing presses it: the pointer, a key, what comes live.
    expect(pay).to_be_disabled()
    pay.click(force=True)
    mara.locator("#consequence h2").press("Control+Enter")
    mara.locator(Card.REASON).press("Enter")
    mara.evaluate("refresh(['#card'])")
    expect(pay).to_be_disabled()
    assert mara.evaluate("document.querySelector('#dform').sending") is None
    mara.clock.run_for(1000)
    expect(pay).to_be_enabled()
    mara.evaluate("refresh(['#card'])")
    expect(pay).to_be_enabled()

    # One that somebody opens is there to be pressed.
    mara.locator("#queue a[href*='/approvals/']").last.click()
    mara.wait_for_url(f"{site}{series[2]}")
    expect(pay).to_be_enabled()
    assert decided() == 1


def test_decision_is_sent_from_its_card_alone(series: list[str], site: str, desk: Desk) -> None:
    mara = desk("mara", series[0])

    def sends_nothing() -> None:
        mara.keyboard.press("Control+Enter")
        assert mara.evaluate("document.querySelector('#dform')?.sending") is None

    is_live(mara)
    mara.keyboard.press("?")
    expect(mara.locator("#keys button").first).to_be_focused()
    sends_nothing()
    for link in ("#queue li a", "nav a:visible"):
        mara.locator(link).last.focus()
        sends_nothing()
    mara.keyboard.press("/")
    mara.keyboard.type("anna")
    sends_nothing()
    mara.goto(site + series[0])
    expect(mara.locator("#consequence h2")).to_be_focused()
    go_by_key(mara, "Control+Enter", f"{site}{series[1]}?done=*")


def test_escape_leaves_a_field_and_its_text(series: list[str], desk: Desk) -> None:
    mara = desk("mara", series[0])
    headline = mara.locator("#consequence h2")
    expect(headline).to_be_focused()
    for key, field in (("m", Card.COMMENT), ("r", Card.WHY_NOT)):
        mara.keyboard.press(key)
        expect(mara.locator(field)).to_be_focused()
        mara.keyboard.type("not yet")
        mara.keyboard.press("Escape")
        expect(headline).to_be_focused()
        expect(mara.locator(field)).to_have_value("not yet")
    mara.keyboard.press("a")
    expect(mara.locator(Card.REASON)).to_be_focused()


def test_only_an_approval_is_chosen_beforehand(
    series: list[str], site: str, browser: Browser, desk: Desk
) -> None:
    plain = open_page(browser, java_script_enabled=False)
    sign_in(plain, site, "mara")
    plain.goto(site + series[0])
    Membership.objects.filter(user__username="mara").update(desk_limits=first_limit(0))
    plain.locator(Card.SEND).click()
    expect(plain.locator("#dform .error, #deciding .error").first).to_be_visible()
    mara = desk("mara", series[0])
    for page in (plain, mara):
        expect(page.locator("#consequence h2")).to_contain_text("USD 1,200.00")
        expect(page.locator("[name=verdict]:checked")).to_have_count(0)
        expect(page.locator("#dform button:visible")).to_have_count(0)
    expect(mara.locator("#consequence h2")).to_be_focused()
    mara.keyboard.press("a")
    mara.keyboard.press("Control+Enter")
    assert mara.evaluate("document.querySelector('#dform').sending") is None
    mara.keyboard.press("r")
    mara.keyboard.type("not now")
    go_by_key(mara, "Control+Enter", f"{site}{series[1]}?done=*")
