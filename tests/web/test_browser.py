"""One refund in a real browser without JavaScript, with a real server and worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from agents.core.states import RunState
from agents.models import Escalation
from tests.conformance import harness
from tests.conformance.replay_server import ReplayServer
from tests.e2e.workers import SCRIPT, has_state, settings_of, until
from tests.engine.scene import Scene, fresh, mails, payments, recover, set_scene
from tests.processes import running
from tests.web.serving import chromium, open_page, serve, sign_in_by_form, with_passwords

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def scene() -> Scene:
    scene = set_scene()
    with_passwords(scene.rita)
    return scene


@pytest.fixture
def page() -> Iterator[Page]:
    with chromium() as browser:
        yield open_page(browser, java_script_enabled=False)


@pytest.fixture
def model() -> Iterator[ReplayServer]:
    with harness.replaying() as server:
        server.load("refund", SCRIPT)
        yield server


def test_rita_decides_a_refund_with_javascript_off(
    scene: Scene, page: Page, model: ReplayServer
) -> None:
    """Server, worker and model are separate processes; one worker dies on the way."""
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    run = scene.launch()

    with serve() as site:
        with running("manage.py", "work", **settings_of(model)):
            until(has_state(run, RunState.WAITING))
        sign_in_by_form(page, site, "rita")
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        page.get_by_role("link", name="Approvals").click()
        page.locator(".qlist a").click()

        amount = page.get_by_label("Pay Anna")
        expect(amount).to_have_value("")  # more is requested than she may grant
        page.get_by_label("Reason").fill("partly used")
        pay = page.get_by_role("button", name="Pay the amount above")
        amount.fill("1000")
        pay.click()
        above_own = page.locator("#set-amount_minor-error").inner_text()
        page.get_by_label("Pay Anna").fill("1300")
        page.get_by_role("button", name="Pay the amount above").click()
        above_charge = page.locator("#set-amount_minor-error").inner_text()
        assert above_own != above_charge
        assert "your own limit of USD 800.00" in above_own
        assert above_charge.startswith("USD 1,300.00 is above your own limit of USD 800.00.")
        assert payments(run) == []

        page.get_by_label("Pay Anna").fill("800")
        page.get_by_role("button", name="Pay the amount above").click()
        dying = settings_of(model, OPSCONSOLE_CRASH_AT="gateway.after_call:1")
        with running("manage.py", "work", **dying) as worker:
            assert worker.wait(30) == 137
        recover(run.pk)
        with running("manage.py", "work", **settings_of(model)):
            until(has_state(run, RunState.DONE))
        page.reload()
        expect(page.locator("#strip")).to_contain_text("USD 800.00 was paid to Anna")
        page.goto(f"{site}/runs/{run.pk}/")
        expect(page.locator("main")).to_contain_text(
            "rita: approved USD 800.00 instead of USD 1,200.00"
        )
        page.get_by_role("link", name="Result as JSON").click()
        expect(page.locator("body")).to_contain_text('"executed_from": "human_revised"')

    assert payments(fresh(run)) == [80000]
    assert mails(run) == [80000]
    assert Escalation.objects.get(run=run).comment == "partly used"
    assert not [text for text in messages if "Content Security Policy" in text]
