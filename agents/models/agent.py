"""Agents that run elsewhere, their keys, and the calls they propose."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from agents.models.workspace import Workspace

LONGEST_KEY = 200  # characters of a reference and of a call's key


class ExternalAgent(models.Model):
    """A program that proposes at one desk. Its owner answers for it, and it never decides."""

    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="agents", db_index=False
    )  # agent_name_once begins with it
    name = models.CharField(max_length=40)
    desk = models.CharField(max_length=40)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    paused_at = models.DateTimeField(null=True)  # since then it opens and proposes nothing
    key_prefix = ""  # of the key that a request came with; no column

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "name"], name="agent_name_once")
        ]

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
            models.CheckConstraint(
                condition=Q(agent__isnull=True) ^ Q(workspace__isnull=True),
                name="agent_key_has_one_home",
            )
        ]

    def __str__(self) -> str:
        return self.prefix


class AgentCall(models.Model):
    """A call that an agent proposed under a key of its own, or the end of its session.

    A session is what was opened under one reference. The arguments stand here until a slot of the
    run takes the call; then they are its step's.
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
    key_prefix = models.CharField(max_length=16, blank=True)  # of the agent's key that it came with
    side_by_side = models.BooleanField(default=False)  # need not wait for the one before
    step = models.CharField(max_length=200, blank=True)  # the key of the step that it answers
    proposed_at = models.DateTimeField()
    withdrawn_at = models.DateTimeField(null=True)  # since then it is not carried out any more
    # What its agent, which executed it, says came of it: {"executed", "result"}.
    reported = models.JSONField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "reference", "key"], name="call_key_once"),
            models.UniqueConstraint(
                fields=["run"], condition=Q(is_end=True), name="call_one_end_of_run"
            ),
        ]
        indexes = [
            # What a run still has to take, in order, and how many it has had.
            models.Index(fields=["run", "step", "id"], name="call_of_run"),
            # What an agent was told, in order, and how many calls it made in a minute.
            models.Index(fields=["agent", "id"], name="call_of_agent"),
        ]

    def __str__(self) -> str:
        return f"call {self.pk}"
