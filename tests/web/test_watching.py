"""Watching a run: nothing jumps while it is read, and a reader may pause updates."""

from functools import partial

import pytest
from playwright.sync_api import Route, expect

from tests.engine.scene import Scene
from tests.web.serving import Desk, advance_run, is_live

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

SHIFT = """() => {
    window.shift = 0;
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) window.shift += entry.value;
    }).observe({ type: "layout-shift", buffered: false });
}"""
SHOWN = ("reoriented", "partial-report", "above-limit", "within-limit")
HAS_BEGUN = """() => new Promise((done) => {
    const look = () => window.hasBegun ? done() : setTimeout(look, 20);
    look();
})"""
BEGUN = "document.addEventListener('htmx-after-process', () => (window.hasBegun = true))"
EMPTY = """() => {
    const end = (part) => document.querySelector(part).getBoundingClientRect().bottom;
    return end("#run .trace") - end("#run .trace > :last-child");
}"""


def test_run_that_is_watched_does_not_jump(scene: Scene, site: str, desk: Desk) -> None:
    eve, shifts = desk("eve"), {}
    eve.set_viewport_size({"width": 1440, "height": 900})
    for key in SHOWN:
        run = scene.launch_scenario(key)
        eve.goto(f"{site}/runs/{run.pk}/")
        is_live(eve)
        chip = eve.locator("#run .meta .chip").first
        queued = chip.inner_text()
        eve.evaluate(SHIFT)
        advance_run(run)
        expect(eve.locator("#run .step").first).to_be_visible()
        expect(chip).not_to_have_text(queued)
        shifts[key] = eve.evaluate("window.shift")
        assert eve.evaluate(EMPTY) < 8, f"{key}: space is kept below the steps"

    assert {key: shift for key, shift in shifts.items() if shift >= 0.1} == {}


def test_reader_pauses_a_page_and_resumes_it(scene: Scene, desk: Desk) -> None:
    run = scene.launch()
    eve = desk("eve", f"/runs/{run.pk}/")
    is_live(eve)
    pause, waits = (
        eve.locator("[data-hold='#run']"),
        eve.locator("#run .runhead a[href^='/approvals/']"),
    )
    eve.locator(".menu summary").click()
    pause.click()
    advance_run(run)
    expect(eve.locator("#waiting[data-count='1']")).to_be_visible()  # the rest updates
    expect(waits).to_have_count(0)

    pause.click()

    expect(waits).to_be_visible()


@pytest.mark.parametrize("first", ["htmx", "hx-sse"])
def test_page_whose_own_script_comes_last_is_live(
    scene: Scene, site: str, desk: Desk, first: str
) -> None:
    held: dict[str, Route] = {}
    eve = desk("eve")
    for name in ("htmx", "hx-sse", "opsconsole"):
        eve.route(f"**/{name}*.js", partial(held.__setitem__, name))
    eve.add_init_script(BEGUN)
    with eve.expect_request("**/opsconsole*.js"):
        eve.goto(f"{site}/runs/", wait_until="commit")
    with eve.expect_event("requestfinished", lambda request: first in request.url):
        held.pop(first).continue_()
    if first == "htmx":  # which begins without its extension then
        eve.evaluate(HAS_BEGUN)
        expect(eve.locator("#live")).not_to_have_attribute("data-htmx-powered", "true")
        held.pop("hx-sse").continue_()
    else:
        held.pop("htmx").continue_()
        expect(eve.locator("#live")).to_have_attribute("data-htmx-powered", "true")
        # A request made after the page's own stream began is answered after it.
        eve.evaluate("() => fetch('/live/').then((answer) => answer.body.cancel())")
    held.pop("opsconsole").continue_()

    is_live(eve)
