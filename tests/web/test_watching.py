"""Watching a run: nothing jumps while it is read, and a reader may pause updates."""

from __future__ import annotations

from functools import partial

import pytest
from playwright.sync_api import Route, expect

from tests.engine.scene import Scene
from tests.web.test_journeys import (
    Browser,
    advance_run,
    browser,
    complaints,
    desk,
    open_browser,
    serve,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
__all__ = ["browser", "complaints", "open_browser"]

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


def test_a_run_that_is_watched_does_not_jump(
    scene: Scene, browser: Browser, complaints: list[str]
) -> None:
    shifts = {}
    with serve() as site:
        eve = desk(browser, site, "eve", complaints)
        eve.set_viewport_size({"width": 1440, "height": 900})
        for key in SHOWN:
            run = scene.launch_scenario(key)
            eve.goto(f"{site}/runs/{run.pk}/")
            expect(eve.locator("#live")).to_have_text("Live")
            eve.evaluate(SHIFT)
            advance_run(run)
            expect(eve.locator("#run .step").first).to_be_visible()
            expect(eve.locator("#run .meta .chip").first).not_to_have_text("Queued")
            shifts[key] = eve.evaluate("window.shift")
            assert eve.evaluate(EMPTY) < 8, f"{key}: space is kept below the steps"

    assert {key: shift for key, shift in shifts.items() if shift >= 0.1} == {}


def test_a_reader_holds_a_page_and_takes_over_what_is_new(
    scene: Scene, browser: Browser, complaints: list[str]
) -> None:
    run = scene.launch()
    with serve() as site:
        eve = desk(browser, site, "eve", complaints)
        eve.goto(f"{site}/runs/{run.pk}/")
        expect(eve.locator("#live")).to_have_text("Live")
        eve.get_by_role("button", name="Pause page updates").click()
        advance_run(run)
        expect(eve.get_by_text("There is something new.")).to_be_visible()
        expect(eve.locator("#run .meta .chip").first).to_have_text("Queued")
        expect(eve.locator("#waiting")).to_contain_text("1")  # the rest of the page updates

        eve.get_by_role("button", name="Resume page updates").click()

        expect(eve.locator("#run .meta .chip").first).to_have_text("Waiting")


@pytest.mark.parametrize("first", ["htmx", "hx-sse"])
def test_a_page_whose_own_script_comes_last_is_live(
    scene: Scene, browser: Browser, complaints: list[str], first: str
) -> None:
    held: dict[str, Route] = {}
    with serve() as site:
        eve = desk(browser, site, "eve", complaints)
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

        expect(eve.locator("#live")).to_have_text("Live")
