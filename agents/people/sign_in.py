"""Sign in and out, with a second factor: an app's code (TOTP), or a recovery code.

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
from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.contrib.auth import authenticate, login, user_login_failed
from django.contrib.auth import views as auth
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import SessionBase
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse, reverse_lazy
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST
from django_otp.plugins.otp_totp.models import TOTPDevice

from agents.core.requests import Json
from agents.models import Identity, Membership, RecoveryCode, Role, Session, Workspace
from agents.models.people import hash_of_code
from agents.notifications.fan_out import tell_admins
from agents.notifications.messages import BREAK_GLASS
from agents.people.workspaces import is_break_glass, lock_people, lock_workspaces_of
from agents.shell import access
from agents.shell.access import may_use_password
from agents.shell.pages import BadForm, action, lead, only, own_address, page
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
    secret = b32encode(begun.bin_key).decode() if begun else ""
    shown = {
        "nav": "second-factor",
        "has": has,
        "begun": begun if not has else None,
        "secret": " ".join(secret[at : at + 4] for at in range(0, len(secret), 4)),
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


def _draw_code(url: str) -> SafeString:
    """Return a QR code as markup without styles or scripts, which the CSP would block."""
    drawn = segno.make(url, error="m", micro=False).svg_inline(light="#fff", omitsize=True)
    return mark_safe(drawn)  # noqa: S308 - shapes and numbers that segno writes, no text of anybody's


# Signing in and out, and the theme.


THEMES = ("light", "dark")
_YEAR = 365 * 24 * 60 * 60  # seconds

_PENDING, PATIENCE = "password_passed", 5 * 60  # key in the session; seconds to type the code
BACKEND = "agents.shell.access.MembersBackend"


class _SignIn(auth.LoginView):
    """Django's sign-in, which also asks for the code of a second factor if there is one."""

    template_name = "sign_in/page.html"
    redirect_authenticated_user = True
    extra_context = {"is_demo": settings.OPSCONSOLE_DEMO}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs, provider=settings.OPSCONSOLE_SSO_NAME)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        return enter(self.request, form.get_user(), own_address(self.get_success_url()))


def enter(request: HttpRequest, user: User, onward: str) -> HttpResponse:
    """Sign in a person who has shown who they are, or ask for their code first."""
    if factor_of(user) is None:
        _let_in(request, user)
        return redirect(onward)
    request.session.cycle_key()  # not shared with someone who planted the cookie
    request.session[_PENDING] = {
        "user": user.pk,
        "proof": user.get_session_auth_hash(),  # another password ends it
        "until": timezone.now().timestamp() + PATIENCE,
        "next": onward,
    }
    return redirect("sign-in-code")


def is_over(session: SessionBase) -> bool:
    """Tell whether a session reached its end, which comes earlier after a sign-on."""
    most: float = settings.OPSCONSOLE_SESSION_SECONDS
    if "signed_on" in session:
        most = min(most, settings.OPSCONSOLE_SSO_SESSION_HOURS * 3600)
    return timezone.now().timestamp() - session.get("began_at", 0) >= most


def _let_in(request: HttpRequest, user: User) -> None:
    """Sign a person in; of the break-glass account, tell the other admins first."""
    if is_break_glass(user):
        at, name = timezone.now(), user.get_username()
        with transaction.atomic():
            for home in lock_workspaces_of(user):
                home.say("sign_in.break_glass", at=at, facts={"user": name}, actor=name)
                tell_admins(home, BREAK_GLASS, user, at=at)
    login(request, user, backend=BACKEND)


sign_in = _SignIn.as_view()


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@sensitive_post_parameters("code")
def sign_in_code(request: HttpRequest) -> HttpResponse:
    """Ask for the code after the password; wrong ones count as wrong passwords do."""
    user = _password_passed(request)
    if user is None:
        return redirect("sign-in")
    if request.method != "POST":
        return render(request, "sign_in/code.html")
    tried = {"username": user.get_username()}
    if not AxesProxyHandler.is_allowed(request, tried):
        return too_many(request, None, tried)
    if not check_factor(user=user, code=request.POST.get("code", ""), at=timezone.now()):
        user_login_failed.send(sender=__name__, credentials=tried, request=request)
        return render(request, "sign_in/code.html", {"sentence": WRONG})
    onward = request.session.pop(_PENDING)["next"]
    _let_in(request, user)
    return redirect(onward)


def _password_passed(request: HttpRequest) -> User | None:
    """Return the user whose password was just entered correctly, or None."""
    passed = request.session.get(_PENDING, {})
    user = User.objects.filter(pk=passed.get("user"), is_active=True).first()
    is_so = user is not None and secrets.compare_digest(
        user.get_session_auth_hash(), passed["proof"]
    )
    return user if is_so and timezone.now().timestamp() < passed["until"] else None


sign_out = auth.LogoutView.as_view()


def too_many(request: HttpRequest, response: HttpResponse | None, tried: Json) -> HttpResponse:
    """Answer that a name has to wait, whether or not such a user exists."""
    seconds = int(settings.AXES_COOLOFF_TIME.total_seconds())
    page = render(request, "429.html", {"minutes": seconds // 60}, status=429)
    page["Retry-After"] = str(seconds)
    return page


@action
def become(request: HttpRequest, name: str) -> HttpResponse:
    """Continue as another of the demo's people; 404 outside `manage.py demo`."""
    workspace = demo_of(access.person(request))
    people = User.objects.filter(memberships__workspace=workspace, memberships__is_simulated=False)
    user = get_object_or_404(people if workspace else User.objects.none(), username=name)
    login(request, user, backend=BACKEND)
    return redirect(own_address(request.POST.get("back", "/")))


def demo_of(user: User) -> Workspace | None:
    """Return the demo that a person is in; None outside `manage.py demo`."""
    if not settings.OPSCONSOLE_DEMO:
        return None
    mine = [part.workspace for part in access.parts_of(user)]
    return next((workspace for workspace in mine if workspace.is_demo), None)


@page
def own_settings(request: HttpRequest) -> HttpResponse:
    """Show a person's settings and, by role, those of the workspace."""
    user = access.person(request)
    shown: Json = {"has_factor": factor_of(user) is not None, "nav": "settings"}
    shown["has_password"] = has_password(user)
    if settings.OPSCONSOLE_SSO_NAME:
        linked = Identity.objects.filter(user=user).exists()
        shown |= {"provider": settings.OPSCONSOLE_SSO_NAME, "linked": linked}
    return render(request, "settings/page.html", shown)


class _Password(auth.PasswordChangeView):
    """Django's form, which keeps this session and ends the others; guesses count as at sign-in."""

    http_method_names = ("get", "head", "post")  # Django's view takes PUT as POST
    template_name = "settings/password.html"
    success_url = reverse_lazy("settings", query={"changed": 1})
    extra_context = {"nav": "settings"}

    def post(self, request: HttpRequest, *args: str, **kwargs: Any) -> HttpResponse:
        tried = {"username": access.person(request).get_username()}
        if not AxesProxyHandler.is_allowed(request, tried):
            return too_many(request, None, tried)
        return super().post(request, *args, **kwargs)

    def form_invalid(self, form: PasswordChangeForm) -> HttpResponse:
        if "old_password" in form.errors:
            tried = {"username": form.user.get_username()}
            user_login_failed.send(sender=__name__, credentials=tried, request=self.request)
        return super().form_invalid(form)


password = never_cache(_Password.as_view())


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Store the choice of light or dark, and go back to the page."""
    return _remember(request, "theme", THEMES)


@require_POST
def keys(request: HttpRequest) -> HttpResponse:
    """Store whether single keys are enabled (WCAG 2.1.4), and go back to the page."""
    return _remember(request, "keys", ("on", "off"))


def _remember(request: HttpRequest, name: str, allowed: tuple[str, ...]) -> HttpResponse:
    response = redirect(own_address(request.POST.get("back", "/")))
    chosen = request.POST.get(name)
    if chosen in allowed:
        response.set_cookie(
            name,
            chosen,
            max_age=_YEAR,
            httponly=True,
            samesite="Lax",
            secure=settings.SESSION_COOKIE_SECURE,
        )
    return response
