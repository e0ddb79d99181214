"""What the members page shows: people, their roles and limits, by workspace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from agents.core.former import FIRST_DESK
from agents.models import Membership, Role, Team, Workspace
from agents.sdk.desk import DESKS
from agents.web.access import DECIDES
from agents.web.formats import desk_title, up_to

# What each role may do, for whoever has never seen another page.
ROLES: Mapping[Role, str] = {
    Role.VIEWER: "Reads runs and requests.",
    Role.OPERATOR: "Launches and stops runs. Decides nothing.",
    Role.REVIEWER: "Decides requests and stops runs.",
    Role.AUDITOR: "Reads everything, with the audit log. Changes nothing.",
    Role.ADMIN: "Does all of this, publishes policies and turns the kill switch on and off.",
}


@dataclass(frozen=True)
class Member:
    """A person as the page lists them."""

    name: str
    role: str
    limits: Sequence[str]  # what they may approve, in words: a line for each desk
    is_active: bool
    is_simulated: bool


@dataclass(frozen=True)
class WorkspaceMembers:
    """A workspace and its people, those who decide first."""

    workspace: Workspace
    members: Sequence[Member]
    teams: Sequence[tuple[Team, Sequence[str]]]  # each with the names of who is in it


def members_of(workspaces: Iterable[Workspace]) -> list[WorkspaceMembers]:
    """Return the people of some workspaces and their teams, in three queries."""
    found = Membership.objects.filter(workspace__in=list(workspaces))
    rows = found.select_related("user", "workspace__policy")
    with_people = Team.objects.filter(workspace__in=list(workspaces)).order_by("name", "pk")
    teams = list(with_people.prefetch_related("members__user"))
    rows = rows.order_by("workspace_id", "user__username")
    return [
        WorkspaceMembers(
            own[0].workspace,
            [_member(row) for row in sorted(own, key=_rank)],
            [(team, _names(team)) for team in teams if team.workspace_id == own[0].workspace_id],
        )
        for own in (list(rows) for _, rows in groupby(rows, key=lambda row: row.workspace_id))
    ]


def _names(team: Team) -> list[str]:
    return sorted(part.user.get_username() for part in team.members.all())


def _rank(row: Membership) -> int:
    return list(reversed(Role)).index(Role(row.role))


def _member(row: Membership) -> Member:
    return Member(
        name=row.user.get_username(),
        role=row.role,
        limits=_limits(row),
        is_active=row.user.is_active,
        is_simulated=row.is_simulated,
    )


def _limits(row: Membership) -> list[str]:
    """Say what a person may approve, of each desk that the policy names or that limits them."""
    if row.role not in DECIDES:
        return ["decides nothing"]
    policy = row.workspace.policy
    named = (policy.document.get("desks") or {}) if policy else {}
    others = sorted({*named, *row.desk_limits} - {FIRST_DESK})
    own = dict.fromkeys([FIRST_DESK, *others]) | row.desk_limits
    if len(own) == 1:
        return [up_to(own[FIRST_DESK])]
    return [
        f"{desk_title(desk)}: {up_to(most) if _has_amounts(desk) else 'any request'}"
        for desk, most in own.items()
    ]


def _has_amounts(desk: str) -> bool:
    return desk not in DESKS or any(tool.amount for tool in DESKS[desk].tools.values())
