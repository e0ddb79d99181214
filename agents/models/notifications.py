"""Notifications: what happened, the recipients, and the state of each message.

Rows hold no personal texts: a message is worded when it is sent, so an erasure has nothing to do
here.
"""

import base64
from collections.abc import Iterator
from enum import StrEnum
from hashlib import sha256
from typing import Any

from django.db import models
from django.db.models import Q
from django.utils.crypto import salted_hmac

from agents.core.decisions import EFFECT_UNKNOWN
from agents.core.notifications import OF_EVENTS, UNKNOWN, Hours, Kind, about
from agents.core.requests import Json
from agents.models.keys import check, has, index, once

LONGEST_FAULT = 120  # characters
RECIPIENTS = ("user", "webhook", "invitation")  # each message has one of them


class Notification(models.Model):
    """An occurrence, created in its event's transaction; `addressed_at` is when it was addressed.

    For an opened request two more rows follow: its half time and its last minutes.
    """

    workspace = models.ForeignKey(
        "agents.Workspace", models.CASCADE, related_name="+", db_index=False
    )
    kind = models.CharField(max_length=20)
    about = models.CharField(max_length=60)  # request:12; with the kind, the key of a message
    # For a kill switch "on tool:pay"; for a run that needs attention "failed", UNKNOWN or UNTOLD;
    # for a policy the key of its draft, or its number.
    detail = models.CharField(max_length=120, blank=True)
    run = models.ForeignKey("agents.Run", models.CASCADE, null=True, db_index=False)
    escalation = models.ForeignKey("agents.Escalation", models.CASCADE, null=True, db_index=False)
    actor = models.CharField(max_length=150, blank=True)
    due_at = models.DateTimeField()
    addressed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            # Notifications to address, and those old enough to delete.
            index("notification_due", "due_at", where=Q(addressed_at=None)),
            index("notification_addressed", "addressed_at", where=has("addressed_at")),
            # A case file: who was notified about a run.
            index("notification_of_run", "run"),
        ]


def notifications_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the columns of the notifications for events about to be written."""
    return [_columns(event, kind) for event in events for kind in _kinds(event)]


def _kinds(event: dict[str, Any]) -> Iterator[Kind]:
    """Yield the notifications of an event, some of which have two."""
    kind, has_receiver = OF_EVENTS.get(event["kind"]), {"to", "team"} & set(event["facts"])
    if kind and (kind is not Kind.ASSIGNED or has_receiver):
        yield kind
    if kind is Kind.OPENED and has_receiver:
        yield Kind.ASSIGNED
    if kind is Kind.OPENED and event["facts"].get("kind") == EFFECT_UNKNOWN.stored:
        yield Kind.ATTENTION
    if kind is Kind.NOT_CARRIED_OUT and event["facts"].get("reason") == Kind.ASKED_AGAIN:
        yield Kind.ASKED_AGAIN


def _columns(event: dict[str, Any], kind: Kind) -> dict[str, Any]:
    facts: Json = event["facts"]
    scope = f"{facts.get('scope')}:{facts.get('target')}" if "scope" in facts else ""
    what = event["kind"].rpartition(".")[2]
    detail = f"{what} {scope}" if scope else ""
    thing = about(facts, run=event["run_id"], event=f"{event['workspace_id']}:{event['seq']}")
    # A request handed over and back is notified again; so is a run that fails after a lost answer.
    if kind in (Kind.ASSIGNED, Kind.SECOND, Kind.ATTENTION):
        thing += f":{event['seq']}"
    if kind is Kind.ATTENTION:
        detail = "failed" if what == "failed" else UNKNOWN
    return {
        "workspace_id": event["workspace_id"],
        "kind": kind.value,
        "about": thing,
        "detail": detail,
        "run_id": event["run_id"],
        "escalation_id": facts.get("escalation"),
        "actor": event["actor"],
        "due_at": event["at"],
        "addressed_at": None,
    }


class NotificationPreference(models.Model):
    """How a person wants to be notified or, without a person, the workspace's default."""

    workspace = models.ForeignKey("agents.Workspace", models.CASCADE, related_name="+")
    user = models.ForeignKey("auth.User", models.CASCADE, null=True, related_name="+")
    modes = models.JSONField(default=dict)  # {"half_time": "digest"}
    hears_all = models.BooleanField(default=False)
    quiet_from = models.PositiveSmallIntegerField(null=True)  # minutes of the day in `zone`
    quiet_until = models.PositiveSmallIntegerField(null=True)
    digest_at = models.PositiveSmallIntegerField(default=480)
    zone = models.CharField(max_length=60, default="UTC")
    # Its name; "": the first.
    channel = models.CharField(max_length=20, blank=True, default="", db_default="")

    class Meta:
        constraints = [
            once("preference_once", "workspace", "user", where=has("user")),
            once("preference_of_all_once", "workspace", where=Q(user=None)),
        ]

    @property
    def hours(self) -> Hours:
        return Hours(self.quiet_from, self.quiet_until, self.digest_at, self.zone)


class Shape(StrEnum):
    JSON = "json"
    SLACK = "slack"
    TEAMS = "teams"


class Webhook(models.Model):
    """An address to call. Its secret is derived, so that the database alone cannot sign."""

    workspace = models.ForeignKey("agents.Workspace", models.CASCADE, related_name="+")
    name = models.CharField(max_length=80)
    url = models.CharField(max_length=1000)  # pages, log and record show its host only
    shape = models.CharField(max_length=10)
    kinds = models.JSONField()
    # Called only for requests assigned to this team; null: for everything.
    team = models.ForeignKey("agents.Team", models.CASCADE, null=True, related_name="+")
    salt = models.CharField(max_length=32)
    former_salt = models.CharField(max_length=32, blank=True)  # signs beside it for a day
    salted_at = models.DateTimeField()
    check_sha256 = models.CharField(max_length=64)  # of the secret: reveals a changed server key
    removed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [once("webhook_once", "workspace", "name", where=Q(removed_at=None))]

    def __str__(self) -> str:
        return self.name

    @property
    def secret(self) -> str:
        """Return the receiver's secret for checking signatures, as in Standard Webhooks."""
        return secret_of(self.salt)


def secret_of(salt: str) -> str:
    """Return the secret of a salt, under this installation's secret key."""
    digest = salted_hmac("opsconsole.webhook", salt, algorithm="sha256").digest()
    return f"whsec_{base64.b64encode(digest).decode()}"


def check_of(secret: str) -> str:
    """Return the hash by which a secret is recognised."""
    return sha256(secret.encode()).hexdigest()


class DeliveryState(StrEnum):
    WAITING = "waiting"
    SENT = "sent"
    FAILED = "failed"  # given up
    DROPPED = "dropped"  # out of date, or without a recipient


class Delivery(models.Model):
    """A row of the outbox: one item for one person, webhook or invited address.

    The rows of one mail share one `message`. A worker takes it by moving `next_at`: if the worker
    dies, it is sent again then, under the same id.
    """

    workspace = models.ForeignKey(
        "agents.Workspace", models.CASCADE, related_name="+", db_index=False
    )
    notification = models.ForeignKey(Notification, models.CASCADE, related_name="deliveries")
    user = models.ForeignKey(
        "auth.User", models.CASCADE, null=True, related_name="+", db_index=False
    )
    webhook = models.ForeignKey(
        Webhook, models.CASCADE, null=True, related_name="+", db_index=False
    )
    # Or an invitation's address, of somebody who is not a user yet.
    invitation = models.ForeignKey(
        "agents.Invitation", models.CASCADE, null=True, related_name="+", db_index=False
    )
    # Its name; "": the first that reaches the recipient.
    channel = models.CharField(max_length=20, blank=True, default="", db_default="")
    key = models.CharField(max_length=90)  # kind and what it is about
    state = models.CharField(max_length=10, default=DeliveryState.WAITING.value)
    message = models.UUIDField(null=True)  # by which a receiver recognises it
    due_at = models.DateTimeField()  # when it should have been sent
    next_at = models.DateTimeField()
    tries = models.PositiveSmallIntegerField(default=0)
    ended_at = models.DateTimeField(null=True)
    fault = models.CharField(max_length=LONGEST_FAULT, blank=True)  # of the newest try

    class Meta:
        constraints = [
            once("delivery_once", "user", "key", where=has("user")),
            once("delivery_call_once", "webhook", "key", where=has("webhook")),
            check(
                "delivery_has_one_recipient",
                Q(user=None, invitation=None, webhook__isnull=False)
                | Q(user__isnull=False, invitation=None, webhook=None)
                | Q(user=None, invitation__isnull=False, webhook=None),
            ),
            check("delivery_state_known", Q(state__in=list(DeliveryState))),
        ]
        indexes = [
            index("delivery_due", "next_at", where=Q(state=DeliveryState.WAITING)),
            # One message; and a page of the log.
            index("delivery_message", "message"),
            index("delivery_log", "workspace", "-id"),
        ]

    @property
    def recipient(self) -> dict[str, int | None]:
        return {name: getattr(self, f"{name}_id") for name in RECIPIENTS}
