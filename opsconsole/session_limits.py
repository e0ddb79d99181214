"""Limits of sessions: idle time, and an absolute end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from django.conf import settings
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

GetResponse: TypeAlias = Callable[[HttpRequest], HttpResponse]

RENEWED = 60  # seconds between updates of the idle limit, to save a write per request


def probes_have_none(get_response: GetResponse) -> GetResponse:
    """Answer probes without a session, as its database may be unreachable."""

    def answer(request: HttpRequest) -> HttpResponse:
        if request.path_info[1:] in settings.OPSCONSOLE_PROBES:
            request.COOKIES.clear()
        return get_response(request)

    return answer


class SessionLifetime:
    """End a session SESSION_COOKIE_AGE after its last request, and at its absolute limit."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.user.is_authenticated:
            self._renew_or_end(request)
        return self.get_response(request)

    def _renew_or_end(self, request: HttpRequest) -> None:
        now = int(timezone.now().timestamp())
        began = request.session.setdefault("began_at", now)
        if now - began >= settings.OPSCONSOLE_SESSION_SECONDS:
            logout(request)
        elif now - request.session.get("seen_at", 0) >= RENEWED:
            request.session["seen_at"] = now  # saved with a new expiry
