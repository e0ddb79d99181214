"""Launching: customers are chosen by name, errors are visible, scenarios link their last run."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from agents.core.requests import RunState
from agents.desks.refunds.models import Customer
from agents.desks.refunds.scenarios import BY_KEY, SCENARIOS
from agents.models import Run, Scope
from tests.engine.scene import Scene, go
from tests.web.serving import Desk
from tests.web.test_pages import client_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("given", ["42", "Anna", "anna", "An", "Anna (42)", " Anna (42) "])
def test_a_customer_is_chosen_by_name_or_number(scene: Scene, given: str) -> None:
    fields = {"goal": "Refund 500 USD.", "subject": given, "token": "a1b2"}

    answered = client_of(scene.omar).post(reverse("launch"), fields)

    assert answered.status_code == 302
    assert Run.objects.get().subject_key == "42"


@pytest.mark.parametrize(("subject", "status"), [("main", 302), ("savings", 422)])
def test_desk_with_a_book_for_each_run_is_launched(scene: Scene, subject: str, status: int) -> None:
    """The workspace's own book has no account; only the run's book will."""
    fields = {"goal": "Pay INV-7.", "desk": "bank", "subject": subject, "token": "a1b2"}

    answered = client_of(scene.omar).post(reverse("launch"), fields)
    again = client_of(scene.omar).post(reverse("launch"), {"scenario": "bank/0", "token": "c3d4"})

    assert (answered.status_code, again.status_code) == (status, 302)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"subject": "Anna"}, "Several match: Anna: 42, Anna: 44. Enter one ID."),
        ({"desk": "bank", "subject": ""}, "The policy has no rules for the desk &#x27;bank&#x27;."),
    ],
)
def test_launch_that_needs_another_word_is_refused(
    scene: Scene, ada: User, fields: dict[str, str], said: str
) -> None:
    book, policy = scene.workspace.book, scene.workspace.policy
    assert policy is not None
    Customer.objects.create(book=book, number=43, name="Annabel", email="a@example.com")
    Customer.objects.create(book=book, number=44, name="Anna", email="b@example.com")
    if "desk" in fields:
        scene.publish({**policy.document, "desks": None}, ada)

    asked = {"goal": "Refund 500 USD.", "token": "a1b2", **fields}
    answered = client_of(scene.omar).post(reverse("launch"), asked)

    assert answered.status_code == 422
    assert said in answered.text
    assert not Run.objects.exists()


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


def offered(page: str) -> list[str]:
    """Return the scenarios that a launch page shows, by title."""
    items = re.findall(r"<li data-item(?P<hidden> hidden)?>.*?<h4>(.*?)</h4>", page, re.DOTALL)
    return [unescape(title) for hidden, title in items if not hidden]


@pytest.mark.parametrize(
    ("switch", "stopped"), [({}, True), ({"scope": Scope.PATTERN, "target": "routing"}, False)]
)
def test_scenario_that_a_switch_would_stop_is_marked(
    scene: Scene, ada: User, switch: dict[str, str], stopped: bool
) -> None:
    scene.kill(ada, "drill", **switch)

    page = client_of(scene.omar).get(reverse("launch")).text

    marked = {
        key: "#i-power" in page.partition(f'value="{key}"')[2].partition("</form>")[0]
        for key in ("within-limit", "another-customer")
    }
    assert marked == {"within-limit": stopped, "another-customer": False}


# Why each run of the refund desk ends where a person rejects what it asks.
ENDS = {
    "within-limit": "success",
    "above-limit": "human_rejected",
    "no-reason": "human_rejected",
    "another-customer": "supervisor_block:subject_mismatch",
    "no-context": "supervisor_block:context_required",
    "outside-window": "supervisor_block:outside_refund_window",
    "twice": "supervisor_block:duplicate_refund",
    "loop": "loop_detected:signature_repeat",
    "rejected": "human_rejected",
    "false-claim": "success",
    "broken-json": "invalid_action:non_json",
    "routed": "success",
    "rerouted": "success",
    "nobodys": "max_route_attempts",
    "false-promise": "success",
    "reply": "success",
    "reoriented": "success",
    "own-words": "human_rejected",
    "capped": "success",
    "judge-asks": "denied_by_human",
    "halted": "halted_by_supervision",
    "exception": "denied_by_human",
    "morning-report": "success",
    "partial-report": "success",
    "critical-failure": "critical_task_failed",
    "payments-left-out": "invalid_plan:worker_required:payments_worker",
    "another-region": "invalid_plan:args_mismatch",
    "rosy-brief": "success",
}


@pytest.mark.usefixtures("sources_answer_at_once")
def test_every_scenario_comes_to_its_end(scene: Scene) -> None:
    eve, reasons = client_of(scene.eve), dict[str, str]()
    for key in ENDS:
        run = go(scene.launch_scenario(key))
        while run.state == RunState.WAITING:
            scene.decide(run, approve=False)
            run = go(run)
        assert "data-ended" in eve.get(reverse("run", args=[run.pk])).text
        reasons[key] = run.stop_reason

    assert reasons == ENDS
    assert {one.key for one in SCENARIOS} - set(ENDS) == {"model-timeout"}


@pytest.mark.slow
def test_what_was_wrong_with_a_launch_is_in_view(scene: Scene, site: str, desk: Desk) -> None:
    page = desk("omar")
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 844})
        page.goto(f"{site}/launch/")
        page.locator("#goal").fill(BY_KEY["within-limit"].goal)
        page.locator("#subject").fill("Nobody")
        page.locator("form:has(#goal) button[type=submit]").click()

        expect(page.locator("#subject-error")).to_be_in_viewport()
        expect(page.locator("#subject")).to_be_focused()
        expect(page.locator("#goal")).to_have_value(BY_KEY["within-limit"].goal)
        expect(page.locator("#workflow")).to_be_hidden()
        page.locator("#pattern").select_option("workflow")
        expect(page.locator("#workflow")).to_be_visible()


@pytest.mark.slow
def test_typing_finds_scenarios_at_once(scene: Scene, desk: Desk) -> None:
    page = desk("omar", "/launch/?q=memo")
    shown = page.locator("[data-item]:visible")
    expect(shown).to_have_count(1)

    page.locator("#sift").fill("legal hold")

    expect(shown).to_have_count(1)
    expect(shown.locator("[value=halted]")).to_be_attached()
    page.locator("h1").click()
    page.keyboard.press("j")
    expect(shown.locator("button")).to_be_focused()
