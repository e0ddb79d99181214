"""The page of the kill switches, over Django's client."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from agents.core.states import EffectState
from agents.models import Effect, KillSwitch, Role, SwitchStage, Workspace
from agents.people import workspaces
from agents.runs import kill_switch
from agents.runs.kill_switch import in_flight
from agents.runs.trace import trace
from agents.shell.refusal import time_here
from tests.engine.scene import REFUND_500, Scene, go
from tests.engine.test_approvals import approve
from tests.web.serving import chromium, open_page, serve, sign_in
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)

MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture
def admin(scene: Scene) -> Client:
    return client_of(scene.add("admin", Role.ADMIN))


def form(workspace: Workspace, **fields: str) -> dict[str, str]:
    """Return the fields of a page that was loaded just now."""
    seen = KillSwitch.objects.standing().filter(workspace=workspace).values_list("pk", flat=True)
    given = {"workspace": str(workspace.pk), "scope": "workspace:", "reason": "it misbehaves"}
    return {**given, "seen": " ".join(map(str, seen)), **fields}


def test_one_press_stops_agents_and_everybody_sees_why(scene: Scene, admin: Client) -> None:
    go(scene.launch())

    answered = admin.post(reverse("kill-press"), form(scene.workspace, reason=f"odd {MARKUP}"))

    assert answered.status_code == 302
    page = client_of(scene.eve).get(reverse("kill")).text
    assert "Stopped: all payments, emails and changes" in page
    assert "turned on by <bdi>admin</bdi>" in page
    assert "Every payment, email and other change, in all runs." in page
    blocked = "Blocked: every payment, email and other change, in all runs. A run ends when"
    assert blocked in words(page)
    assert "Runs may still read and draft. Requests can be rejected, and actions sent back." in page
    assert "odd &lt;img src=x" in page
    assert "”). Blocked:" in words(page)
    assert "1 request has its deadline paused" in page
    assert "danger-solid" not in page
    assert "Agents stopped" in client_of(scene.eve).get(reverse("home")).text
    assert "<b>Paused</b>" in client_of(scene.rita).get(reverse("approvals")).text


def test_the_card_of_a_frozen_request_names_no_time_that_has_passed(
    scene: Scene, admin: Client
) -> None:
    run = go(scene.launch())
    held = run.escalations.get()
    address, end = reverse("approval", args=[held.pk]), held.expires_at.isoformat()
    assert end[:16] in client_of(scene.rita).get(address).text

    admin.post(reverse("kill-press"), form(scene.workspace))

    page = client_of(scene.rita).get(address).text
    assert "deadline paused" in page
    assert end[:16] not in page
    no = "This request cannot be approved: the kill switch “all payments, emails and changes”"
    assert f"{no} is on." in words(page)
    run_page = words(client_of(scene.rita).get(reverse("run", args=[run.pk])).text)
    assert "A kill switch stops it: it cannot be approved now" in run_page
    admin.post(reverse("kill-release"), form(scene.workspace, to="trial"))
    on_trial = words(client_of(scene.rita).get(address).text)
    assert f"{no} still stops runs launched before" in on_trial
    assert "in runs launched before" in on_trial


def test_a_switch_on_trial_or_of_one_tool_stops_agents_partly(scene: Scene, admin: Client) -> None:
    def chip() -> str:
        return client_of(scene.eve).get(reverse("home")).text

    admin.post(reverse("kill-press"), form(scene.workspace, scope="tool:issue_refund"))
    assert "Agents partly stopped" in chip()
    admin.post(reverse("kill-press"), form(scene.workspace))
    assert "Agents stopped" in chip()

    admin.post(reverse("kill-release"), form(scene.workspace, to="trial", reason="all is well"))

    switch = KillSwitch.objects.get(scope="workspace")
    assert "Agents partly stopped" in chip()
    assert switch.trial_at is not None
    since = switch.trial_at.isoformat(timespec="milliseconds")
    assert f'launched before <time datetime="{since}"' in chip()
    assert "Blocked: every payment, email and other change, in runs launched" in words(chip())


def test_a_step_that_a_switch_held_back_has_not_failed(scene: Scene, admin: Client) -> None:
    admin.post(reverse("kill-press"), form(scene.workspace))

    run = go(scene.launch(REFUND_500))

    page = admin.get(reverse("run", args=[run.pk])).text
    assert "1 stopped</span>" in page
    assert "1 failed" not in page
    still_on = "The kill switch “all payments, emails and changes” is still on"
    assert still_on in words(page)
    admin.post(reverse("kill-release"), form(scene.workspace, to="trial"))
    assert still_on not in words(admin.get(reverse("run", args=[run.pk])).text)


def test_release_goes_by_stages_and_a_stale_tab_is_told(scene: Scene, admin: Client) -> None:
    admin.post(reverse("kill-press"), form(scene.workspace))

    tried = admin.post(reverse("kill-release"), form(scene.workspace, to="trial"))
    stale = admin.post(reverse("kill-release"), form(scene.workspace, to="trial"))
    assert (tried.status_code, stale.status_code) == (302, 409)
    assert "Partly resumed: all payments, emails and changes" in stale.text
    assert "Later runs may act again." in words(stale.text)
    assert "New runs may act already" in stale.text

    admin.post(reverse("kill-release"), form(scene.workspace, to="off"))
    assert KillSwitch.objects.get().stage is SwitchStage.OFF
    assert "nothing is stopped" in admin.get(reverse("kill")).text


def fields_of(page: str, address: str) -> dict[str, str]:
    """Return the hidden fields of the form that is sent to an address."""
    inside = page.partition(f'action="{reverse(address)}"')[2].partition("</form>")[0]
    return dict(re.findall(r'name="(\w+)"\s+value="([^"]*)"', inside))


@pytest.mark.parametrize("meanwhile", ["another", "pressed again"])
@pytest.mark.parametrize("stage", [SwitchStage.ON, SwitchStage.TRIAL])
def test_a_form_does_not_release_a_switch_that_its_sender_did_not_see(
    scene: Scene, admin: Client, meanwhile: str, stage: SwitchStage
) -> None:
    adb = scene.add("adb", Role.ADMIN)
    about: dict[str, Any] = {"workspace": scene.workspace, "by": adb, "at": timezone.now()}
    admin.post(reverse("kill-press"), form(scene.workspace, reason="one"))
    if stage is SwitchStage.TRIAL:
        kill_switch.release(**about, reason="try", to=SwitchStage.TRIAL)
    old = fields_of(admin.get(reverse("kill")).text, "kill-release")
    if stage is SwitchStage.ON:
        kill_switch.release(**about, reason="try", to=SwitchStage.TRIAL)
    if meanwhile == "another":
        kill_switch.release(**about, reason="over", to=SwitchStage.OFF)
    kill_switch.kill(**about, reason="NEW DANGER")
    if stage is SwitchStage.TRIAL:
        kill_switch.release(**about, reason="try", to=SwitchStage.TRIAL)

    answered = admin.post(reverse("kill-release"), {**old, "reason": "all is well"})

    assert answered.status_code == 409
    assert f"adb turned this switch on, at {time_here(about['at'])}: “NEW DANGER”." in words(
        answered.text
    )
    assert KillSwitch.objects.standing().get().stage is stage
    again = {**fields_of(answered.text, "kill-release"), "reason": "all is well"}
    assert admin.post(reverse("kill-release"), again).status_code == 302


def test_a_form_does_not_press_a_switch_again_that_its_sender_did_not_see(
    scene: Scene, admin: Client
) -> None:
    adb = scene.add("adb", Role.ADMIN)
    about: dict[str, Any] = {"workspace": scene.workspace, "by": adb, "at": timezone.now()}
    old = fields_of(admin.get(reverse("kill")).text, "kill-press")
    kill_switch.kill(**about, reason="a trial")
    kill_switch.release(**about, reason="try", to=SwitchStage.TRIAL)

    sent = {**old, "scope": "workspace:", "reason": "look"}
    answered = admin.post(reverse("kill-press"), sent)

    assert answered.status_code == 409
    assert "adb turned this switch on" in words(answered.text)
    assert 'value="look"' in answered.text
    assert KillSwitch.objects.get().stage is SwitchStage.TRIAL
    sent |= fields_of(answered.text, "kill-press")
    assert admin.post(reverse("kill-press"), sent).status_code == 302


def test_pages_say_who_pressed_a_switch_again_and_why(scene: Scene, admin: Client) -> None:
    adb = scene.add("adb", Role.ADMIN)
    about: dict[str, Any] = {"workspace": scene.workspace, "by": adb, "at": timezone.now()}
    admin.post(reverse("kill-press"), form(scene.workspace, reason="one"))
    kill_switch.release(**about, reason="try", to=SwitchStage.TRIAL)

    kill_switch.kill(**about, reason="NEW DANGER")

    home = words(client_of(scene.eve).get(reverse("home")).text)
    assert "adb turned it on at" in home
    assert "“NEW DANGER”" in home
    assert "“one”" not in home
    page = admin.get(reverse("kill")).text
    assert "turned on by <bdi>adb</bdi>" in page
    assert "<dd>NEW DANGER</dd>" in page


def test_what_is_under_way_is_listed_until_it_is_resolved(scene: Scene, admin: Client) -> None:
    run = go(scene.launch(REFUND_500))
    refund = Effect.objects.filter(run=run, tool="issue_refund")
    refund.update(state=EffectState.INTENDED, settled_at=None)
    page = admin.get(reverse("kill")).text
    assert f"{str(run.pk)[:8]}</code>" in page
    assert "USD 500.00" in page
    refund.update(currency="JPY")
    assert "JPY 50,000" in admin.get(reverse("kill")).text

    refund.update(state=EffectState.DONE, settled_at=timezone.now(), currency="USD")

    assert "No action is under way" in admin.get(reverse("kill")).text


@pytest.mark.parametrize(
    ("name", "fields", "status", "says"),
    [
        ("kill-press", {"reason": " "}, 422, "Enter a reason"),
        ("kill-press", {"scope": "everything"}, 422, "Choose what to stop"),
        ("kill-press", {"scope": "tool:launch_rocket"}, 422, "There is no tool"),
        ("kill-press", {"pressed_by": "rita"}, 422, "fields that it should not"),
        ("kill-press", {"to": "off"}, 422, "fields that it should not"),
        ("kill-release", {"to": "on"}, 422, "no such stage"),
        ("kill-release", {"to": "off", "seen": "all"}, 422, "Load the page again"),
        ("kill-release", {"to": "off"}, 409, "off already"),
    ],
)
def test_a_form_that_makes_no_sense_changes_nothing(
    scene: Scene, admin: Client, name: str, fields: dict[str, str], status: int, says: str
) -> None:
    answered = admin.post(reverse(name), form(scene.workspace, **fields))

    assert answered.status_code == status
    assert says in answered.text
    assert not KillSwitch.objects.exists()


@pytest.mark.proves("I30")
@pytest.mark.parametrize("who", ["eve", "rita", "omar"])
def test_only_an_admin_presses(scene: Scene, who: str) -> None:
    client = client_of(getattr(scene, who))

    answered = client.post(reverse("kill-press"), form(scene.workspace))

    assert answered.status_code == 403
    assert not KillSwitch.objects.exists()


@pytest.mark.proves("W2")
def test_another_workspace_is_not_found(scene: Scene, admin: Client) -> None:
    other = Workspace.objects.create(
        slug="other", name="Other", book=scene.workspace.book, created_at=timezone.now()
    )

    answered = admin.post(reverse("kill-press"), form(other))

    assert answered.status_code == 404
    assert not KillSwitch.objects.exists()


def test_what_is_under_way_is_found_without_reading_the_runs(scene: Scene) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_seqscan = off")  # it reads all of a small table
        plan = in_flight([scene.workspace.pk]).explain()

    assert "effect_unsettled" in plan
    assert "run_list" not in plan


def test_the_page_takes_as_many_queries_for_many_workspaces(
    scene: Scene, admin: Client, django_assert_num_queries: Any
) -> None:
    person = User.objects.get(username="admin")
    for number in range(5):
        other = Workspace.objects.create(
            slug=f"other-{number}",
            name=f"Other {number}",
            book=scene.workspace.book,
            created_at=timezone.now(),
        )
        workspaces.add_member(workspace=other, user=person, role=Role.ADMIN, at=timezone.now())
        admin.post(reverse("kill-press"), form(other))
    admin.get(reverse("kill"))

    with django_assert_num_queries(9):
        assert (
            admin.get(reverse("kill")).text.count("Stopped: all payments, emails and changes") == 5
        )


@pytest.mark.slow
def test_a_switch_that_somebody_turns_on_comes_live(scene: Scene) -> None:
    ada = scene.add("ada", Role.ADMIN)
    with chromium() as browser, serve() as site:
        page = open_page(browser)
        sign_in(page, site, "ada")
        page.goto(f"{site}/kill/")
        expect(page.locator("#live")).to_have_text("Live")
        page.get_by_label("Reason").fill("because")
        page.get_by_label("Reason").blur()
        at = timezone.now()
        kill_switch.kill(workspace=scene.workspace, by=ada, reason="it misbehaves", at=at)
        banner = page.locator("#stopped")
        expect(banner).to_contain_text("it misbehaves")  # updated live
        expect(page.get_by_role("heading", name="Demo: what is stopped")).to_be_visible()
        expect(page.get_by_label("Reason", exact=True)).to_have_value("because")
        expect(banner.get_by_role("link", name="Kill switches")).to_be_hidden()
        page.goto(f"{site}/runs/")
        expect(banner.get_by_role("link", name="Kill switches")).to_be_visible()


def test_a_call_that_a_switch_held_back_after_the_yes_was_never_executed(
    scene: Scene, admin: Client
) -> None:
    run = go(scene.launch())
    approve(run, scene.add("ada", Role.ADMIN))
    admin.post(reverse("kill-press"), form(scene.workspace))

    run = go(run)

    table = [change.cells for turn in trace(run).turns for change in turn.changes]
    assert {executed.text for *_, executed in table} == {"never"}
    assert all(approved.is_same for _, _, approved, _ in table)
