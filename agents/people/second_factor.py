"""The second factor: an app's code (TOTP) after the password, or a recovery code.

django-otp keeps the secret, checks codes, accepts none twice and delays repeated guesses from
anywhere. A user is the same person in all workspaces, so each of theirs records changes.
"""

import re
import secrets
from base64 import b32encode
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import segno
from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import SessionBase
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.debug import sensitive_post_parameters
from django_otp.plugins.otp_totp.models import TOTPDevice

from agents.core.requests import Json
from agents.models import Membership, RecoveryCode, Role, Session, Workspace
from agents.models.people import hash_of_code
from agents.people.workspaces import lock_people, lock_workspaces_of
from agents.shell import access
from agents.shell.access import may_use_password
from agents.shell.pages import BadForm, action, lead, only, page
from agents.shell.refusal import Refused

_CODES = 10  # recovery codes of a person
_TO_CONFIRM = timedelta(minutes=15)  # to type a code of a new secret in
_TOTP = re.compile(r"[0-9]{6}")


def factor_of(user: User) -> TOTPDevice | None:
    """Return the device that checks a person's codes; None without a second factor."""
    return TOTPDevice.objects.filter(user=user, confirmed=True).first()


BY_PROVIDER = "factor_at_provider"  # key in the session: whose second factor the provider saw


def _needing(user: User, session: SessionBase) -> list[str]:
    """Return the workspaces in which a role of a person needs a second factor of them here."""
    is_seen = session.get(BY_PROVIDER) == user.pk  # not of who began to sign on here before
    return [
        part.workspace.name
        for part in access.parts_of(user)
        if part.role in part.workspace.second_factor_roles
        and not (part.is_simulated or (is_seen and part.workspace.counts_provider_factor))
    ]


def lacks_factor(user: User, session: SessionBase) -> bool:
    """Tell whether a person must enrol first, because a role of theirs needs a factor."""
    return bool(_needing(user, session)) and factor_of(user) is None


def _begin_factor(*, user: User) -> TOTPDevice:
    """Create a secret, which becomes active once a code is confirmed. Raises Refused."""
    with transaction.atomic():
        lock_workspaces_of(user)
        if factor_of(user) is not None:
            raise Refused("enrolled", "You have a second factor. Remove it first.")
        TOTPDevice.objects.filter(user=user).delete()
        device: TOTPDevice = TOTPDevice.objects.create(user=user, name="app", confirmed=False)
        return device


def _begun_factor(user: User, *, at: datetime) -> TOTPDevice | None:
    """Return the recent secret that a person has not confirmed yet, or None."""
    begun = TOTPDevice.objects.filter(user=user, confirmed=False)
    return begun.filter(created_at__gt=at - _TO_CONFIRM).first()


def _confirm_factor(*, user: User, code: str, session: str, at: datetime) -> list[str]:
    """Activate the secret, end the person's other sessions, and return recovery codes.

    The codes are shown once. Raises Refused.
    """
    refused = Refused("bad_code", WRONG, field="code")
    with transaction.atomic():
        workspaces = lock_workspaces_of(user)
        device = _begun_factor(user, at=at)
        if is_right := device is not None and _is_right(device, code):
            TOTPDevice.objects.filter(pk=device.pk).update(confirmed=True)
            Session.objects.filter(user=user).exclude(session_key=session).delete()
            codes = _new_codes(user)
            _tell(workspaces, "factor.set", {"user": user.get_username()}, user, at)
    if not is_right:  # after the commit, which counts the failed try
        raise refused
    return codes


WRONG = "That code is wrong, was used, or came too soon after a wrong one. Wait for the next one."


def check_factor(*, user: User, code: str, at: datetime) -> bool:
    """Tell whether an app's code or a recovery code is right; each is so only once."""
    with transaction.atomic():
        workspaces = lock_workspaces_of(user)
        device = factor_of(user)
        if device is None:
            return False
        if _TOTP.fullmatch(code.strip()):
            return _is_right(device, code)
        mine = RecoveryCode.objects.filter(user=user)
        if not mine.filter(code_sha256=hash_of_code(user.pk, code)).delete()[0]:
            return False
        facts = {"user": user.get_username(), "left": mine.count()}
        _tell(workspaces, "factor.recovered", facts, user, at)
        return True


def _renew_codes(*, user: User, code: str, at: datetime) -> list[str]:
    """Replace the recovery codes, and return the new ones. Raises Refused."""
    _check(user, code, at)
    with transaction.atomic():
        workspaces = lock_workspaces_of(user)
        codes = _new_codes(user)
        _tell(workspaces, "factor.codes", {"user": user.get_username()}, user, at)
    return codes


def _remove_factor(*, user: User, session: SessionBase, code: str, at: datetime) -> None:
    """Remove one's own factor, unless a role needs it. Raises Refused."""
    if _needing(user, session):
        raise Refused("required", "Your role needs a second factor. An admin can reset it.")
    _check(user, code, at)
    with transaction.atomic():
        workspaces = lock_workspaces_of(user)
        _forget(user)
        _tell(workspaces, "factor.removed", {"user": user.get_username()}, user, at)


def reset_factor(
    *,
    user: User,
    at: datetime,
    workspace: Workspace | None = None,
    by: User | None,
    actor: str = "",
) -> None:
    """Remove another person's factor and end their sessions. Raises Refused.

    `by` must be an admin of every workspace that the person is in, as it protects them all. None:
    a command's `actor` is recorded.
    """
    with transaction.atomic():
        workspaces = lock_workspaces_of(user)
        if by is not None and workspace is not None:
            lock_people(workspace, by, user)
            check_everywhere(workspaces, user, by)
        if not TOTPDevice.objects.filter(user=user).exists():
            raise Refused("no_factor", f"{user.get_username()} has no second factor.")
        _forget(user)
        Session.objects.filter(user=user).delete()
        facts = {"user": user.get_username()}
        _tell(workspaces, "factor.reset", facts, by, at, actor=actor)


def check_everywhere(workspaces: Collection[Workspace], user: User, by: User) -> None:
    """Refuse a change that concerns all of a person's workspaces. Raises Refused."""
    theirs = Membership.objects.filter(user=by, role=Role.ADMIN)
    if {w.pk for w in workspaces} - set(theirs.values_list("workspace", flat=True)):
        raise Refused(
            "elsewhere",
            f"{user.get_username()} is also in a workspace of which you are not an admin. "
            "The operator of the console can use manage.py reset_factor.",
        )


def require_factor(
    *,
    workspace: Workspace,
    by: User,
    roles: Collection[Role],
    at: datetime,
    of_provider: bool = False,
) -> None:
    """Set which roles must have a second factor; people without one enrol first. Raises Refused.

    With `of_provider`, one that the provider saw at a sign-on counts.
    """
    with transaction.atomic():
        name = lock_people(workspace, by)
        kept = [role.value for role in Role if role in roles]
        Workspace.objects.filter(pk=workspace.pk).update(
            second_factor_roles=kept, counts_provider_factor=of_provider
        )
        facts = {"roles": kept, "of_provider": of_provider}
        workspace.say("workspace.second_factor", at=at, facts=facts, actor=name)


def _check(user: User, code: str, at: datetime) -> None:
    if not check_factor(user=user, code=code, at=at):
        raise Refused("bad_code", WRONG, field="code")


def _is_right(device: TOTPDevice, code: str) -> bool:
    """Tell whether the app shows this code now, and record its use."""
    return bool(_TOTP.fullmatch(code.strip()) and device.verify_token(code.strip()))


def _new_codes(user: User) -> list[str]:
    RecoveryCode.objects.filter(user=user).delete()
    plain = [b32encode(secrets.token_bytes(10)).decode().lower() for _ in range(_CODES)]
    hashes = [hash_of_code(user.pk, code) for code in plain]
    RecoveryCode.objects.bulk_create(RecoveryCode(user=user, code_sha256=one) for one in hashes)
    return ["-".join(code[at : at + 4] for at in range(0, 16, 4)) for code in plain]


def _forget(user: User) -> None:
    TOTPDevice.objects.filter(user=user).delete()
    RecoveryCode.objects.filter(user=user).delete()


def _tell(
    workspaces: Collection[Workspace],
    kind: str,
    facts: Json,
    by: User | None,
    at: datetime,
    *,
    actor: str = "",
) -> None:
    for workspace in workspaces:
        workspace.say(kind, at=at, facts=facts, actor=by.get_username() if by else actor)


# The page on which people set their own factor up, and are sent to if they must.


_GetResponse: TypeAlias = Callable[[HttpRequest], HttpResponse]
# The pages open to a person who has to enrol first.
_FACTOR = ("second-factor", "second-factor-change", "sign-on", "sign-on-answer")
REMAIN = (*_FACTOR, "sign-out", "theme", "keys", "invitation")


class EnrolFirst:
    """Redirect people who lack a required second factor from every page to its setup.

    Somebody in no workspace sees only that, and their own settings.
    """

    def __init__(self, get_response: _GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *view: Any) -> HttpResponse | None:
        """Answer instead of the view, or return None."""
        match = request.resolver_match
        if not request.user.is_authenticated or match is None or match.url_name in REMAIN:
            return None
        user = access.person(request)
        if not access.parts_of(user) and match.url_name not in ("settings", "password"):
            return render(request, "sign_in/no_workspace.html", status=403)
        if not lacks_factor(user, request.session):
            return None
        return lead(request, reverse("second-factor"))


@page
def second_factor(request: HttpRequest) -> HttpResponse:
    """Show whether a person has a second factor, or the secret of one being set up."""
    return _page(request)


@action
@sensitive_post_parameters("password", "code")
def second_factor_change(request: HttpRequest) -> HttpResponse:
    """Begin, confirm or remove one's factor, or get new recovery codes, which are shown once.

    Everything except confirming needs the password too, or a thief could make a stolen session
    last. Once the factor is active, the session gets another key.
    """
    user, posted, at = access.person(request), request.POST, timezone.now()
    code, codes = posted.get("code", ""), list[str]()
    try:
        only(posted, {"csrfmiddlewaretoken", "change", "code", "password"})
        if posted.get("change") != "confirm":
            check_person(request)
        match posted.get("change", ""):
            case "begin":
                _begin_factor(user=user)
            case "confirm":
                key = request.session.session_key or ""
                codes = _confirm_factor(user=user, code=code, session=key, at=at)
                request.session.cycle_key()
            case "codes":
                codes = _renew_codes(user=user, code=code, at=at)
            case "remove":
                _remove_factor(user=user, session=request.session, code=code, at=at)
            case _:
                raise BadForm("", "There is no such change. Load the page again.")
    except (BadForm, Refused) as no:
        return _page(request, sentence=str(no), status=422)
    return _page(request, codes=codes) if codes else redirect("second-factor")


SHOWN_AT, _FRESH = "shown_at", 5 * 60  # key in the session; seconds that it counts


def has_password(user: User) -> bool:
    """Tell whether a person may sign in with a password."""
    return user.has_usable_password() and may_use_password(user.get_username())


def is_shown(request: HttpRequest) -> bool:
    """Tell whether the person has just signed on again, which counts as the password."""
    return timezone.now().timestamp() - request.session.get(SHOWN_AT, 0) < _FRESH


def check_person(request: HttpRequest) -> None:
    """Check the password, unless the person just signed on again. Raises BadForm.

    Wrong ones count as at the sign-in.
    """
    if is_shown(request):
        return
    if not has_password(access.person(request)):
        name = settings.OPSCONSOLE_SSO_NAME
        raise BadForm("", f"Sign on again with {name} first, which counts as a password.")
    name, password = access.person(request).get_username(), request.POST.get("password", "")
    if authenticate(request, username=name, password=password) is None:
        raise BadForm("password", "That is not your password.")


def _page(
    request: HttpRequest, *, sentence: str = "", codes: list[str] | None = None, status: int = 200
) -> HttpResponse:
    user = access.person(request)
    has, begun = (factor_of(user), _begun_factor(user, at=timezone.now()))
    shown = {
        "nav": "second-factor",
        "has": has,
        "begun": begun if not has else None,
        "secret": _in_fours(b32encode(begun.bin_key).decode()) if begun else "",
        "qr": _draw_code(begun.config_url) if begun and not has else "",
        "left": RecoveryCode.objects.filter(user=user).count() if has else 0,
        "codes": codes,
        "needed": _needing(user, request.session),
        "sentence": sentence,
        "is_shown": is_shown(request),
        "has_password": has_password(user),
        "provider": settings.OPSCONSOLE_SSO_NAME,
    }
    return render(request, "sign_in/second_factor.html", shown, status=status)


def _in_fours(text: str) -> str:
    return " ".join(text[at : at + 4] for at in range(0, len(text), 4))


def _draw_code(url: str) -> SafeString:
    """Return a QR code as markup without styles or scripts, which the CSP would block."""
    drawn = segno.make(url, error="m", micro=False).svg_inline(light="#fff", omitsize=True)
    return mark_safe(drawn)  # noqa: S308 - shapes and numbers that segno writes, no text of anybody's
