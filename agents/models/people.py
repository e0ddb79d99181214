"""Workspaces and their people: memberships, teams, invitations, sessions, recovery codes."""

from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any, cast

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import OperationalError, models
from django.db.models import Q
from django.utils.crypto import salted_hmac

from agents.core.requests import Json
from agents.models.keys import check, index, once
from agents.models.record import Entry, append_events


class Role(StrEnum):
    VIEWER = "viewer"  # reads runs
    OPERATOR = "operator"  # launches and stops runs
    REVIEWER = "reviewer"  # decides escalations
    AUDITOR = "auditor"  # reads everything, with the audit record
    ADMIN = "admin"  # people, policies, kill switch


class Grants(StrEnum):
    """Which amounts a person who decides may approve."""

    NONE = "none"
    LISTED = "listed"  # those in `desk_limits`
    ANY = "any"  # at a desk that `desk_limits` lacks, every amount


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
    counts_provider_factor = models.BooleanField(default=False, db_default=False)  # of a sign-on
    event_count = models.PositiveBigIntegerField(default=0)  # of events that belong to no run
    head_hash = models.CharField(max_length=64, blank=True)  # of the newest of them
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name

    def say(self, kind: str, *, at: datetime, facts: Json, actor: str = "") -> None:
        """Add an event to the workspace's chain, in the transaction of the change it describes."""
        append_events([Entry(kind, facts, actor)], workspace_id=self.pk, at=at)


class Membership(models.Model):
    """A person in a workspace."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="memberships")
    user = models.ForeignKey("auth.User", models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10)
    # {"credits": {"EUR": 500000}}: up to what the person may grant of a desk.
    desk_limits = models.JSONField(default=dict, db_default={})
    grants = models.CharField(max_length=6, default=Grants.ANY.value, db_default=Grants.ANY.value)
    is_simulated = models.BooleanField(default=False)  # a program that plays a person

    class Meta:
        constraints = [
            once("membership_once", "workspace", "user"),
            check("membership_role_known", Q(role__in=list(Role))),
            check("membership_grants_known", Q(grants__in=list(Grants))),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.workspace}: {self.role}"

    def limit_minor(self, desk: str, currency: str) -> int | None:
        """Return up to what the person may grant; None: any.

        Once one currency of a desk is limited, an amount of another is not theirs to grant.
        """
        own = self.own_limits(desk)
        return None if own is None else own.get(currency, 0)

    def own_limits(self, desk: str) -> dict[str, int] | None:
        """Return up to what the person may grant at a desk, by currency; None: any."""
        own = self.desk_limits.get(desk) or {}
        if self.grants == Grants.ANY:
            return own or None
        return own if self.grants == Grants.LISTED else {}


class Team(models.Model):
    """Members of a workspace to whom a request can be assigned together."""

    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="teams", db_index=False)
    slug = models.SlugField(max_length=40, db_index=False)  # in policies and addresses
    name = models.CharField(max_length=80)
    members = models.ManyToManyField(Membership, related_name="teams")
    # Sees how the team's reviewers decide, as admins see for all; null: only admins.
    lead = models.ForeignKey(
        Membership, models.SET_NULL, null=True, related_name="leads", db_index=False
    )

    class Meta:
        constraints = [once("team_slug_once", "workspace", "slug")]

    def __str__(self) -> str:
        return self.name


class InvitationState(StrEnum):
    OPEN = "open"
    ACCEPTED = "accepted"
    REVOKED = "revoked"
    EXPIRED = "expired"


class Invitation(models.Model):
    """A link that works once, for a limited time: who may join, and in which role.

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
    by = models.ForeignKey("auth.User", models.PROTECT, related_name="+", db_index=False)
    salt = models.CharField(max_length=32)
    token_sha256 = models.CharField(max_length=64, unique=True)
    tries = models.PositiveSmallIntegerField(default=0)  # refused forms
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            check("invitation_role_known", Q(role__in=list(Role))),
            check("invitation_state_known", Q(state__in=list(InvitationState))),
            check("invitation_over_has_no_address", Q(state=InvitationState.OPEN) | Q(email="")),
            once("invitation_open_once", "workspace", "email", where=Q(state=InvitationState.OPEN)),
        ]
        indexes = [
            # The page's list, and the number of a day.
            index("invitation_newest", "workspace", "created_at"),
            index("invitation_due", "expires_at", where=Q(state=InvitationState.OPEN)),
        ]

    @property
    def token(self) -> str:
        """Return the token in its link, signed with this installation's secret key."""
        return token_of(self.salt)


def token_of(salt: str) -> str:
    """Return the token of a salt: 256 bits in hexadecimal."""
    return salted_hmac("opsconsole.invitation", salt, algorithm="sha256").hexdigest()


class Session(AbstractBaseSession):
    """A browser that is or is about to be signed in; deleting the row signs it out."""

    user = models.ForeignKey("auth.User", models.CASCADE, null=True, related_name="sessions")

    @classmethod
    def get_session_store_class(cls) -> "type[SessionStore]":
        return SessionStore


class SessionStore(DatabaseStore):
    """Django's own store, with the user of a session (SESSION_ENGINE): an admin can end it."""

    @classmethod
    def get_model_class(cls) -> type[Session]:
        return Session

    def create_model_instance(self, data: dict[str, Any]) -> Session:
        row = cast(Session, super().create_model_instance(data))
        row.user_id = int(data[SESSION_KEY]) if SESSION_KEY in data else None
        return row

    def save(self, must_create: bool = False) -> None:
        """Save like Django, but do not call a session ended because its database is busy."""
        try:
            super().save(must_create)
        except UpdateError as ended:
            if isinstance(ended.__context__, OperationalError):
                raise ended.__context__ from ended.__context__.__cause__
            raise


class Identity(models.Model):
    """Who a user is to the provider of single sign-on. It stays, so that no name is used again."""

    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)
    user = models.ForeignKey("auth.User", models.PROTECT, related_name="identities")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [once("identity_once", "issuer", "subject")]


class SignOnGroup(models.Model):
    """What a value of the provider's claim of groups gives in a workspace."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="groups", db_index=False)
    value = models.CharField(max_length=200)
    role = models.CharField(max_length=10)
    teams = models.JSONField(default=list)  # slugs
    limits = models.JSONField(default=dict)  # as `Membership.desk_limits`

    class Meta:
        constraints = [
            once("sign_on_group_once", "workspace", "value"),
            check("sign_on_group_role_known", Q(role__in=list(Role))),
        ]


class SignOnPart(models.Model):
    """What groups gave a person in a workspace, and what an admin set instead.

    Groups do not change a member without this row.
    """

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+", db_index=False)
    user = models.ForeignKey("auth.User", models.CASCADE, related_name="+")
    groups = models.JSONField(default=list, null=True)  # at the last sign-on; null: not told
    teams = models.JSONField(default=list)  # that groups gave
    role = models.CharField(max_length=10, blank=True)  # set by hand; "": as the groups say
    limits = models.JSONField(default=dict)  # set by hand; 0: nothing
    is_removed = models.BooleanField(default=False)  # by hand

    class Meta:
        constraints = [once("sign_on_part_once", "workspace", "user")]


class SpentAnswer(models.Model):
    """The state or the code of a sign-on, as a hash: each works once in all processes."""

    digest = models.CharField(max_length=64, primary_key=True)
    at = models.DateTimeField(db_index=True)


class RecoveryCode(models.Model):
    """Replaces a lost second factor once: a hash of 80 random bits, so that one round is enough."""

    user = models.ForeignKey(
        "auth.User", models.CASCADE, related_name="recovery_codes", db_index=False
    )
    code_sha256 = models.CharField(max_length=64)

    class Meta:
        constraints = [once("recovery_code_once", "user", "code_sha256")]


def hash_of_code(user_id: int, code: str) -> str:
    """Return the stored hash of a person's code, in whatever form it was typed."""
    plain = "".join(code.split()).replace("-", "").lower()
    return sha256(f"{user_id}:{plain}".encode()).hexdigest()
