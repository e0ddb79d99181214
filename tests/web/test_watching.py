"""Watching a run: nothing jumps while it is read, and a reader may pause updates."""

from __future__ import annotations

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


def test_a_page_whose_own_script_comes_last_is_live(
    scene: Scene, browser: Browser, complaints: list[str]
) -> None:
    held: list[Route] = []
    with serve() as site:
        eve = desk(browser, site, "eve", complaints)
        eve.route("**/opsconsole*.js", lambda route: held.append(route))
        eve.goto(f"{site}/runs/", wait_until="commit")
        expect(eve.locator("#live")).to_have_attribute("data-htmx-powered", "true")
        # A request made after the page's own stream began is answered after it.
        eve.evaluate("() => fetch('/live/').then((answer) => answer.body.cancel())")
        held[0].continue_()

        expect(eve.locator("#live")).to_have_text("Live")
