"""Ended rows stay unchanged, whatever program writes to the database."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from agents.audit import protection
from agents.core.requests import ENDED, EscalationState, RunState
from agents.engine.lease import claim
from agents.models import Escalation, Run
from tests.engine.scene import Scene, fresh, go

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def end_run(scene: Scene) -> Run:
    run = go(scene.launch())
    scene.decide(run)
    return go(run)


@pytest.mark.proves("I23")
@pytest.mark.parametrize(
    "columns",
    [
        {"state": "stopped"},
        {"state": "queued", "ended_at": None},
        {"stop_reason": "max_steps"},
        {"ended_at": None},
        {"pattern": "routing"},
    ],
)
def test_a_run_that_has_ended_is_not_changed(scene: Scene, columns: dict[str, Any]) -> None:
    run = end_run(scene)
    assert run.state == RunState.DONE

    with pytest.raises(IntegrityError, match="stays as it is"), transaction.atomic():
        Run.objects.filter(pk=run.pk).update(**columns)

    assert (fresh(run).state, fresh(run).stop_reason) == (RunState.DONE, "success")


@pytest.mark.parametrize("state", sorted(ENDED))
def test_nobody_moves_a_run_that_has_ended(scene: Scene, state: RunState) -> None:
    claimed = claim(scene.launch().pk, owner="o", lease=timedelta(minutes=1), at=timezone.now())
    assert claimed is not None
    with transaction.atomic():
        claimed.move(state, at=timezone.now())

    for to in RunState:
        columns = {"state": to, "ended_at": timezone.now() if to in ENDED else None}
        with pytest.raises(IntegrityError), transaction.atomic():
            Run.objects.filter(pk=claimed.pk).update(**columns)


@pytest.mark.proves("I17", "I23")
@pytest.mark.parametrize(
    "columns",
    [
        {"state": "open", "decided_by": None, "decided_at": None, "granted_minor": None},
        {"state": "approved"},
        {"granted_minor": 100000},
        {"action_sha256": "0" * 64},
    ],
)
def test_a_decision_is_not_changed(scene: Scene, columns: dict[str, Any]) -> None:
    run = end_run(scene)

    with pytest.raises(IntegrityError, match="stays as it is"), transaction.atomic():
        Escalation.objects.filter(run=run).update(**columns)

    escalation = Escalation.objects.get(run=run)
    assert (escalation.state, escalation.granted_minor) == (EscalationState.ADJUSTED, 80000)


def test_what_comes_late_is_still_told(scene: Scene) -> None:
    run = end_run(scene)

    with transaction.atomic():
        run.say("call.late", at=timezone.now(), facts={"key": "k", "said": "ok"})

    assert fresh(run).event_count == run.event_count + 1


@pytest.mark.proves("I23")
def test_the_check_says_when_a_trigger_is_gone(scene: Scene) -> None:
    on = " ON agents_run" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER agents_run_stays{on}")

    assert protection.inspect(connection).faults == {"trigger agents_run_stays": "it is missing"}
    assert [error.id for error in protection.check_record(databases=["default"])] == ["agents.E001"]
    protection.protect(connection)
    assert protection.inspect(connection).faults == {}
