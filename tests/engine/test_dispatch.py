"""Requirements on every way of dispatching runs to workers."""

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone
from django.utils.module_loading import import_string

from agents import llm
from agents.core.requests import RunState
from agents.engine import lease
from agents.engine.lease import claim
from agents.engine.runtime.database import close_connections, in_database
from agents.engine.runtime.dispatch import ring, unheard
from agents.engine.turns import asking
from agents.engine.upkeep.sweep import sweep
from agents.engine.workers import worker
from agents.models import Run
from tests.engine.scene import REFUND_500, Scene, fresh, has_ended, mails, payments, set_scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

PATIENCE = 60.0  # seconds


@pytest.fixture
def scene(dispatch: str) -> Scene:
    return set_scene()


def work_until(until: Callable[[], bool]) -> None:
    """Run a worker in this process until a condition holds."""

    async def take_until() -> None:
        stop, ours = asyncio.Event(), worker.ActiveRuns()
        taker = import_string(worker.TAKERS[settings.OPSCONSOLE_DISPATCH])(stop, ours)
        taking = asyncio.create_task(taker.run())
        try:
            end = time.monotonic() + PATIENCE
            while not await in_database(until):
                assert time.monotonic() < end, "it took too long"
                await asyncio.sleep(0.02)
        finally:
            stop.set()
            await taking
            await ours.finish()
            await llm.close()
            close_connections()

    asyncio.run(take_until())


def jobs() -> list[Any]:
    """Return the status of every job, oldest first."""
    if settings.OPSCONSOLE_DISPATCH == "polling":
        return []
    with connection.cursor() as cursor:
        cursor.execute("SELECT status::text FROM procrastinate_jobs ORDER BY id")
        return [status for (status,) in cursor.fetchall()]


def lose_jobs() -> None:
    if settings.OPSCONSOLE_DISPATCH == "procrastinate":
        connection.cursor().execute("DELETE FROM procrastinate_jobs")


def test_a_decision_brings_the_run_back_to_a_worker(scene: Scene) -> None:
    run = scene.launch()
    work_until(lambda: fresh(run).state == RunState.WAITING)

    scene.decide(run)
    work_until(lambda: has_ended(run))

    assert (payments(run), mails(run)) == ([80000], [80000])


@pytest.mark.proves("F13")
def test_a_bell_that_rings_often_starts_a_run_once(scene: Scene) -> None:
    run = scene.launch(REFUND_500)
    for _ in range(5):
        ring(run.pk)

    work_until(lambda: has_ended(run) and "todo" not in jobs())

    assert run.events.filter(kind="run.claimed").count() == 1
    assert payments(run) == [50000]


@pytest.mark.proves("F13")
def test_a_bell_for_a_run_that_has_ended_does_nothing(scene: Scene) -> None:
    run = scene.launch(REFUND_500)
    work_until(lambda: has_ended(run))
    events = run.events.count()

    ring(run.pk)
    other = scene.launch(REFUND_500)
    work_until(lambda: has_ended(other))

    assert fresh(run).events.count() == events


@pytest.mark.proves("I26", "F14")
def test_a_bell_that_was_lost_costs_one_sweep(scene: Scene) -> None:
    run = scene.launch(REFUND_500)
    lose_jobs()

    work_until(lambda: has_ended(run))

    assert payments(run) == [50000]


def test_a_bell_rings_only_if_its_transaction_commits(scene: Scene) -> None:
    run = scene.launch(REFUND_500)
    before = jobs()

    with transaction.atomic():
        ring(run.pk)
        transaction.set_rollback(True)

    assert jobs() == before


@pytest.mark.proves("F14")
def test_sweep_rings_once_per_run(scene: Scene) -> None:
    scene.launch(REFUND_500)
    before = jobs()

    assert sweep() == 0
    assert jobs() == before
    assert not unheard(Run.objects.all()).exists()


def test_a_run_that_is_to_wait_is_not_begun_before_its_time(scene: Scene) -> None:
    run = scene.launch(REFUND_500)
    wake_at = timezone.now() + timedelta(seconds=1)
    Run.objects.filter(pk=run.pk).update(wake_at=wake_at)
    lose_jobs()
    ring(run.pk, at=wake_at)

    work_until(lambda: has_ended(run))

    assert run.events.get(kind="run.claimed").at >= wake_at
    assert jobs() == []


def test_early_woken_run_needs_no_sweep(scene: Scene) -> None:
    run = scene.launch(REFUND_500)
    far = timezone.now() + timedelta(hours=1)
    Run.objects.filter(pk=run.pk).update(wake_at=far)
    lose_jobs()
    ring(run.pk, at=far)  # its only job is for then

    assert asking.wake_runs(Run.objects.all()) == 1
    assert not unheard(Run.objects.all()).exists()

    work_until(lambda: has_ended(run))
    assert fresh(run).stop_reason == "success"


@pytest.mark.proves("F9")
def test_a_worker_that_stops_gives_back_what_it_holds(scene: Scene) -> None:
    run = scene.launch(REFUND_500)
    work_until(lambda: has_ended(run))
    held = scene.launch(REFUND_500)
    lose_jobs()
    claim(held.pk, owner=lease.OWNER, lease=lease.length(), at=timezone.now())

    assert lease.release_runs() == 1

    given_back = fresh(held)
    assert (given_back.state, given_back.attempts) == (RunState.QUEUED, 0)
    work_until(lambda: has_ended(held))
    assert payments(held) == [50000]


def test_a_lease_is_renewed_only_while_somebody_drives(scene: Scene) -> None:
    """A failed drive once kept its run for the life of its process."""
    run = scene.launch(REFUND_500)
    claim(run.pk, owner=lease.OWNER, lease=lease.length(), at=timezone.now())
    held = frozenset({run.pk})

    with lease.driving(run.pk):
        assert lease.driven_runs() == held
        assert Run.renew(lease.OWNER, lease.length(), held) == 1

    assert lease.driven_runs() == frozenset()
    assert Run.renew(lease.OWNER, lease.length(), lease.driven_runs()) == 0
