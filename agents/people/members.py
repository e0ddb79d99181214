"""Who may do what in a workspace: people join, change or leave, by hand or by groups of sign-on."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.text import capfirst

from agents.core.requests import EscalationState, Json
from agents.engine.deciders import is_kept_from
from agents.models import (
    DECIDES,
    LAUNCHES,
    Escalation,
    ExternalAgent,
    Grants,
    Identity,
    Invitation,
    InvitationState,
    Membership,
    Role,
    Run,
    Session,
    SignOnGroup,
    SignOnPart,
    Team,
    Workspace,
)
from agents.people.workspaces import (
    add_member,
    check_name,
    check_slug,
    find_part,
    is_break_glass,
    lock_people,
    lock_workspaces_of,
)
from agents.shell.formats import desk_title, up_to
from agents.shell.refusal import Refused, check_text, require_member

BY_GROUPS = "sign-on:"  # begins the actor of what groups change; user names have no colon
_EXPIRED_AT_ONCE = 100  # in one sweep; the next one does the rest


def join(
    *,
    workspace: Workspace,
    user: User,
    role: Role,
    at: datetime,
    desk_limits: Json = None,
    actor: str = "",
) -> Membership:
    """Give a person their first role in a workspace. Raises Refused.

    A person who signs in by sign-on may grant only what is listed.
    """
    with transaction.atomic():
        lock_people(workspace, None)
        part = Membership.objects.filter(workspace=workspace, user=user).first()
        if part:
            raise Refused(
                "member",
                f"{user.get_username()} has the role {part.role} in {workspace.name} already: "
                "change the role or the limit instead.",
            )
        if not actor.startswith(BY_GROUPS):  # then groups have no say
            SignOnPart.objects.filter(workspace=workspace, user=user).delete()
        is_listed = Identity.objects.filter(user=user).exists()
        grants = Grants.LISTED if is_listed else None
        return _put_membership(workspace, user, role, desk_limits or {}, at, actor, grants)


def set_role(
    *,
    workspace: Workspace,
    user: User,
    role: Role,
    at: datetime,
    desk_limits: Json = None,
    by: User | None = None,
    actor: str = "",
) -> Membership:
    """Change a member's role; limits and held requests need one that decides. Raises Refused.

    Invitations that they sent end unless they stay an admin. With `desk_limits` they may grant
    what these list, or else what they might before.
    `by` is the acting admin; without one, a command's `actor` is recorded.
    """
    decides = role in DECIDES
    with transaction.atomic():
        held = set() if decides else _lock_held(workspace, user)
        actor = lock_people(workspace, by, user) or actor
        part = find_part(workspace, user)
        if role is not Role.ADMIN:
            _keep_an_admin(part)
            revoke_invitations_of(user, workspace, at=at, actor=actor)
        kept = part.desk_limits if desk_limits is None else desk_limits
        grants = None if desk_limits is None else Grants.LISTED
        put = _put_membership(workspace, user, role, kept if decides else {}, at, actor, grants)
        _keep_word(part, actor, role=role.value)
        if not decides:
            _release_held(workspace, user, held, at=at, actor=actor)
        return put


def remove_member(
    *, workspace: Workspace, user: User, at: datetime, by: User | None = None, actor: str = ""
) -> int:
    """Remove a person from a workspace. Return how many requests they held. Raises Refused.

    These are released, teams lose the person, and their sessions end. Their decisions, runs and
    saved views stay. `by` is the acting admin; without one, a command's `actor` is recorded.
    """
    with transaction.atomic():
        held = _lock_held(workspace, user)
        workspaces = lock_workspaces_of(user)
        actor = lock_people(workspace, by, user) or actor
        part = find_part(workspace, user)
        _keep_an_admin(part)
        revoke_invitations_of(user, workspace, at=at, actor=actor)
        teams = Team.objects.filter(Q(members=part) | Q(lead=part), workspace=workspace)
        for slug in sorted(set(teams.values_list("slug", flat=True))):
            set_team(workspace=workspace, slug=slug, remove=[user], at=at, actor=actor)
        _forget_sessions(user, workspaces, at=at, actor=actor)
        if not actor.startswith(BY_GROUPS):
            word: Json = {"is_removed": True, "role": "", "limits": {}, "teams": []}
            SignOnPart.objects.update_or_create(workspace=workspace, user=user, defaults=word)
        part.delete()
        count = _release_held(workspace, user, held, at=at, actor=actor)
        facts = {"user": user.get_username(), "role": part.role, "requests": count}
        workspace.say("member.removed", at=at, facts=facts, actor=actor)
        return count


def _keep_an_admin(part: Membership) -> None:
    """Refuse to remove the last admin who can sign in, or break-glass. Raises Refused."""
    if is_break_glass(part.user):
        raise Refused("break_glass", f"{part.user.get_username()} stays an admin everywhere.")
    admins = Membership.objects.filter(workspace=part.workspace, role=Role.ADMIN)
    others = admins.filter(user__is_active=True, is_simulated=False).exclude(pk=part.pk)
    if part.role == Role.ADMIN and not others:
        raise Refused(
            "last_admin",
            f"{part.user.get_username()} is the only admin of {part.workspace.name}: make another "
            "one first, or nobody can press its kill switch.",
        )


def set_limit(
    *,
    workspace: Workspace,
    user: User,
    desk: str,
    currency: str,
    limit_minor: int | None,
    at: datetime,
    by: User | None = None,
    actor: str = "",
) -> Membership:
    """Set a reviewer's limit at a desk in a currency, in minor units. Raises Refused.

    None removes the limit: then they may grant any amount or, while another currency is limited at
    the desk or their limits are all listed, nothing in this one.
    """
    with transaction.atomic():
        actor = lock_people(workspace, by, user) or actor
        part = find_part(workspace, user)
        is_none = part.grants == Grants.NONE
        limits: Json = {} if is_none else part.desk_limits
        own = {**limits.get(desk, {}), currency: limit_minor}
        limits = {**limits, desk: {name: most for name, most in own.items() if most is not None}}
        kept = {name: most for name, most in limits.items() if most}
        grants = Grants.LISTED if is_none else None
        if word := SignOnPart.objects.filter(workspace=workspace, user=user).first():
            said = {**word.limits.get(desk, {}), currency: limit_minor or 0}
            _keep_word(part, actor, limits={**word.limits, desk: said})
        return _put_membership(workspace, user, Role(part.role), kept, at, actor, grants)


def _keep_word(part: Membership, actor: str, **word: Json) -> None:
    """Keep what an admin said of a member whom groups brought in: it is stronger than they."""
    if not actor.startswith(BY_GROUPS):
        rows = SignOnPart.objects.filter(workspace=part.workspace_id, user=part.user_id)
        rows.update(**word)


def lock_person(user: User, also: Collection[int]) -> None:
    """Lock all that a change of a person locks here and in `also`, in the usual order."""
    held = Escalation.objects.filter(Q(assigned_to=user) | Q(claimed_by=user))
    runs = held.filter(state=EscalationState.OPEN).values_list("run", flat=True)
    list(Run.objects.filter(pk__in=list(runs)).select_for_update().order_by("pk"))
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    mine = Membership.objects.filter(user=user).values_list("workspace", flat=True)
    homes = Workspace.objects.filter(pk__in={*mine, *also})
    list(homes.select_for_update(no_key=True).order_by("pk"))


def _put_membership(
    workspace: Workspace,
    user: User,
    role: Role,
    limits: Json,
    at: datetime,
    actor: str,
    grants: Grants | None = None,
) -> Membership:
    if limits and role not in DECIDES:
        raise Refused(
            "decides_nothing",
            f"The role {role} decides nothing, so it has no limit; a reviewer or an admin has.",
        )
    given: Json = {"workspace": workspace, "user": user, "role": role, "grants": grants}
    return add_member(**given, desk_limits=limits, at=at, actor=actor)


# Requests assigned to or claimed by a person who may no longer decide here.


def _lock_held(workspace: Workspace, user: User) -> set[UUID]:
    """Lock the runs of a person's held requests: before the workspace, in the usual order."""
    held = _requests_of(workspace, user).values_list("run", flat=True)
    runs = Run.objects.filter(pk__in=list(held))
    return set(runs.select_for_update().order_by("pk").values_list("pk", flat=True))


def _release_held(
    workspace: Workspace, user: User, locked: Collection[UUID], *, at: datetime, actor: str
) -> int:
    """Release a person's held requests once they may no longer decide. Return their number.

    `locked` are the runs of `_lock_held`. Raises Refused if more were assigned since.
    """
    requests = list(_requests_of(workspace, user).select_related("run", "step", "claimed_by"))
    if any(one.run_id not in locked for one in requests):
        raise Refused("moved", f"A request has just been handed to {user}. Try again.")
    for one in requests:
        _release(one, user, at=at, actor=actor)
    return len(requests)


def _requests_of(workspace: Workspace, user: User) -> QuerySet[Escalation]:
    open_here = Escalation.objects.filter(workspace=workspace, state=EscalationState.OPEN)
    return open_here.filter(Q(assigned_to=user) | Q(claimed_by=user)).order_by("pk")


def _release(one: Escalation, user: User, *, at: datetime, actor: str) -> None:
    """Release a request to another person who has claimed it, or else to everybody."""
    facts: Json = {"escalation": one.pk, "key": one.step.key, "left": user.get_username()}
    kind, others = "escalation.released", one.claimed_by if is_kept_from(one, user, at=at) else None
    if one.assigned_to == user:
        kind, one.assigned_to = "escalation.assigned", others
        facts |= {"to": others.get_username()} if others else {}
    if others is None:  # any claim is the leaving person's or has expired
        one.claimed_by = one.claimed_until = None
    one.save(update_fields=["assigned_to", "claimed_by", "claimed_until"])
    one.run.say(kind, at=at, facts=facts, actor=actor)


# Teams.


def set_team(
    *,
    workspace: Workspace,
    slug: str,
    at: datetime,
    name: str = "",
    add: Collection[User] = (),
    remove: Collection[User] = (),
    lead: User | None = None,
    has_no_lead: bool = False,
    by: User | None = None,
    actor: str = "",
) -> Team:
    """Create a team, or change its name and members. Raises Refused.

    A new one needs a name. Teams are not deleted: an empty one gets no requests. Its lead, a member
    of the workspace, sees how its people decide; removing them from the team ends that. `by` is the
    acting admin; without one, a command's `actor` is recorded.
    """
    changed = [*add, *remove, *([lead] if lead else [])]
    with transaction.atomic():
        actor = lock_people(workspace, by, *changed) or actor
        team = Team.objects.filter(workspace=workspace, slug=slug).first()
        if team is None:
            check_slug(slug)
            if not name.strip():
                raise Refused("no_team", f"There is no team {slug!r}: a new one needs a name.")
            team = Team(workspace=workspace, slug=slug)
        team.name = name.strip() or team.name
        check_name(team.name)
        if lead or has_no_lead:
            team.lead = find_part(workspace, lead) if lead else None
        elif team.lead and team.lead.user in remove:
            team.lead = None
        team.save()
        team.members.add(*[find_part(workspace, user) for user in add])
        team.members.remove(*[find_part(workspace, user) for user in remove])
        people = sorted(team.members.values_list("user__username", flat=True))
        leads = team.lead.user.get_username() if team.lead else ""
        facts = {"team": slug, "name": team.name, "members": people, "lead": leads}
        workspace.say("team.set", at=at, facts=facts, actor=actor)
        return team


# Sessions: a browser whose session ended is signed out at its next request.


def end_sessions(
    *, workspace: Workspace, user: User, by: User | None, at: datetime, actor: str = ""
) -> int:
    """End every session of a member, and return their number. Raises Refused.

    `by` is an admin, perhaps the member; None: a command's `actor` is recorded. Live streams check
    their session every OPSCONSOLE_LIVE_RECHECK_SECONDS.
    """
    with transaction.atomic():
        workspaces = lock_workspaces_of(user)
        if by is not None:
            require_member(workspace, by, Role.ADMIN)
        name = find_part(workspace, user).user.get_username()
        count = _forget_sessions(user, workspaces, at=at, actor=by.get_username() if by else actor)
        if not count:
            raise Refused("no_sessions", f"{name} is not signed in anywhere.")
        return count


def _forget_sessions(
    user: User, workspaces: Collection[Workspace], *, at: datetime, actor: str
) -> int:
    """End a person's sessions, and record that in their workspaces, which must be locked."""
    there = Session.objects.filter(user=user)
    count = there.filter(expire_date__gt=at).count()
    there.delete()
    facts = {"user": user.get_username(), "count": count}
    for workspace in workspaces if count else ():
        workspace.say("sessions.ended", at=at, facts=facts, actor=actor)
    return count


# Invitations end in one of three ways, and their addresses are forgotten.


def expire_in_sweep() -> int:
    """End invitations that nobody accepted in time. Return their number."""
    at = timezone.now()
    due = Invitation.objects.filter(state=InvitationState.OPEN, expires_at__lte=at)
    late = list(due.select_related("workspace").order_by("expires_at", "pk")[:_EXPIRED_AT_ONCE])
    return sum(end_invitation(one, InvitationState.EXPIRED, at=at) for one in late)


def revoke_invitations_of(by: User, workspace: Workspace, *, at: datetime, actor: str) -> None:
    """End the open invitations of somebody who is no longer an admin of a workspace."""
    sent = Invitation.objects.filter(workspace=workspace, by=by, state=InvitationState.OPEN)
    for one in sent.order_by("pk"):
        end_invitation(one, InvitationState.REVOKED, at=at, actor=actor)


def end_invitation(
    invitation: Invitation, state: InvitationState, *, at: datetime, actor: str = ""
) -> bool:
    """End an invitation and forget its address. Return False if it has already ended."""
    with transaction.atomic():
        workspace = Workspace.objects.select_for_update().get(pk=invitation.workspace_id)
        still = Invitation.objects.filter(pk=invitation.pk, state=InvitationState.OPEN)
        if not still.update(state=state, email=""):
            return False
        facts = {"invitation": invitation.pk}
        workspace.say(f"invitation.{state.value}", at=at, facts=facts, actor=actor)
        return True


# What groups of the provider of sign-on give in a workspace: the table, and who it concerns.


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


def _rows(workspace: Workspace, words: Collection[SignOnPart]) -> Iterator[dict[str, Json]]:
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
        yield {
            "group": group,
            "limits": limits,
            "people": len([word for word in theirs if word.user_id in parts]),
            "stops": stops,  # agents, if their owner loses the group
        }


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
            if row.pk:
                row.delete()
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
