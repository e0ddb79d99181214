"""Limits of sessions: idle time, and an end that no activity moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from django.conf import settings
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

GetResponse: TypeAlias = Callable[[HttpRequest], HttpResponse]

RENEWED = 60  # seconds between writes that move the idle limit; a write a request would be waste


def probes_have_none(get_response: GetResponse) -> GetResponse:
    """Answer what machines ask without a session: the database that has it may be away."""

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
