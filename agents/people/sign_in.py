"""Signing in and out, and the theme."""

import secrets
from typing import Any

from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.contrib.auth import login, user_login_failed
from django.contrib.auth import views as auth
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import SessionBase
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse_lazy
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from agents.core.requests import Json
from agents.models import Identity, Workspace
from agents.notifications.fan_out import tell_admins
from agents.notifications.messages import BREAK_GLASS
from agents.people import second_factor
from agents.people.workspaces import is_break_glass, lock_workspaces_of
from agents.shell import access
from agents.shell.pages import action, own_address, page

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
    if second_factor.factor_of(user) is None:
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
    if not second_factor.check_factor(
        user=user, code=request.POST.get("code", ""), at=timezone.now()
    ):
        user_login_failed.send(sender=__name__, credentials=tried, request=request)
        return render(request, "sign_in/code.html", {"sentence": second_factor.WRONG})
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
    user = _person_to_become(access.person(request), name)
    login(request, user, backend=BACKEND)
    return redirect(own_address(request.POST.get("back", "/")))


def _person_to_become(user: User, name: str) -> User:
    """Return one of the people of the user's demo. Raises Http404 outside `manage.py demo`."""
    workspace = demo_of(user)
    people = User.objects.filter(memberships__workspace=workspace, memberships__is_simulated=False)
    return get_object_or_404(people if workspace else User.objects.none(), username=name)


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
    shown: Json = {"has_factor": second_factor.factor_of(user) is not None, "nav": "settings"}
    shown["has_password"] = second_factor.has_password(user)
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
