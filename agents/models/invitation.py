"""An invitation to a workspace: a link that works once, for a limited time."""

from __future__ import annotations

from enum import StrEnum

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.crypto import salted_hmac

from agents.models.team import Team
from agents.models.workspace import Role, Workspace


class InvitationState(StrEnum):
    OPEN = "open"
    ACCEPTED = "accepted"
    REVOKED = "revoked"
    EXPIRED = "expired"


class Invitation(models.Model):
    """Who may join, and in which role.

    Its token is signed with the server's key, so that writing rows makes no link. The address is
    deleted at its end and is never in the record.
    """

    workspace = models.ForeignKey(
        Workspace, models.CASCADE, related_name="invitations", db_index=False
    )
    email = models.CharField(max_length=254, blank=True)
    role = models.CharField(max_length=10)
    team = models.ForeignKey(Team, models.SET_NULL, null=True, related_name="+", db_index=False)
    state = models.CharField(max_length=10, default=InvitationState.OPEN.value)
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", db_index=False
    )
    salt = models.CharField(max_length=32)
    token_sha256 = models.CharField(max_length=64, unique=True)
    tries = models.PositiveSmallIntegerField(default=0)  # refused forms
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(role__in=list(Role)), name="invitation_role_known"),
            models.CheckConstraint(
                condition=Q(state__in=list(InvitationState)), name="invitation_state_known"
            ),
            models.CheckConstraint(
                condition=Q(state=InvitationState.OPEN) | Q(email=""),
                name="invitation_over_has_no_address",
            ),
            models.UniqueConstraint(
                fields=["workspace", "email"],
                condition=Q(state=InvitationState.OPEN),
                name="invitation_open_once",
            ),
        ]
        indexes = [
            # The page's list, and the number of a day.
            models.Index(fields=["workspace", "created_at"], name="invitation_newest"),
            models.Index(
                fields=["expires_at"],
                condition=Q(state=InvitationState.OPEN),
                name="invitation_due",
            ),
        ]

    def __str__(self) -> str:
        return f"invitation {self.pk}: {self.state}"

    @property
    def token(self) -> str:
        """Return the token in its link, signed with this installation's secret key."""
        return token_of(self.salt)


def token_of(salt: str) -> str:
    """Return the token of a salt: 256 bits in hexadecimal."""
    return salted_hmac("opsconsole.invitation", salt, algorithm="sha256").hexdigest()
