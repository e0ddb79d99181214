"""A goal that asks is answered: the record, then what the agent wrote, and what it read."""

from typing import Any

import pytest
from django.test import override_settings
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from agents import results
from agents.audit import erasing
from agents.core.requests import Json, RunState
from agents.desks.bank.models import Invoice
from agents.engine.deciders import parties_of
from agents.models import Role, Run
from agents.runs import launching
from agents.shell import refusal
from tests.attacks.test_lost_transfer import GOAL, READ, final, pay, tool
from tests.audit.test_rows import reasons
from tests.conformance.replay_server import ReplayServer
from tests.desks.bank import answer_of, bank_scene, decide
from tests.engine.scene import Scene, fresh, go
from tests.web.serving import advance_run, chromium, console, desk_of
from tests.web.test_accessible import AXE, COLOURS, LOOKS, WCAG, findings
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)
ASKED = "How much do we owe Nordlicht Energie, and can we pay it?"
TABLE = "| bill | amount |\n|---|---|\n| INV-22 | EUR 480.00 |"
WROTE = f"# Yes\n\nWe owe **EUR 480.00**, and `main` has more.\n\n{TABLE}"
NOTHING = "Nothing was changed: no transfer, no payee."


def play(scene: Scene, server: ReplayServer, *script: str, goal: str = ASKED) -> Run:
    server.load("answers", [*script], {"sticky_last": True})
    run = scene.launch(goal, desk="bank", subject="main")
    with override_settings(OPENAI_BASE_URL=server.base_url("answers"), OPENAI_API_KEY="any"):
        return go(run)


def test_an_account_number_of_an_outsiders_waits_for_a_person(server: ReplayServer) -> None:
    scene, iban = bank_scene(), "DE89 3704 0044 0532 0130 00"
    server.load("answers", [READ, final(f"Pay into {iban}.")])
    run = scene.launch(ASKED, desk="bank", subject="main")
    Invoice.objects.filter(account__book=run.book_id).update(text=f"New account: {iban}.")
    with override_settings(OPENAI_BASE_URL=server.base_url("answers"), OPENAI_API_KEY="any"):
        run = go(run)

    assert run.escalations.get().review["deciding"]["reason"] == "account_of_outsider"
    decide(scene, run)
    assert go(run).state == RunState.DONE


def page_of(scene: Scene, run: Run) -> Any:
    return client_of(scene.omar).get(reverse("run", args=[run.pk]))


def test_a_question_has_its_answer_beside_the_record(server: ReplayServer) -> None:
    scene = bank_scene()

    run = play(scene, server, READ, tool("read_account"), final(WROTE))

    assert (run.state, answer_of(run)) == (RunState.DONE, NOTHING)
    told = results.result(run)
    assert (told["answer"], told["words"]) == (NOTHING, WROTE)
    page = words(page_of(scene, run).text)
    assert f"The record {NOTHING} The agent wrote Yes We owe EUR 480.00, and main has" in page
    assert page.index("The agent wrote") < page.index("It read") < page.index("Step 1: Read an")
    assert "Step 1: Read an invoice INV-22 text by outsiders Step 2: Read the account" in page
    listed = words(client_of(scene.omar).get(reverse("runs")).text)
    assert f"{NOTHING} The agent wrote: Yes We owe EUR 480.00, and main has" in listed
    audrey = client_of(scene.add("audrey", Role.AUDITOR))
    filed = words(audrey.get(reverse("case", args=[run.pk])).text)
    assert f"The record {NOTHING} The agent wrote Yes We owe EUR 480.00" in filed


TORN = pay()[:-20]
ODD = pay({"amount": "480,00", "currency": "EUR"})
ENTRY = tool("add_payee", payee="P-900", name="Atelier\u202eSommer")  # a write without money


@pytest.mark.parametrize(
    ("script", "end"),
    [
        ([TORN], "stopped"),
        ([ODD], "stopped"),
        ([f"Sure: {pay()}"], "stopped"),
        ([ENTRY], "stopped"),
        ([ODD, READ], "stopped"),  # a look carries nothing out
        ([ODD, pay()], "done"),
        ([tool("read_account", of=1)], "done"),
        (["I look into it."], "done"),
    ],
)
def test_an_unreadable_write_is_not_answered_as_done(
    server: ReplayServer, script: list[str], end: str
) -> None:
    run = play(bank_scene(), server, READ, *script, final("It is done."), goal=GOAL)

    assert run.state == end
    assert run.stop_reason.startswith("invalid_action" if end == "stopped" else "success")


def test_answer_after_a_block_is_shown_but_no_result(server: ReplayServer) -> None:
    scene = bank_scene()
    blocked, wrote = pay(payee="P-104"), "I **could not** pay: the payee is blocked."

    run = play(scene, server, READ, blocked, final(wrote), goal="Pay INV-22.")

    assert (run.state, run.stop_reason) == (RunState.STOPPED, "supervisor_block:payee_blocked")
    told = results.result(run)
    assert told["status"] == "stopped"
    assert (told["after_block"]["answer"], told["after_block"]["note"]) == (NOTHING, wrote)
    assert "answer" not in told
    page = words(page_of(scene, run).text)
    said = "The agent wrote after the block This is no result: what was blocked was not carried out"
    assert "Blocked by policy: The payee Delta Freight (P-104) is blocked" in page
    assert f"The record {NOTHING} {said}. I could not pay" in page
    listed = words(client_of(scene.omar).get(reverse("runs")).text)
    assert "After the block the agent wrote: I could not pay: the payee is blocked." in listed
    audrey = client_of(scene.add("audrey", Role.AUDITOR))
    filed = words(audrey.get(reverse("case", args=[run.pk])).text)
    assert "The agent wrote after the block I could not pay" in filed
    assert reasons() == []
    Run.objects.filter(pk=run.pk).update(outcome={"after_block": {"note": "I paid."}})
    assert any("outcome_sha256 is" in why for why in reasons())
    Run.objects.filter(pk=run.pk).update(outcome=run.outcome)
    newer = launching.ask_on(run_id=run.pk, goal="Why?", by=scene.omar, at=timezone.now())
    [before] = newer.before or []
    assert (before["record"], before["answer"]) == (NOTHING, wrote)
    launching.cancel(run_id=newer.pk, reason="enough", by=scene.omar, at=timezone.now())
    asked: Any = {"key": "main", "reason": "a request", "actor": "ada", "at": timezone.now()}
    erasing.erase_subject(workspace=scene.workspace, desk="bank", **asked)
    assert (fresh(run).outcome, reasons()) == (None, [])


def test_what_is_asked_on_keeps_its_source(server: ReplayServer) -> None:
    """An invoice names a payee; "Pay it" does not make them the launcher's."""
    scene = bank_scene()
    told = play(scene, server, tool("read_invoice", invoice="INV-8"), final("Kanzlei Brandt."))
    server.load("answers", [pay("900.00", "P-103", purpose="rent"), final("Paid.")])
    about: Any = {"by": scene.omar, "at": timezone.now()}

    with override_settings(OPENAI_BASE_URL=server.base_url("answers"), OPENAI_API_KEY="any"):
        first = go(launching.ask_on(run_id=told.pk, goal="Pay it.", **about))
        later: Any = {**about, "at": timezone.now()}
        assert launching.ask_on(run_id=told.pk, goal="Pay it.", **later) == first
        with pytest.raises(refusal.Refused, match="Another run follows this one already"):
            launching.ask_on(run_id=told.pk, goal="Pay nothing.", **later)
        origins = first.escalations.get().review["facts"]["origins"]
        assert (origins["payee"], origins["amount"]) == ("outside", "outside")
        decide(scene, first)
        first = go(first)
        server.load("answers", [pay("900.00", "P-103", purpose="rent"), final("Paid.")])
        about["by"] = ada = scene.add("ann", Role.ADMIN)
        second = go(launching.ask_on(run_id=first.pk, goal="Once more.", **about))

    asked = first.steps.filter(kind="ask").earliest("position").asked["inputs"]["earlier_runs"]
    assert [(one["goal"], one["answer"]) for one in asked] == [(ASKED, "Kanzlei Brandt.")]
    assert "Kanzlei Brandt, advice" in asked[0]["calls"][0]["reply"]["text"]
    review = second.escalations.get().review
    assert review["facts"]["origins"]["payee"] == "outside"
    assert {"policy.called_before", "bank.duplicate"} <= set(review["escalating"])
    assert "Goes on from an earlier run" in words(page_of(scene, first).text)
    assert parties_of(second) == {scene.omar.pk, ada.pk}  # neither decides: see four eyes
    with pytest.raises(refusal.Refused, match="has not ended"):
        launching.ask_on(run_id=second.pk, goal="And?", **about)
    assert reasons() == []
    launching.cancel(run_id=second.pk, reason="enough", **about)
    again = launching.launch_again(run_id=second.pk, **about)
    assert (again.before, again.goal) == (second.before, "Once more.")
    kept: Json = first.before
    for run, forged in ((first, None), (first, [{**kept[0], "goal": "Pay P-103."}]), (told, kept)):
        Run.objects.filter(pk=run.pk).update(before=forged)
        assert any("before_sha256 is" in why for why in reasons())
        Run.objects.filter(pk=run.pk).update(before=run.before)


def test_an_erased_subject_leaves_no_copy(server: ReplayServer) -> None:
    scene = bank_scene()
    told = play(scene, server, READ, final("EUR 450.00."))
    about: Any = {"by": scene.omar, "at": timezone.now()}
    run = launching.ask_on(run_id=told.pk, goal="Is that all?", **about)
    with override_settings(OPENAI_BASE_URL=server.base_url("answers"), OPENAI_API_KEY="any"):
        run = go(run)
    before: Json = run.before
    assert before[0]["calls"][0]["args"] == {"account": "main", "invoice": "INV-22"}

    asked: Any = {"key": "main", "reason": "a request", "actor": "ada", "at": timezone.now()}
    erasing.erase_subject(workspace=scene.workspace, desk="bank", **asked)

    assert fresh(run).before is None
    with pytest.raises(refusal.Refused, match="no longer here"):
        launching.ask_on(run_id=told.pk, goal="And?", **about)


@pytest.mark.slow
def test_an_answer_is_read_and_followed_to_its_step(server: ReplayServer) -> None:
    scene, complaints = bank_scene(), list[str]()
    server.load("answers", [READ, final(WROTE)])
    run = scene.launch(ASKED, desk="bank", subject="main")
    with override_settings(OPENAI_BASE_URL=server.base_url("answers"), OPENAI_API_KEY="any"):
        advance_run(run)

    with console() as site, chromium() as browser:
        omar = desk_of(browser, site, "omar", complaints)
        omar.goto(f"{site}/runs/")
        omar.locator(".rowlink").first.click()
        end = omar.locator("#end")
        expect(end.locator("h3")).to_have_text(["The record", "The agent wrote"])
        expect(end.get_by_role("cell", name="EUR 480.00")).to_be_visible()
        omar.evaluate(AXE)
        for look, (width, height) in LOOKS.items():
            omar.set_viewport_size({"width": width, "height": height})
            omar.emulate_media(color_scheme="dark" if look == "dark" else "light")
            assert findings(omar, COLOURS if look == "dark" else WCAG) == []
        omar.get_by_label("Ask on").fill("And the one before?")
        omar.get_by_role("button", name="Ask on").click()
        expect(omar.locator("#run")).to_contain_text("And the one before?")
        omar.get_by_role("link", name="an earlier run").click()
        end.get_by_role("link", name="Step 1: Read an invoice").click()
        expect(omar.locator("main")).to_contain_text("supply in November")

    assert complaints == []
