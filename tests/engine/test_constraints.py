"""What the database itself refuses, whatever the code does."""

from typing import Any

import pytest
from django.db import IntegrityError, models, transaction
from django.utils import timezone

from agents.models import Effect, Escalation, Event, Membership, Run, Step
from tests.engine.scene import Scene, go, set_scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.fixture
def scene() -> Scene:
    scene = set_scene()
    scene.decided_refund()
    return scene


def is_refused(queryset: models.QuerySet[Any], **columns: Any) -> bool:
    """Tell whether the database refuses to set these columns."""
    try:
        with transaction.atomic():
            queryset.update(**columns)
    except IntegrityError:
        return True
    return False


def is_copy_refused(row: models.Model, **columns: Any) -> bool:
    """Tell whether the database refuses a copy of a row with these columns."""
    row.pk = None
    row._state.adding = True
    for name, value in columns.items():
        setattr(row, name, value)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        return True
    return False


@pytest.mark.proves("I1")
def test_one_effect_a_key_and_one_a_step(scene: Scene) -> None:
    effect = Effect.objects.filter(tool="issue_refund").get()
    other = Step.objects.get(run=effect.run, key="1/propose")

    assert is_copy_refused(effect, key="another key")
    effect = Effect.objects.filter(tool="issue_refund").get()
    assert is_copy_refused(effect, step=other)


def test_one_step_a_key_and_one_event_a_place(scene: Scene) -> None:
    assert is_copy_refused(Step.objects.filter(key="1/propose").get(), position=99)
    assert is_copy_refused(Event.objects.filter(run__isnull=False, seq=1).get())
    assert is_copy_refused(Event.objects.filter(run__isnull=True, seq=1).get())


@pytest.mark.parametrize(
    ("model", "columns"),
    [
        (Run, {"state": "sideways"}),
        (Run, {"state": "queued"}),  # it has ended: an ended_at without an end
        (Effect, {"state": "perhaps"}),
        (Effect, {"amount_minor": 0}),
        (Effect, {"settled_at": None}),
        (Escalation, {"state": "maybe"}),
        (Escalation, {"granted_minor": 120001}),
        (Escalation, {"granted_minor": 0}),
        (Escalation, {"decided_by": None}),
        (Escalation, {"decided_at": None}),
        (Membership, {"role": "king"}),
    ],
)
def test_a_row_that_makes_no_sense_is_refused(
    scene: Scene, model: type[models.Model], columns: dict[str, Any]
) -> None:
    assert is_refused(model._default_manager.all(), **columns)


def test_an_open_escalation_has_nobody_who_decided_it(scene: Scene) -> None:
    run = go(scene.launch())

    waiting = Escalation.objects.filter(run=run)

    assert is_refused(waiting, decided_by=scene.rita, decided_at=timezone.now())
