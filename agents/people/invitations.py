"""Invitations: an admin chooses address and role, the receiver name and password."""

import re
import secrets
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from agents.core.json_forms import hash_of_token
from agents.core.requests import Json
from agents.models import Invitation, InvitationState, Membership, Role, Team, Workspace
from agents.models.people import token_of
from agents.notifications.channels import notify_one
from agents.notifications.channels.mail import Mail
from agents.notifications.messages import INVITATION
from agents.people import member_pages
from agents.people.members import end_invitation, join, set_team
from agents.people.workspaces import lock_people
from agents.shell import access
from agents.shell.pages import BadForm, action, only
from agents.shell.refusal import Refused

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


def _revoke_invitation(*, invitation: Invitation, by: User, at: datetime) -> None:
    """Revoke an invitation; its link stops working. Raises Refused."""
    with transaction.atomic():
        name = lock_people(invitation.workspace, by)
        if not end_invitation(invitation, InvitationState.REVOKED, at=at, actor=name):
            raise Refused("over", "This invitation is over already.")


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


def _accept_as(*, invitation: Invitation, user: User, at: datetime) -> Membership:
    """Let an existing user join. Raises Refused."""
    with transaction.atomic():
        return _join(invitation, user, at)


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


# The pages: an admin's form, and the page behind a link.


@action
def invitation_send(request: HttpRequest) -> HttpResponse:
    """Send a link to an address; the answer does not reveal whether a user has it."""
    user = access.person(request)
    workspace = access.workspace_to(access.STAFF, user, request.POST.get("workspace", ""))
    try:
        given = member_pages.read_invitation(request.POST, workspace)
        invite(workspace=workspace, by=user, at=timezone.now(), **given)
    except (BadForm, Refused) as no:
        return member_pages.show_refusal(request, workspace, no)
    return redirect(f"{reverse('members')}?{urlencode({'workspace': workspace.slug})}#invitations")


@action
def invitation_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    user = access.person(request)
    made = access.invitation_to_revoke(user, pk)
    try:
        _revoke_invitation(invitation=made, by=user, at=timezone.now())
    except Refused as no:
        return member_pages.show_refusal(request, made.workspace, no)
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
            _accept_as(invitation=made, user=request.user, at=timezone.now())
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
        shown |= {"part": mine, "may": member_pages.ROLES[Role(made.role)]}
    return render(request, "members/invitation.html", shown, status=status if made else 404)
