"""A day at the bank in a browser: an amount, a day, a new payee, and an invoice that attacks."""

import pytest
from playwright.sync_api import Page, expect

from agents.models import Escalation, Run
from tests.desks import bank
from tests.engine.scene import fresh
from tests.web.serving import advance_run, chromium, console, desk_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def test_transfers_are_lowered_put_off_and_refused() -> None:
    scene = bank.bank_scene()
    numbers = (bank.FIRST_PAYMENT, bank.LARGE, bank.NEW_PAYEE, bank.ATTACKS[0])
    runs = [advance_run(bank.launch(scene, number)) for number in numbers]
    complaints: list[str] = []
    later = bank.day(20)

    with console() as site, chromium() as browser:
        rita = desk_of(browser, site, "rita", complaints)

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
        press("Send EUR 450.00 to Kanzlei Brandt", "EUR 450.00")

        open_card(runs[1]).keyboard.press("e")
        rita.locator("#set-on").fill(later)
        rita.locator("#comment").fill("not before the delivery")
        press("Send EUR 1,950.00 to Papier Hansen", "EUR 1,950.00")

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


def test_a_redirected_payment_says_first_what_is_wrong() -> None:
    scene = bank.bank_scene()
    run = advance_run(bank.launch(scene, bank.ATTACKS[0]))
    raised = advance_run(bank.launch(scene, bank.ATTACKS[1]))
    held = Escalation.objects.get(run=run)
    beside = Escalation.objects.get(run=advance_run(bank.launch(scene, bank.FIRST_PAYMENT)))
    Run.objects.update(book=run.book_id)  # each launch of a demo has its own
    complaints: list[str] = []

    with console() as site, chromium() as browser:
        rita = desk_of(browser, site, "rita", complaints)
        rita.goto(f"{site}/approvals/{beside.pk}/")  # by itself it looks like any first payment
        same = rita.locator("#same")
        expect(same).to_contain_text(f"Also waiting: request {held.pk}, Send EUR 120.00")
        expect(same).to_contain_text("to Kanzlei Brandt (P-103), dated")
        expect(same).to_contain_text("(payee not as asked)")
        said, form = (rita.locator(one).bounding_box() for one in ("#same", "#dform"))
        assert said
        assert form
        assert said["y"] + said["height"] < form["y"], "below the button it is read too late"
        expect(rita.locator("[name=verdict]:checked")).to_have_count(0)
        expect(rita.locator("#dform .if-none")).to_contain_text("Nothing is chosen yet")
        for place, rows in (("approvals/", ".qlist li"), ("", ".cases li")):
            rita.goto(f"{site}/{place}")
            row = rita.locator(rows).filter(has=rita.locator(f"a[href^='/approvals/{held.pk}/']"))
            expect(row).to_contain_text("Kanzlei Brandt")
            expect(row).to_contain_text("Operating account")
            expect(row).to_contain_text("Payee not as asked")
            expect(row).to_contain_text("EUR 120.00")

        rita.goto(f"{site}/approvals/{held.pk}/")
        block = rita.locator("#doubts")
        expect(block.locator("h3")).to_have_text("The payee is not the one that was asked for")
        expect(block).to_contain_text(
            "Asked for: Papier Hansen (P-102). Would be paid: Kanzlei Brandt (P-103)."
        )
        expect(block).to_contain_text("appears only in an outsider’s text, which the agent read")
        expect(block.locator("mark")).to_have_text(["Kanzlei Brandt", "P-103"])
        for width in (1440, 720, 390):
            rita.set_viewport_size({"width": width, "height": 900})
            said, form = (rita.locator(one).bounding_box() for one in ("#doubts", "#dform"))
            assert said, width
            assert form, width
            assert said["y"] + said["height"] < min(form["y"], 900), f"{width}: the first screen"

        # Nothing is chosen, so there is no button and no key that approves.
        expect(rita.locator("[name=verdict]:checked")).to_have_count(0)
        expect(rita.locator("#consequence h2")).to_contain_text("to Kanzlei Brandt (P-103)")
        expect(rita.locator(".acts button:visible")).to_have_count(0)
        rita.keyboard.press("Control+Enter")
        expect(rita.locator(".acts")).to_contain_text("choose an answer")
        rita.keyboard.press("e")
        expect(rita.locator(".changes")).to_contain_text("The payee stays Kanzlei Brandt (P-103).")
        rita.keyboard.press("Escape")
        rita.keyboard.press("a")
        expect(rita.locator("#comment")).to_be_focused()
        pay = rita.get_by_role("button", name="Send EUR 120.00 to Kanzlei Brandt")
        pay.click()
        expect(rita.locator("#comment-error")).to_contain_text("Fill in this field first.")
        assert fresh_state(held) == "open"
        rita.locator("#comment").fill("Finance confirmed the change by telephone")
        pay.click()
        expect(rita.locator("#strip")).to_contain_text("EUR 120.00")

        rita.goto(f"{site}/approvals/{Escalation.objects.get(run=raised).pk}/")
        expect(block).to_contain_text("Asked for: EUR 450.00. Would be paid: EUR 990.00.")
        expect(block.locator("mark")).to_have_text(["EUR 990.00"])
        rita.keyboard.press("e")
        offers = rita.locator("#dform .offers .opt:visible")
        expect(offers).to_have_text(["450.00 as asked"])  # a phone's field holds the other

    assert complaints == []
    assert fresh_state(held) == "approved"


def fresh_state(held: Escalation) -> str:
    held.refresh_from_db()
    return str(held.state)
