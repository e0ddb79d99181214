"""The members page: who may do what, and the forms for changing it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Count, Max
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django_otp.plugins.otp_totp.models import TOTPDevice

from agents.core.decisions import Tiers, read_tiers
from agents.core.limits import Limits
from agents.core.money import BadAmount, format_money, minor_of_text
from agents.core.requests import Json
from agents.models import Invitation, InvitationState, Membership, Role, Session, Team, Workspace
from agents.people import members as groups
from agents.people import sign_in as second_factor
from agents.people.members import end_sessions, remove_member, set_limit, set_role, set_team
from agents.publishing.pages import readable_limits
from agents.publishing.words import desk_names
from agents.sdk.desk import DESKS
from agents.shell import access
from agents.shell.access import DECIDES
from agents.shell.formats import WORDS, desk_title, up_to
from agents.shell.pages import BadForm, action, only, page, whole_number
from agents.shell.refusal import Refused

_OURS = {"csrfmiddlewaretoken", "change"}
_Change: TypeAlias = Callable[[QueryDict, Membership, dict[str, Any]], object]
PAGE = 50
# What each role may do, for people who know no other page.
ROLES = {role: WORDS["members"][role] for role in Role}


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
        change = _CHANGES.get(request.POST.get("change", ""))
        if change is None:
            raise BadForm("", "There is no such change. Load the page again.")
        who = {"workspace": part.workspace, "by": user, "at": timezone.now()}
        change(request.POST, part, who)
    except (BadForm, Refused) as no:
        return _member(request, part, sentence=str(no), status=_status(no))
    if request.POST["change"] == "remove":
        return redirect(f"{reverse('members')}?{urlencode({'workspace': part.workspace.slug})}")
    return redirect("member", part.pk)


@action
def team_add(request: HttpRequest) -> HttpResponse:
    """Create a team; its members are chosen on each person's page."""
    workspace = access.workspace_to(access.STAFF, access.person(request), _chosen_slug(request))
    try:
        set_team(
            workspace=workspace,
            by=access.person(request),
            at=timezone.now(),
            **_read_new_team(request.POST, workspace),
        )
    except (BadForm, Refused) as no:
        return show_refusal(request, workspace, no)
    return redirect(f"{reverse('members')}?{urlencode({'workspace': workspace.slug})}")


@action
def require_factor(request: HttpRequest) -> HttpResponse:
    """Set which roles must have a second factor."""
    user = access.person(request)
    workspace = access.workspace_to(access.STAFF, user, _chosen_slug(request))
    try:
        required = _read_factor(request.POST)
        second_factor.require_factor(workspace=workspace, by=user, at=timezone.now(), **required)
    except (BadForm, Refused) as no:
        return show_refusal(request, workspace, no)
    return redirect(f"{reverse('members')}?{urlencode({'workspace': workspace.slug})}#factor")


@action
def group_change(request: HttpRequest) -> HttpResponse:
    """Set or remove a group, or leave a person whom an admin removed to the groups."""
    user = access.person(request)
    workspace = access.workspace_to(access.STAFF, user, _chosen_slug(request))
    who: dict[str, Any] = {"workspace": workspace, "by": user, "at": timezone.now()}
    try:
        if request.POST.get("change") == "readmit":
            only(request.POST, _OURS | {"workspace", "user"})
            gone = User.objects.filter(username=_slug(request.POST, "user")).first()
            if gone is None:
                raise BadForm("user", "There is no such person.")
            groups.leave_to_groups(user=gone, **who)
        else:
            groups.set_group(**_read_group(request.POST, workspace), **who)
    except (BadForm, Refused) as no:
        return show_refusal(request, workspace, no)
    return redirect(f"{reverse('members')}?{urlencode({'workspace': workspace.slug})}#groups")


def _set_team(posted: QueryDict, part: Membership, who: dict[str, Any]) -> Team:
    team = _read_team(posted, part)
    moves: Mapping[str, dict[str, Any]] = {
        "join": {"add": [part.user]},
        "leave": {"remove": [part.user]},
        "lead": {"lead": part.user},
        "follow": {"has_no_lead": True},
    }
    return set_team(slug=team.slug, **moves[posted.get("change", "")], **who)


_CHANGES: Mapping[str, _Change] = {
    "role": lambda posted, part, who: set_role(user=part.user, **_read_role(posted, part), **who),
    "limit": lambda posted, part, who: set_limit(
        user=part.user, **_read_limit(posted, part), **who
    ),
    **dict.fromkeys(("join", "leave", "lead", "follow"), _set_team),
    "reset-factor": lambda posted, part, who: second_factor.reset_factor(user=part.user, **who),
    "by-groups": lambda posted, part, who: groups.leave_to_groups(user=part.user, **who),
    "remove": lambda posted, part, who: remove_member(user=part.user, **who),
    "end-sessions": lambda posted, part, who: end_sessions(user=part.user, **who),
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
        "older": urlencode({**query, "after": listed.after}) if listed.after else "",
        "may_change": may_change,
        "invited": invited,
        "earlier": urlencode({**query, "invited": earlier}) if earlier else "",
        "roles": _role_words(),
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
        "roles": _role_words(),
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


@dataclass(frozen=True)
class _Member:
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
class _MembersPage:
    """A page of a workspace's people, by name, and its teams."""

    members: Sequence[_Member]
    count: int  # of all people in it
    after: str  # the last name of this page; "": there is no next one
    teams: Sequence[tuple[Team, int]]  # with their numbers of people


def _members_page(workspace: Workspace, *, name: str, role: str, after: str) -> _MembersPage:
    """Return a page of people, filtered by part of a name and by role, in seven queries."""
    everybody = Membership.objects.filter(workspace=workspace)
    matching = everybody.filter(user__username__icontains=name) if name else everybody
    matching = matching.filter(role=role) if role else matching
    matching = matching.filter(user__username__gt=after) if after else matching
    rows = list(matching.select_related("user").order_by("user__username")[: PAGE + 1])
    teams = Team.objects.filter(workspace=workspace).select_related("lead__user")
    counted = teams.annotate(count=Count("members")).order_by("name", "pk")
    return _MembersPage(
        _read_members(workspace, rows[:PAGE]),
        everybody.count(),
        rows[PAGE - 1].user.get_username() if len(rows) > PAGE else "",
        [(team, team.count) for team in counted],
    )


def _read_members(workspace: Workspace, parts: Sequence[Membership]) -> list[_Member]:
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
        _Member(
            part,
            _limits(part, limits, {team.slug for team in teams.get(part.pk, [])}),
            teams.get(part.pk, []),
            part.user_id in enrolled,
            *active.get(part.user_id, (0, None)),
        )
        for part in parts
    ]


def _open_invitations(workspace: Workspace, before: int | None) -> tuple[list[Invitation], int]:
    """Return a page of open invitations, newest first, and the key before which the next begins.

    0: there is no next page.
    """
    invitations = Invitation.objects.filter(workspace=workspace, state=InvitationState.OPEN)
    invitations = invitations if before is None else invitations.filter(pk__lt=before)
    rows = list(invitations.select_related("team", "by").order_by("-pk")[: PAGE + 1])
    return rows[:PAGE], rows[PAGE - 1].pk if len(rows) > PAGE else 0


def _role_words() -> list[tuple[str, str]]:
    """Return each role with what it may do."""
    return [(role.value, ROLES[role]) for role in Role]


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


def _read_role(posted: QueryDict, part: Membership) -> dict[str, Any]:
    """Return the role in the form. Raises BadForm."""
    only(posted, _OURS | {"role"})
    return {"role": _role(posted)}


def _read_limit(posted: QueryDict, part: Membership) -> dict[str, Any]:
    """Return the limit in the form; None without an amount. Raises BadForm."""
    only(posted, _OURS | {"desk", "currency", "limit"})
    return _limit(posted)


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


def _read_team(posted: QueryDict, part: Membership) -> Team:
    """Return the team in the form, of the member's workspace. Raises BadForm."""
    only(posted, _OURS | {"team"})
    team = Team.objects.filter(workspace=part.workspace_id, slug=_slug(posted, "team")).first()
    if team is None:
        raise BadForm("team", "There is no such team.")
    return team


def _read_factor(posted: QueryDict) -> dict[str, Any]:
    """Return the roles that must have a second factor, and whose counts. Raises BadForm."""
    fields = {"csrfmiddlewaretoken", "workspace", "provider"}
    only(posted, fields | {f"role.{role}" for role in Role})
    roles = [role for role in Role if posted.get(f"role.{role}") == "1"]
    return {"roles": roles, "of_provider": posted.get("provider") == "1"}


def _read_new_team(posted: QueryDict, workspace: Workspace) -> dict[str, Any]:
    """Return the name and short name of a new team. Raises BadForm."""
    only(posted, {"csrfmiddlewaretoken", "workspace", "name", "slug"})
    slug = _slug(posted, "slug")
    if Team.objects.filter(workspace=workspace, slug=slug).exists():
        raise BadForm("slug", f"There is a team {slug} already.")
    return {"slug": slug, "name": posted.get("name", "")}


def read_invitation(posted: QueryDict, workspace: Workspace) -> dict[str, Any]:
    """Return an invitation's address, role and team. Raises BadForm."""
    only(posted, {"csrfmiddlewaretoken", "workspace", "email", "role", "team"})
    slug = _slug(posted, "team")
    team = Team.objects.filter(workspace=workspace, slug=slug).first() if slug else None
    if slug and team is None:
        raise BadForm("team", "There is no such team.")
    return {"email": posted.get("email", ""), "role": _role(posted), "team": team}


def _slug(posted: QueryDict, field: str) -> str:
    """Return a short name that can be looked up: PostgreSQL rejects NUL."""
    return posted.get(field, "").strip().replace("\0", "?")


def _role(posted: QueryDict) -> Role:
    role = posted.get("role", "")
    if role not in list(Role):
        raise BadForm("role", "Choose a role.")
    return Role(role)
