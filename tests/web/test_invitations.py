"""An invitation from the admin's form to the first sign-in, and invalid links."""

import re
from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents.core.json_forms import hash_of_token
from agents.engine.upkeep.sweep import sweep
from agents.models import Delivery, Event, Invitation, Membership, Role
from agents.people import member_pages as invitations
from agents.people import members
from agents.people.member_pages import PAGE
from agents.shell import refusal
from opsconsole.logs import OneLine
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene
from tests.notifications.sinks import mail_server
from tests.notifications.telling import by_mail, tell
from tests.web.test_pages import client_of, stranger
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD = "a long walk by the sea"
MIA = "Mia@example.com"


def invite(scene: Scene, ada: User, email: str = MIA, **more: Any) -> Invitation:
    given: dict[str, Any] = {"role": Role.REVIEWER, "at": timezone.now(), **more}
    return invitations.invite(workspace=scene.workspace, by=ada, email=email, **given)


def accept(token: str, name: str = "mia", password: str = PASSWORD) -> Any:
    return Client().post(f"/invitations/{token}/", {"name": name, "password": password})


@pytest.mark.proves("W31")
def test_invited_person_joins_once(scene: Scene, ada: User, settings: Any) -> None:
    at = timezone.now()
    members.set_team(workspace=scene.workspace, slug="leads", name="Leads", at=at)
    admin = client_of(ada)
    form = {"email": MIA, "role": "reviewer", "team": "leads"}
    with mail_server() as sink:
        by_mail(settings, sink)
        sent = admin.post("/members/invite/", form)
        tell()
        [mail] = sink.got
    text = str(mail.get_payload(decode=True).decode())
    link = re.search(r"https?://[^/]+(/invitations/(\w+)/)", text)
    assert link
    page, token = link.groups()

    assert (sent.status_code, str(mail["To"])) == (302, "mia@example.com")
    assert "mia@example.com" in admin.get("/members/").text
    made = Invitation.objects.get()
    assert token not in f"{vars(made)}{[e.facts for e in Event.objects.all()]}"
    assert "ada invites you as a reviewer, in the team Leads." in words(Client().get(page).text)
    scanner = Client()  # a mail server's scanner opens each link, perhaps repeatedly
    scans = [(scanner.head(page), scanner.get(page)) for _ in range(21)]
    assert {answer.status_code for scan in scans for answer in scan} == {200}
    refused = [accept(token, name, PASSWORD) for name in ("rita", "Mia", "mia x", "simulated-x")]
    assert {(one.status_code, "Choose another name" in one.text) for one in refused} == {
        (422, True)
    }
    assert accept(token, password="mia mia mia").status_code == 422
    assert "You have joined." in Client().get(accept(token)["Location"]).text
    assert accept(token, "mia2").status_code == 404

    part = Membership.objects.get(user__username="mia")
    assert (part.role, part.teams.get().slug, part.user.email) == (
        *("reviewer", "leads"),
        "mia@example.com",
    )
    signing_in = Client().post("/sign-in/", {"username": "mia", "password": PASSWORD})
    assert signing_in.status_code == 302
    kinds = ["invitation.sent", "invitation.accepted"]
    said = Event.objects.filter(kind__in=kinds).order_by("seq")
    assert [(event.kind, event.actor) for event in said] == [
        *((kinds[0], "ada"), (kinds[1], "mia"))
    ]
    assert Invitation.objects.get().email == ""
    assert "Accepted invitation" in admin.get("/audit/?all=1").text
    assert command("verify_audit").code == 0
    Invitation.objects.update(role="admin")
    assert f"invitation {made.pk}: role is 'admin'" in command("verify_audit").out


@pytest.mark.proves("W31")
def test_a_link_that_is_over_or_forged_opens_nothing(scene: Scene, ada: User) -> None:
    first, second = invite(scene, ada), invite(scene, ada, "mia@EXAMPLE.com")
    revoked, late = invite(scene, ada, "a@b.example"), invite(scene, ada, "c@d.example")
    forged = invite(scene, ada, "e@f.example")
    Invitation.objects.filter(pk=forged.pk).update(token_sha256=hash_of_token("known"))
    assert (
        client_of(stranger()).post(f"/members/invitations/{revoked.pk}/revoke/").status_code == 404
    )
    assert client_of(ada).post(f"/members/invitations/{revoked.pk}/revoke/").status_code == 302
    Invitation.objects.filter(pk=late.pk).update(expires_at=timezone.now() - timedelta(1))
    tokens = [first.token, revoked.token, late.token, "known", forged.token]

    assert [accept(token).status_code for token in tokens] == [404] * 5
    tell()
    sweep()
    late.refresh_from_db()
    assert (late.state, late.email) == ("expired", "")
    assert Delivery.objects.filter(invitation=first, state="dropped").exists()
    scene.add("omars", Role.ADMIN)
    members.set_role(
        workspace=scene.workspace, user=ada, role=Role.VIEWER, at=timezone.now(), actor="test"
    )
    answered = accept(second.token)
    assert (answered.status_code, "This link does not work" in answered.text) == (404, True)
    assert "or come from somebody who is no longer an admin" in answered.text
    second.refresh_from_db()
    assert (second.state, second.email) == ("revoked", "")
    members.set_role(
        workspace=scene.workspace, user=ada, role=Role.ADMIN, at=timezone.now(), actor="test"
    )
    assert accept(second.token).status_code == 404  # it does not come back with the role
    third = invite(scene, ada)
    members.remove_member(workspace=scene.workspace, user=ada, at=timezone.now(), actor="test")
    assert accept(third.token).status_code == 404
    assert not User.objects.filter(username="mia").exists()
    assert command("verify_audit").code == 0


@pytest.mark.proves("W31")
@pytest.mark.both
def test_link_takes_twenty_forms_and_day_a_hundred_links(
    scene: Scene, ada: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(invitations, "MOST_TRIES", 3)
    monkeypatch.setattr(invitations, "MOST_A_DAY", 2)
    made = invite(scene, ada)
    assert [accept(made.token, "rita").status_code for _ in range(4)] == [422, 422, 422, 404]
    lines = [OneLine().format(record) for record in caplog.records]
    assert any("/invitations/…/" in line for line in lines)
    assert not any(made.token in line for line in lines)
    at = f"/sign-in/?next=/invitations/{made.token}/"
    Client().post(at, {"username": "rita", "password": "x", "next": f"/invitations/{made.token}/"})
    assert made.token not in str(AccessAttempt.objects.values())

    other = invite(scene, ada, "a@b.example")
    codes = []
    for at_once in [Invitation.objects.get(pk=other.pk) for _ in range(5)]:  # read before any tries
        about: Any = {"invitation": at_once, "at": timezone.now()}
        with pytest.raises(refusal.Refused) as no:
            invitations.accept_anew(**about, name="rita", password="a long walk")
        codes.append(no.value.code)
    assert codes == ["bad_name"] * 3 + ["over"] * 2

    long = f"{'a' * 60}@{'.'.join(['b' * 60] * 4)}.example"
    for odd in ({"email": long}, {"email": "c@d.example", "team": "\0"}):
        refused = client_of(ada).post("/members/invite/", {"role": "viewer", **odd})
        assert refused.status_code == 422
    assert client_of(ada).get("/members/?name=%00&after=%00").status_code == 200
    form = {"email": "c@d.example", "role": "viewer"}
    assert "At most 2 people" in client_of(ada).post("/members/invite/", form).text


@pytest.mark.proves("W31")
def test_existing_user_joins_without_being_revealed(scene: Scene, ada: User) -> None:
    known = stranger()
    User.objects.filter(pk=known.pk).update(email="known@example.com")
    answers = [
        client_of(ada).post("/members/invite/", {"email": email, "role": "viewer"})
        for email in ("known@example.com", "unknown@example.com")
    ]
    assert {(one.status_code, one["Location"]) for one in answers} == {
        (302, f"/members/?workspace={scene.workspace.slug}#invitations")
    }
    token = Invitation.objects.get(email="known@example.com").token

    joined = client_of(known).post(f"/invitations/{token}/", {"as": "me"})

    assert joined.status_code == 302
    assert Membership.objects.filter(user=known, workspace=scene.workspace, role="viewer").exists()
    again = invite(scene, ada)
    shown = client_of(scene.rita).get(f"/invitations/{again.token}/").text
    assert "who is a reviewer in" in words(shown)
    assert "Join as" not in shown
    answered = client_of(scene.rita).post(f"/invitations/{again.token}/", {"as": "me"})
    assert (answered.status_code, "already" in answered.text) == (422, True)
    out = {"next": f"/invitations/{again.token}/"}  # as its form sends, so the link is kept
    assert client_of(scene.rita).post("/sign-out/", out)["Location"] == out["next"]
    assert Membership.objects.get(user=scene.rita).role == Role.REVIEWER


def test_every_open_invitation_is_on_some_page(scene: Scene, ada: User) -> None:
    for number in range(PAGE + 3):
        Invitation.objects.create(
            workspace=scene.workspace,
            email=f"p{number}@example.com",
            role=Role.VIEWER,
            by=ada,
            token_sha256=f"{number}",
            created_at=timezone.now(),
            expires_at=timezone.now() + timedelta(1),
        )
    admin, at, listed = client_of(ada), "/members/", list[str]()
    while at:
        shown = admin.get(at)
        listed += [made.email for made in shown.context["invited"]]
        at = f"/members/?{shown.context['earlier']}" if shown.context["earlier"] else ""

    assert listed == [f"p{number}@example.com" for number in reversed(range(PAGE + 3))]
    assert admin.get("/members/?invited=x").status_code == 200
