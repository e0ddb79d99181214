"""What is outside: agents that run elsewhere, model servers, and the switches that stop calls."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Self

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from agents.models.keys import check, index, once
from agents.models.people import Workspace
from agents.models.runs import Run, from_now
from agents.sdk.desk import tool_title

LONGEST_KEY = 200  # characters of a reference and of a call's key


class ExternalAgent(models.Model):
    """A program that proposes at one desk. Its owner answers for it, and it never decides."""

    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="agents", db_index=False
    )  # agent_name_once begins with it
    name = models.CharField(max_length=40)
    desk = models.CharField(max_length=40)
    owner = models.ForeignKey("auth.User", models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    paused_at = models.DateTimeField(null=True)  # since then it may open and propose nothing
    key_prefix = ""  # of the key that a request came with; no column

    class Meta:
        constraints = [once("agent_name_once", "workspace", "name")]

    def __str__(self) -> str:
        return self.name


class AgentKey(models.Model):
    """A key of an agent, or of a workspace, which reads all of it and proposes nothing.

    Only its hash is kept; `prefix` names it to people.
    """

    agent = models.ForeignKey(ExternalAgent, models.CASCADE, null=True, related_name="keys")
    workspace = models.ForeignKey(Workspace, models.CASCADE, null=True, related_name="keys")
    prefix = models.CharField(max_length=16, unique=True)
    token_sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)  # to the minute
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            check("agent_key_has_one_home", Q(agent__isnull=True) ^ Q(workspace__isnull=True))
        ]

    def __str__(self) -> str:
        return self.prefix


class AgentCall(models.Model):
    """A call that an agent proposed under its own key, or the end of its session.

    A session has one reference. The arguments are stored here until a slot of the run takes the
    call; then its step has them.
    """

    agent = models.ForeignKey(ExternalAgent, models.PROTECT, related_name="calls", db_index=False)
    run = models.ForeignKey("agents.Run", models.CASCADE, related_name="calls", db_index=False)
    reference = models.CharField(max_length=LONGEST_KEY)
    key = models.CharField(max_length=LONGEST_KEY)
    digest = models.CharField(max_length=64)  # keyed, of what was sent, before it was masked
    is_end = models.BooleanField(default=False)
    asked = models.JSONField(null=True)  # null once a slot has it
    # The names that stand for values in it which the agent sent itself, and may read again.
    masked = models.JSONField(default=list)
    key_prefix = models.CharField(max_length=16, blank=True)  # of the agent's key in the request
    side_by_side = models.BooleanField(default=False)  # need not wait for the one before
    step = models.CharField(max_length=200, blank=True)  # the key of the step that it answers
    proposed_at = models.DateTimeField()
    withdrawn_at = models.DateTimeField(null=True)  # since then it may not be executed
    # Its agent's report: {"executed", "result"}.
    reported = models.JSONField(null=True)

    class Meta:
        constraints = [
            once("call_key_once", "agent", "reference", "key"),
            once("call_one_end_of_run", "run", where=Q(is_end=True)),
        ]
        indexes = [
            # Calls that a run still has to take, in order, and their number.
            index("call_of_run", "run", "step", "id"),
            # An agent's calls in order, and their number in a minute.
            index("call_of_agent", "agent", "id"),
        ]


class Scope(StrEnum):
    WORKSPACE = "workspace"
    PATTERN = "pattern"
    TOOL = "tool"
    AGENT = "agent"  # an external agent


class SwitchStage(StrEnum):
    ON = "on"
    TRIAL = "trial"  # runs launched since then may write, older ones not yet
    OFF = "off"


class KillSwitches(models.QuerySet["KillSwitch"]):
    def standing(self) -> Self:
        """Return the switches that still stop something, oldest first."""
        return self.filter(released_at=None).order_by("pk")


class KillSwitch(models.Model):
    """Which writes may not start, and since when.

    Pressed once, put on trial, then released for good; the next press is another row.

    A press of one on trial releases it too, so that a row tells who pressed last, and why.
    """

    workspace = models.ForeignKey("agents.Workspace", models.PROTECT, related_name="kill_switches")
    scope = models.CharField(max_length=10)
    target = models.CharField(max_length=60, blank=True)  # the name of a pattern, tool or agent
    reason = models.TextField()
    pressed_by = models.CharField(max_length=150)  # a user's name, as in the record
    pressed_at = models.DateTimeField()
    trial_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True)

    objects = KillSwitches.as_manager()

    class Meta:
        constraints = [
            once(
                "kill_switch_stands_once",
                "workspace",
                "scope",
                "target",
                where=Q(released_at__isnull=True),
            ),
            check(
                "kill_switch_scope_has_target",
                Q(scope="workspace", target="")
                | (Q(scope__in=["pattern", "tool", "agent"]) & ~Q(target="")),
            ),
            check(
                "kill_switch_tried_before_released",
                Q(released_at__isnull=True) | Q(trial_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.target}".rstrip()

    @property
    def name(self) -> str:
        """Return what it stops, as its name."""
        return stopped_by(self.scope, self.target)

    @property
    def stage(self) -> SwitchStage:
        if self.released_at:
            return SwitchStage.OFF
        return SwitchStage.TRIAL if self.trial_at else SwitchStage.ON

    def stops(self, run: Run, tool: str) -> bool:
        """Tell whether a call of `tool` in this run may not start."""
        if self.trial_at and run.created_at > self.trial_at:
            return False
        if self.scope == Scope.AGENT:
            return run.agent is not None and run.agent.name == self.target
        named = {Scope.WORKSPACE: "", Scope.PATTERN: run.pattern, Scope.TOOL: tool}
        return self.target == named[Scope(self.scope)]

    def holds(self) -> Q:
        """Return the condition for requests whose action it stops: `stops` as a filter."""
        held = Q(workspace=self.workspace_id)
        if self.scope == Scope.PATTERN:
            held &= Q(run__pattern=self.target)
        if self.scope == Scope.AGENT:
            held &= Q(run__agent__name=self.target)
        if self.scope == Scope.TOOL:
            held &= Q(action__name=self.target)
        return held & Q(run__created_at__lte=self.trial_at) if self.trial_at else held


def stopped_by(scope: str, target: str) -> str:
    """Return what a switch stops: all changes, a pattern's runs, an agent or a tool."""
    if scope == Scope.AGENT:
        return f"the agent {target}"
    if scope == Scope.PATTERN:
        return f"{target.replace('_', ' ').capitalize()} runs"
    return tool_title(target) if target else "all payments, emails and changes"


LONGEST_FAULT = 300  # characters kept of the newest error


class EndpointQuerySet(models.QuerySet["Endpoint"]):
    def resting(self) -> "EndpointQuerySet":
        """Return those at rest now; a rest that is over ends with the next call."""
        return self.failing().filter(rests_until__gt=Now())

    def failing(self) -> "EndpointQuerySet":
        """Return those whose newest call failed, at rest or not."""
        return self.filter(failures__gt=0).order_by("rests_until", "address")


class Endpoint(models.Model):
    """A model server that has ever failed or was offered tools, shared by all workers.

    While `rests_until` is set, no call is made before that time, and then a single probe for all.
    Times are the database's, because workers' clocks differ.
    """

    address = models.CharField(max_length=500, primary_key=True)
    failures = models.PositiveIntegerField(default=0)  # in a row, of any run
    fault = models.CharField(max_length=LONGEST_FAULT, blank=True, db_default="")  # the newest
    rests_until = models.DateTimeField(null=True)
    recovered_at = models.DateTimeField(null=True)  # when it last answered after a failure
    # Which models return a forced call: by name, found on a day.
    tool_calls = models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict)

    objects = EndpointQuerySet.as_manager()

    @classmethod
    def probe(cls, address: str, *, within: timedelta) -> bool:
        """Try to get the probe after a rest; the others rest on, for `within` at most."""
        rested = cls.objects.filter(address=address, rests_until__lte=Now())
        return bool(rested.update(rests_until=from_now(within)))

    @classmethod
    def count_failure(
        cls, address: str, *, fault: str, most: int, rest: timedelta, probe: bool
    ) -> bool:
        """Count a failure; after `most` in a row or a failed probe, begin a rest.

        Calls already open when a rest begins do not prolong it. Return whether a rest began.
        """
        cls.objects.get_or_create(address=address)
        mine = cls.objects.filter(address=address)
        mine.update(failures=F("failures") + 1, fault=fault[:LONGEST_FAULT])
        due = mine if probe else mine.filter(failures__gte=most, rests_until=None)
        return bool(due.update(rests_until=from_now(rest)))

    @classmethod
    def record_recovery(cls, address: str) -> bool:
        """Reset the failures after an answer. Return whether it was at rest."""
        mine = cls.objects.filter(address=address, failures__gt=0)
        well = {"failures": 0, "fault": "", "rests_until": None, "recovered_at": Now()}
        if mine.filter(rests_until__isnull=False).update(**well):
            return True
        mine.update(**well)
        return False

    @classmethod
    def record_tool_calls(cls, address: str, model: str, *, day: str, knows: bool) -> None:
        """Record whether a model was found to call tools, and forget what other days found."""
        known, _ = cls.objects.get_or_create(address=address)
        of_day = {name: one for name, one in known.tool_calls.items() if one["day"] == day}
        by_model = {**of_day, model: {"day": day, "knows": knows}}
        cls.objects.filter(address=address).update(tool_calls=by_model)

    @classmethod
    def end_rests(cls) -> int:
        """End all rests, so that the next call is made at once. Return their number."""
        return cls.objects.filter(rests_until__gt=Now()).update(rests_until=Now())

    @classmethod
    def has_answered_since(cls, address: str, since: datetime) -> bool:
        """Tell whether it has recovered since then."""
        return cls.objects.filter(address=address, recovered_at__gt=since).exists()
