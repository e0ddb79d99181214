"""The members page: what an admin sees and changes, and who is refused."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.models import Escalation, Event, Membership, Role, SavedView, Session, Team
from agents.models.record import facts_of
from agents.people import members, workspaces
from agents.people.member_pages import PAGE
from agents.requests import sharing
from agents.shell import refusal
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene, go
from tests.engine.tiered import put_tiers
from tests.web.test_pages import client_of, stranger
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)
MOST_QUERIES = 12


@pytest.fixture
def ada(scene: Scene) -> Client:
    return client_of(scene.add("ada", Role.ADMIN))


def part_of(name: str) -> Membership:
    return Membership.objects.get(user__username=name, workspace__slug="demo")


def change(client: Client, name: str, what: str, **fields: str) -> Any:
    at = f"/members/{part_of(name).pk}/change/"
    return client.post(at, {"change": what, **fields})


def test_admins_member_changes_are_recorded(scene: Scene, ada: Client) -> None:
    made = ada.post("/members/teams/add/", {"name": "Leads", "slug": "leads"})
    steps = [
        change(ada, "rita", "limit", desk="bank", currency="eur", limit="5000.00"),
        change(ada, "rita", "join", team="leads"),
        change(ada, "rita", "lead", team="leads"),
        change(ada, "omar", "role", role="reviewer"),
    ]

    assert [answered.status_code for answered in (made, *steps)] == [302] * 5
    rita = part_of("rita")
    assert rita.limit_minor("bank", "EUR") == 500000
    assert [(team.slug, team.lead) for team in rita.teams.all()] == [("leads", rita)]
    assert part_of("omar").role == Role.REVIEWER
    said = Event.objects.filter(kind__in=("team.set", "member.set"), actor="ada").order_by("seq")
    told = [facts_of(event) for event in said]
    assert [(facts.get("user"), facts.get("lead")) for facts in told] == [
        *((None, ""), ("rita", None), (None, ""), (None, "rita"), ("omar", None))
    ]
    shown = words(ada.get("/members/").text)
    assert "bank transfers: up to eur 5,000.00" in shown.lower()
    assert "1 member, led by rita" in shown
    assert command("verify_audit").code == 0

    change(ada, "rita", "leave", team="leads")
    assert Team.objects.get().lead is None  # a removed member no longer sees its figures
    change(ada, "rita", "join", team="leads")
    change(ada, "rita", "lead", team="leads")
    change(ada, "rita", "follow", team="leads")
    change(ada, "rita", "leave", team="leads")
    change(ada, "rita", "limit", desk="bank", currency="EUR", limit="")
    assert (part_of("rita").teams.count(), Team.objects.get().lead) == (0, None)
    assert part_of("rita").limit_minor("bank", "EUR") is None
    Team.objects.update(lead=part_of("omar"))
    assert "team leads: lead is 'omar'" in command("verify_audit").out


@pytest.mark.proves("W30")
def test_nobody_changes_own_rights_or_the_last_admin(scene: Scene, ada: Client) -> None:
    ada.post("/members/teams/add/", {"name": "Leads", "slug": "leads"})
    own = [
        change(ada, "ada", "role", role="viewer"),
        change(ada, "ada", "limit", desk="refunds", currency="USD", limit=""),
        change(ada, "ada", "join", team="leads"),
        change(ada, "ada", "lead", team="leads"),
        change(ada, "ada", "remove"),
    ]
    change(ada, "rita", "role", role="admin")
    rita = client_of(scene.rita)
    demoted = change(rita, "ada", "role", role="viewer")
    by_whom_was_one = change(ada, "rita", "role", role="viewer")

    assert [answered.status_code for answered in own] == [422] * 5
    assert "changed by another admin" in own[0].text
    assert (demoted.status_code, by_whom_was_one.status_code) == (302, 403)
    assert change(rita, "rita", "role", role="viewer").status_code == 422
    assert (part_of("ada").role, part_of("rita").role) == (Role.VIEWER, Role.ADMIN)
    assert not Team.objects.get().members.exists()
    at = timezone.now()  # a simulated admin never signs in
    workspaces.ensure_simulated_person(workspace=scene.workspace, role=Role.ADMIN, at=at)
    with pytest.raises(refusal.Refused, match="only admin"):
        members.set_role(workspace=scene.workspace, user=scene.rita, role=Role.VIEWER, at=at)


@pytest.mark.proves("W30")
@pytest.mark.parametrize(
    ("what", "fields", "says"),
    [
        ("role", {"role": "boss"}, "Choose a role"),
        ("limit", {"desk": "nowhere", "currency": "USD", "limit": "5"}, "Choose a desk"),
        ("limit", {"desk": "refunds", "currency": "US", "limit": "5"}, "The limit:"),
        ("limit", {"desk": "refunds", "currency": "USD", "limit": "-5"}, "The limit:"),
        ("limit", {"desk": "refunds", "currency": "USD", "limit": "5", "by": "x"}, "should not"),
        ("join", {"team": "elsewhere"}, "no such team"),
        ("fire", {}, "no such change"),
        ("end-sessions", {}, "not signed in anywhere"),
    ],
)
def test_a_change_that_cannot_be_is_refused_in_a_sentence(
    scene: Scene, ada: Client, what: str, fields: dict[str, str], says: str
) -> None:
    other = workspaces.add_workspace(
        desks=["refunds"], slug="other-one", name="Other", at=timezone.now()
    )
    members.set_team(workspace=other, slug="elsewhere", name="Else", at=timezone.now())
    before = Event.objects.count()

    answered = change(ada, "rita", what, **fields)

    assert (answered.status_code, says in answered.text) == (422, True)
    assert Event.objects.count() == before


@pytest.mark.proves("I40")
def test_a_session_that_an_admin_ends_is_out_at_its_next_request(scene: Scene, ada: Client) -> None:
    other = workspaces.add_workspace(
        desks=["refunds"], slug="other-one", name="Other", at=timezone.now()
    )
    members.join(workspace=other, user=scene.rita, role=Role.VIEWER, at=timezone.now())
    rita, desk, omar = client_of(scene.rita), client_of(scene.rita), client_of(scene.omar)
    assert "2, last used" in words(ada.get(f"/members/{part_of('rita').pk}/").text)

    ended = change(ada, "rita", "end-sessions")

    assert ended.status_code == 302
    assert [c.get("/runs/").status_code for c in (rita, desk, omar, ada)] == [302, 302, 200, 200]
    told = Event.objects.filter(kind="sessions.ended").order_by("workspace__slug")
    assert [(one.workspace.slug, one.actor, one.facts) for one in told] == [
        (slug, "ada", {"user": "rita", "count": 2}) for slug in ("demo", "other-one")
    ]
    assert "Ended the sessions of rita: 2." in ada.get("/audit/?event=sessions.ended").text
    elsewhere = change(client_of(stranger()), "omar", "end-sessions")
    assert elsewhere.status_code == 404


@pytest.mark.proves("I40")
@pytest.mark.parametrize("how", ["removed", "viewer"])
def test_who_decides_here_no_more_holds_nothing(scene: Scene, ada: Client, how: str) -> None:
    """Her request that someone else has claimed stays with them."""
    ada.post("/members/teams/add/", {"name": "Leads", "slug": "leads"})
    change(ada, "rita", "join", team="leads")
    change(ada, "rita", "lead", team="leads")
    other, at = scene.add("finn", Role.REVIEWER), timezone.now()
    sharing.save_view(by=scene.rita, name="Anna", query="subject=Anna", workspace=None, at=at)
    claimed, assigned, left, worked_on = (
        Escalation.objects.get(run=go(scene.launch())) for _ in range(4)
    )
    sharing.claim(escalation_id=claimed.pk, by=scene.rita, at=at)
    for one in (assigned, left, worked_on):
        sharing.assign(escalation_id=one.pk, by=other, to_user=scene.rita, at=at)
    sharing.claim(escalation_id=left.pk, by=other, at=at - timedelta(minutes=16))
    sharing.claim(escalation_id=worked_on.pk, by=other, at=at)
    rita, pk = client_of(scene.rita), part_of("rita").pk

    done = (
        change(ada, "rita", "remove")
        if how == "removed"
        else change(ada, "rita", "role", role="viewer")
    )

    assert done.status_code == 302
    held = [(one.assigned_to, one.claimed_by) for one in Escalation.objects.order_by("pk")]
    assert held == [(None, None), (None, None), (None, None), (other, other)]
    assert SavedView.objects.get().owner == scene.rita
    finn = client_of(other)
    assert len(finn.get("/approvals/?view=unclaimed").context["inbox"].rows) == 3
    assert command("verify_audit").code == 0
    assert "because rita no longer decides here" in ada.get("/audit/?all=1&person=ada").text
    if how == "viewer":
        return
    assert rita.get("/approvals/").status_code == 302  # her sessions have ended
    assert ada.get(f"/members/{pk}/").status_code == 404
    assert not Team.objects.get().members.exists()
    assert Team.objects.get().lead is None
    assert "Removed rita, who was reviewer. Given back: 4 requests." in ada.get("/audit/").text
    assert client_of(scene.rita).get(f"/approvals/{claimed.pk}/").status_code == 403
    with pytest.raises(refusal.Refused, match="only admin"):
        members.remove_member(
            workspace=scene.workspace, user=User.objects.get(username="ada"), at=at
        )
    scene.workspace.memberships.create(user=scene.rita, role=Role.ADMIN)
    assert "no event records it" in command("verify_audit").out


@pytest.mark.breaks("I50")  # a thousand people are put into a team, and no event tells of them
def test_thousand_members_are_paged_within_twelve_queries(scene: Scene, ada: Client) -> None:
    team = members.set_team(
        workspace=scene.workspace, slug="leads", name="Leads", at=timezone.now()
    )
    tiers = {"refunds": {"USD": [{"up_to_minor": 5000}, {"team": "leads"}]}}
    put_tiers(scene, User.objects.get(username="ada"), tiers)
    users = User.objects.bulk_create(User(username=f"p{n:04}") for n in range(1000))
    parts = Membership.objects.bulk_create(
        Membership(workspace=scene.workspace, user=user, role=Role.REVIEWER) for user in users
    )
    team.members.add(*parts)
    until = timezone.now() + timedelta(hours=1)
    Session.objects.bulk_create(
        Session(session_key=f"k{user.pk}", user=user, expire_date=until) for user in users
    )
    ada.get("/members/")

    names, at, pages = set[str](), "/members/", 0
    while at:
        with CaptureQueriesContext(connection) as asked:
            answered = ada.get(at)
        assert len(asked) <= MOST_QUERIES, [query["sql"] for query in asked]
        found = answered.context["found"]
        names |= {member["name"] for member in found["members"]}
        at, pages = f"/members/?{answered.context['older']}" if found["after"] else "", pages + 1
    assert (len(names), pages) == (1004, -(-1004 // PAGE))
    narrowed = ada.get("/members/?name=P0999&role=reviewer")
    assert [one["name"] for one in narrowed.context["found"]["members"]] == ["p0999"]
    assert "any amount in USD" in narrowed.text
    change(ada, "rita", "limit", desk="refunds", currency="USD", limit="5000.00")
    change(ada, "rita", "limit", desk="refunds", currency="EUR", limit="70.00")
    shown = words(ada.get("/members/?name=rita").text)
    assert "up to USD 50.00 (own limit USD 5,000.00); nothing in EUR (own limit EUR 70.00)" in shown
