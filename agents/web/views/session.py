"""Signing in and out, and the theme."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth import views as auth
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from agents.core.requests import Json
from agents.web import access
from agents.web.overview import start_here
from agents.web.pages import action

THEMES = ("light", "dark")
YEAR = 365 * 24 * 60 * 60  # seconds

sign_in = auth.LoginView.as_view(
    template_name="registration/sign_in.html",
    redirect_authenticated_user=True,
    extra_context={"is_demo": settings.OPSCONSOLE_DEMO},
)
sign_out = auth.LogoutView.as_view()


def too_many(request: HttpRequest, response: HttpResponse | None, tried: Json) -> HttpResponse:
    """Say that a name has to wait, whether or not there is such a person."""
    seconds = int(settings.AXES_COOLOFF_TIME.total_seconds())
    said = render(request, "429.html", {"minutes": seconds // 60}, status=429)
    said["Retry-After"] = str(seconds)
    return said


@action
def become(request: HttpRequest, name: str) -> HttpResponse:
    """Go on as another of the demo's people; 404 anywhere but under `manage.py demo`."""
    user = start_here.person_to_become(access.person(request), name)
    login(request, user, backend="agents.web.access.MembersBackend")
    return redirect(_ours(request))


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Remember light or dark, and go back to the page."""
    return _remember(request, "theme", THEMES)


@require_POST
def keys(request: HttpRequest) -> HttpResponse:
    """Remember whether single keys do anything (WCAG 2.1.4), and go back to the page."""
    return _remember(request, "keys", ("on", "off"))


def _remember(request: HttpRequest, name: str, allowed: tuple[str, ...]) -> HttpResponse:
    response = redirect(_ours(request))
    chosen = request.POST.get(name)
    if chosen in allowed:
        response.set_cookie(
            name,
            chosen,
            max_age=YEAR,
            httponly=True,
            samesite="Lax",
            secure=settings.SESSION_COOKIE_SECURE,
        )
    return response


def _ours(request: HttpRequest) -> str:
    """Return the page that a form leads to, or the first one where that is not ours."""
    back = request.POST.get("back", "/")
    is_ours = url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()})
    return back if is_ours else "/"
