"""What groups of the provider of sign-on give in a workspace: the table, and who it concerns."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.utils.text import capfirst

from agents.core.requests import Json
from agents.models import (
    DECIDES,
    LAUNCHES,
    ExternalAgent,
    Grants,
    Membership,
    Role,
    SignOnGroup,
    SignOnPart,
    Team,
    Workspace,
)
from agents.people.members import BY_GROUPS, join, lock_person, remove_member, set_role, set_team
from agents.people.workspaces import is_break_glass, lock_people
from agents.shell.formats import desk_title, up_to
from agents.shell.refusal import Refused, check_text

_MOST = 500  # groups of a person that are read
_LONGEST = 200  # characters of one


@dataclass(frozen=True)
class Given:
    """What a person is to have in a workspace; without a role they are no member."""

    role: Role | None
    limits: dict[str, dict[str, int]]
    teams: frozenset[str]


def groups_of(claims: dict[str, Json]) -> list[str] | None:
    """Return the groups that verified claims name; None if they do not say."""
    said = claims.get(settings.OPSCONSOLE_SSO_GROUPS)
    said = [said] if isinstance(said, str) else said
    if not isinstance(said, list) or not all(isinstance(one, str) for one in said):
        return None
    return sorted({one for one in said if len(one) <= _LONGEST and one.isprintable()})[:_MOST]


def given(
    groups: Collection[str] | None,
    table: Collection[SignOnGroup],
    part: Membership | None,
    word: SignOnPart | None,
) -> Given | None:
    """Return what a person is to have by their groups and an admin's word; None: as it is.

    Of several groups, the role that stands last in `Role` counts, and the highest limit. Without
    word of groups, what they gave is suspended: the person reads only.
    """
    if (word is None and part is not None) or (word is not None and word.is_removed):
        return None  # all by hand
    hand = Role(word.role) if word and word.role else None
    rows = [row for row in table if row.value in (groups or ())]
    if not rows and part is None:
        return None
    if not rows and hand is None:
        return Given(Role.VIEWER if groups is None else None, {}, frozenset())
    role = hand or max((Role(row.role) for row in rows), key=list(Role).index)
    most: dict[str, dict[str, int]] = {}
    for row in rows:
        for desk, own in row.limits.items():
            at = most.setdefault(desk, {})
            at.update({name: max(minor, at.get(name, 0)) for name, minor in own.items()})
    for desk, own in (word.limits if word else {}).items():
        most[desk] = {**most.get(desk, {}), **own}
    limits = {desk: {name: m for name, m in own.items() if m} for desk, own in most.items()}
    kept = {desk: own for desk, own in limits.items() if own} if role in DECIDES else {}
    return Given(role, kept, frozenset(slug for row in rows for slug in row.teams))


def apply_groups(user: User, groups: list[str] | None, *, at: datetime) -> list[str]:
    """Give a person what their groups give in each workspace. Return where all is suspended.

    Raises Refused, for example if a workspace would lose its last admin; then nothing changed.
    """
    concerned = Q(memberships__user=user) | Q(groups__value__in=groups or ())
    homes = list(Workspace.objects.filter(concerned).distinct().order_by("pk"))
    if not homes or is_break_glass(user):
        return []
    with transaction.atomic():
        lock_person(user, [home.pk for home in homes])
        return [home.name for home in homes if _apply_in(home, user, groups, at=at)]


def _apply_in(workspace: Workspace, user: User, groups: list[str] | None, *, at: datetime) -> bool:
    """Make what groups give true in a workspace. Return whether it is suspended."""
    who: dict[str, Any] = {"workspace": workspace, "user": user}
    part = Membership.objects.filter(**who).first()
    word = SignOnPart.objects.filter(**who).first()
    to = given(groups, SignOnGroup.objects.filter(workspace=workspace), part, word)
    if to is None:
        return False
    how: dict[str, Any] = {"at": at, "actor": f"{BY_GROUPS}{settings.OPSCONSOLE_SSO_NAME}"}
    word = word or SignOnPart(**who)
    if to.role is None:
        remove_member(**who, **how)
        word.teams = []
    else:
        if part is None:
            part = join(**who, role=to.role, desk_limits=to.limits, **how)
        elif (part.role, part.desk_limits, part.grants) != (to.role, to.limits, Grants.LISTED):
            set_role(**who, role=to.role, desk_limits=to.limits, **how)
        mine = set(Team.objects.filter(members=part).values_list("slug", flat=True))
        for slug in sorted((set(word.teams) - to.teams) & mine):
            set_team(workspace=workspace, slug=slug, remove=[user], **how)
        new = to.teams - mine - set(word.teams)
        for slug in sorted(new):
            set_team(workspace=workspace, slug=slug, add=[user], **how)
        word.teams = sorted(new | (set(word.teams) & to.teams))
    word.groups = groups
    word.save()
    return groups is None and not word.role


# The table on the members page.


@dataclass(frozen=True)
class _Row:
    """A row of the table as the members page lists it."""

    group: SignOnGroup
    limits: list[str]
    people: int  # who named the group at their last sign-on
    stops: list[tuple[str, ExternalAgent]]  # agents that stop if their owner loses it


def shown_groups(workspace: Workspace) -> dict[str, Json]:
    """Return what the members page shows of groups; nothing without sign-on."""
    if not settings.OPSCONSOLE_SSO_ISSUER:
        return {}
    words = list(SignOnPart.objects.filter(workspace=workspace).select_related("user"))
    return {
        "groups": list(_rows(workspace, words)),
        "claim": settings.OPSCONSOLE_SSO_GROUPS,
        "provider": settings.OPSCONSOLE_SSO_NAME,
        "removed": sorted((word.user for word in words if word.is_removed), key=str),
    }


def _rows(workspace: Workspace, words: Collection[SignOnPart]) -> Iterator[_Row]:
    table = list(SignOnGroup.objects.filter(workspace=workspace).order_by("value"))
    parts = {part.user_id: part for part in Membership.objects.filter(workspace=workspace)}
    agents = ExternalAgent.objects.filter(workspace=workspace, paused_at=None)
    owned = list(agents.select_related("owner").order_by("name"))
    for group in table:
        theirs = [word for word in words if group.value in (word.groups or ())]
        losing = set()
        for word in theirs:
            part, left = parts.get(word.user_id), set(word.groups or ()) - {group.value}
            to = given(left, table, part, word)
            if part and part.role in LAUNCHES and to and to.role not in LAUNCHES:
                losing.add(word.user_id)
        stops = [(one.owner.get_username(), one) for one in owned if one.owner_id in losing]
        limits = [f"{desk_title(desk)}: {up_to(own)}" for desk, own in sorted(group.limits.items())]
        yield _Row(group, limits, len([w for w in theirs if w.user_id in parts]), stops)


def set_group(
    *,
    workspace: Workspace,
    by: User,
    at: datetime,
    value: str,
    role: Role | None,
    teams: Collection[str] = (),
    limit: tuple[str, str, int] | None = None,
) -> None:
    """Set what a group gives from a person's next sign-on; no role: nothing. Raises Refused.

    A `limit` has a desk, a currency and minor units, of which 0 removes it.
    """
    with transaction.atomic():
        actor = lock_people(workspace, by)
        if not value.strip():
            raise Refused("no_group", "Give the group as the provider writes it.")
        check_text(value, most=_LONGEST, what="group")
        row = SignOnGroup.objects.filter(workspace=workspace, value=value).first()
        row = row or SignOnGroup(workspace=workspace, value=value)
        if role is None:
            row.delete() if row.pk else None
            row.teams, row.limits = [], {}
        elif limit and role not in DECIDES:
            raise Refused("decides_nothing", f"The role {role} decides nothing: it has no limit.")
        else:
            desk, currency, minor = limit or ("", "", 0)
            own = {**row.limits.get(desk, {}), currency: minor}
            limits = {**row.limits, desk: {name: most for name, most in own.items() if most}}
            row.limits = {name: own for name, own in limits.items() if own and role in DECIDES}
            row.role, row.teams = role, sorted(teams)
            row.save()
        facts = {"group": value, "role": role or "", "teams": row.teams, "desk_limits": row.limits}
        workspace.say("group.set", at=at, facts={**facts, "grants": "listed"}, actor=actor)


def leave_to_groups(*, workspace: Workspace, user: User, by: User, at: datetime) -> None:
    """Take an admin's word about a person back, from their next sign-on. Raises Refused."""
    with transaction.atomic():
        actor = lock_people(workspace, by, user)
        word: Json = {"is_removed": False, "role": "", "limits": {}}
        SignOnPart.objects.update_or_create(workspace=workspace, user=user, defaults=word)
        workspace.say("member.by_groups", at=at, facts={"user": user.get_username()}, actor=actor)


def word_of(part: Membership) -> str:
    """Return what the page of a member says of groups; "" without sign-on."""
    if not settings.OPSCONSOLE_SSO_ISSUER:
        return ""
    word = SignOnPart.objects.filter(workspace=part.workspace_id, user=part.user_id).first()
    if word is None:
        return "Groups do not change this person, whom an admin added."
    if word.groups is None and not word.role:
        return (
            f"{capfirst(settings.OPSCONSOLE_SSO_NAME)} did not name this person's groups at the "
            "last sign-on, so they only read. A role that you give ends that, and so do groups."
        )
    hand = [*(["the role"] if word.role else ()), *(["limits"] if word.limits else ())]
    told = f"Groups: {', '.join(word.groups or ()) or 'none'}."
    return (
        f"{told} An admin set {' and '.join(hand)}, which groups do not change." if hand else told
    )
