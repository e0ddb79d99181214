"""Faults of the queue itself: jobs of dead workers, a queue that cannot be written."""

from collections.abc import Sequence

import pytest
from django.db import OperationalError, connection, transaction

from agents.core.requests import RunState
from agents.engine.runtime.dispatch import ring
from agents.models import Run
from tests.engine.scene import REFUND_500, Scene, fresh, has_ended, in_thread, payments, set_scene
from tests.engine.test_dispatch import jobs, work_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.postgres,
    pytest.mark.parametrize("dispatch", ["procrastinate"], indirect=True),
]

CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND pid <> %s
"""


@pytest.fixture
def scene(dispatch: str) -> Scene:
    return set_scene()


def run_sql(statement: str, given: Sequence[int] = ()) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, given)


def test_a_job_whose_worker_died_is_taken_over(scene: Scene) -> None:
    run = scene.launch(REFUND_500)
    run_sql("UPDATE procrastinate_jobs SET status = 'doing'")  # by a dead worker

    work_until(lambda: has_ended(run) and jobs() == [])

    assert payments(run) == [50000]


def test_a_queue_that_is_locked_takes_the_change_back_with_it(scene: Scene) -> None:
    run = scene.launch(REFUND_500)

    @transaction.atomic
    def stop_and_ring() -> None:
        run_sql("SET LOCAL lock_timeout = '50ms'")
        fresh(run).move(RunState.STOPPED, at=run.created_at)
        ring(run.pk)

    with transaction.atomic():
        run_sql("LOCK TABLE procrastinate_jobs IN EXCLUSIVE MODE")
        with pytest.raises(OperationalError) as refused:
            in_thread(stop_and_ring)

    assert getattr(refused.value.__cause__, "sqlstate", "") == "55P03"
    assert fresh(run).state == RunState.QUEUED


def test_a_worker_that_is_there_before_its_queue_waits_for_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agents.engine.workers import listening  # needs the queue's tables, so not on SQLite

    run = scene.launch(REFUND_500)
    right = listening.connector_params()
    answers = iter([{**right, "port": 1}])  # where nobody listens
    monkeypatch.setattr(listening, "OPENING", 0.2)
    monkeypatch.setattr(listening, "connector_params", lambda: next(answers, right))

    work_until(lambda: has_ended(run))

    assert payments(run) == [50000]
    assert next(answers, None) is None


@pytest.mark.proves("F19", "F21")
def test_a_worker_outlives_the_connections_it_loses(scene: Scene) -> None:
    first = scene.launch(REFUND_500)
    after: list[Run] = []
    ours = connection.connection.info.backend_pid  # the test's own connection, to be kept

    def both_ended() -> bool:
        if has_ended(first) and not after:
            run_sql(CUT, [ours])
            after.append(scene.launch(REFUND_500))
        return bool(after) and has_ended(after[0])

    work_until(both_ended)

    assert payments(after[0]) == [50000]
