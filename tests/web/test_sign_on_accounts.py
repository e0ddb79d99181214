"""Accounts of a provider beside passwords: signing on again, linking, and break-glass."""

import time
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from django_otp.plugins.otp_totp.models import TOTPDevice

from agents.live.app import _user_of
from agents.models import Delivery, Event, Identity, Membership, Role
from agents.notifications.messages import note_of
from agents.people import member_pages as invitations
from agents.people import members, workspaces
from agents.people.sign_in import require_factor
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene
from tests.web.provider import Provider
from tests.web.test_pages import client_of
from tests.web.test_sign_on import begin, come_back, sign_on, user_in
from tests.web.test_sign_on import provider as provider

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

PASSWORD = "a long walk by the sea"


def again(client: Client, own: Provider, auth_time: int | None, **more: str) -> Any:
    begin(client, own, "/second-factor/", **{"for": "again", **more})
    own.claims["auth_time"] = auth_time
    return come_back(client, own)


def with_password(user: User, client: Client | None = None) -> Client:
    user.set_password(PASSWORD)
    user.save()
    client = client or Client()
    client.post("/sign-in/", {"username": user.get_username(), "password": PASSWORD})
    return client


def test_signing_on_again_counts_as_the_password(scene: Scene, provider: Provider) -> None:
    sign_on(provider)
    eva, at = User.objects.get(username="eva"), timezone.now()
    members.join(workspace=scene.workspace, user=eva, role=Role.VIEWER, at=at)
    ada = scene.add("ada", Role.ADMIN)
    require_factor(workspace=scene.workspace, by=ada, roles=[Role.VIEWER], at=at)
    client = sign_on(provider)[0]
    begun = {"change": "begin"}
    assert client.get("/approvals/").url == "/second-factor/"  # type: ignore[attr-defined]
    assert client.post("/second-factor/change/", begun).status_code == 422
    assert "Sign on again with Contoso" in client.get("/second-factor/").text

    for auth_time in (None, int(time.time()) - 3600):
        assert again(client, provider, auth_time).status_code == 422
        assert client.post("/second-factor/change/", begun).status_code == 422
    before = client.cookies["sessionid"].value
    assert again(client, provider, int(time.time())).url == "/second-factor/"
    assert provider.asked["prompt"] == "login"
    assert client.cookies["sessionid"].value != before
    assert client.post("/second-factor/change/", begun).status_code == 302
    session = client.session
    session["shown_at"] -= 301
    session.save()
    assert client.post("/second-factor/change/", begun).status_code == 422

    provider.claims["sub"] = "somebody-else"  # who is at the provider now, and gets no user
    known = User.objects.count()
    assert again(client, provider, int(time.time())).status_code == 422
    assert User.objects.count() == known
    assert client.post("/second-factor/change/", begun).status_code == 422


def test_factor_at_the_provider_counts_where_an_admin_says(
    scene: Scene, provider: Provider, settings: Any
) -> None:
    sign_on(provider)
    eva, at = User.objects.get(username="eva"), timezone.now()
    members.join(workspace=scene.workspace, user=eva, role=Role.VIEWER, at=at)
    ada = client_of(scene.add("ada", Role.ADMIN))
    roles = {"role.viewer": "1", "role.reviewer": "1"}
    provider.claims["amr"] = ["pwd", "mfa"]

    def may_read() -> bool:
        client = sign_on(provider)[0]
        can = client.get("/approvals/").status_code == 200
        assert bool(_user_of(f"sessionid={client.session.session_key}")) == can
        return can

    ada.post("/members/second-factor/", roles)
    assert not may_read()
    ada.post("/members/second-factor/", {**roles, "provider": "1"})
    assert may_read()
    assert "or the provider" in ada.get("/audit/?event=workspace.second_factor").text
    assert command("verify_audit").code == 0
    provider.claims["amr"] = ["pwd"]
    assert not may_read()

    provider.claims["acr"], settings.OPSCONSOLE_SSO_FACTOR = "gold", {"acr": "gold"}
    assert may_read()
    TOTPDevice.objects.create(user=eva, name="app", confirmed=True)
    client, page = sign_on(provider)
    assert page.url == "/sign-in/code/"  # a factor here is asked for in any case
    with_password(scene.rita, client)
    assert client.get("/approvals/").url == "/second-factor/"  # type: ignore[attr-defined]


def test_account_is_linked_by_who_has_the_password(scene: Scene, provider: Provider) -> None:
    client = with_password(scene.rita)
    before = Membership.objects.get(user=scene.rita).grants
    refused = client.post("/sign-on/", {"for": "link", "password": "wrong"})
    assert (refused.status_code, Identity.objects.count()) == (422, 0)

    begin(client, provider, "/settings/", **{"for": "link", "password": PASSWORD})
    assert come_back(Client(), provider).status_code == 422
    assert come_back(client, provider).url == "/settings/"

    assert "You can sign on with it." in client.get("/settings/").text
    signed_on, page = sign_on(provider, "/approvals/")
    assert (user_in(signed_on), page.url) == ("rita", "/approvals/")
    assert Membership.objects.get(user=scene.rita).grants == before
    omar = with_password(scene.omar)
    begin(omar, provider, "/settings/", **{"for": "link", "password": PASSWORD})
    assert "belongs to rita" in come_back(omar, provider).text
    [said] = Event.objects.filter(kind="member.linked")
    assert said.actor == "rita"
    assert command("verify_audit").code == 0


def test_same_address_is_another_person_until_linked(scene: Scene, provider: Provider) -> None:
    sign_on(provider)
    provider.claims["sub"] = "another"
    assert user_in(sign_on(provider)[0]) == "eva-2"  # the same preferred_username
    ada = client_of(scene.add("ada", Role.ADMIN))
    at = f"/members/{Membership.objects.get(user=scene.rita).pk}/link/"

    assert ada.post(at, {"name": "nobody"}).status_code == 422
    assert ada.post(at, {"name": "omar"}).status_code == 422
    assert ada.post(at, {"name": "eva-2"}).status_code == 302
    assert user_in(sign_on(provider)[0]) == "rita"

    other, now = Role.VIEWER, timezone.now()
    book = scene.workspace.book
    made = type(scene.workspace).objects.create(slug="o", name="O", book=book, created_at=now)
    workspaces.add_member(workspace=made, user=scene.rita, role=other, at=now)
    assert "not an admin" in ada.post(at, {"name": "eva"}).text


def test_break_glass_alone_has_a_password_and_is_told(
    scene: Scene, provider: Provider, settings: Any, monkeypatch: Any
) -> None:
    ada = scene.add("ada", Role.ADMIN)
    admin = client_of(ada)
    settings.OPSCONSOLE_SSO_BREAK_GLASS = provider.claims["preferred_username"] = "glass"
    assert user_in(sign_on(provider)[0]) == "glass-2"  # the name is kept
    monkeypatch.setattr("sys.stdin", StringIO(f"{PASSWORD}\n"))
    call_command("break_glass", "--password-stdin")
    new = workspaces.add_workspace(slug="new", name="New", desks=["refunds"], at=timezone.now())

    assert user_in(with_password(scene.rita)) == ""
    client = Client()
    client.post("/sign-in/", {"username": "glass", "password": PASSWORD})

    assert user_in(client) == "glass"
    Identity.objects.update(user=User.objects.get(username="glass"))
    assert sign_on(provider)[1].status_code == 422  # only its password signs it in
    glass = Membership.objects.filter(user__username="glass")
    assert set(glass.values_list("workspace__slug", "role")) == {
        ("demo", "admin"),
        ("new", "admin"),
    }
    [told] = Delivery.objects.filter(key__startswith="break_glass:")
    assert told.user == ada
    assert "account glass signed in" in note_of(told.notification).headline
    spoken = Event.objects.filter(kind="sign_in.break_glass")
    assert set(spoken.values_list("workspace__slug", flat=True)) == {"demo", new.slug}
    of_demo = glass.get(workspace=scene.workspace).pk
    for change in ({"change": "remove"}, {"change": "role", "role": "viewer"}):
        assert admin.post(f"/members/{of_demo}/change/", change).status_code == 422
    assert command("verify_audit").code == 0


def test_invitation_leads_to_sign_on_without_passwords(
    scene: Scene, provider: Provider, settings: Any
) -> None:
    settings.OPSCONSOLE_SSO_BREAK_GLASS = "glass"
    who: dict[str, Any] = {"workspace": scene.workspace, "by": scene.add("ada", Role.ADMIN)}
    made = invitations.invite(**who, email="e@x.test", role=Role.VIEWER, at=timezone.now())
    at = f"/invitations/{made.token}/"
    typed = {"name": "eva", "password": PASSWORD}
    assert "Create sign-in" not in Client().get(at).text
    assert Client().post(at, typed).status_code == 422
    assert not User.objects.filter(username="eva").exists()

    client, page = sign_on(provider, at)

    assert page.url == at
    assert client.post(at, {"as": "me"}).status_code == 302
    assert Membership.objects.get(user__username="eva").grants == "listed"
