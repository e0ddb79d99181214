"""A run: one goal, carried through one pattern to one outcome."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from datetime import datetime, timedelta

from django.conf import settings
from django.db import models, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from agents.core.effects import Json
from agents.core.states import ENDED, MOVES, RunState
from agents.models.event import Entry, append


class LostRun(Exception):
    """Another worker, or a person, moved the run first."""


def _after(lease: timedelta) -> models.ExpressionWrapper:
    """Return the end of a lease by the database's clock, because workers' clocks differ."""
    return models.ExpressionWrapper(Now() + lease, output_field=models.DateTimeField())


class Run(models.Model):
    """The steps are its state; this row says whose turn it is."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey("agents.Workspace", models.PROTECT, related_name="runs")
    policy = models.ForeignKey("agents.PolicyVersion", models.PROTECT, related_name="+")
    book = models.ForeignKey("desk.Book", models.PROTECT, related_name="+")
    pattern = models.CharField(max_length=40)
    goal = models.TextField()
    subject = models.BigIntegerField(null=True)  # the customer number it may act on
    model = models.CharField(max_length=100, blank=True)  # chosen at launch; "" is OPENAI_MODEL
    scope = models.JSONField(null=True)  # of a report: its {"report_date", "region"}
    simulation = models.JSONField(default=dict)  # faults and people of a recorded case
    workflow = models.JSONField(default=dict)  # the declared document it follows, and its inputs
    launched_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    # Makes a double submit one run; null where there was no form, as nulls are never equal.
    launch_token = models.CharField(max_length=64, null=True)  # noqa: DJ001 - see above

    state = models.CharField(max_length=10, default=RunState.QUEUED)
    fence = models.PositiveBigIntegerField(default=0)  # grows with each claim: late workers lose
    lease_owner = models.CharField(max_length=32, blank=True)  # the process that holds the claim
    lease_ends_at = models.DateTimeField(null=True)
    wake_at = models.DateTimeField(null=True)  # queued, but not before this
    attempts = models.PositiveIntegerField(default=0)  # claims without an end in between
    outcome = models.JSONField(null=True)
    stop_reason = models.CharField(max_length=200, blank=True)
    event_count = models.PositiveBigIntegerField(default=0)
    head_hash = models.CharField(max_length=64, blank=True)  # of the run's newest event
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=list(RunState)), name="run_state_known"),
            models.CheckConstraint(
                condition=Q(state__in=ENDED, ended_at__isnull=False)
                | (~Q(state__in=ENDED) & Q(ended_at__isnull=True)),
                name="run_ended_has_time",
            ),
            models.UniqueConstraint(
                fields=["workspace", "launch_token"], name="run_launch_token_once"
            ),
        ]
        indexes = [
            models.Index(fields=["workspace", "-created_at", "id"], name="run_list"),
            # The list's filter for those who ask what became of one customer.
            models.Index(fields=["workspace", "subject", "-created_at"], name="run_of_customer"),
            # The worker's question: what is claimable, and whose lease ran out?
            models.Index(fields=["state", "wake_at", "created_at"], name="run_claimable"),
            # The sweep: does everybody who waits still have something to wait for? The rows
            # themselves are wide; this and escalation_open answer from the indexes alone.
            # (SQLite reads the state from the index only where it is one of its columns.)
            models.Index(
                fields=["state", "id"], condition=Q(state=RunState.WAITING), name="run_waiting"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pattern} {str(self.pk)[:8]}"

    @classmethod
    def claim(cls, run_id: uuid.UUID, *, owner: str, lease: timedelta, at: datetime) -> Run | None:
        """Take a queued run for `lease`. Return None if it is not to be had."""
        with transaction.atomic():
            queued = cls.objects.filter(pk=run_id, state=RunState.QUEUED).exclude(wake_at__gt=Now())
            taken = queued.update(
                state=RunState.RUNNING,
                fence=F("fence") + 1,
                attempts=F("attempts") + 1,
                lease_owner=owner,
                lease_ends_at=_after(lease),
                wake_at=None,
            )
            if not taken:
                return None
            run = cls.objects.select_related("policy", "workspace").get(pk=run_id)
            run.say("run.claimed", at=at, facts={"attempt": run.attempts})
            return run

    @classmethod
    def renew(cls, owner: str, lease: timedelta, runs: Collection[uuid.UUID]) -> int:
        """Lengthen the leases that `owner` holds on these runs. Return how many."""
        held = cls.objects.filter(pk__in=runs, lease_owner=owner, state=RunState.RUNNING)
        return held.update(lease_ends_at=_after(lease))

    def hold(self, *, lease: timedelta) -> None:
        """Prove, inside a transaction, that the run is still ours. Raises LostRun.

        The UPDATE also locks the row, so that one run has one writer at a time.
        """
        ours = Run.objects.filter(pk=self.pk, fence=self.fence, state=RunState.RUNNING)
        if not ours.update(lease_ends_at=_after(lease)):
            raise LostRun(self.pk)

    def move(
        self,
        to: RunState,
        *,
        at: datetime,
        facts: Json = None,
        actor: str = "",
        **columns: object,
    ) -> None:
        """Go to `to` and say so in the record. Raises LostRun if the run is no longer ours.

        Call inside a transaction. Whoever takes a run away from its worker raises the fence.
        """
        if to not in MOVES[RunState(self.state)]:
            raise LostRun(f"{self.pk}: {self.state} -> {to}")
        if to in ENDED:
            columns["ended_at"] = at
        ours = Run.objects.filter(pk=self.pk, state=self.state, fence=self.fence)
        if not ours.update(
            state=to, fence=F("fence") + 1, lease_owner="", lease_ends_at=None, **columns
        ):
            raise LostRun(self.pk)
        self.fence, self.state = self.fence + 1, to
        self.say(f"run.{to}", at=at, facts=facts or {}, actor=actor)

    def say(self, kind: str, *, at: datetime, facts: Json, actor: str = "") -> None:
        """Add an event to the run's chain, in the transaction of the change it tells of."""
        append([Entry(kind, facts, actor)], run=self, workspace_id=self.workspace_id, at=at)
