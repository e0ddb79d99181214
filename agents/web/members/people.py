"""The members page: the people of a workspace page by page, and one of them alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Max
from django.utils import timezone
from django_otp.plugins.otp_totp.models import TOTPDevice

from agents.core.limits import Limits
from agents.core.money import format_money
from agents.core.tiers import Tiers, read_tiers
from agents.models import Invitation, InvitationState, Membership, Role, Session, Team, Workspace
from agents.publishing.pages import readable_limits
from agents.publishing.words import desk_names
from agents.sdk.desk import DESKS
from agents.shell.access import DECIDES
from agents.shell.formats import desk_title, up_to

PAGE = 50
# What each role may do, for people who know no other page.
ROLES: Mapping[Role, str] = {
    Role.VIEWER: "Reads runs and requests.",
    Role.OPERATOR: "Launches and stops runs. Decides nothing.",
    Role.REVIEWER: "Decides requests and stops runs.",
    Role.AUDITOR: "Reads everything, including the audit log. Changes nothing.",
    Role.ADMIN: "Does what the other roles do, changes members, publishes policies and turns the "
    "kill switch on and off.",
}


@dataclass(frozen=True)
class Member:
    """A person as the page lists them."""

    part: Membership
    limits: Sequence[str]  # what they may approve now: a line for each desk
    teams: Sequence[Team]
    has_factor: bool
    sessions: int
    seen_at: datetime | None  # last use of any of the sessions, to the minute

    @property
    def name(self) -> str:
        return self.part.user.get_username()


@dataclass(frozen=True)
class MembersPage:
    """A page of a workspace's people, by name, and its teams."""

    members: Sequence[Member]
    count: int  # of all people in it
    after: str  # the last name of this page; "": there is no next one
    teams: Sequence[tuple[Team, int]]  # with their numbers of people


def members_page(workspace: Workspace, *, name: str, role: str, after: str) -> MembersPage:
    """Return a page of people, filtered by part of a name and by role, in seven queries."""
    everybody = Membership.objects.filter(workspace=workspace)
    found = everybody.filter(user__username__icontains=name) if name else everybody
    found = found.filter(role=role) if role else found
    found = found.filter(user__username__gt=after) if after else found
    rows = list(found.select_related("user").order_by("user__username")[: PAGE + 1])
    teams = Team.objects.filter(workspace=workspace).select_related("lead__user")
    counted = teams.annotate(count=Count("members")).order_by("name", "pk")
    return MembersPage(
        read_members(workspace, rows[:PAGE]),
        everybody.count(),
        rows[PAGE - 1].user.get_username() if len(rows) > PAGE else "",
        [(team, team.count) for team in counted],
    )


def read_members(workspace: Workspace, parts: Sequence[Membership]) -> list[Member]:
    """Return some people of a workspace for display, in three queries."""
    teams = _teams_of(parts)
    sessions = Session.objects.filter(user__in=[part.user_id for part in parts])
    live = sessions.filter(expire_date__gt=timezone.now()).values("user").order_by()
    active = {
        row["user"]: (row["count"], row["last"] - timedelta(seconds=settings.SESSION_COOKIE_AGE))
        for row in live.annotate(count=Count("pk"), last=Max("expire_date"))
    }
    limits = readable_limits(workspace.policy)
    devices = TOTPDevice.objects.filter(user__in=[part.user_id for part in parts], confirmed=True)
    enrolled = set(devices.values_list("user", flat=True))
    return [
        Member(
            part,
            _limits(part, limits, {team.slug for team in teams.get(part.pk, [])}),
            teams.get(part.pk, []),
            part.user_id in enrolled,
            *active.get(part.user_id, (0, None)),
        )
        for part in parts
    ]


def _teams_of(parts: Sequence[Membership]) -> dict[int, list[Team]]:
    through = Team.members.through.objects.filter(membership__in=[part.pk for part in parts])
    found: dict[int, list[Team]] = {}
    for row in through.select_related("team").order_by("team__name", "team_id"):
        found.setdefault(row.membership_id, []).append(row.team)
    return found


def _limits(row: Membership, limits: Limits | None, teams: Collection[str]) -> list[str]:
    """Return what a person may approve, a line for each desk in the policy.

    That is the lower of their own limit and that of their teams' tiers.
    """
    if row.role not in DECIDES:
        return ["decides nothing"]
    named = list(row.desk_limits) if limits is None else desk_names(limits)
    tiers = read_tiers((limits.tiers or {}) if limits else {})
    most = {
        desk: _within_tiers(row, desk, tiers[desk], teams)
        if desk in tiers
        else up_to(row.desk_limits.get(desk))
        for desk in named
    }
    told = {desk: text if _has_amounts(desk) else "any request" for desk, text in most.items()}
    if len(told) < 2:
        return list(told.values()) or ["any amount"]
    return [f"{desk_title(desk)}: {text}" for desk, text in told.items()]


def _has_amounts(desk: str) -> bool:
    return desk not in DESKS or any(tool.amount for tool in DESKS[desk].tools.values())


def _within_tiers(
    row: Membership, desk: str, held: Mapping[str, Tiers], teams: Collection[str]
) -> str:
    """Return what a person of these teams may approve, by currency with tiers or a limit."""
    return "; ".join(
        _highest(held.get(currency, ()), currency, teams, row.limit_minor(desk, currency))
        for currency in {**held, **(row.desk_limits.get(desk) or {})}
    )


def _highest(tiers: Tiers, currency: str, teams: Collection[str], own: int | None) -> str:
    """Return the most that a person of these teams and with this limit may approve.

    Their own limit is named even if a tier is lower: the admin who set it will look for it.
    """
    within = [tier.up_to_minor for tier in tiers if not tier.team or tier.team in teams]
    highest = within[-1] if within else 0
    if own is None and highest is None:
        return f"any amount in {currency}"
    most = min(bound for bound in (own, highest) if bound is not None)
    text = up_to({currency: most}) if most else f"nothing in {currency}"
    return f"{text} (own limit {format_money(own, currency)})" if own and most < own else text


def open_invitations(workspace: Workspace, before: int | None) -> tuple[list[Invitation], int]:
    """Return a page of open invitations, newest first, and the key before which the next begins.

    0: there is no next page.
    """
    found = Invitation.objects.filter(workspace=workspace, state=InvitationState.OPEN)
    found = found if before is None else found.filter(pk__lt=before)
    rows = list(found.select_related("team", "by").order_by("-pk")[: PAGE + 1])
    return rows[:PAGE], rows[PAGE - 1].pk if len(rows) > PAGE else 0


def role_words() -> list[tuple[str, str]]:
    """Return each role with what it may do."""
    return [(role.value, ROLES[role]) for role in Role]
