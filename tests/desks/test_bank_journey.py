"""A day at the bank in a browser: an amount, a day, a new payee, and an invoice that attacks."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from agents.models import Escalation, Run
from tests.desks import bank
from tests.engine.scene import fresh
from tests.web.serving import chromium
from tests.web.test_journeys import advance_run, console, desk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def test_transfers_are_lowered_put_off_and_refused() -> None:
    scene = bank.bank_scene()
    numbers = (bank.FIRST_PAYMENT, bank.LARGE, bank.NEW_PAYEE, bank.ATTACKS[0])
    runs = [advance_run(bank.launch(scene, number)) for number in numbers]
    complaints: list[str] = []
    later = bank.day(20)

    with console() as site, chromium() as browser:
        rita = desk(browser, site, "rita", complaints)

        def open_card(run: Run) -> Page:
            rita.goto(f"{site}/approvals/{Escalation.objects.get(run=run).pk}/")
            return rita

        def press(button: str, told: str) -> None:
            rita.get_by_role("button", name=button).click()
            expect(rita.locator("#strip")).to_contain_text(told)

        open_card(runs[0]).keyboard.press("e")
        rita.locator("#set-amount").fill("950.00")  # more than was asked for
        rita.locator("#comment").fill("half of it")
        expect(rita.locator("#judged[data-allowed=no]")).to_contain_text("EUR 900.00")
        rita.locator("#set-amount").fill("450.00")
        press("with these changes", "EUR 450.00")

        open_card(runs[1]).keyboard.press("e")
        rita.locator("#set-on").fill(later)
        rita.locator("#comment").fill("not before the delivery")
        press("with these changes", "EUR 1,950.00")

        open_card(runs[2])
        expect(rita.locator("#dform [data-change]")).to_have_count(0)  # as requested, or not at all
        rita.keyboard.press("r")
        rita.locator("#refusal").fill("nobody knows them")
        press("Reject and end the run", "ejected")

        open_card(runs[3])
        expect(rita.locator("main")).to_contain_text("unverified text")
        rita.keyboard.press("r")
        rita.locator("#refusal").fill("the invoice names another payee")
        press("Reject and end the run", "ejected")

    assert complaints == []
    assert [bank.postings(run) for run in runs] == [[("P-103", 45000)], [("P-102", 195000)], [], []]
    moved_on = Run.objects.get(pk=runs[1].pk).effects.get().args["on"]
    assert (moved_on, fresh(runs[3]).stop_reason) == (later, "human_rejected")
