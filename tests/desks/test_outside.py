"""The desk of docs/desks.md, typed line by line beside an installed console and driven in browsers.

Launched, escalated, a date moved nearer, granted once, and told in the desk's own words. No file
of this repository is edited.
"""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.desks import page
from tests.e2e.workers import until
from tests.installations import LONGEST, Installation, installation
from tests.ports import free_port
from tests.web.serving import chromium, is_up, open_page, sign_in_by_form

pytestmark = pytest.mark.slow
OPEN = """
SELECT count(*) FROM agents_escalation JOIN agents_run ON agents_run.id = run_id
WHERE desk = 'access' AND agents_escalation.state = 'open'
"""
UNSETTLED = "SELECT count(*) FROM agents_run WHERE desk = 'access' AND ended_at IS NULL"
GOAL = "Give Noor editor on billing until the end of the quarter; she covers for Ben."


@dataclass(frozen=True)
class Company:
    """What a reader of the page ends up with: a folder, a running console, its people."""

    folder: Path
    console: Installation
    site: str
    passwords: dict[str, str]

    def grants(self) -> list[tuple[str, ...]]:
        file = self.folder / "acme_access" / "grants.json"
        made = json.loads(file.read_text()).values() if file.exists() else ()
        return [(one["employee"], one["system"], one["role"], one["until"]) for one in made]

    def page_of(self, browser: Browser, name: str, *, script: bool = True) -> Page:
        opened = open_page(browser, java_script_enabled=script)
        sign_in_by_form(opened, self.site, name, self.passwords[name])
        return opened


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    """Run the page's commands in an empty folder; the last one serves until Ctrl-C."""
    place, port = tmp_path_factory.mktemp("company"), free_port()
    written: set[str] = set()
    typed = ""
    with installation(place / "home", is_empty=False) as console:
        environment = console.environment(OPSCONSOLE_PORT=str(port), OPSCONSOLE_DEMO_PACE="0.01")
        folder = place / "desks"
        folder.mkdir()
        for path, text in page.blocks():
            if path:
                before = (folder / path).read_text() + "\n\n" if path in written else ""
                (folder / path).parent.mkdir(exist_ok=True)
                (folder / path).write_text(before + text)
                written.add(path)
                continue
            is_last, names = "manage demo" in text, typed.partition("manage startdesk")[0]
            typed += text
            command = ["bash", "-euc", names + text]
            if not is_last:
                told = subprocess.run(
                    command,
                    cwd=folder,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=LONGEST,
                )
                assert told.returncode == 0, text + told.stdout + told.stderr
        served = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True)
        try:
            until(lambda: is_up(port) or served.poll() is not None)
            people = json.loads((console.home / "demo-sign-ins.json").read_text())
            yield Company(folder, console, f"http://127.0.0.1:{port}", people)
        finally:
            os.killpg(served.pid, signal.SIGINT)
            served.wait(60)


def day(ahead: int) -> date:
    return datetime.now(UTC).date() + timedelta(days=ahead)


def in_words(when: date) -> str:
    return f"{when.day} {when:%B %Y}"


def launch(company: Company, omar: Page) -> None:
    omar.goto(f"{company.site}/launch/")
    expect(omar.get_by_role("button", name="Launch: Long grant waits for approval")).to_be_visible()
    omar.get_by_label("Desk").select_option(label="Access grants")
    omar.get_by_label("About").fill("Noor")
    omar.get_by_label("Goal", exact=True).fill(GOAL)
    omar.get_by_role("button", name="Launch", exact=True).last.click()
    expect(omar.locator("#run")).to_contain_text(GOAL)


def test_a_date_is_moved_nearer_and_access_is_granted_once(company: Company) -> None:
    asked, nearer, site = day(60), day(14), company.site
    with chromium() as browser:
        omar = company.page_of(browser, "omar")
        launch(company, omar)
        expect(omar.locator("#run")).to_contain_text("Waiting for a person")
        expect(omar.locator("main")).not_to_contain_text("refund")

        rita = company.page_of(browser, "rita")
        rita.goto(f"{site}/approvals/")
        row = rita.locator(".qlist a", has_text="Noor Haddad (Billing)")
        expect(row).to_contain_text("Grant access")
        row.click()
        card = rita.locator("#card")
        expect(card.locator("#consequence")).to_contain_text(
            "Give Noor Haddad (Billing) the role editor on billing until " + in_words(asked)
        )
        expect(rita.locator("main")).to_contain_text("Grants in 30 days")
        rita.keyboard.press("e")
        until_field, role = rita.get_by_label("Until"), rita.get_by_label("Role")
        expect(until_field).to_have_value(asked.isoformat())
        expect(until_field).to_have_attribute("min", day(1).isoformat())
        expect(until_field).to_have_attribute("max", asked.isoformat())
        assert role.locator("option").all_inner_texts() == ["viewer", "editor"]
        assert rita.locator("#dform").get_by_label("System").count() == 0
        change = rita.locator(".acts button.if-adjust")
        expect(change).to_be_disabled()  # nothing is changed yet
        until_field.fill(day(61).isoformat())
        expect(rita.locator("#judged[data-allowed=no]")).to_contain_text(in_words(asked))
        expect(change).to_be_disabled()
        until_field.fill(nearer.isoformat())
        expect(rita.locator("#judged[data-allowed=yes]")).to_be_visible()
        expect(card.locator("#consequence")).to_contain_text(f"until {in_words(nearer)}")
        rita.get_by_label("Reason").fill("until Ben is back")
        change.click()

        expect(card).to_contain_text(
            f"Noor Haddad (Billing) has editor on billing until {in_words(nearer)}"
        )
        expect(omar.locator("#run")).to_contain_text("rita: approved the request with changes")
        omar.reload()  # folded sections stay folded while the page is open
        diff = omar.get_by_role("row", name="Until")
        expect(diff).to_contain_text(in_words(asked))
        expect(diff).to_contain_text(f"{in_words(nearer)}rita")
        rita.goto(f"{site}/approvals/decided/?outcome=adjusted")
        expect(rita.locator("main")).to_contain_text("Give Noor Haddad (Billing)")
        admin = company.page_of(browser, "admin")
        admin.goto(f"{site}/audit/")
        log = admin.locator("main")
        expect(log).to_contain_text(f"Approved the request with changes: until {in_words(nearer)}")
        expect(log).to_contain_text("Carried out “Grant access” for Noor Haddad (Billing).")
        admin.goto(f"{site}/policy/?find=longest grant")
        expect(admin.locator("main")).to_contain_text("Longest grant without approval")
        expect(admin.locator("main")).to_contain_text("7 days")
        admin.goto(f"{site}/runs/")
        expect(admin.locator("main")).to_contain_text("Noor Haddad (Billing)")

    assert company.grants() == [("noor", "billing", "editor", nearer.isoformat())]
    ended = "SELECT state, subject_label FROM agents_run WHERE desk = 'access'"
    assert company.console.sql(ended) == [("done", "Noor Haddad (Billing)")]
    made = "SELECT state FROM agents_effect WHERE tool = 'grant_access'"
    assert company.console.sql(made) == [("done",)]
    assert company.console.manage("verify_audit").code == 0


def ask_on(omar: Page) -> None:
    """Read an answer, follow it to the step it came from, ask on, and find the way back."""
    asked, end = omar.url, omar.locator("#end")
    expect(end.locator("h3")).to_have_text(["The record", "The agent wrote"])
    end.get_by_role("link", name="Step 1").click()
    expect(omar.locator("main")).to_contain_text("Roles held: ")
    omar.goto(asked)
    omar.get_by_label("Ask on").fill("And which of them end this month?")
    omar.get_by_role("button", name="Ask on").click()
    expect(omar.locator("#run")).to_contain_text("And which of them end this month?")
    omar.get_by_role("link", name="an earlier run").click()
    expect(omar).to_have_url(asked)


def test_every_pattern_of_the_page_comes_to_its_end(company: Company) -> None:
    ended = {
        "Question for a specialist": "Roles held: ",
        "Report on a system": "Access to billing.",
        "Checked, then granted": "Noor Haddad (Billing) has viewer on crm until",
    }
    with chromium() as browser:
        omar = company.page_of(browser, "omar")
        for title, told in ended.items():
            omar.goto(f"{company.site}/launch/")
            omar.get_by_role("button", name=f"Launch: {title}").click()
            expect(omar.locator("#run")).to_contain_text("Done")
            expect(omar.locator("#run")).to_contain_text(told)
            expect(omar.locator("main")).not_to_contain_text("refund")
            if title == "Question for a specialist":
                ask_on(omar)

    assert ("noor", "crm", "viewer", day(5).isoformat()) in company.grants()


def test_a_role_is_lowered_with_javascript_off(company: Company) -> None:
    with chromium() as browser:
        launch(company, company.page_of(browser, "omar", script=False))
        rita = company.page_of(browser, "rita", script=False)
        row = rita.locator(".qlist a", has_text="Noor Haddad (Billing)")

        until(lambda: company.console.sql(OPEN) == [(1,)])  # no live updates without JavaScript
        rita.goto(f"{company.site}/approvals/")
        row.click()
        rita.locator(".dform input[value=adjust]").check(force=True)
        rita.get_by_label("Reason").fill("reading is enough")
        change = rita.get_by_role("button", name="Give Noor Haddad (Billing) the role")
        change.click()
        expect(rita.locator("#card")).to_contain_text("That is what the agent asked for")
        rita.get_by_label("Role").select_option("viewer")
        change.click()
        expect(rita.locator("#card")).not_to_contain_text("That is what the agent asked for")
        until(lambda: company.console.sql(UNSETTLED) == [(0,)])
        rita.reload()
        expect(rita.locator("#card")).to_contain_text("has viewer on billing")

    assert ("noor", "billing", "viewer", day(60).isoformat()) in company.grants()


def test_the_page_keeps_to_its_length() -> None:
    assert sum(text.count("\n") for text in page.files().values()) <= 230
