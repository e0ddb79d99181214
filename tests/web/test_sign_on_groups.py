"""What groups of a provider give and take, and that an admin's word is stronger."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents.external.keys import set_agent
from agents.models import Event, Membership, Role, SignOnGroup, SignOnPart, Team
from agents.models.record import facts_of
from agents.people import members
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene
from tests.web.provider import Provider
from tests.web.test_pages import client_of
from tests.web.test_sign_on import provider as provider
from tests.web.test_sign_on import sign_on, user_in
from tests.web.words import words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.fixture
def ada(scene: Scene, provider: Provider) -> Client:
    client = client_of(scene.add("ada", Role.ADMIN))
    client.post("/members/teams/add/", {"name": "Leads", "slug": "leads"})
    put(client, "deciders", "reviewer", limit="500.00", **{"team.leads": "1"})
    put(client, "launchers", "operator")
    return client


def put(client: Client, group: str, role: str, limit: str = "", **more: str) -> Any:
    own = {"desk": "refunds", "currency": "usd", "limit": limit} if limit else {}
    given = {"change": "set", "group": group, "role": role, **own, **more}
    return client.post("/members/groups/", given)


def come(own: Provider, *groups: str) -> Client:
    own.claims["groups"] = list(groups)
    return sign_on(own)[0]


def part() -> Membership | None:
    return Membership.objects.filter(user__username="eva").first()


def state() -> tuple[Any, ...]:
    own = part()
    if own is None:
        return ()
    teams = list(own.teams.values_list("slug", flat=True))
    return own.role, own.grants, own.limit_minor("refunds", "USD"), teams


def change(client: Client, what: str, **fields: str) -> None:
    own = part()
    assert own
    at = f"/members/{own.pk}/change/"
    assert client.post(at, {"change": what, **fields}).status_code == 302


def test_groups_give_a_role_teams_and_only_listed_limits(
    ada: Client, provider: Provider, scene: Scene
) -> None:
    assert user_in(come(provider, "elsewhere")) == "eva"
    assert state() == ()

    client = come(provider, "deciders", "elsewhere")
    assert state() == ("reviewer", "listed", 50000, ["leads"])
    own = part()
    assert own
    assert own.limit_minor("bank", "EUR") == 0  # of a desk that the table lacks
    assert client.get("/approvals/").status_code == 200

    come(provider, "launchers", "deciders")
    assert state()[0] == "reviewer"
    come(provider, "launchers")
    assert state() == ("operator", "listed", 0, [])
    come(provider)
    assert state() == ()

    said = Event.objects.filter(kind__in=("member.set", "member.removed", "team.set"))
    by = {event.actor for event in said if "eva" in str(facts_of(event))}
    assert by == {"sign-on:Contoso"}
    assert command("verify_audit").code == 0
    SignOnGroup.objects.filter(value="launchers").update(role="admin")
    assert "group launchers: role is 'admin'" in command("verify_audit").out


def test_no_word_of_groups_suspends_until_one_comes(ada: Client, provider: Provider) -> None:
    come(provider, "deciders")
    provider.claims |= {"groups": None, "_claim_names": {"groups": "src1"}}

    client = sign_on(provider)[0]

    assert state() == ("viewer", "listed", 0, [])
    assert "Your role is suspended" in client.get("/approvals/").text
    assert client.post("/kill/press/", {}).status_code == 403
    assert "did not name this person" in ada.get(f"/members/{part().pk}/").text  # type: ignore[union-attr]
    come(provider, "deciders")
    assert state() == ("reviewer", "listed", 50000, ["leads"])
    provider.claims["groups"] = {"deciders": True}
    client = sign_on(provider)[0]
    change(ada, "role", role="reviewer")
    assert "Your role is suspended" not in client.get("/approvals/").text
    client = sign_on(provider)[0]
    assert state()[:3] == ("reviewer", "listed", 0)
    assert "Your role is suspended" not in client.get("/approvals/").text


def test_admins_word_is_stronger_until_it_is_taken_back(ada: Client, provider: Provider) -> None:
    come(provider, "deciders")
    change(ada, "limit", desk="refunds", currency="USD", limit="100.00")
    change(ada, "leave", team="leads")
    come(provider, "deciders")
    assert state() == ("reviewer", "listed", 10000, [])
    change(ada, "limit", desk="refunds", currency="USD", limit="")
    come(provider, "deciders")
    assert state()[2] == 0
    change(ada, "role", role="viewer")
    come(provider, "deciders")
    assert state()[0] == "viewer"
    come(provider)
    assert state()[0] == "viewer"
    change(ada, "by-groups")
    come(provider, "deciders")
    assert state()[:3] == ("reviewer", "listed", 50000)

    change(ada, "remove")
    assert user_in(come(provider, "deciders")) == "eva"
    assert state() == ()
    assert "no group lets them in" in ada.get("/members/").text
    back = ada.post("/members/groups/", {"change": "readmit", "user": "eva"})
    assert back.status_code == 302
    come(provider, "deciders")
    assert state()[0] == "reviewer"


def test_groups_leave_alone_whom_an_admin_added(
    ada: Client, provider: Provider, scene: Scene
) -> None:
    sign_on(provider)
    eva, at = User.objects.get(username="eva"), timezone.now()
    members.join(workspace=scene.workspace, user=eva, role=Role.VIEWER, at=at)
    come(provider, "deciders")
    assert (state()[0], SignOnPart.objects.count()) == ("viewer", 0)
    change(ada, "by-groups")
    assert user_in(come(provider)) == "eva"
    assert state() == ()


def test_page_names_agents_that_a_lost_group_stops(
    ada: Client, provider: Provider, scene: Scene
) -> None:
    come(provider, "launchers")
    eva, at = User.objects.get(username="eva"), timezone.now()
    who: dict[str, Any] = {
        "workspace": scene.workspace,
        "by": User.objects.get(username="ada"),
        "at": at,
    }
    set_agent(name="mail-triage", desk="refunds", owner=eva, **who)
    shown = words(ada.get("/members/").text)
    assert "these agents stop: mail-triage of eva" in shown
    put(ada, "deciders", "admin")
    come(provider, "launchers", "deciders")
    assert "these agents stop" not in words(ada.get("/members/").text)


def test_last_admin_who_loses_the_group_is_not_let_in(ada: Client, provider: Provider) -> None:
    put(ada, "chiefs", "admin")
    come(provider, "chiefs")
    User.objects.filter(username="ada").update(is_active=False)
    provider.claims["groups"] = []

    client, page = sign_on(provider)

    assert (page.status_code, user_in(client)) == (422, "")
    assert "only admin of Demo" in page.text
    assert state()[0] == "admin"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"group": " ", "role": "viewer"}, "as the provider writes it"),
        ({"group": "a", "role": "boss"}, "Choose a role"),
        ({"group": "a", "role": "viewer", "limit": "5.00"}, "decides nothing"),
        ({"group": "a", "role": "reviewer", "team.other": "1"}, "should not"),
        ({"group": "a\u202eb", "role": "viewer"}, "plain text"),
    ],
)
def test_group_that_cannot_be_is_refused(ada: Client, fields: dict[str, str], says: str) -> None:
    before = SignOnGroup.objects.count()
    answered = put(ada, **fields)
    assert (answered.status_code, SignOnGroup.objects.count()) == (422, before)
    assert says in answered.text


def test_removed_group_gives_nothing_any_more(ada: Client, provider: Provider) -> None:
    gone = {"change": "remove", "group": "deciders"}
    assert ada.post("/members/groups/", gone).status_code == 302
    come(provider, "deciders")
    assert (state(), Team.objects.get().members.count()) == ((), 0)
