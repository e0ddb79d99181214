"""A request is handed over, snoozed and commented on: who may, to whom, and all on record."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from agents import operations
from agents.models import Escalation, Event, Role, Snooze, Team
from agents.models.event import facts_of
from tests import checker
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene, go, set_scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.fixture
def scene() -> Scene:
    return set_scene()


@pytest.fixture
def ada(scene: Scene) -> User:
    return scene.add("ada", Role.ADMIN)


@pytest.fixture
def waiting(scene: Scene) -> Escalation:
    return Escalation.objects.get(run=go(scene.launch()))


def give(request: Escalation, by: User | None, **to: Any) -> Escalation:
    return operations.assign(escalation_id=request.pk, by=by, at=timezone.now(), **to)


def later(request: Escalation, by: User, minutes: float = 5) -> Snooze:
    at = timezone.now()
    until = at + timedelta(minutes=minutes)
    return operations.snooze(escalation_id=request.pk, by=by, until=until, at=at)


def leads(scene: Scene, *people: User, slug: str = "leads") -> Team:
    at = timezone.now()
    return operations.set_team(
        workspace=scene.workspace, slug=slug, name="Leads", add=people, at=at
    )


def told(request: Escalation) -> list[dict[str, Any]]:
    """Return what was said of sharing it, without what every such event says."""
    events = Event.objects.filter(run=request.run, kind__startswith="escalation.")
    rows = [(event, facts_of(event)) for event in events.order_by("seq")]
    common = ("escalation", "key")
    return [
        {"kind": event.kind.partition(".")[2], "actor": event.actor}
        | {name: value for name, value in facts.items() if name not in common}
        for event, facts in rows
        if event.kind != "escalation.opened"
    ]


def test_a_handed_over_request_is_the_receivers_and_the_record_says_so(
    scene: Scene, ada: User, waiting: Escalation
) -> None:
    team = leads(scene, ada)
    operations.claim(escalation_id=waiting.pk, by=scene.rita, at=timezone.now())
    later(waiting, ada)

    give(waiting, scene.rita, to_user=ada, note="Above my limit; see card 4242 4242 4242 4242.")
    first = Escalation.objects.get(pk=waiting.pk)
    give(waiting, ada, to_team=team)
    second = Escalation.objects.get(pk=waiting.pk)
    give(waiting, None)

    assert (first.assigned_to, first.claimed_by, second.assigned_to) == (ada, None, None)
    assert second.assigned_team == team
    note = "Above my limit; see card [card number]."
    assert told(waiting)[2:] == [
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


def test_who_should_decide_stays_when_it_is_decided(
    scene: Scene, ada: User, waiting: Escalation
) -> None:
    give(waiting, scene.rita, to_user=ada)
    scene.decide(waiting.run)

    with pytest.raises(IntegrityError), transaction.atomic():
        Escalation.objects.update(assigned_to=scene.rita)
    for act in (lambda: give(waiting, ada, to_user=scene.rita), lambda: later(waiting, ada)):
        with pytest.raises(operations.Refused, match="no longer open"):
            act()
