"""A run: one goal, pursued by one pattern to one outcome."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import cache, cached_property

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from agents.core.limits import Limits
from agents.core.requests import Json
from agents.core.states import ENDED, MOVES, RunState
from agents.db.compiled import CompiledSelect, CompiledUpdate, Param
from agents.db.driver import Pending, fetch_now
from agents.models.event import Entry, append_events


class LostRun(Exception):
    """Another worker or a person moved the run first."""


def _after(lease: timedelta | Param) -> models.ExpressionWrapper:
    """Return the end of a lease by the database's clock, because workers' clocks differ."""
    return models.ExpressionWrapper(Now() + lease, output_field=models.DateTimeField())


class Run(models.Model):
    """Its steps are its state; this row says who may continue it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(
        "agents.Workspace", models.PROTECT, related_name="runs", db_index=False
    )  # run_list begins with it
    policy = models.ForeignKey("agents.PolicyVersion", models.PROTECT, related_name="+")
    book = models.ForeignKey("agents.Book", models.PROTECT, related_name="+")
    pattern = models.CharField(max_length=40)
    goal = models.TextField()
    desk = models.CharField(max_length=40)
    # Whom or what it may act on: the desk's own key, and the name at the launch.
    subject_key = models.CharField(max_length=200, blank=True, default="", db_default="")
    subject_label = models.CharField(max_length=200, blank=True, default="", db_default="")
    model = models.CharField(max_length=100, blank=True)  # chosen at launch; "" is OPENAI_MODEL
    # The version of its pattern's requests; a worker of an older release does not claim it.
    question_version = models.PositiveSmallIntegerField(db_default=1)
    scope = models.JSONField(null=True)  # of a report: what it is about, as texts by name
    simulation = models.JSONField(default=dict)  # faults and people of a recorded case
    workflow = models.JSONField(default=dict)  # the declared document it follows, and its inputs
    launched_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    # Of a run that an agent elsewhere opened: who, and its own name for the session.
    agent = models.ForeignKey(
        "agents.ExternalAgent", models.PROTECT, null=True, related_name="runs", db_index=False
    )
    reference = models.CharField(max_length=200, null=True)  # noqa: DJ001 - null: no agent's
    claims = models.JSONField(null=True)  # what its agent says of itself: framework, link, summary
    # While it listens and nobody calls: when its agent counts as silent.
    idle_until = models.DateTimeField(null=True)
    # The ended run that this one repeats or goes on from; its unique index finds the newer of two.
    again_of = models.ForeignKey(
        "self", models.PROTECT, null=True, related_name="launched_again", db_index=False
    )
    # Of a run that was asked on: what the runs before it were asked, did and read, oldest first.
    before = models.JSONField(null=True)
    # Makes a double submit one run; null without a form, as nulls are never equal.
    launch_token = models.CharField(max_length=64, null=True)  # noqa: DJ001 - see above

    state = models.CharField(max_length=10, default=RunState.QUEUED)
    fence = models.PositiveBigIntegerField(
        default=0
    )  # rises with each claim, so that late workers lose
    lease_owner = models.CharField(max_length=32, blank=True)  # the process that holds the claim
    lease_ends_at = models.DateTimeField(null=True)
    wake_at = models.DateTimeField(null=True)  # queued, but not before this
    attempts = models.PositiveIntegerField(default=0)  # claims without an end in between
    outcome = models.JSONField(null=True)
    stop_reason = models.CharField(max_length=200, blank=True)
    event_count = models.PositiveBigIntegerField(default=0)
    head_hash = models.CharField(max_length=64, blank=True)  # of the run's newest event
    # Whether values stand behind names in it (MaskedValue): without, nobody looks for them.
    has_values = models.BooleanField(default=False, db_default=False)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    erased_at = models.DateTimeField(null=True)  # since then its texts are gone, its numbers stay
    archived_at = models.DateTimeField(null=True)  # since then a file has its events and steps

    # Whether a reviewer rejected something about its subject of late, as far as its worker knows.
    has_rejections = False

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(erased_at__isnull=True) | Q(ended_at__isnull=False),
                name="run_erased_has_ended",
            ),
            models.CheckConstraint(condition=Q(state__in=list(RunState)), name="run_state_known"),
            models.CheckConstraint(
                condition=Q(state__in=ENDED, ended_at__isnull=False)
                | (~Q(state__in=ENDED) & Q(ended_at__isnull=True)),
                name="run_ended_has_time",
            ),
            models.UniqueConstraint(
                fields=["workspace", "launch_token"], name="run_launch_token_once"
            ),
            models.UniqueConstraint(
                fields=["again_of"], condition=Q(again_of__isnull=False), name="run_again_once"
            ),
        ]
        indexes = [
            models.Index(fields=["workspace", "-created_at", "-id"], name="run_list"),
            # The list's filter by subject.
            models.Index(fields=["workspace", "subject_key", "-created_at"], name="run_of_subject"),
            # The ends that the list's filter offers.
            models.Index(fields=["workspace", "stop_reason"], name="run_stop_reason"),
            # For the worker: claimable runs, and expired leases.
            models.Index(fields=["state", "wake_at", "created_at"], name="run_claimable"),
            # Runs that ended on a day, and open ones: for the sums of models' use.
            models.Index(fields=["ended_at"], name="run_ended"),
            # The runs of an agent; and for the sweep, those that listen to nobody.
            models.Index(
                fields=["agent", "-created_at"],
                condition=Q(agent__isnull=False),
                name="run_of_agent",
            ),
            models.Index(
                fields=["idle_until"],
                condition=Q(state=RunState.WAITING, idle_until__isnull=False),
                name="run_idle",
            ),
            # For the sweep: waiting runs without an open escalation, from this index and
            # escalation_open alone, as the rows themselves are wide.
            # (SQLite reads the state from the index only where it is one of its columns.)
            models.Index(
                fields=["state", "id", "pattern"],
                condition=Q(state=RunState.WAITING),
                name="run_waiting",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pattern} {str(self.pk)[:8]}"

    @property
    def limits(self) -> Limits:
        """Return the limits of the run's pattern and desk. Raises BadPolicy."""
        return self.policy.limits_of(self.pattern, self.desk)

    @property
    def opener(self) -> str:
        """Return who launched it: a person, or an agent with the person who owned it then."""
        who = self.launched_by.get_username()
        return f"agent {self.agent.name} of {who}" if self.agent else who

    @property
    def asked_goal(self) -> str:
        """Return the goal that a person typed here; "" for an agent's, which is its own claim."""
        return "" if self.agent_id else self.goal

    @property
    def is_emptied(self) -> bool:
        """Tell whether its steps' requests and replies are no longer here."""
        return bool(self.erased_at or self.archived_at)

    @property
    def title(self) -> str:
        """Return the run's goal, or when it was erased."""
        return f"Erased on {self.erased_at:%Y-%m-%d}" if self.erased_at else self.goal

    @classmethod
    def renew(cls, owner: str, lease: timedelta, runs: Collection[uuid.UUID]) -> int:
        """Renew the leases that `owner` holds on these runs. Return their number."""
        held = cls.objects.filter(pk__in=runs, lease_owner=owner, state=RunState.RUNNING)
        return held.update(lease_ends_at=_after(lease))

    def earlier_runs(self) -> list[uuid.UUID]:
        """Return the earlier runs that this one repeats, newest first; almost always none."""
        return [*self._earlier]

    @cached_property
    def _earlier(self) -> Sequence[uuid.UUID]:
        # Each review asks several times; a trigger keeps what a run repeats as it is.
        found: list[uuid.UUID] = []
        before = self.again_of_id
        while before:
            found.append(before)
            [(_, before)] = _AGAIN_OF.tuples(pk=before)
        return found

    def assert_lease(self) -> None:
        """Prove, inside a transaction, that the run is still ours. Raises LostRun.

        It also locks the row, so that one run has one writer at a time.
        """
        found = fetch_now(_HELD.fetch_tuples, pk=self.pk, fence=self.fence)
        if not found:
            raise LostRun(self.pk)
        [(_, self.event_count, self.head_hash)] = found

    def move(
        self,
        to: RunState,
        *,
        at: datetime,
        facts: Json = None,
        actor: str = "",
        **columns: object,
    ) -> None:
        """Move to `to` and record that. Raises LostRun if the run has moved before.

        Call inside a transaction. Taking a run away from its worker raises the fence.
        """
        changed = columns_of_move(self, to, at=at, **columns)
        send_change(self.pk, self.state, self.fence, changed).get()
        for name, value in changed.items():
            setattr(self, name, value)
        self.say(f"run.{to}", at=at, facts=facts or {}, actor=actor)

    def say(self, kind: str, *, at: datetime, facts: Json, actor: str = "") -> None:
        """Add an event to the run's chain, in the transaction of the change it describes."""
        self.tell([Entry(kind, facts, actor)], at=at)

    def tell(self, entries: Sequence[Entry], *, at: datetime) -> None:
        """Add events to the run's chain, in the transaction of the change they describe."""
        if entries:
            append_events(entries, run_id=self.pk, workspace_id=self.workspace_id, at=at)


def columns_of_move(
    run: Run, to: RunState, *, at: datetime, **columns: object
) -> dict[str, object]:
    """Return the columns that a move to `to` changes. Raises LostRun if it is not allowed."""
    if to not in MOVES[RunState(run.state)]:
        raise LostRun(f"{run.pk}: {run.state} -> {to}")
    ends = {"ended_at": at} if to in ENDED else {}
    released = {"lease_owner": "", "lease_ends_at": None}
    return {"state": to, "fence": run.fence + 1, **released, **columns, **ends}


def send_change(pk: uuid.UUID, state: str, fence: int, columns: dict[str, object]) -> Pending[None]:
    """Change a run that is still in this state, under this fence; `get` raises LostRun if not.

    The column `lease` is a duration from now by the database's clock.
    """
    count = _updating(frozenset(columns)).send(pk=pk, was=state, fenced=fence, **columns)

    def check() -> None:
        if not count.get():
            raise LostRun(pk)

    return Pending(check)


@cache
def _updating(names: frozenset[str]) -> CompiledUpdate:
    """Return the UPDATE of these columns if state and fence are unchanged; `lease` as above."""
    # Sorted: one statement for every process, and one plan.
    columns = {name: Param(name, Run._meta.get_field(name)) for name in sorted(names - {"lease"})}
    lease = Param("lease", models.DurationField())
    ends = {"lease_ends_at": _after(lease)} if "lease" in names else {}
    as_it_was = Q(pk=Param("pk"), state=Param("was"), fence=Param("fenced"))
    return CompiledUpdate(lambda: Run.objects.filter(as_it_was), **columns, **ends)


_AGAIN_OF = CompiledSelect(lambda: Run.objects.filter(pk=Param("pk")).only("again_of"))
_HELD = CompiledSelect(
    lambda: (
        Run.objects.filter(pk=Param("pk"), fence=Param("fence"), state=RunState.RUNNING)
        .select_for_update()
        .only("event_count", "head_hash")
    )
)
