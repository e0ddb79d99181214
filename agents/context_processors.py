"""The frame around every page."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseRedirectBase
from django.shortcuts import resolve_url
from django.utils import timezone

from agents.core.requests import Json
from agents.models import Membership, Role
from agents.overview.pages import first_steps
from agents.overview.search import subjects_in_words
from agents.people.sign_in import THEMES
from agents.requests.queue import waiting_in
from agents.runs import kill_switch
from agents.shell import access
from agents.shell.formats import is_in_utc
from agents.shell.pages import HtmxRequest, lead, page_of

GetResponse: TypeAlias = Callable[[HttpRequest], HttpResponse]


def page_frame(request: HttpRequest) -> dict[str, Json]:
    """Return theme, person, waiting requests and kill switches for the base template.

    `base` is what a page extends: for htmx requests, a template without the frame.
    """
    chosen = request.COOKIES.get("theme", "")
    around: dict[str, Json] = {
        "base": "_content.html" if getattr(request, "htmx", False) else "base.html",
        "zone": timezone.get_current_timezone_name(),
        "is_in_utc": is_in_utc(request),
        "theme": chosen if chosen in THEMES else "",
        "keys_off": request.COOKIES.get("keys") == "off",
    }
    if not getattr(request, "user", None) or not request.user.is_authenticated:
        return around
    user = access.person(request)
    parts = access.parts_of(user)
    mine = [part.workspace_id for part in parts]
    return {
        **around,
        "memberships": parts,
        # A page may pass its own count.
        **_suspended(request, parts),
        "waiting": cache(lambda: waiting_in(mine, user.pk, at=timezone.now())),
        "stops": cache(lambda: kill_switch.standing(*access.stopped_workspaces(user))),
        "administers": [part.workspace_id for part in parts if part.role == Role.ADMIN],
        "has_agents": any(map(access.has_agents, parts)),
        "first_steps": cache(lambda: first_steps(user)),
        "may_launch": any(part.role in access.LAUNCHES for part in parts),
        "may_see_figures": any(
            part.role in (*access.DECIDES, Role.AUDITOR) or getattr(part, "is_lead", False)
            for part in parts
        ),
        "may_audit": any(part.role in access.AUDITS for part in parts),
        "subjects": cache(lambda: subjects_in_words(user)),
    }


def _suspended(request: HttpRequest, parts: Sequence[Membership]) -> dict[str, Json]:
    """Return in which workspaces a sign-on without groups left a person to read only."""
    named = request.session.get("suspended")
    if not named:
        return {}
    names = [one.workspace.name for one in parts if one.role == Role.VIEWER]
    suspended = [name for name in names if name in named]
    return {"suspended": suspended, "provider": settings.OPSCONSOLE_SSO_NAME}


def sign_in_again(get_response: GetResponse) -> Callable[[HtmxRequest], HttpResponse]:
    """Send the whole page to the sign-in when a partial request finds the session ended."""

    def answer(request: HtmxRequest) -> HttpResponse:
        response = get_response(request)
        if not (request.htmx and isinstance(response, HttpResponseRedirectBase)):
            return response
        sign_in, page = resolve_url(settings.LOGIN_URL), request.htmx.current_url_abs_path or "/"
        if response.url.partition("?")[0] != sign_in:
            return response
        return lead(request, f"{sign_in}?{urlencode({'next': page_of(page)})}")

    return answer
