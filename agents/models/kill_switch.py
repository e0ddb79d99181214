"""Kill switches: which writes may not start, and since when."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from django.db import models
from django.db.models import Q

from agents.models.run import Run
from agents.sdk.desk import tool_title


class Scope(StrEnum):
    WORKSPACE = "workspace"
    PATTERN = "pattern"
    TOOL = "tool"
    AGENT = "agent"  # one that runs elsewhere


class SwitchStage(StrEnum):
    ON = "on"
    TRIAL = "trial"  # runs launched since then may write, older ones not yet
    OFF = "off"


class KillSwitches(models.QuerySet["KillSwitch"]):
    def standing(self) -> Self:
        """Return the switches that still stop something, oldest first."""
        return self.filter(released_at=None).order_by("pk")


class KillSwitch(models.Model):
    """Pressed once, put on trial, then released for good; the next press is another row.

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
            models.UniqueConstraint(
                fields=["workspace", "scope", "target"],
                condition=Q(released_at__isnull=True),
                name="kill_switch_stands_once",
            ),
            models.CheckConstraint(
                condition=Q(scope="workspace", target="")
                | (Q(scope__in=["pattern", "tool", "agent"]) & ~Q(target="")),
                name="kill_switch_scope_has_target",
            ),
            models.CheckConstraint(
                condition=Q(released_at__isnull=True) | Q(trial_at__isnull=False),
                name="kill_switch_tried_before_released",
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
        """Return the condition for escalations whose action it stops: `stops` as a filter."""
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
