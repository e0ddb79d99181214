"""The second factor: enrolment, sign-in, no reuse, requirement, reset and recovery."""

import re
from base64 import b32decode
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import SessionBase
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django_otp.oath import totp
from django_otp.plugins.otp_totp.models import TOTPDevice

from agents.core.requests import EscalationState
from agents.live.app import NotAdmitted, admit
from agents.management.operation_command import ACTOR
from agents.models import Event, Membership, RecoveryCode, Role
from agents.people import member_pages as invitations
from agents.people import sign_in as second_factor
from agents.people import workspaces
from agents.people.sign_in import REMAIN
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene, set_scene
from tests.processes import SIX, Contenders
from tests.web.test_attacks import OPEN
from tests.web.test_pages import ADDRESSES, address, client_of, form, stranger, waiting
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD, OFFICE = "a long walk by the sea", "192.0.2.10"
PAGE, CHANGE, CODE = "/second-factor/", "/second-factor/change/", "/sign-in/code/"
BEGIN, REMOVE = ({"change": change, "password": PASSWORD} for change in ("begin", "remove"))


@pytest.fixture
def scene() -> Scene:
    scene = set_scene()
    scene.rita.set_password(PASSWORD)
    scene.rita.save()
    return scene


@pytest.fixture
def clock() -> Iterator[Any]:
    """Freeze time at the beginning of a time step."""
    start = timezone.now().timestamp() // 30 * 30
    with time_machine.travel(start, tick=False) as clock:
        yield clock


def code_of(user: User, *, ago: int = 0) -> str:
    """Return the app's code now, or some steps of 30 seconds ago."""
    device = TOTPDevice.objects.get(user=user)
    moment = timezone.now().timestamp() - 30 * ago
    return f"{totp(device.bin_key, t0=int(timezone.now().timestamp() - moment)):06}"


def enrol(client: Client, user: User) -> list[str]:
    """Set a second factor up on the page, and return its recovery codes."""
    client.post(CHANGE, BEGIN)
    shown = client.post(CHANGE, {"change": "confirm", "code": code_of(user)})
    return re.findall(r"<li><code>([a-z2-7-]{19})</code>", shown.text)


def password(at: str = OFFICE, then: str = "/runs/") -> Client:
    """Enter Rita's password, and return the browser that asks for the code."""
    client = Client(REMOTE_ADDR=at)
    given = {"username": "rita", "password": PASSWORD, "next": then}
    assert client.post("/sign-in/", given)["Location"] == CODE
    return client


@pytest.mark.proves("W32")
def test_who_enrols_signs_in_with_a_code_that_works_once(scene: Scene, clock: Any) -> None:
    client, elsewhere = client_of(scene.rita), client_of(scene.rita)
    stolen = client.cookies["sessionid"].value
    for guess in ({}, {"password": "not this one at all"}):
        refused = client.post(CHANGE, {"change": "begin", **guess})
        assert (refused.status_code, "not your password" in refused.text) == (422, True)
    assert not TOTPDevice.objects.exists()
    assert AccessAttempt.objects.get().failures_since_start == 2
    client.post(CHANGE, BEGIN)
    clock.shift(timedelta(minutes=16))
    assert 'id="secret"' not in client.get(PAGE).text
    too_late = client.post(CHANGE, {"change": "confirm", "code": code_of(scene.rita)})
    assert (too_late.status_code, second_factor.factor_of(scene.rita)) == (422, None)
    client.post(CHANGE, BEGIN)
    shown = client.get(PAGE).text
    secret = re.search(r'id="secret">([A-Z2-7 ]+)<', shown)
    assert secret
    assert b32decode(secret[1].replace(" ", "")) == TOTPDevice.objects.get().bin_key
    # Without a view box it would be cropped, and no app could read it.
    svg = re.search(r"<svg[^>]*>", shown[shown.index('class="qr"') :])
    assert svg
    assert ("viewBox" in svg[0], "width" in svg[0]) == (True, False)
    assert "style=" not in shown
    wrong = client.post(CHANGE, {"change": "confirm", "code": "000000"})
    assert (wrong.status_code, second_factor.factor_of(scene.rita)) == (422, None)
    clock.shift(31)
    shown = client.post(CHANGE, {"change": "confirm", "code": code_of(scene.rita)}).text
    codes = re.findall(r"<li><code>([a-z2-7-]{19})</code>", shown)
    used = code_of(scene.rita)

    assert len(set(codes)) == 10
    assert codes[0] not in client.get(PAGE).text
    kept = "".join(RecoveryCode.objects.values_list("code_sha256", flat=True))
    assert not any(code in kept or code.replace("-", "") in kept for code in codes)
    assert (client.get("/runs/").status_code, elsewhere.get("/runs/").status_code) == (200, 302)
    elsewhere.cookies["sessionid"] = stolen
    assert elsewhere.get("/runs/").status_code == 302

    browser = password()
    planted = browser.cookies["sessionid"].value
    browser.post("/sign-in/", {"username": "rita", "password": PASSWORD, "next": "/runs/"})
    assert browser.cookies["sessionid"].value != planted
    assert browser.get("/runs/")["Location"].startswith("/sign-in/")
    assert browser.get(CODE).status_code == 200
    assert second_factor.WRONG in browser.post(CODE, {"code": used}).text
    clock.shift(31)
    assert browser.post(CODE, {"code": code_of(scene.rita)})["Location"] == "/runs/"
    assert browser.get("/runs/").status_code == 200

    clock.shift(31)
    recovered = [password().post(CODE, {"code": codes[3].upper()}).status_code for _ in range(2)]
    assert recovered == [302, 200]
    late = password()
    clock.shift(301)
    assert late.post(CODE, {"code": code_of(scene.rita)})["Location"] == "/sign-in/"
    said = Event.objects.filter(kind__startswith="factor.").order_by("seq")
    assert [event.kind for event in said] == ["factor.set", "factor.recovered"]
    assert codes[3] not in f"{[event.facts for event in said]}"
    assert command("verify_audit").code == 0
    TOTPDevice.objects.all().delete()
    assert "member rita: second_factor is False" in command("verify_audit").out


@pytest.mark.proves("W32")
def test_guesses_of_a_code_count_as_guesses_of_a_password(scene: Scene, clock: Any) -> None:
    enrol(client_of(scene.rita), scene.rita)
    clock.shift(31)
    browser = password()

    codes = [browser.post(CODE, {"code": f"00000{n}"}).status_code for n in range(5)]
    clock.shift(61)
    right = browser.post(CODE, {"code": code_of(scene.rita)}).status_code

    assert (codes, right) == ([200, 200, 200, 200, 429], 429)
    assert "00000" not in str(AccessAttempt.objects.values("post_data"))
    again = Client(REMOTE_ADDR=OFFICE).post("/sign-in/", {"username": "rita", "password": PASSWORD})
    assert again.status_code == 429
    AccessAttempt.objects.all().delete()
    # Elsewhere the name is not locked, but the factor is: longer with each guess.
    other = password("198.51.100.7")
    for guess in ("111111", "222222"):
        clock.shift(31)
        other.post(CODE, {"code": guess})
    assert second_factor.WRONG in other.post(CODE, {"code": code_of(scene.rita)}).text
    assert "_auth_user_id" not in other.session


@pytest.mark.proves("W32")
def test_a_role_that_needs_a_factor_does_nothing_else_before(scene: Scene, clock: Any) -> None:
    ada, request = scene.add("ada", Role.ADMIN), waiting(scene)
    admin, rita, omar = (client_of(user) for user in (ada, scene.rita, scene.omar))
    assert rita.get("/runs/").status_code == 200
    cookie = f"sessionid={rita.cookies['sessionid'].value}"
    assert admit(cookie, {}).user_id == scene.rita.pk
    assert admin.post("/members/second-factor/", {"role.reviewer": "1"}).status_code == 302

    for name in sorted(set(ADDRESSES) - OPEN - set(REMAIN)):
        page = address(name, run=request.run_id, escalation=request.pk)
        for answered in (rita.get(page), rita.post(page)):
            assert (answered.status_code, answered.headers.get("Location")) == (302, PAGE), name
    assert rita.get("/runs/", headers={"HX-Request": "true"})["HX-Redirect"] == PAGE
    rita.post(reverse("decide", args=[request.pk]), form(request))
    with pytest.raises(NotAdmitted):
        admit(cookie, {})
    request.refresh_from_db()
    assert request.state == EscalationState.OPEN
    assert omar.get("/runs/").status_code == 200
    program = workspaces.ensure_simulated_person(
        workspace=scene.workspace, role=Role.REVIEWER, at=timezone.now()
    )
    assert not second_factor.lacks_factor(program, SessionBase())

    enrol(rita, scene.rita)
    assert rita.get("/runs/").status_code == 200
    assert "Your role in Demo needs a second factor." in words(rita.get(PAGE).text)
    clock.shift(31)
    removed = rita.post(CHANGE, {**REMOVE, "code": code_of(scene.rita)})
    assert (removed.status_code, "Your role needs" in removed.text) == (422, True)

    part = Membership.objects.get(user=scene.rita)
    reset = {"change": "reset-factor"}
    assert rita.post(f"/members/{part.pk}/change/", reset).status_code == 403
    other = stranger().memberships.get().workspace
    workspaces.add_member(workspace=other, user=scene.rita, role=Role.VIEWER, at=timezone.now())
    refused = admin.post(f"/members/{part.pk}/change/", reset)
    assert (refused.status_code, "of which you are not an admin" in refused.text) == (422, True)
    Membership.objects.filter(workspace=other, user=scene.rita).delete()
    assert admin.post(f"/members/{part.pk}/change/", reset).status_code == 302
    assert rita.get("/runs/")["Location"].startswith("/sign-in/")
    assert "Reset the second factor of rita." in admin.get("/audit/?event=factor.reset").text
    entered = Client().post("/sign-in/", {"username": "rita", "password": PASSWORD})
    assert entered["Location"] == "/"
    assert "Required a second factor of reviewer." in admin.get("/audit/?all=1").text


@pytest.mark.proves("W32")
def test_command_resets_the_last_admins_factor(scene: Scene, clock: Any) -> None:
    enrol(client_of(scene.rita), scene.rita)

    ended, again = (command("reset_factor", "rita") for _ in range(2))

    assert (ended.code, again.code, second_factor.factor_of(scene.rita)) == (0, 3, None)
    said = Event.objects.get(kind="factor.reset")
    assert (said.actor, said.facts["user"]) == (ACTOR, "rita")
    clock.shift(timedelta(seconds=31))
    codes = enrol(client_of(scene.rita), scene.rita)
    clock.shift(31)
    client = client_of(scene.rita)
    shown = client.post(CHANGE, {"change": "codes", "password": PASSWORD, "code": codes[0]}).text
    assert not set(codes) & set(re.findall(r"<li><code>([a-z2-7-]{19})</code>", shown))
    assert client.post(CHANGE, {**REMOVE, "code": code_of(scene.rita)}).status_code == 302
    assert (second_factor.factor_of(scene.rita), RecoveryCode.objects.count()) == (None, 0)
    assert command("verify_audit").code == 0


@pytest.mark.proves("W31", "W32")
@pytest.mark.both
def test_of_six_with_one_code_or_one_invitation_one_is_in(scene: Scene, crowd: Contenders) -> None:
    client = client_of(scene.rita)
    codes = enrol(client, scene.rita)
    TOTPDevice.objects.update(last_t=-1)  # as if the app showed a new one

    for code in (code_of(scene.rita), codes[0]):
        answers = crowd.meet("tests.races.contenders:types_code", [["rita", code]] * SIX)
        assert sorted(answers) == [False] * 5 + [True]
    made = invitations.invite(
        workspace=scene.workspace,
        by=scene.add("ada", Role.ADMIN),
        email="mia@example.com",
        role=Role.VIEWER,
        at=timezone.now(),
    )
    names = [[made.token, f"mia{n}"] for n in range(SIX)]
    said = crowd.meet("tests.races.contenders:joins", names)
    assert said.count("joined") == 1
    assert set(said) <= {"joined", "over", "no link"}
    assert User.objects.filter(username__startswith="mia").count() == 1
