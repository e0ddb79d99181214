"""Hundreds of runs are recovered in one sweep after a crash, and requeued in few commits."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.core.requests import RunState
from agents.engine import lease
from agents.engine.lease import claim
from agents.engine.upkeep.sweep import sweep
from agents.models import Run
from tests.engine.scene import set_scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

MANY = 230


@pytest.fixture
def held_runs() -> Any:
    """Make this process hold many runs."""
    scene = set_scene()
    for _ in range(MANY):
        run = scene.launch()
        claim(run.pk, owner=lease.OWNER, lease=timedelta(minutes=1), at=timezone.now())
    return Run.objects.filter(state=RunState.RUNNING)


@pytest.mark.proves("F10")
def test_one_sweep_brings_all_runs_of_a_worker_that_went_quiet(held_runs: Any) -> None:
    held_runs.update(lease_ends_at=timezone.now() - timedelta(minutes=1))

    sweep()

    assert held_runs.count() == 0
    assert Run.objects.filter(state=RunState.QUEUED, attempts=1).count() == MANY


@pytest.mark.proves("F9")
def test_a_worker_that_ends_gives_its_runs_back_in_few_commits(held_runs: Any) -> None:
    with CaptureQueriesContext(connection) as said:
        assert lease.release_runs() == MANY

    begun = [query for query in said.captured_queries if query["sql"].startswith("BEGIN")]
    assert len(begun) <= 1 + MANY // lease.TOGETHER + 1
    assert Run.objects.filter(state=RunState.QUEUED, attempts=0).count() == MANY
