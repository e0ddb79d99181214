"""A row pointed at another workspace is neither driven, nor read, nor decided."""

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import Q
from django.utils import timezone

from agents.audit import protection
from agents.core.decisions import Decision
from agents.core.requests import EscalationState, RunState
from agents.desks.refunds.models import Refund
from agents.models import Escalation, Run, Step
from agents.overview.pages import overview
from agents.requests import deciding, sharing
from agents.requests.queue import WHOLE, inbox_of, next_of, open_in, reviewer
from agents.shell import access, refusal
from tests.engine.scene import Scene, fresh, go

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.both,
    pytest.mark.breaks(*(f"I{number}" for number in range(1, 60))),
]

# The columns, each with its new target: a row of another run or workspace.
OF_RUN: dict[str, Any] = {
    "policy": lambda run: run.workspace.policy_id,
    "book": lambda run: run.workspace.book_id,
    "book of a demo's run": lambda run: run.book_id,
    "workspace": lambda run: run.workspace_id,
}
OF_REQUEST: dict[str, Any] = {
    "workspace": lambda run: run.workspace_id,
    "run": lambda run: run.pk,
    "step": lambda run: Step.objects.filter(run=run, kind="review").latest("pk").pk,
}


def point(row: Run | Escalation, name: str, to: Any) -> None:
    """Point a row's reference elsewhere, or check that its trigger refuses."""
    this: Any = type(row)._default_manager.filter(Q(pk=row.pk))
    column = {f"{name.partition(' ')[0]}_id": to}
    if not name.startswith("book"):  # which tests of a demo share
        with pytest.raises(IntegrityError, match="stays as it is"), transaction.atomic():
            this.update(**column)
    protection.unprotect(connection)
    this.update(**column)


@pytest.mark.proves("I31")
@pytest.mark.parametrize("name", OF_RUN)
def test_a_run_that_refers_to_another_workspace_is_stopped(
    scene: Scene, other: Scene, name: str
) -> None:
    run, elsewhere = other.launch(), scene.launch()

    point(run, name, OF_RUN[name](elsewhere))

    stopped = go(run)
    assert (stopped.state, stopped.stop_reason) == (RunState.STOPPED, "misplaced")
    assert not Refund.objects.exists()


def test_a_demos_run_pays_nobody_of_another_workspace(scene: Scene, other: Scene) -> None:
    run = scene.launch()

    point(run, "book", other.workspace.book_id)

    assert go(run).stop_reason == "misplaced"


@pytest.mark.parametrize("name", OF_RUN)
def test_a_request_of_such_a_run_is_not_decided(scene: Scene, other: Scene, name: str) -> None:
    run, elsewhere = go(other.launch()), go(scene.launch())

    point(run, name, OF_RUN[name](elsewhere))

    assert_undecided(other, Escalation.objects.get(run=run))


@pytest.mark.proves("I38")
@pytest.mark.parametrize("name", OF_REQUEST)
def test_a_request_that_was_moved_is_not_read_or_decided(
    scene: Scene, other: Scene, name: str
) -> None:
    run, elsewhere = go(other.launch()), go(scene.launch())
    request = Escalation.objects.get(run=run)

    point(request, name, OF_REQUEST[name](elsewhere))

    assert_undecided(other, request)
    assert request not in access.escalations_of(other.rita)
    both = [other.workspace.pk, scene.workspace.pk]
    mine = elsewhere.escalations.exclude(pk=request.pk).get()
    who = reviewer(other.rita, at=timezone.now())
    assert [row.escalation for row in inbox_of(who).rows] == [mine]
    assert (open_in(both).count(), next_of(WHOLE, who, mine.pk)) == (1, None)
    found = overview(other.rita, at=timezone.now())
    assert [row.escalation for row in found["rows"]] == [mine]
    assert found["waiting"] == inbox_of(who).line.waiting  # a count may include it


def assert_undecided(scene: Scene, request: Escalation) -> None:
    """Check that a request can be neither claimed nor decided, and that a sentence says why."""
    at = timezone.now()
    with pytest.raises(refusal.Refused, match="nobody can decide it"):
        sharing.claim(escalation_id=request.pk, by=scene.rita, at=at)
    with pytest.raises(refusal.Refused, match="nobody can decide it"):
        deciding.decide(
            escalation_id=request.pk, by=scene.rita, at=at, wanted=Decision(approve=True)
        )
    assert Escalation.objects.get(pk=request.pk).state == EscalationState.OPEN
    assert fresh(request.run).state == RunState.WAITING
