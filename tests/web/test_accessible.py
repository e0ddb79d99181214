"""Every page: no axe findings in both themes and on a phone, valid HTML, no CSP reports."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone
from django_otp.plugins.otp_totp.models import TOTPDevice
from playwright.sync_api import Page, expect
from pytest_django import DjangoDbBlocker

from agents.core.notifications import Kind
from agents.desks.refunds.limits import STRICT
from agents.models import Delivery, Escalation, Role, Shape
from agents.notifications import fan_out
from agents.notifications.channels.webhooks import admin
from agents.people import member_pages as invitations
from agents.people import members, workspaces
from agents.people import members as groups
from agents.publishing import drafts, trials
from agents.publishing import versions as publishing
from agents.requests import sharing
from tests import checker, database
from tests.engine.scene import Scene, go, set_scene
from tests.engine.tiered import say_yes
from tests.web.provider import Provider, providing, with_sign_on
from tests.web.serving import chromium, open_page, serve, sign_in

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
AXE = (Path(__file__).parent / "assets/axe-4.14.1.min.js").read_text()
LOOKS = {"light": (1440, 900), "dark": (1440, 900), "zoom": (720, 450), "phone": (390, 844)}
PAPER = {"print": (794, 1123)}  # A4
LISTS = ("queue", "decided", "runs", "audit", "all events", "members", "delivery log")
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
FOUND = {"resultTypes": ["violations"]}  # what passed is not described
COLOURS = ["color-contrast", "link-in-text-block"]  # the dark theme changes nothing else

# What is wider than its place, and where a page's first entry begins.
SEEN = """() => {
    const wide = (one) => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1;
    const places = [document.documentElement, ...document.querySelectorAll(".scroll-x")];
    const cut = places.filter(wide).map((one) => one.ariaLabel ?? one.tagName);
    const rows = document.querySelectorAll("main :is(tbody tr, .qlist li)");
    const first = [...rows].find((one) => one.checkVisibility());
    return [cut, Math.round(first?.getBoundingClientRect().top ?? 0)];
}"""


@dataclass(frozen=True)
class Seen:
    """What a browser saw on every page; one pass takes half a minute."""

    findings: dict[tuple[str, str], list[str]] = field(default_factory=dict)  # by look and page
    complaints: list[str] = field(default_factory=list)
    bodies: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def seen(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Seen:
    """Open every page once, and check it in each look."""
    found = Seen()
    with django_db_blocker.unblock():
        pages = set_pages()
        with providing() as own, serve(**with_sign_on(own)) as site, chromium() as browser:
            page = open_page(browser)
            page.on("console", lambda message: found.complaints.append(message.text))
            page.on("pageerror", lambda error: found.complaints.append(str(error)))
            look_at(page, site, "sign-in", "/sign-in/", found)
            look_in(page, site, found)
            look_at_sign_on(page, site, own, found)
            sign_in(page, site, "rita")
            for name, path in pages.items():
                look_at(page, site, name, path, found)
        with connection.cursor() as cursor:
            assert checker.violations(cursor) == []
        database.resetter(connection)(None)
    return found


def look_in(page: Page, site: str, found: Seen) -> None:
    """Check the pages around signing in: an invitation's link, and the second factor."""
    rita, password = User.objects.get(username="rita"), "a long walk by the sea"
    workspace = rita.memberships.get().workspace
    invited = invitations.invite(
        workspace=workspace, by=rita, email="mia@x.example", role=Role.VIEWER, at=timezone.now()
    )
    look_at(page, site, "invitation", f"/invitations/{invited.token}/", found)
    look_at(page, site, "ended invitation", "/invitations/none/", found)
    kim = User.objects.create_user("kim", password=password)
    TOTPDevice.objects.create(user=kim, name="app", confirmed=True)
    page.goto(f"{site}/sign-in/")
    page.get_by_label("Name").fill("kim")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    look_at(page, site, "code", "/sign-in/code/", found)
    assert page.url.endswith("/sign-in/code/")


def look_at_sign_on(page: Page, site: str, own: Provider, found: Seen) -> None:
    """Check the page that continues, of a person in no workspace, and of one suspended."""
    page.route(f"{own.issuer}/**", lambda route: route.fulfill(status=204))  # so it stays
    page.goto(f"{site}/sign-in/")
    page.get_by_role("button", name="Continue with Contoso").click()
    expect(page.get_by_role("link", name="Continue")).to_be_visible()
    look_here(page, "continue", found)
    page.unroute(f"{own.issuer}/**")
    page.get_by_role("link", name="Continue").click()
    expect(page.get_by_role("heading", name="You are in no workspace")).to_be_visible()
    look_here(page, "no workspace", found)
    groups.apply_groups(User.objects.get(username="eva"), ["chiefs"], at=timezone.now())
    page.context.clear_cookies(name="sessionid")
    page.goto(f"{site}/sign-in/")
    page.get_by_role("button", name="Continue with Contoso").click()
    expect(page.get_by_role("heading", name="Your role is suspended")).to_be_visible()
    look_here(page, "suspended", found)


def look_at(page: Page, site: str, name: str, path: str, found: Seen) -> None:
    answer = page.goto(site + path)
    assert answer is not None
    found.bodies[name] = answer.text()
    look_here(page, name, found)


def look_here(page: Page, name: str, found: Seen) -> None:
    page.evaluate(AXE)
    looks = LOOKS | PAPER if name in ("queue", "card", "done run") else LOOKS
    for look, (width, height) in looks.items():
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(media="print" if look in PAPER else "screen")
        page.emulate_media(color_scheme="dark" if look == "dark" else "light")
        said = findings(page, COLOURS if look == "dark" else WCAG)
        cut, first = page.evaluate(SEEN)
        said += [f"cut at its right edge: {one}" for one in cut]
        if name in LISTS and first > height:
            said.append(f"the first entry begins {first} pixels down, below the first screen")
        found.findings[look, name] = said


def set_pages() -> dict[str, str]:
    """Make runs and escalations in every state; return pages and paths as the admin sees them."""
    scene = set_scene()
    at = timezone.now()
    workspaces.add_member(workspace=scene.workspace, user=scene.rita, role=Role.ADMIN, at=at)
    decided = scene.launch_scenario("no-reason")
    go(decided)
    scene.decide(decided)
    go(decided)
    open_one = Escalation.objects.get(run=go(scene.launch()))
    handed = go(scene.launch("Anna (user_id=42) asks for your office.", pattern="routing"))
    case = Escalation.objects.get(run=handed)
    routed = go(scene.launch("Why was I charged twice for my subscription?", pattern="routing"))
    queued = scene.launch()
    blocked = go(scene.launch_scenario("another-customer"))
    report, reply = (go(scene.launch_scenario(key)) for key in ("partial-report", "reoriented"))
    asked = go(scene.launch_scenario("judge-asks"))
    shared = shared_request(scene)
    first, _, _, *rules = STRICT.of("supervisor", "refunds").rules  # the first is of the floor
    shorter = {**STRICT.as_json(), "window_days": 7, "rules": [first, *rules]}
    publishing.publish_policy(workspace=scene.workspace, document=shorter, by=scene.rita, at=at)
    drafted = drafts.begin_draft(workspace=scene.workspace, by=scene.rita, at=at)
    drafted.refresh_from_db()  # it shares its document with the version
    drafted.document["desks"]["refunds"]["limits"]["auto_limit_minor"] = 120_000
    drafted.save()
    tried = trials.ask_trial(drafted, by=scene.rita, days=14, at=timezone.now())
    trials.judge_trial(tried)
    chiefs: dict[str, Any] = {"value": "chiefs", "role": Role.ADMIN, "teams": ["finance"]}
    limit = ("refunds", "USD", 50000)
    groups.set_group(workspace=scene.workspace, by=scene.rita, at=at, limit=limit, **chiefs)
    return {
        "settings": "/settings/",
        "password": "/settings/password/",
        "report": f"/runs/{report.pk}/",
        "workflow": f"/runs/{reply.pk}/",
        "asking workflow": f"/runs/{asked.pk}/",
        "question": f"/approvals/{asked.escalations.get().pk}/",
        "overview": "/",
        "queue": "/approvals/",
        "card": f"/approvals/{open_one.pk}/",
        "case": f"/approvals/{case.pk}/",
        "card above a tier": f"/approvals/{shared.pk}/",
        "case file": f"/runs/{decided.pk}/case/",
        "notifications": "/notifications/",
        "webhooks": "/webhooks/",
        "delivery log": "/notifications/log/",
        "decided card": f"/approvals/{decided.escalations.get().pk}/",
        "decided": "/approvals/decided/",
        "reject several": "/approvals/bulk/?rule=refunds.auto_limit",
        "runs": "/runs/",
        "no runs": "/runs/?text=nothing-of-the-kind",
        "done run": f"/runs/{decided.pk}/",
        "step": f"/runs/{decided.pk}/steps/2/",
        "waiting run": f"/runs/{open_one.run_id}/",
        "blocked run": f"/runs/{blocked.pk}/",
        "routed run": f"/runs/{routed.pk}/",
        "queued run": f"/runs/{queued.pk}/",
        "launch": "/launch/",
        "audit": "/audit/",
        "all events": "/audit/?all=1",
        "members": "/members/",
        "team": "/team/",
        "second factor": "/second-factor/",
        "member": f"/members/{scene.omar.memberships.get().pk}/",
        "older policy": "/policy/?version=1",
        "policy": "/policy/",
        "draft of a policy": f"/policy/drafts/{drafted.pk}/",
        "try one call": f"/policy/drafts/{drafted.pk}/try/?case=refunds:1",
        "what if": f"/policy/drafts/tried/{tried.pk}/",
        "walk": f"/policy/drafts/tried/{tried.pk}/{open_one.run_id}/",
        "kill switches": "/kill/",
        "not found": "/runs/00000000-0000-0000-0000-000000000000/",
    }


def shared_request(scene: Scene) -> Escalation:
    """Return a request above a tier with one approval, a hand-over and notifications."""
    at, first = timezone.now(), scene.add("finn", Role.REVIEWER)
    about: dict[str, Any] = {"workspace": scene.workspace, "at": at}
    team = members.set_team(slug="finance", name="Finance", add=[first], **about)
    tiers = {"refunds": {"USD": [{"up_to_minor": 50000}, {"team": "finance", "people": 2}]}}
    publishing.publish_policy(document={**STRICT.as_json(), "tiers": tiers}, by=scene.rita, **about)
    scene.workspace.refresh_from_db()
    held = Escalation.objects.get(run=go(scene.launch()))
    assert say_yes(held, first) == "open"
    of: dict[str, Any] = {"escalation_id": held.pk, "at": at}
    sharing.assign(by=scene.rita, to_team=team, note="Yours?", **of)
    sharing.comment(by=scene.rita, text="She called.", **of)
    sharing.snooze(by=scene.rita, until=at + timedelta(minutes=3), **of)
    given: dict[str, Any] = {"name": "ops", "shape": Shape.JSON, "kinds": list(Kind)}
    admin.add_webhook(by=scene.rita, url="https://hooks.example.com/in", **given, **about)
    fan_out.share_out(at=timezone.now())
    assert Delivery.objects.exists()
    return held


def findings(page: Page, rules: Sequence[str] = WCAG) -> list[str]:
    """Return axe's findings on a page, a line each."""
    found: list[dict[str, Any]] = page.evaluate(
        f"axe.run({json.dumps({'runOnly': rules, **FOUND})}).then((r) => r.violations)"
    )
    return [
        f"{rule['id']}: {node['target']} {node['failureSummary']}"
        for rule in found
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("look", LOOKS | PAPER)
def test_axe_finds_nothing(seen: Seen, look: str) -> None:
    assert {at: said for at, said in seen.findings.items() if said and look in at} == {}


def test_no_page_makes_the_browser_complain(seen: Seen) -> None:
    answers = ("404 (Not Found)", "403 (Forbidden)")  # the second: in no workspace
    usual = (*answers, "not used within a few seconds")  # the last: a busy machine
    assert not [text for text in seen.complaints if not any(one in text for one in usual)]


def test_the_html_is_valid(seen: Seen, tmp_path: Path) -> None:
    if not (which("java") and which("npm")):
        pytest.skip("the checker needs Java and npm")
    jar = subprocess.run(
        [ROOT / "scripts/html-checker"], capture_output=True, text=True, check=True
    ).stdout.strip()
    for name, body in seen.bodies.items():
        (tmp_path / f"{name.replace(' ', '-')}.html").write_text(body)

    checked = subprocess.run(
        ["java", "-jar", ROOT / jar, "--format", "json", "--stdout", *tmp_path.glob("*.html")],
        capture_output=True,
        text=True,
        check=False,
    )

    said = json.loads(checked.stdout)["messages"]
    against = {f"{Path(m['url']).stem}: {m['message']}" for m in said if m["type"] == "error"}
    assert against == set()
