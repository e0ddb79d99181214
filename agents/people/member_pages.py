"""The members page: who may do what, the forms for changing it, and invitations."""

import re
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.db.models import Count, F, Max
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from django_otp.plugins.otp_totp.models import TOTPDevice

from agents.core.decisions import Tiers, read_tiers
from agents.core.json_forms import hash_of_token
from agents.core.limits import Limits
from agents.core.money import BadAmount, format_money, minor_of_text
from agents.core.requests import Json
from agents.models import Invitation, InvitationState, Membership, Role, Session, Team, Workspace
from agents.models.people import token_of
from agents.notifications.channels import notify_one
from agents.notifications.channels.mail import Mail
from agents.notifications.messages import INVITATION
from agents.people import members as groups
from agents.people import sign_in as second_factor
from agents.people.members import (
    end_invitation,
    end_sessions,
    join,
    remove_member,
    set_limit,
    set_role,
    set_team,
)
from agents.people.workspaces import lock_people
from agents.publishing.pages import readable_limits
from agents.publishing.words import desk_names
from agents.sdk.desk import DESKS
from agents.shell import access
from agents.shell.access import DECIDES
from agents.shell.formats import WORDS, desk_title, up_to
from agents.shell.pages import BadForm, action, only, page, whole_number
from agents.shell.refusal import Refused

_OURS = {"csrfmiddlewaretoken", "change"}
_Change: TypeAlias = Callable[[QueryDict, dict[str, Any]], object]  # its form, workspace, by, at
PAGE = 50
# What each role may do, for people who know no other page.
ROLES = {role.value: WORDS["members"][role] for role in Role}


@page
def members(request: HttpRequest) -> HttpResponse:
    """List the people of a workspace whose record the person may read."""
    user = access.person(request)
    return _members(request, access.workspace_to(access.SEE_MEMBERS, user, _chosen_slug(request)))


@page
def member(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one person and, to an admin, the forms for changes."""
    return _member(request, access.member_for(access.person(request), pk))


@action
def member_change(request: HttpRequest, pk: int) -> HttpResponse:
    """Change a person's role, limits or teams, or end their sessions."""
    user = access.person(request)
    part = access.member_to_change(user, pk)
    try:
        fields, change = _CHANGES.get(request.POST.get("change", ""), (set(), None))
        if change is None:
            raise BadForm("", "There is no such change. Load the page again.")
        only(request.POST, _OURS | fields)
        who = {"workspace": part.workspace, "user": part.user, "by": user, "at": timezone.now()}
        change(request.POST, who)
    except (BadForm, Refused) as no:
        return _member(request, part, sentence=str(no), status=_status(no))
    if request.POST["change"] == "remove":
        return redirect(f"{reverse('members')}?{urlencode({'workspace': part.workspace.slug})}")
    return redirect("member", part.pk)


@action
def team_add(request: HttpRequest) -> HttpResponse:
    """Create a team; its members are chosen on each person's page."""
    return _change_list(request, _add_team)


@action
def require_factor(request: HttpRequest) -> HttpResponse:
    """Set which roles must have a second factor."""
    return _change_list(request, _set_factor, "#factor")


@action
def group_change(request: HttpRequest) -> HttpResponse:
    """Set or remove a group, or leave a person whom an admin removed to the groups."""
    return _change_list(request, _change_group, "#groups")


@action
def invitation_send(request: HttpRequest) -> HttpResponse:
    """Send a link to an address; the answer does not reveal whether a user has it."""
    return _change_list(request, _send_invitation, "#invitations")


def _change_list(request: HttpRequest, change: _Change, part: str = "") -> HttpResponse:
    """Change something of a workspace, and show the list from this part on."""
    user = access.person(request)
    workspace = access.workspace_to(access.STAFF, user, request.POST.get("workspace", ""))
    try:
        change(request.POST, {"workspace": workspace, "by": user, "at": timezone.now()})
    except (BadForm, Refused) as no:
        return show_refusal(request, workspace, no)
    return redirect(f"{reverse('members')}?{urlencode({'workspace': workspace.slug})}{part}")


def _set_team(posted: QueryDict, who: dict[str, Any]) -> Team:
    user = who.pop("user")
    slug = _slug(posted, "team")
    if not Team.objects.filter(workspace=who["workspace"], slug=slug).exists():
        raise BadForm("team", "There is no such team.")
    moves: Mapping[str, dict[str, Any]] = {
        "join": {"add": [user]},
        "leave": {"remove": [user]},
        "lead": {"lead": user},
        "follow": {"has_no_lead": True},
    }
    return set_team(slug=slug, **moves[posted.get("change", "")], **who)


# The other fields of each form, and what it changes.
_CHANGES: Mapping[str, tuple[set[str], _Change]] = {
    "role": ({"role"}, lambda posted, who: set_role(role=_role(posted), **who)),
    "limit": (
        {"desk", "currency", "limit"},
        lambda posted, who: set_limit(**_limit(posted), **who),
    ),
    **dict.fromkeys(("join", "leave", "lead", "follow"), ({"team"}, _set_team)),
    "reset-factor": (set(), lambda posted, who: second_factor.reset_factor(**who)),
    "by-groups": (set(), lambda posted, who: groups.leave_to_groups(**who)),
    "remove": (set(), lambda posted, who: remove_member(**who)),
    "end-sessions": (set(), lambda posted, who: end_sessions(**who)),
}


def show_refusal(request: HttpRequest, workspace: Workspace, no: BadForm | Refused) -> HttpResponse:
    """Show the list with the reason why nothing was changed."""
    return _members(request, workspace, sentence=str(no), status=_status(no))


def _members(
    request: HttpRequest, workspace: Workspace, *, sentence: str = "", status: int = 200
) -> HttpResponse:
    user, given = access.person(request), request.GET
    role = given.get("role", "")
    # PostgreSQL rejects NUL.
    name, after = (given.get(key, "").replace("\0", "") for key in ("name", "after"))
    narrowed = {"name": name.strip(), "role": role if role in list(Role) else ""}
    listed = _members_page(workspace, **narrowed, after=after)
    query: dict[str, str | int] = {
        "workspace": workspace.slug,
        **{k: v for k, v in narrowed.items() if v},
    }
    may_change = _may_change(user, workspace)
    before = whole_number(given.get("invited", ""))
    invited, earlier = _open_invitations(workspace, before) if may_change else ([], 0)
    shown: dict[str, Json] = {
        "nav": "members",
        "workspace": workspace,
        "workspaces": access.workspaces_to(access.SEE_MEMBERS, user),
        "found": listed,
        "given": {name: value for name, value in narrowed.items() if value},
        "older": urlencode({**query, "after": listed["after"]}) if listed["after"] else "",
        "may_change": may_change,
        "invited": invited,
        "earlier": urlencode({**query, "invited": earlier}) if earlier else "",
        "roles": ROLES.items(),
        "desks": _desks(workspace),
        "sentence": sentence,
        "posted": request.POST,
        **(groups.shown_groups(workspace) if may_change else {}),
    }
    return render(request, "members/page.html", shown, status=status)


def _member(
    request: HttpRequest, part: Membership, *, sentence: str = "", status: int = 200
) -> HttpResponse:
    user = access.person(request)
    part = access.member_for(user, part.pk)  # reread, without a refused change
    [shown] = _read_members(part.workspace, [part])
    others = Team.objects.filter(workspace=part.workspace).exclude(members=part)
    context: dict[str, Json] = {
        "nav": "members",
        "member": shown,
        "part": part,
        "workspace": part.workspace,
        "is_self": part.user_id == user.pk,
        "may_change": _may_change(user, part.workspace),
        "decides": part.role in access.DECIDES,
        "roles": ROLES.items(),
        "desks": _desks(part.workspace),
        "word": groups.word_of(part),
        "other_teams": list(others.order_by("name", "pk")),
        "sentence": sentence,
        "posted": request.POST,
    }
    return render(request, "members/member.html", context, status=status)


def _desks(workspace: Workspace) -> list[tuple[str, str]]:
    limits = readable_limits(workspace.policy)
    desks = [name for name in DESKS if limits is None or limits.covers(name)]
    return [(name, desk_title(name)) for name in desks]


def _may_change(user: User, workspace: Workspace) -> bool:
    return access.membership(user, workspace.pk).role == Role.ADMIN


def _chosen_slug(request: HttpRequest) -> str:
    given = request.POST if request.method == "POST" else request.GET
    return given.get("workspace", "")


def _status(no: BadForm | Refused) -> int:
    return 403 if getattr(no, "code", "") == "not_permitted" else 422


# The people of a workspace, page by page or one alone.


def _members_page(workspace: Workspace, *, name: str, role: str, after: str) -> dict[str, Json]:
    """Return a page of people, filtered by part of a name and by role, in seven queries."""
    everybody = Membership.objects.filter(workspace=workspace)
    matching = everybody.filter(user__username__icontains=name) if name else everybody
    matching = matching.filter(role=role) if role else matching
    matching = matching.filter(user__username__gt=after) if after else matching
    rows = list(matching.select_related("user").order_by("user__username")[: PAGE + 1])
    teams = Team.objects.filter(workspace=workspace).select_related("lead__user")
    counted = teams.annotate(count=Count("members")).order_by("name", "pk")
    return {
        "members": _read_members(workspace, rows[:PAGE]),
        "count": everybody.count(),
        # The last name of this page; "": there is no next one.
        "after": rows[PAGE - 1].user.get_username() if len(rows) > PAGE else "",
        "teams": [(team, team.count) for team in counted],
    }


def _read_members(workspace: Workspace, parts: Sequence[Membership]) -> list[dict[str, Json]]:
    """Return some people of a workspace for display, in three queries."""
    teams = _teams_of(parts)
    signed_in = Session.objects.filter(user__in=[part.user_id for part in parts])
    live = signed_in.filter(expire_date__gt=timezone.now()).values("user").order_by()
    active = {
        row["user"]: (row["count"], row["last"] - timedelta(seconds=settings.SESSION_COOKIE_AGE))
        for row in live.annotate(count=Count("pk"), last=Max("expire_date"))
    }
    limits = readable_limits(workspace.policy)
    devices = TOTPDevice.objects.filter(user__in=[part.user_id for part in parts], confirmed=True)
    enrolled = set(devices.values_list("user", flat=True))
    read = []
    for part in parts:
        sessions, seen_at = active.get(part.user_id, (0, None))
        own = teams.get(part.pk, [])
        read.append(
            {
                "part": part,
                "name": part.user.get_username(),
                # What they may approve now: a line for each desk.
                "limits": _limits(part, limits, {team.slug for team in own}),
                "teams": own,
                "has_factor": part.user_id in enrolled,
                "sessions": sessions,
                "seen_at": seen_at,  # last use of any of them, to the minute
            }
        )
    return read


def _open_invitations(workspace: Workspace, before: int | None) -> tuple[list[Invitation], int]:
    """Return a page of open invitations, newest first, and the key before which the next begins.

    0: there is no next page.
    """
    invitations = Invitation.objects.filter(workspace=workspace, state=InvitationState.OPEN)
    invitations = invitations if before is None else invitations.filter(pk__lt=before)
    rows = list(invitations.select_related("team", "by").order_by("-pk")[: PAGE + 1])
    return rows[:PAGE], rows[PAGE - 1].pk if len(rows) > PAGE else 0


def _teams_of(parts: Sequence[Membership]) -> dict[int, list[Team]]:
    through = Team.members.through.objects.filter(membership__in=[part.pk for part in parts])
    teams: dict[int, list[Team]] = {}
    for row in through.select_related("team").order_by("team__name", "team_id"):
        teams.setdefault(row.membership_id, []).append(row.team)
    return teams


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
        else up_to(row.own_limits(desk))
        for desk in named
    }
    texts = {desk: text if _has_amounts(desk) else "any request" for desk, text in most.items()}
    if len(texts) < 2:
        return list(texts.values()) or [up_to(row.own_limits(""))]
    return [f"{desk_title(desk)}: {text}" for desk, text in texts.items()]


def _has_amounts(desk: str) -> bool:
    return desk not in DESKS or any(tool.amount for tool in DESKS[desk].tools.values())


def _within_tiers(
    row: Membership, desk: str, held: Mapping[str, Tiers], teams: Collection[str]
) -> str:
    """Return what a person of these teams may approve, by currency with tiers or a limit."""
    return "; ".join(
        _highest(held.get(currency, ()), currency, teams, row.limit_minor(desk, currency))
        for currency in {**held, **(row.own_limits(desk) or {})}
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


# The forms by which an admin changes people and teams.


def _limit(posted: QueryDict) -> dict[str, Any]:
    desk, text = posted.get("desk", ""), posted.get("limit", "").strip()
    currency = posted.get("currency", "").strip().upper()
    if desk not in DESKS:
        raise BadForm("desk", "Choose a desk.")
    try:
        # Read even without an amount, to check the currency.
        minor = minor_of_text(text or "0", currency)
    except BadAmount as error:
        raise BadForm("limit", f"The limit: {error}.") from None
    return {"desk": desk, "currency": currency, "limit_minor": minor if text else None}


def _change_group(posted: QueryDict, who: dict[str, Any]) -> None:
    if posted.get("change") != "readmit":
        groups.set_group(**_read_group(posted, who["workspace"]), **who)
        return
    only(posted, _OURS | {"workspace", "user"})
    gone = User.objects.filter(username=_slug(posted, "user")).first()
    if gone is None:
        raise BadForm("user", "There is no such person.")
    groups.leave_to_groups(user=gone, **who)


def _read_group(posted: QueryDict, workspace: Workspace) -> dict[str, Any]:
    """Return a group with its role, teams and a limit, or the one to remove. Raises BadForm."""
    teams = list(Team.objects.filter(workspace=workspace).values_list("slug", flat=True))
    fields = {"workspace", "group", "role", "desk", "currency", "limit"}
    only(posted, _OURS | fields | {f"team.{slug}" for slug in teams})
    read: dict[str, Any] = {"value": posted.get("group", "").strip(), "role": None}
    if posted.get("change") == "remove":
        return read
    chosen = [slug for slug in teams if posted.get(f"team.{slug}") == "1"]
    read |= {"role": _role(posted), "teams": chosen}
    if posted.get("currency", "").strip():
        limit = _limit(posted)
        read["limit"] = (limit["desk"], limit["currency"], limit["limit_minor"] or 0)
    elif posted.get("limit", "").strip():
        raise BadForm("currency", "Give the currency of the limit.")
    return read


def _set_factor(posted: QueryDict, who: dict[str, Any]) -> None:
    only(posted, {"csrfmiddlewaretoken", "workspace", "provider", *(f"role.{r}" for r in Role)})
    roles = [role for role in Role if posted.get(f"role.{role}") == "1"]
    second_factor.require_factor(roles=roles, of_provider=posted.get("provider") == "1", **who)


def _add_team(posted: QueryDict, who: dict[str, Any]) -> None:
    only(posted, {"csrfmiddlewaretoken", "workspace", "name", "slug"})
    slug = _slug(posted, "slug")
    if Team.objects.filter(workspace=who["workspace"], slug=slug).exists():
        raise BadForm("slug", f"There is a team {slug} already.")
    set_team(slug=slug, name=posted.get("name", ""), **who)


def _send_invitation(posted: QueryDict, who: dict[str, Any]) -> None:
    only(posted, {"csrfmiddlewaretoken", "workspace", "email", "role", "team"})
    slug = _slug(posted, "team")
    team = Team.objects.filter(workspace=who["workspace"], slug=slug).first() if slug else None
    if slug and team is None:
        raise BadForm("team", "There is no such team.")
    invite(email=posted.get("email", ""), role=_role(posted), team=team, **who)


def _slug(posted: QueryDict, field: str) -> str:
    """Return a short name that can be looked up: PostgreSQL rejects NUL."""
    return posted.get(field, "").strip().replace("\0", "?")


def _role(posted: QueryDict) -> Role:
    role = posted.get("role", "")
    if role not in list(Role):
        raise BadForm("role", "Choose a role.")
    return Role(role)


# Invitations: an admin chooses address and role, the receiver name and password.


_LASTS = timedelta(days=7)
_LONGEST = 254  # characters of an address, as of a path in SMTP
MOST_A_DAY = 100  # of a workspace, so that a stolen admin session cannot send more mail
MOST_TRIES = 20  # refused forms of one link
# Invited people choose their own names, so these must not look like other names.
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,39}")
_SIMULATED = "simulated"  # the name of programs that play a person


def invite(
    *,
    workspace: Workspace,
    by: User,
    email: str,
    role: Role,
    at: datetime,
    team: Team | None = None,
) -> Invitation:
    """Send a link to an address; an older invitation of it ends. Raises Refused.

    It makes no difference whether a user has this address.
    """
    email = email.strip().lower()
    try:
        validate_email(email)
    except ValidationError:
        raise Refused("bad_email", _EMAIL, field="email") from None
    if len(email) > _LONGEST:
        raise Refused("bad_email", _EMAIL, field="email")
    if team is not None and team.workspace_id != workspace.pk:
        raise Refused("no_team", "That team is not of this workspace.", field="team")
    with transaction.atomic():
        name = lock_people(workspace, by)
        ours = Invitation.objects.filter(workspace=workspace)
        if ours.filter(created_at__gt=at - timedelta(days=1)).count() >= MOST_A_DAY:
            raise Refused("too_many", f"At most {MOST_A_DAY} people can be invited in a day.")
        for older in ours.filter(email=email, state=InvitationState.OPEN):
            end_invitation(older, InvitationState.REVOKED, at=at, actor=name)
        salt = secrets.token_hex(16)
        made = Invitation.objects.create(
            workspace=workspace,
            email=email,
            role=role,
            team=team,
            by=by,
            salt=salt,
            token_sha256=hash_of_token(token_of(salt)),
            created_at=at,
            expires_at=at + _LASTS,
        )
        message: Json = {"kind": INVITATION, "what": made.pk, "invitation": made}
        notify_one(channel=Mail.name, workspace=workspace, at=at, **message)
        facts = {"invitation": made.pk, "role": role.value, "team": team.slug if team else ""}
        workspace.say("invitation.sent", at=at, facts=facts, actor=name)
    return made


def invitation_of(token: str, *, at: datetime) -> Invitation | None:
    """Return the invitation of a link, or None if the link does not work (any more)."""
    known = (
        Invitation.objects.filter(token_sha256=hash_of_token(token), state=InvitationState.OPEN)
        .filter(expires_at__gt=at)
        .select_related("workspace", "team", "by")
        .first()
    )
    # Writing rows is not enough to sign one.
    return known if known and secrets.compare_digest(known.token, token) else None


def accept_anew(*, invitation: Invitation, name: str, password: str, at: datetime) -> Membership:
    """Create a user and let them join. Raises Refused; after MOST_TRIES it has ended."""
    left = Invitation.objects.filter(
        pk=invitation.pk, state=InvitationState.OPEN, tries__lt=MOST_TRIES
    )
    if not left.update(tries=F("tries") + 1):  # counted first, as many forms may come at once
        raise Refused("over", _OVER)
    try:
        with transaction.atomic():
            user = _new_user(name.strip(), password, invitation.email)
            return _join(invitation, user, at)
    except Refused:
        if not left.exists():
            end_invitation(invitation, InvitationState.REVOKED, at=at)
        raise


def _new_user(name: str, password: str, email: str) -> User:
    # One answer, whether a name is taken or not allowed.
    if not is_free(name):
        raise Refused("bad_name", _NAME, field="name")
    user = User(username=name, email=email)
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Refused("bad_password", " ".join(error.messages), field="password") from None
    user.set_password(password)
    try:
        with transaction.atomic():
            user.save()
    except IntegrityError:  # somebody was first
        raise Refused("bad_name", _NAME, field="name") from None
    return user


def is_free(name: str) -> bool:
    """Tell whether a new user may have this name."""
    is_plain = NAME.fullmatch(name) and not name.startswith(_SIMULATED)
    is_kept = name == settings.OPSCONSOLE_SSO_BREAK_GLASS  # for who makes it by command
    return bool(is_plain) and not (is_kept or User.objects.filter(username__iexact=name).exists())


_OVER = "This invitation is over. Ask for a new one."
_EMAIL = "That is not the address of a mailbox."
_NAME = (
    "Choose another name: 2 to 40 lower-case letters, digits, dots, hyphens and underscores, "
    "and not one that is in use."
)


def _join(invitation: Invitation, user: User, at: datetime) -> Membership:
    """Make the holder of the link a member, within a transaction. Raises Refused."""
    workspace, by = invitation.workspace, invitation.by
    try:
        # As if the admin did it now: a former admin's invitation is void.
        actor = lock_people(workspace, by)
    except Refused:
        raise Refused(
            "inviter", f"The person who invited you is no longer an admin of {workspace.name}."
        ) from None
    fresh = Invitation.objects.get(pk=invitation.pk)
    is_over = not end_invitation(fresh, InvitationState.ACCEPTED, at=at, actor=user.get_username())
    if is_over or fresh.expires_at <= at:
        raise Refused("over", _OVER)
    if part := Membership.objects.filter(workspace=workspace, user=user).first():
        raise Refused("member", f"You already have the role {part.role} in {workspace.name}.")
    role = Role(fresh.role)
    part = join(workspace=workspace, user=user, role=role, at=at, actor=actor)
    if fresh.team is not None:
        set_team(workspace=workspace, slug=fresh.team.slug, add=[user], at=at, actor=actor)
    return part


# The pages: revoke an invitation, and the page behind a link.


@action
def invitation_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """Revoke an invitation; its link stops working."""
    user = access.person(request)
    made = access.invitation_to_revoke(user, pk)
    try:
        with transaction.atomic():
            name = lock_people(made.workspace, user)
            if not end_invitation(made, InvitationState.REVOKED, at=timezone.now(), actor=name):
                raise Refused("over", "This invitation is over already.")
    except Refused as no:
        return show_refusal(request, made.workspace, no)
    slug = urlencode({"workspace": made.workspace.slug})
    return redirect(f"{reverse('members')}?{slug}#invitations")


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Let the holder of the link join: with a new user or the one signed in."""
    made = invitation_of(token, at=timezone.now())
    if made is None or request.method != "POST":
        return _invitation(request, made)
    try:
        only(request.POST, {"csrfmiddlewaretoken", "as", "name", "password"})
        if request.POST.get("as") == "me" and isinstance(request.user, User):
            with transaction.atomic():
                _join(made, request.user, timezone.now())
            return redirect("home")
        if settings.OPSCONSOLE_SSO_BREAK_GLASS:
            raise BadForm("", f"Continue with {settings.OPSCONSOLE_SSO_NAME} to join.")
        accept_anew(
            invitation=made,
            name=request.POST.get("name", ""),
            password=request.POST.get("password", ""),
            at=timezone.now(),
        )
    except (BadForm, Refused) as no:
        return _invitation(request, made, sentence=str(no), status=422)
    return redirect(f"{reverse('sign-in')}?joined=1")


def _invitation(
    request: HttpRequest, made: Invitation | None, *, sentence: str = "", status: int = 200
) -> HttpResponse:
    shown: Json = {"made": made, "sentence": sentence, "name": request.POST.get("name", "")}
    shown |= {"provider": settings.OPSCONSOLE_SSO_NAME}
    shown |= {"has_passwords": not settings.OPSCONSOLE_SSO_BREAK_GLASS}
    if made:
        user = request.user if isinstance(request.user, User) else None
        mine = Membership.objects.filter(workspace=made.workspace, user=user).first()
        shown |= {"part": mine, "may": ROLES[made.role]}
    return render(request, "members/invitation.html", shown, status=status if made else 404)
