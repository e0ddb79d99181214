"""Launching: customers are chosen by name, errors are visible, scenarios link their last run."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from agents.desks.refunds.models import Customer
from agents.desks.refunds.scenarios import BY_KEY, SCENARIOS
from agents.models import Run, Scope
from tests.engine.scene import Scene
from tests.web.serving import chromium, open_page, serve, sign_in
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("given", ["42", "Anna", "anna", "An", "Anna (42)", " Anna (42) "])
def test_a_customer_is_chosen_by_name_or_number(scene: Scene, given: str) -> None:
    fields = {"goal": "Refund 500 USD.", "subject": given, "token": "a1b2"}

    answered = client_of(scene.omar).post(reverse("launch"), fields)

    assert answered.status_code == 302
    assert Run.objects.get().subject_key == "42"


@pytest.mark.parametrize(("subject", "status"), [("main", 302), ("savings", 422)])
def test_a_desk_with_books_of_its_own_for_each_demo_run_is_launched(
    scene: Scene, subject: str, status: int
) -> None:
    """The workspace's own book has no account; only the run's book will."""
    fields = {"goal": "Pay INV-7.", "desk": "bank", "subject": subject, "token": "a1b2"}

    answered = client_of(scene.omar).post(reverse("launch"), fields)
    again = client_of(scene.omar).post(reverse("launch"), {"scenario": "bank/0", "token": "c3d4"})

    assert answered.status_code == status
    assert ("account" in words(answered.text)) == (status == 422)
    assert again.status_code == 302


def test_a_name_that_several_have_is_asked_about(scene: Scene) -> None:
    book = scene.workspace.book
    Customer.objects.create(book=book, number=43, name="Annabel", email="a@example.com")
    Customer.objects.create(book=book, number=44, name="Anna", email="b@example.com")
    fields = {"goal": "Refund 500 USD.", "subject": "Anna", "token": "a1b2"}

    answered = client_of(scene.omar).post(reverse("launch"), fields)

    assert answered.status_code == 422
    assert "Several match: Anna: 42, Anna: 44. Enter one ID." in answered.text
    assert not Run.objects.exists()


def test_a_scenario_links_its_last_run_and_says_how_it_ends(scene: Scene) -> None:
    client = client_of(scene.omar)
    for token in ("a1", "b2"):
        client.post(reverse("launch"), {"scenario": "above-limit", "token": token})
    newest = Run.objects.order_by("-created_at").first()
    assert newest is not None

    page = client.get(reverse("launch")).text

    assert page.count("Last run, ") == 1
    assert f'href="{reverse("run", args=[newest.pk])}"' in page
    assert words(page).count("Ends: Waits for approval") >= 3
    assert page.count("Ends: </span>") == page.count('name="scenario"')


def test_three_scenarios_are_marked_to_try_first(scene: Scene) -> None:
    page = client_of(scene.omar).get(reverse("launch")).text

    marked = [
        one.split("Try this first")[0] for one in page.split("<h4>")[1:] if "Try this f" in one
    ]
    assert [one.partition("</h4>")[0] for one in marked] == [
        BY_KEY[key].title for key in ("within-limit", "above-limit", "another-customer")
    ]


@pytest.mark.parametrize(
    ("given", "days", "region"),
    [("{} eu", 2, "EU"), ("{}", 3, "US"), ("EU, {}", 1, "EU"), ("", 1, "US")],
)
def test_the_day_and_region_of_a_report_are_chosen(
    scene: Scene, given: str, days: int, region: str
) -> None:
    client, day = client_of(scene.omar), (timezone.now() - timedelta(days=days)).date().isoformat()
    fields = {"goal": "Prepare the report.", "pattern": "orchestrator", "token": "a1"}

    client.post(reverse("launch"), {**fields, "scope": given.format(day)})
    refused = client.post(reverse("launch"), {**fields, "token": "b2", "scope": "2020-01-01 US"})

    assert Run.objects.get().scope == {"report_date": day, "region": region}
    assert (refused.status_code, 'id="scope-error"' in refused.text) == (422, True)
    assert "There are: 20" in refused.text


def offered(page: str) -> list[str]:
    """Return the scenarios that a launch page shows, by title."""
    items = re.findall(r"<li data-item(?P<hidden> hidden)?>.*?<h4>(.*?)</h4>", page, re.DOTALL)
    return [unescape(title) for hidden, title in items if not hidden]


def test_scenarios_are_grouped_by_desk_and_pattern_and_found_by_words(scene: Scene) -> None:
    client, at = client_of(scene.omar), reverse("launch")

    whole = client.get(at).text
    invoices = offered(client.get(at, {"q": "bank INVOICE"}).text)

    assert re.findall(r'<h[23] id="gallery-.*?>(.*?)</h[23]>', whole) == [
        *("Refunds", "Supervisor", "Routing", "Workflow", "Orchestrator"),
        *("Bank transfers", "Supervisor", "Routing", "Orchestrator", "Workflow"),
    ]
    assert len(offered(whole)) == 42
    assert 5 <= len(invoices) <= 7
    assert "Invoice redirects the payment, and a reviewer is asked" in invoices
    assert words(client.get(at, {"q": "nothing of the kind"}).text).count("0 of 42 scenarios") == 1


@pytest.mark.parametrize(
    ("switch", "stopped"),
    [({}, True), ({"scope": Scope.PATTERN, "target": "routing"}, False)],
)
def test_a_scenario_says_that_a_kill_switch_would_stop_it_now(
    scene: Scene, ada: User, switch: dict[str, str], stopped: bool
) -> None:
    scene.kill(ada, "drill", **switch)

    page = client_of(scene.omar).get(reverse("launch")).text

    paid = page.partition("Refund under the limit is paid at once")[2].partition("</form>")[0]
    blocked = page.partition("Refund to somebody else is blocked")[2].partition("</form>")[0]
    assert ("Would stop now" in words(paid)) == stopped
    assert "Would stop now" not in words(blocked)


def test_goals_are_what_people_write_and_no_stage_directions() -> None:
    goals = " ".join(scenario.goal.lower() for scenario in SCENARIOS)

    assert "user_id" not in goals
    assert len({scenario.goal for scenario in SCENARIOS}) == len(SCENARIOS)


@pytest.mark.slow
def test_what_was_wrong_with_a_launch_is_in_view(scene: Scene) -> None:
    with chromium() as browser, serve() as site:
        page = open_page(browser)
        sign_in(page, site, "omar")
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": 844})
            page.goto(f"{site}/launch/")
            page.get_by_label("Goal").fill(BY_KEY["within-limit"].goal)
            page.get_by_label("About").fill("Nobody")
            page.get_by_role("button", name="Launch", exact=True).click()

            expect(page.locator("#subject-error")).to_be_in_viewport()
            expect(page.get_by_label("About")).to_be_focused()
            expect(page.get_by_label("Goal")).to_have_value(BY_KEY["within-limit"].goal)
            expect(page.locator("#workflow")).to_be_hidden()
            page.get_by_label("Pattern").select_option("workflow")
            expect(page.locator("#workflow")).to_be_visible()


def test_a_launch_at_a_desk_that_the_policy_does_not_name_says_so(scene: Scene, ada: User) -> None:
    policy = scene.workspace.policy
    assert policy is not None
    scene.publish({**policy.document, "desks": None}, ada)
    wanted = {"goal": "Read the balance.", "subject": "", "token": "a1", "desk": "bank"}

    page = client_of(scene.omar).post(reverse("launch"), wanted)

    assert page.status_code == 422
    assert "The policy has no rules for the desk &#x27;bank&#x27;." in page.text


@pytest.mark.slow
def test_typing_finds_scenarios_at_once(scene: Scene) -> None:
    with chromium() as browser, serve() as site:
        page = open_page(browser)
        sign_in(page, site, "omar")
        page.goto(f"{site}/launch/?q=memo")
        expect(page.locator("[data-item]:visible")).to_have_count(1)

        page.get_by_role("searchbox", name="Search scenarios").fill("legal hold")

        expect(page.locator("[data-item]:visible h4")).to_have_text("Case on legal hold is halted")
        expect(page.get_by_text("1 of 42 scenarios")).to_be_visible()
        expect(page.get_by_role("heading", name="Bank transfers")).to_be_hidden()
        page.get_by_role("heading", name="Launch", exact=True).click()
        page.keyboard.press("j")
        expect(page.get_by_role("button", name="Launch: Case on legal hold")).to_be_focused()
