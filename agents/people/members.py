"""Who may do what in a workspace: people join, get another role or limit, or leave."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from agents.core.requests import Json
from agents.core.states import EscalationState
from agents.engine.deciders import is_kept_from
from agents.models import (
    DECIDES,
    Escalation,
    Grants,
    Identity,
    Invitation,
    InvitationState,
    Membership,
    Role,
    Run,
    Session,
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
from agents.shell.refusal import Refused, require_member

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
