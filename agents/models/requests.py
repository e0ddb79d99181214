"""Requests to people: what is held until a person decides, and how people arrange them."""

from datetime import timedelta
from typing import Any

from django.db import models
from django.db.models import Exists, F, Q
from django.db.models.functions import Now

from agents.core.money import format_money
from agents.core.requests import DECIDED, EscalationState
from agents.models.keys import check, has, index, once
from agents.tools import ask_in_words

REMEMBERED = timedelta(days=30)  # for which a rejection binds
_IS_OPEN = Q(state=EscalationState.OPEN)


class Escalation(models.Model):
    """An action that is held until a person decides; the decision becomes the reply of its step."""

    workspace = models.ForeignKey(
        "agents.Workspace", models.PROTECT, related_name="escalations", db_index=False
    )  # escalation_inbox begins with it
    run = models.ForeignKey("agents.Run", models.CASCADE, related_name="escalations")
    step = models.OneToOneField("agents.Step", models.CASCADE)
    kind = models.CharField(max_length=20)  # `stored` of a kind (core.decisions)
    state = models.CharField(max_length=10, default=EscalationState.OPEN)
    action = models.JSONField()
    action_sha256 = models.CharField(max_length=64)  # what a decision is bound to
    review = models.JSONField()  # the review that escalated, with the facts it saw
    is_marked = models.BooleanField(default=False, db_default=False)  # its facts hold doubts
    # As in the ledger: the subject, the resource that is locked and counted, and the amount.
    subject_key = models.CharField(max_length=200, blank=True, default="", db_default="")
    resource = models.CharField(max_length=200, blank=True, default="", db_default="")
    amount_minor = models.BigIntegerField(null=True)
    currency = models.CharField(max_length=3, blank=True, default="", db_default="")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    frozen_at = models.DateTimeField(null=True)  # since then a kill switch stops the clock

    # The tier asked, from 0, and when the next one will be; null: there are no tiers.
    tier = models.PositiveSmallIntegerField(null=True)
    climbs_at = models.DateTimeField(null=True)
    # The first approval, where two are needed.
    approval = models.ForeignKey(
        "agents.Approval", models.PROTECT, null=True, related_name="+", db_index=False
    )

    # Until then nobody else can decide; after it the claim has no effect.
    claimed_by = models.ForeignKey(
        "auth.User", models.PROTECT, null=True, related_name="+", db_index=False
    )
    claimed_until = models.DateTimeField(null=True)

    # Who should decide: a person, a team or, with neither, anybody. Others still can.
    assigned_to = models.ForeignKey(
        "auth.User", models.PROTECT, null=True, related_name="+", db_index=False
    )
    assigned_team = models.ForeignKey(
        "agents.Team", models.PROTECT, null=True, related_name="+", db_index=False
    )

    decided_by = models.ForeignKey(
        "auth.User", models.PROTECT, null=True, related_name="+", db_index=False
    )  # escalation_decided_by begins with it
    # The operating system's account, if a command decided in the person's name.
    decided_from = models.CharField(max_length=150, blank=True, default="", db_default="")
    decided_at = models.DateTimeField(null=True)
    granted_minor = models.BigIntegerField(null=True)  # of its amount
    patch = models.JSONField(null=True)  # the arguments that the person set
    comment = models.TextField(blank=True)
    # A decided call's content as a digest (engine.desk.repeats); "" for others.
    likeness = models.CharField(max_length=64, blank=True, default="", db_default="")
    is_simulated = models.BooleanField(default=False)  # decided by a program that plays a person
    # Why an approval was not carried out, as a code; "" if it was or still may be.
    not_carried_out = models.CharField(max_length=120, blank=True, default="", db_default="")

    class Meta:
        constraints = [
            check("escalation_state_known", Q(state__in=list(EscalationState))),
            check(
                "escalation_decided_has_person",
                Q(state__in=DECIDED, decided_at__isnull=False, decided_by__isnull=False)
                | (~Q(state__in=DECIDED) & Q(decided_by__isnull=True)),
            ),
            check(
                "escalation_claim_has_end",
                Q(claimed_by__isnull=True, claimed_until__isnull=True)
                | Q(claimed_by__isnull=False, claimed_until__isnull=False),
            ),
            check(
                "escalation_assigned_to_one",
                Q(assigned_to__isnull=True) | Q(assigned_team__isnull=True),
            ),
            check(
                "escalation_granted_within_request",
                Q(granted_minor__isnull=True)
                | Q(granted_minor__gt=0, granted_minor__lte=F("amount_minor")),
            ),
        ]
        indexes = [
            # The inbox: open requests, with all that its views and orders ask of them.
            index(
                "escalation_inbox",
                *("workspace", "expires_at", "id", "frozen_at", "kind", "currency"),
                *("amount_minor", "claimed_by", "claimed_until", "assigned_to"),
                *("assigned_team", "approval", "is_marked", "run", "step"),
                where=_IS_OPEN,
            ),
            # What nobody answered in time.
            index(
                "escalation_expired",
                "expires_at",
                "workspace",
                where=Q(state=EscalationState.EXPIRED),
            ),
            # The sweep: what runs wait for, and what has expired.
            index("escalation_open", "run", "state", where=_IS_OPEN),
            index("escalation_due", "expires_at", where=_IS_OPEN),
            # Requests assigned to a person, and to their teams, soonest to expire first.
            index(
                "escalation_of_person",
                "assigned_to",
                "expires_at",
                where=has("assigned_to") & _IS_OPEN,
            ),
            index(
                "escalation_of_team",
                "assigned_team",
                "expires_at",
                where=has("assigned_team") & _IS_OPEN,
            ),
            # The sweep: tiers that did not answer in time.
            index("escalation_climbs", "climbs_at", where=has("climbs_at") & _IS_OPEN),
            # The audit log's filter by amount.
            index("escalation_amount", "workspace", "amount_minor"),
            # The tab of decided requests, newest first.
            index("escalation_decided", "workspace", "-decided_at", "-id", where=has("decided_at")),
            # And of one person's decisions.
            index(
                "escalation_decided_by",
                "decided_by",
                "workspace",
                "-decided_at",
                "-id",
                where=has("decided_by"),
            ),
            # The overview: approvals that were not carried out, newest first.
            index(
                "escalation_not_carried_out",
                "workspace",
                "-decided_at",
                "-id",
                where=~Q(not_carried_out=""),
            ),
            # Rejections about a subject, and the newest decision about the same.
            index(
                "escalation_likeness",
                "workspace",
                "subject_key",
                "decided_at",
                where=~Q(likeness=""),
            ),
            # What a person has granted on a resource, and altogether in a day.
            index("escalation_granted", "decided_by", "decided_at", where=has("granted_minor")),
        ]

    @property
    def asked(self) -> str:
        """Return the requested amount in words; "" for none."""
        minor = self.amount_minor
        return "" if minor is None else format_money(minor, self.currency)

    @property
    def granted(self) -> str:
        """Return the granted amount in words; "" for none."""
        minor = self.granted_minor
        return "" if minor is None else format_money(minor, self.currency)

    def in_words(self, name: str = "") -> str:
        """Return the request in a line of text. `name` is the subject's, or ""."""
        about = (self.run.desk, self.kind, self.action)
        subject = name or self.run.subject_label or self.subject_key
        return ask_in_words(*about, amount=self.asked, subject=subject, review=self.review)


def has_rejections(*, workspace: Any, subject: Any) -> Exists:
    """Return whether something about a subject was rejected of late: part of another query."""
    decided = Escalation.objects.filter(
        workspace=workspace, subject_key=subject, state=EscalationState.REJECTED
    )
    return Exists(decided.exclude(likeness="").filter(decided_at__gte=Now() - REMEMBERED))


class Approval(models.Model):
    """The first approval of a request that takes two people, while it waits for the second.

    It is never changed or removed: `Escalation.approval` names the valid one.
    """

    run = models.ForeignKey("agents.Run", models.CASCADE, related_name="+", db_index=False)
    escalation = models.ForeignKey("agents.Escalation", models.CASCADE, related_name="approvals")
    by = models.ForeignKey("auth.User", models.PROTECT, related_name="+", db_index=False)
    account = models.CharField(max_length=150, blank=True)  # that ran the command for them
    at = models.DateTimeField()
    # The terms, which a second person has to approve as well.
    action_sha256 = models.CharField(max_length=64)  # of the requested action
    patch = models.JSONField(null=True)  # the arguments they set
    resource = models.CharField(max_length=200, blank=True)
    granted_minor = models.BigIntegerField(null=True)
    currency = models.CharField(max_length=3, blank=True)
    comment = models.TextField(blank=True)
    is_simulated = models.BooleanField(default=False)

    class Meta:
        constraints = [
            check(
                "approval_grants_something", Q(granted_minor__isnull=True) | Q(granted_minor__gt=0)
            )
        ]
        indexes = [
            # A person's approvals, which count towards their own limits.
            index("approval_of_person", "by", "at")
        ]

    @property
    def granted(self) -> str:
        """Return the amount in words; "" for none."""
        return "" if self.granted_minor is None else format_money(self.granted_minor, self.currency)


class Snooze(models.Model):
    """A request is hidden from one person's views for a while. No clock stops for it."""

    escalation = models.ForeignKey(Escalation, models.CASCADE, related_name="snoozes")
    user = models.ForeignKey("auth.User", models.PROTECT, related_name="snoozes", db_index=False)
    until = models.DateTimeField()  # before the request's deadline

    class Meta:
        constraints = [
            # Begins with the person, as the queue's views select by their snoozes.
            once("snooze_once", "user", "escalation")
        ]


class SavedView(models.Model):
    """An address of the queue under a name, one person's own or a workspace's; not recorded."""

    owner = models.ForeignKey(
        "auth.User", models.CASCADE, related_name="saved_views", db_index=False
    )
    workspace = models.ForeignKey(
        "agents.Workspace", models.CASCADE, null=True, related_name="saved_views"
    )  # its members see it too; null: private
    name = models.CharField(max_length=40)
    query = models.CharField(max_length=1000)  # of the queue's address
    created_at = models.DateTimeField()

    class Meta:
        constraints = [once("saved_view_once", "owner", "name")]

    def __str__(self) -> str:
        return self.name
