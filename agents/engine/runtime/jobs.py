"""Runs as jobs of Procrastinate, in the same PostgreSQL: one more row in the caller's transaction.

A job only says "look at this run". It may come twice, late or never: `run_once` reads the run's
row, and the sweep rings again for a run without a job.
"""

from datetime import datetime
from uuid import UUID

from django.db import OperationalError, connection
from django.db.models import CharField, Exists, OuterRef, QuerySet
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Now
from procrastinate import App
from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.contrib.django.models import ProcrastinateJob
from procrastinate.exceptions import ConnectorException

from agents.core.requests import RunState
from agents.models import Run

QUEUE, TASK = "runs", "advance"

# It uses Django's connection of the calling thread, so a job commits or rolls back with the change
# it announces. The worker has its own app: if it replaced this one's connector, as Procrastinate's
# command does, the engine's bells would leave their transactions.
_app = App(connector=DjangoConnector())


_HASTEN = """
UPDATE procrastinate_jobs SET scheduled_at = statement_timestamp()
WHERE queue_name = %(queue)s AND status = 'todo' AND scheduled_at > statement_timestamp()
  AND args ->> 'run_id' IN (
    SELECT id::text FROM agents_run WHERE state = %(queued)s AND wake_at <= statement_timestamp()
  )
"""


class Jobs:
    """Announce a run by a job; NOTIFY tells a worker when the caller commits."""

    def ring(self, run_id: UUID, *, at: datetime | None) -> None:
        # No queueing lock: an existing job may be fetched before the caller commits and find
        # nothing. A superfluous job finds nothing either, but costs little.
        try:
            job = _app.configure_task(TASK, queue=QUEUE, schedule_at=at)
            job.defer(run_id=str(run_id))
        except ConnectorException as error:  # as Django's, so that the transaction is retried
            raise OperationalError(str(error.__cause__ or error)) from error.__cause__

    def hasten(self) -> None:
        # Their jobs exist, for later. Nothing announces them: a worker looks every second.
        with connection.cursor() as cursor:
            cursor.execute(_HASTEN, {"queue": QUEUE, "queued": RunState.QUEUED})

    def unheard(self, runs: QuerySet[Run]) -> QuerySet[Run]:
        # A job for later does not count if the run has been woken since.
        waiting = ProcrastinateJob._default_manager.filter(queue_name=QUEUE, status="todo").exclude(
            scheduled_at__gt=Now()
        )
        for_run = waiting.annotate(run=KT("args__run_id")).filter(
            run=Cast(OuterRef("pk"), CharField())
        )
        return runs.filter(~Exists(for_run))
