"""The page of the kill switches, over Django's client."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from agents.core.requests import EffectState
from agents.models import Effect, KillSwitch, Role, SwitchStage, Workspace
from agents.runs import kill_switch
from tests.engine.scene import REFUND_500, Scene, go
from tests.engine.test_approvals import approve
from tests.golden import Golden
from tests.web.serving import Desk, is_live
from tests.web.test_pages import client_of

pytestmark = pytest.mark.django_db(transaction=True)

MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture
def admin(ada: User) -> Client:
    return client_of(ada)


def form(workspace: Workspace, **fields: str) -> dict[str, str]:
    """Return the fields of a page that was loaded just now."""
    seen = KillSwitch.objects.standing().filter(workspace=workspace).values_list("pk", flat=True)
    given = {"workspace": str(workspace.pk), "scope": "workspace:", "reason": "it misbehaves"}
    return {**given, "seen": " ".join(map(str, seen)), **fields}


def another(scene: Scene, slug: str) -> Workspace:
    about = {"book": scene.workspace.book, "created_at": timezone.now()}
    return Workspace.objects.create(slug=slug, name=slug.capitalize(), **about)


def test_press_is_told_with_its_reason_everywhere(
    scene: Scene, golden: Golden, admin: Client
) -> None:
    run = go(scene.launch())
    held, eve, rita = run.escalations.get(), client_of(scene.eve), client_of(scene.rita)
    address, end = reverse("approval", args=[held.pk]), held.expires_at.isoformat()[:16]
    assert end in rita.get(address).text

    def pages() -> dict[str, str]:
        places = {"kill": reverse("kill"), "run": reverse("run", args=[run.pk])}
        told = {name: eve.get(at).text for name, at in places.items()}
        told |= {"inbox": rita.get(reverse("approvals")).text, "card": rita.get(address).text}
        return told | {"the admin's": admin.get(reverse("kill")).text}

    answered = admin.post(reverse("kill-press"), form(scene.workspace, reason=f"odd {MARKUP}"))
    pressed = pages()
    admin.post(reverse("kill-release"), form(scene.workspace, to="trial"))

    assert answered.status_code == 302
    golden.check("kill/on", pressed)
    golden.check("kill/on-trial", pages())
    assert "danger-solid" not in pressed["kill"]
    assert "odd &lt;img src=x" in pressed["kill"]
    assert end not in pressed["card"]  # it names no time that has passed


def test_switch_of_one_tool_stops_agents_partly(
    scene: Scene, golden: Golden, admin: Client
) -> None:
    def told() -> str:
        page = client_of(scene.eve).get(reverse("home")).text
        return page.partition('id="may-act"')[2].partition("</div>")[0]

    pages = {"nothing": told()}
    admin.post(reverse("kill-press"), form(scene.workspace, scope="tool:issue_refund"))
    pages["a tool"] = told()
    admin.post(reverse("kill-press"), form(scene.workspace))
    pages["everything"] = told()
    admin.post(reverse("kill-release"), form(scene.workspace, to="trial", reason="all is well"))

    golden.check("kill/chip", {**pages, "everything, on trial": told()})


def test_what_a_switch_held_back_has_not_failed(
    scene: Scene, golden: Golden, admin: Client, ada: User
) -> None:
    approved = go(scene.launch())
    approve(approved, ada)
    admin.post(reverse("kill-press"), form(scene.workspace))
    runs = {"a call of its own": go(scene.launch(REFUND_500)), "an approved call": go(approved)}

    pages = {n: admin.get(reverse("run", args=[run.pk])).text for n, run in runs.items()}
    golden.check("kill/held-back", pages)


def test_release_goes_by_stages_and_stale_tabs_fail(
    scene: Scene, golden: Golden, admin: Client
) -> None:
    admin.post(reverse("kill-press"), form(scene.workspace))

    tried = admin.post(reverse("kill-release"), form(scene.workspace, to="trial"))
    stale = admin.post(reverse("kill-release"), form(scene.workspace, to="trial"))
    assert (tried.status_code, stale.status_code) == (302, 409)

    admin.post(reverse("kill-release"), form(scene.workspace, to="off"))
    assert KillSwitch.objects.get().stage is SwitchStage.OFF
    pages = {"twice on trial": stale.text, "off": admin.get(reverse("kill")).text}
    golden.check("kill/released", pages)


def fields_of(page: str, address: str) -> dict[str, str]:
    """Return the hidden fields of the form that is sent to an address."""
    inside = page.partition(f'action="{reverse(address)}"')[2].partition("</form>")[0]
    return dict(re.findall(r'name="(\w+)"\s+value="([^"]*)"', inside))


@pytest.mark.parametrize("meanwhile", ["another", "pressed again"])
@pytest.mark.parametrize("stage", [SwitchStage.ON, SwitchStage.TRIAL])
def test_form_releases_no_switch_that_its_sender_missed(
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
    assert "“NEW DANGER”" in answered.text
    assert KillSwitch.objects.standing().get().stage is stage
    again = {**fields_of(answered.text, "kill-release"), "reason": "all is well"}
    assert admin.post(reverse("kill-release"), again).status_code == 302


def test_form_presses_no_switch_that_its_sender_missed(
    scene: Scene, golden: Golden, admin: Client
) -> None:
    adb = scene.add("adb", Role.ADMIN)
    about: dict[str, Any] = {"workspace": scene.workspace, "by": adb, "at": timezone.now()}
    old = fields_of(admin.get(reverse("kill")).text, "kill-press")
    kill_switch.kill(**about, reason="a trial")
    kill_switch.release(**about, reason="try", to=SwitchStage.TRIAL)

    sent = {**old, "scope": "workspace:", "reason": "look"}
    answered = admin.post(reverse("kill-press"), sent)

    assert answered.status_code == 409
    assert KillSwitch.objects.get().stage is SwitchStage.TRIAL
    sent |= fields_of(answered.text, "kill-press")
    assert admin.post(reverse("kill-press"), sent).status_code == 302
    again = client_of(scene.eve).get(reverse("kill")).text
    golden.check("kill/pressed-again", {"refused": answered.text, "then": again})


def test_what_is_under_way_is_listed_until_resolved(scene: Scene, admin: Client) -> None:
    run = go(scene.launch(REFUND_500))
    refund = Effect.objects.filter(run=run, tool="issue_refund")
    refund.update(state=EffectState.INTENDED, settled_at=None)

    def listed() -> str:
        page: str = admin.get(reverse("kill")).text
        return page if f"{str(run.pk)[:8]}</code>" in page else ""

    assert "USD 500.00" in listed()
    refund.update(currency="JPY")
    assert "JPY 50,000" in listed()

    refund.update(state=EffectState.DONE, settled_at=timezone.now(), currency="USD")

    assert not listed()


NONSENSE: dict[str, tuple[str, dict[str, str], int]] = {
    "no reason": ("kill-press", {"reason": " "}, 422),
    "no scope": ("kill-press", {"scope": "everything"}, 422),
    "no tool": ("kill-press", {"scope": "tool:launch_rocket"}, 422),
    "a field too many": ("kill-press", {"pressed_by": "rita"}, 422),
    "a stage": ("kill-press", {"to": "off"}, 422),
    "no stage": ("kill-release", {"to": "on"}, 422),
    "no number": ("kill-release", {"to": "off", "seen": "all"}, 422),
    "off already": ("kill-release", {"to": "off"}, 409),
}


def test_form_that_makes_no_sense_changes_nothing(
    scene: Scene, golden: Golden, admin: Client
) -> None:
    pages = {"asked": admin.get(reverse("kill")).text}
    for name, (address, fields, status) in NONSENSE.items():
        answered = admin.post(reverse(address), form(scene.workspace, **fields))
        assert answered.status_code == status, name
        pages[name] = answered.text

    golden.check("kill/refused", pages)
    assert not KillSwitch.objects.exists()


@pytest.mark.proves("I30", "W2")
@pytest.mark.parametrize("who", ["eve", "rita", "omar", "an admin of another workspace"])
def test_only_an_admin_presses(scene: Scene, admin: Client, who: str) -> None:
    client, where, status = admin, another(scene, "other"), 404
    if user := getattr(scene, who, None):
        client, where, status = client_of(user), scene.workspace, 403

    answered = client.post(reverse("kill-press"), form(where))

    assert answered.status_code == status
    assert not KillSwitch.objects.exists()


@pytest.mark.slow
def test_switch_that_somebody_turns_on_comes_live(
    scene: Scene, ada: User, site: str, desk: Desk
) -> None:
    page = desk("ada", "/kill/")
    is_live(page)
    reason, banner = page.locator("[name=reason]").last, page.locator("#stopped")
    reason.fill("because")
    reason.blur()
    scene.kill(ada, "it misbehaves")
    expect(banner).to_contain_text("it misbehaves")  # updated live
    expect(page.locator("#boards [name=to]")).to_be_attached()
    expect(page.locator("[name=reason]").last).to_have_value("because")
    link = banner.locator("a[href='/kill/']")
    expect(link).to_be_hidden()
    page.goto(f"{site}/runs/")
    expect(link).to_be_visible()
