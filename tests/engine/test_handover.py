"""Handing over, snoozing and commenting: who may, to whom, and all on record."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from agents.audit import erasing
from agents.models import Escalation, Event, Role, Snooze, Team
from agents.models.outside import SwitchStage
from agents.models.record import facts_of
from agents.people import members, workspaces
from agents.requests import sharing
from agents.runs import kill_switch
from agents.shell import refusal
from tests import checker
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene, go

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def waiting(scene: Scene) -> Escalation:
    return Escalation.objects.get(run=go(scene.launch()))


def give(request: Escalation, by: User | None, **to: Any) -> Escalation:
    return sharing.assign(escalation_id=request.pk, by=by, at=timezone.now(), **to)


def later(request: Escalation, by: User, minutes: float = 5) -> Snooze:
    at = timezone.now()
    until = at + timedelta(minutes=minutes)
    return sharing.snooze(escalation_id=request.pk, by=by, until=until, at=at)


def leads(scene: Scene, *people: User, slug: str = "leads") -> Team:
    at = timezone.now()
    return members.set_team(workspace=scene.workspace, slug=slug, name="Leads", add=people, at=at)


def events_of(request: Escalation) -> list[dict[str, Any]]:
    """Return the sharing events of a request, without the facts common to all."""
    events = Event.objects.filter(run=request.run, kind__startswith="escalation.")
    rows = [(event, facts_of(event)) for event in events.order_by("seq")]
    common = ("escalation", "key")
    return [
        {"kind": event.kind.partition(".")[2], "actor": event.actor}
        | {name: value for name, value in facts.items() if name not in common}
        for event, facts in rows
        if event.kind != "escalation.opened"
    ]


@pytest.mark.both
@pytest.mark.proves("I50")
def test_handed_over_request_is_the_receivers(scene: Scene, ada: User, waiting: Escalation) -> None:
    team = leads(scene, ada)
    sharing.claim(escalation_id=waiting.pk, by=scene.rita, at=timezone.now())
    later(waiting, ada)

    give(waiting, scene.rita, to_user=ada, note="Above my limit; see card 4242 4242 4242 4242.")
    first = Escalation.objects.get(pk=waiting.pk)
    give(waiting, ada, to_team=team)
    second = Escalation.objects.get(pk=waiting.pk)
    give(waiting, None)

    assert (first.assigned_to, first.claimed_by, second.assigned_to) == (ada, None, None)
    assert second.assigned_team == team
    note = "Above my limit; see card [card number]."
    assert events_of(waiting)[2:] == [
        {"kind": "assigned", "actor": "rita", "to": "ada", "note": note, "woken": ["ada"]},
        {"kind": "assigned", "actor": "ada", "team": "leads", "team_name": "Leads"},
        {"kind": "assigned", "actor": ""},
    ]
    assert not Snooze.objects.exists()
    assert command("verify_audit").code == 0


def forge_assignment(request: Escalation, ada: User) -> None:
    Escalation.objects.filter(pk=request.pk).update(assigned_team=None, assigned_to=ada)


def forge_snooze(request: Escalation, ada: User) -> None:
    Snooze.objects.update(user=ada)


def forge_name(request: Escalation, ada: User) -> None:
    Team.objects.update(name="Others")


def forge_member(request: Escalation, ada: User) -> None:
    Team.objects.get().members.clear()


@pytest.mark.proves("I50", "I51")
@pytest.mark.breaks("I50", "I51")
@pytest.mark.parametrize("forge", [forge_assignment, forge_snooze, forge_name, forge_member])
def test_what_no_event_tells_is_a_fault(
    scene: Scene, ada: User, waiting: Escalation, forge: Any
) -> None:
    give(waiting, scene.rita, to_team=leads(scene, scene.rita, ada))
    later(waiting, scene.rita)

    forge(waiting, ada)

    assert command("verify_audit").code == 3
    with connection.cursor() as cursor:
        assert {one.id for one in checker.violations(cursor)} & {"I50", "I51"}


@pytest.mark.proves("I50")
def test_who_should_decide_stays_when_it_is_decided(
    scene: Scene, ada: User, waiting: Escalation
) -> None:
    give(waiting, scene.rita, to_user=ada)
    scene.decide(waiting.run)

    with pytest.raises(IntegrityError), transaction.atomic():
        Escalation.objects.update(assigned_to=scene.rita)
    for act in (lambda: give(waiting, ada, to_user=scene.rita), lambda: later(waiting, ada)):
        with pytest.raises(refusal.Refused, match="no longer open"):
            act()


def say(request: Escalation, by: User, text: str) -> None:
    sharing.comment(escalation_id=request.pk, by=by, text=text, at=timezone.now())


@pytest.mark.proves("I50")
def test_who_cannot_decide_neither_gives_nor_gets_a_request(
    scene: Scene, ada: User, waiting: Escalation
) -> None:
    """That is its launcher, viewers, inactive people and another workspace's."""
    at = timezone.now()
    shop = workspaces.add_workspace(desks=["refunds"], slug="shop", name="Shop", at=at)
    mara, away = (User.objects.create_user(name) for name in ("mara", "away"))
    workspaces.add_member(workspace=shop, user=mara, role=Role.ADMIN, at=at)
    workspaces.add_member(workspace=scene.workspace, user=away, role=Role.REVIEWER, at=at)
    User.objects.filter(pk=away.pk).update(is_active=False)
    scene.omar.memberships.update(role=Role.REVIEWER)
    theirs = members.set_team(workspace=shop, slug="leads", name="L", add=[mara], at=at)
    unable = leads(scene, scene.omar, scene.eve, slug="unable")

    for to in ({"to_user": who} for who in (scene.omar, scene.eve, mara, away)):
        with pytest.raises(refusal.Refused, match="can decide"):
            give(waiting, scene.rita, **to)
    for team in (theirs, unable, leads(scene, slug="empty")):
        with pytest.raises(refusal.Refused, match=r"can decide|not of this workspace"):
            give(waiting, scene.rita, to_team=team)
    with pytest.raises(refusal.Refused, match="a person or a team"):
        give(waiting, scene.rita, to_team=unable, to_user=ada)
    for by in (scene.eve, mara, away):
        for act in (give, later, lambda one, who: say(one, who, "x")):
            with pytest.raises(refusal.Refused, match="needs the role"):
                act(waiting, by)
    sharing.claim(escalation_id=waiting.pk, by=scene.rita, at=at)
    with pytest.raises(sharing.Claimed):
        give(waiting, scene.omar, to_user=ada)
    give(waiting, ada, to_user=ada)
    assert [event["kind"] for event in events_of(waiting)] == ["claimed", "assigned"]
    assert Escalation.objects.get(pk=waiting.pk).claimed_by is None


@pytest.mark.both
@pytest.mark.proves("I51")
def test_a_snooze_ends_before_the_deadline_which_stays(
    scene: Scene, ada: User, waiting: Escalation
) -> None:
    sharing.claim(escalation_id=waiting.pk, by=scene.rita, at=timezone.now())
    left = (waiting.expires_at - timezone.now()).total_seconds() / 60

    for minutes in (-1, 0, left, left + 1):
        with pytest.raises(refusal.Refused, match="before the deadline"):
            later(waiting, scene.rita, minutes)
    later(waiting, scene.rita)
    later(waiting, scene.rita, 10)
    after = Escalation.objects.get(pk=waiting.pk)
    assert (after.expires_at, after.claimed_by) == (waiting.expires_at, None)
    assert Snooze.objects.filter(user=scene.rita).count() == 1
    assert command("verify_audit").code == 0
    kill_switch.kill(workspace=scene.workspace, by=ada, reason="look", at=timezone.now())
    give(waiting, scene.rita, to_user=ada)  # a kill switch stops approvals, not hand-overs
    later(waiting, scene.rita, left - 1)
    off: dict[str, Any] = {"workspace": scene.workspace, "by": ada, "reason": "go"}
    for stage in (SwitchStage.TRIAL, SwitchStage.OFF):
        kill_switch.release(**off, to=stage, at=timezone.now())
    for _ in range(2):
        sharing.wake(escalation_id=waiting.pk, by=scene.rita, at=timezone.now())
    assert [event["kind"] for event in events_of(waiting)].count("woken") == 1

    over = timezone.now() - timedelta(seconds=1)
    Escalation.objects.filter(pk=waiting.pk).update(expires_at=over)
    for act in (lambda: give(waiting, ada), lambda: say(waiting, ada, "late")):
        with pytest.raises(refusal.Refused, match="has expired"):
            act()


@pytest.mark.both
@pytest.mark.proves("I51")
def test_a_comment_is_kept_masked_once_and_can_be_forgotten(
    scene: Scene, ada: User, waiting: Escalation
) -> None:
    for text in (" She pays with 4242 4242 4242 4242. ", "She pays with 4242 4242 4242 4242."):
        say(waiting, scene.rita, text)  # a form sent twice
    for text, why in (
        (" ", "Write"),
        ("x" * 2001, "A comment has at most 2000"),
        ("a\u202eb", "A comment must be plain"),
    ):
        with pytest.raises(refusal.Refused, match=why):
            say(waiting, ada, text)
    give(waiting, scene.rita, to_user=ada, note="Anna is a friend of mine.")
    assert [event["comment"] for event in events_of(waiting) if event["kind"] == "commented"] == [
        "She pays with [card number]."
    ]

    scene.decide(waiting.run, approve=False)
    go(waiting.run)
    asked: dict[str, Any] = {"reason": "asked to", "actor": "ada", "at": timezone.now()}
    erasing.erase_subject(workspace=scene.workspace, desk="refunds", key="42", **asked)

    texts = str([facts_of(event) for event in Event.objects.filter(run=waiting.run)])
    assert "card number" not in texts
    assert "friend" not in texts
    assert command("verify_audit").code == 0
