"""A company's desk beside an installed console, in browsers: no file of this repository is edited.

Launched, escalated, a date moved nearer, granted once, and told in the desk's own words.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.workers import until
from tests.installations import Installation, installation
from tests.nursery import Program
from tests.processes import ROOT
from tests.web.serving import PASSWORD, chromium, free_port, is_up, sign_in

pytestmark = [pytest.mark.both, pytest.mark.slow]
COMPANY = Path(__file__).parent / "acme_access"
GOAL = "Give Noor editor on billing until the end of the quarter; she covers for Ben."

SET_UP = f"""
from django.contrib.auth.models import User
from django.utils import timezone
from agents import operations
at = timezone.now()
workspace = operations.ensure_demo_workspace(at=at)
for name, role in (("ada", "admin"), ("rita", "reviewer"), ("omar", "operator")):
    user = User.objects.create_user(name, password={PASSWORD!r})
    operations.add_member(workspace=workspace, user=user, role=role, at=at)
"""


@pytest.fixture
def company(tmp_path: Path) -> Iterator[Installation]:
    shutil.copytree(COMPANY, tmp_path / "company" / "acme_access")
    with installation(
        tmp_path / "home",
        OPSCONSOLE_APPS="acme_access",
        OPSCONSOLE_DEMO_PACE="0",
        PYTHONPATH=str(tmp_path / "company"),
        ACME_GRANTS=str(tmp_path / "grants.json"),
    ) as console:
        for arguments, given in (
            (["migrate", "--verbosity", "0"], ""),
            (["collectstatic", "--noinput", "--verbosity", "0"], ""),
            (["shell"], SET_UP),
            (["publish_policy", "demo", "--as", "ada", "--add-desk", "access"], ""),
        ):
            ended = console.manage(*arguments, given=given)
            assert ended.code == 0, ended.err
        yield console


@contextmanager
def served(company: Installation) -> Iterator[str]:
    """Serve the company's console; yield its address."""
    port = free_port()
    command = [sys.executable, "manage.py", "serve", "--port", str(port)]
    child = Program(command, cwd=ROOT, env=company.environment())
    try:
        until(lambda: is_up(port))
        yield f"http://127.0.0.1:{port}"
    finally:
        child.terminate()
        child.wait(60)


def day(ahead: int) -> date:
    return datetime.now(UTC).date() + timedelta(days=ahead)


def written(when: date) -> str:
    return f"{when.day} {when:%B %Y}"


def granted(home: Path) -> list[tuple[str, ...]]:
    place = home / "grants.json"
    grants = json.loads(place.read_text()).values() if place.exists() else ()
    return [(one["employee"], one["system"], one["role"], one["until"]) for one in grants]


def console_of(browser: Browser, site: str, name: str, *, script: bool = True) -> Page:
    page = browser.new_context(java_script_enabled=script).new_page()
    sign_in(page, site, name)
    return page


def launch(omar: Page, site: str) -> None:
    omar.goto(f"{site}/launch/")
    expect(omar.get_by_role("button", name="Launch: A grant that is too long")).to_be_visible()
    omar.get_by_label("Desk").select_option(label="Access grants")
    omar.get_by_label("About").fill("Noor")
    omar.get_by_label("Goal", exact=True).fill(GOAL)
    omar.get_by_role("button", name="Launch", exact=True).last.click()
    expect(omar.locator("#run h2").first).to_have_text(GOAL)


def test_a_date_is_moved_nearer_and_access_is_granted_once(
    company: Installation, tmp_path: Path
) -> None:
    asked, nearer = day(60), day(14)
    with served(company) as site, chromium() as browser:
        omar = console_of(browser, site, "omar")
        launch(omar, site)
        assert company.manage("work", "--once").code == 0
        expect(omar.locator("#run")).to_contain_text("Awaiting approval")
        expect(omar.locator("main")).not_to_contain_text("refund")

        rita = console_of(browser, site, "rita")
        rita.goto(f"{site}/")
        expect(rita.locator("main")).to_contain_text("Noor Haddad (Billing)")
        rita.goto(f"{site}/approvals/")
        row = rita.locator(".qlist a")
        expect(row).to_contain_text("Noor Haddad (Billing)")
        expect(row).to_contain_text("Grant access")
        row.click()
        card = rita.locator("#card")
        expect(card.locator("#consequence")).to_contain_text(
            "Gives Noor Haddad (Billing) the role editor on billing until " + written(asked)
        )
        rita.keyboard.press("e")
        until_field, role = rita.get_by_label("Until"), rita.get_by_label("Role")
        expect(until_field).to_have_value(asked.isoformat())
        expect(until_field).to_have_attribute("min", day(1).isoformat())
        expect(until_field).to_have_attribute("max", asked.isoformat())
        assert role.locator("option").all_inner_texts() == ["viewer", "editor"]
        assert rita.locator("#dform").get_by_label("System").count() == 0
        change = rita.get_by_role("button", name="Grant access with these changes")
        expect(change).to_be_disabled()  # nothing is changed yet
        until_field.fill(day(61).isoformat())
        expect(rita.locator("#judged[data-allowed=no]")).to_contain_text(written(asked))
        expect(change).to_be_disabled()
        until_field.fill(nearer.isoformat())
        expect(rita.locator("#judged[data-allowed=yes]")).to_be_visible()
        expect(card.locator("#consequence")).to_contain_text(f"until {written(nearer)}")
        rita.get_by_label("Reason").fill("until Ben is back")
        change.click()
        expect(card).to_contain_text("Approved. Not carried out yet.")

        # A worker of another host that lacks the app leaves the run to the one that has it.
        assert company.manage("work", "--once", OPSCONSOLE_APPS="").code == 0
        assert company.sql("SELECT state FROM agents_run") == [("queued",)]
        assert company.manage("work", "--once").code == 0

        expect(card).to_contain_text(
            f"Noor Haddad (Billing) has editor on billing until {written(nearer)}"
        )
        expect(omar.locator("#run")).to_contain_text("rita: adjusted")
        omar.reload()  # what was folded in stays so while the page is open
        diff = omar.get_by_role("row", name="Until")
        expect(diff).to_contain_text(written(asked))
        expect(diff).to_contain_text(f"{written(nearer)}rita")
        rita.goto(f"{site}/approvals/decided/?outcome=adjusted")
        expect(rita.locator("main")).to_contain_text("Gives Noor Haddad (Billing)")
        ada = console_of(browser, site, "ada")
        ada.goto(f"{site}/audit/")
        log = ada.locator("main")
        expect(log).to_contain_text(f"Approved with changes: until {written(nearer)}")
        expect(log).to_contain_text("Carried out “Grant access” for Noor Haddad (Billing).")
        ada.goto(f"{site}/policy/")
        expect(ada.locator("main")).to_contain_text("Longest grant without approval")
        expect(ada.locator("main")).to_contain_text("7 days")
        ada.goto(f"{site}/runs/")
        expect(ada.locator("main")).to_contain_text("Noor Haddad (Billing)")

    assert granted(tmp_path) == [("noor", "billing", "editor", nearer.isoformat())]
    assert company.sql("SELECT state, desk, subject_label FROM agents_run") == [
        ("done", "access", "Noor Haddad (Billing)")
    ]
    assert company.sql("SELECT tool, state FROM agents_effect") == [("grant_access", "done")]
    assert company.manage("verify_audit").code == 0


def test_a_role_is_lowered_with_javascript_off(company: Installation, tmp_path: Path) -> None:
    with served(company) as site, chromium() as browser:
        launch(console_of(browser, site, "omar", script=False), site)
        assert company.manage("work", "--once").code == 0
        rita = console_of(browser, site, "rita", script=False)
        rita.goto(f"{site}/approvals/")
        rita.locator(".qlist a").click()
        rita.locator(".dform input[value=adjust]").check(force=True)
        rita.get_by_label("Reason").fill("reading is enough")
        change = rita.get_by_role("button", name="Grant access with these changes")
        change.click()
        expect(rita.locator("#card")).to_contain_text("Nothing is changed")
        rita.get_by_label("Role").select_option("viewer")
        change.click()
        expect(rita.locator("#card")).to_contain_text("Approved. Not carried out yet.")
        assert company.manage("work", "--once").code == 0
        rita.reload()
        expect(rita.locator("#card")).to_contain_text("Noor Haddad (Billing) has viewer on billing")

    assert granted(tmp_path) == [("noor", "billing", "viewer", day(60).isoformat())]
