"""Whose runs these are, and what each person may do there."""

from __future__ import annotations

from enum import StrEnum

from django.conf import settings
from django.db import models
from django.db.models import Q


class Role(StrEnum):
    VIEWER = "viewer"  # reads runs
    OPERATOR = "operator"  # launches and stops runs
    REVIEWER = "reviewer"  # decides escalations
    AUDITOR = "auditor"  # reads everything, with the audit record
    ADMIN = "admin"  # people, policies, kill switch


DECIDES = (Role.REVIEWER, Role.ADMIN)
LAUNCHES = (Role.OPERATOR, Role.ADMIN)


class Workspace(models.Model):
    """A tenant: its people, policies, runs and one book of the business."""

    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=80)
    is_demo = models.BooleanField(default=False)  # simulated people and copies of the book
    book = models.ForeignKey("agents.Book", models.PROTECT, related_name="+")
    policy = models.ForeignKey(
        "agents.PolicyVersion", models.PROTECT, null=True, related_name="+"
    )  # the version that new runs pin
    second_factor_roles = models.JSONField(default=list, db_default=[])  # roles that must have one
    event_count = models.PositiveBigIntegerField(default=0)  # of events that belong to no run
    head_hash = models.CharField(max_length=64, blank=True)  # of the newest of them
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A person in a workspace."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10)
    # {"credits": {"EUR": 500000}}: up to what the person may grant of a desk; absent: any.
    desk_limits = models.JSONField(default=dict, db_default={})
    is_simulated = models.BooleanField(default=False)  # a program that plays a person

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "user"], name="membership_once"),
            models.CheckConstraint(condition=Q(role__in=list(Role)), name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.workspace}: {self.role}"

    def limit_minor(self, desk: str, currency: str) -> int | None:
        """Return up to what the person may grant; None: any.

        Once one currency of a desk is limited, an amount of another is not theirs to grant.
        """
        own = self.desk_limits.get(desk)
        return own.get(currency, 0) if own else None
