"""Limits of sessions and of sign-ins from one address, and a policy, for each request.

The policy tells browsers what no page may use: sensors, devices, payment, the screen.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, TypeAlias

from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth import logout
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import sync_and_async_middleware
from django.utils.module_loading import import_string

from agents.people.sign_in import is_over

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
        request.session.setdefault("began_at", now)
        if is_over(request.session):
            logout(request)
        elif now - request.session.get("seen_at", 0) >= RENEWED:
            request.session["seen_at"] = now  # saved with a new expiry


# Failed sign-ins from one address are limited to what an office of people might cause. Axes counts
# each pair of name and address separately, so one password could be tried on every name. Refused
# tries are not counted, so further tries do not prolong the wait.


def address_limit(get_response: GetResponse) -> GetResponse:
    """Refuse a sign-in from an address with too many failures, before its password is read."""

    def answer(request: HttpRequest) -> HttpResponse:
        # The password's form, and that of the code after it.
        is_try = request.method == "POST" and request.path.startswith(reverse(settings.LOGIN_URL))
        if (
            is_try
            and _failures_from(client_address(request)) >= settings.OPSCONSOLE_ADDRESS_FAILURES
        ):
            refuse: Callable[..., HttpResponse] = import_string(settings.AXES_LOCKOUT_CALLABLE)
            return refuse(request, None, {})
        return get_response(request)

    return answer


def _failures_from(address: str | None) -> int:
    """Return the number of recent failed sign-ins from an address, for any name."""
    since = timezone.now() - settings.AXES_COOLOFF_TIME
    lately = AccessAttempt.objects.filter(ip_address=address, attempt_time__gte=since)
    return lately.aggregate(count=Sum("failures_since_start"))["count"] or 0


_WITH_PORT = re.compile(r"(?:\[(.+)\]|([\d.]+)):\d+")  # as some proxies write it
_HOUSEHOLD = 64  # bits of an IPv6 network, all of whose addresses one client can use


def client_address(request: HttpRequest) -> str | None:
    """Return the client's IPv4 address or IPv6 network, or None if unknown.

    Behind a proxy it is the last address in X-Forwarded-For, which the proxy wrote; those before it
    are the client's own claims.
    """
    client = request.META.get("REMOTE_ADDR", "")
    if settings.OPSCONSOLE_BEHIND_PROXY:
        client = request.META.get("HTTP_X_FORWARDED_FOR", client).rpartition(",")[2]
    client = client.strip()
    if match := _WITH_PORT.fullmatch(client):
        client = match[1] or match[2]
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    network = ipaddress.ip_network((int(address), _HOUSEHOLD), strict=False)
    return str(network.network_address)


_OWN = ("publickey-credentials-get", "publickey-credentials-create")  # passkeys, of this origin
_REFUSED = (
    *("accelerometer", "autoplay", "camera", "display-capture", "encrypted-media"),
    *("geolocation", "gyroscope", "hid", "idle-detection", "local-fonts", "magnetometer"),
    *("microphone", "midi", "payment", "picture-in-picture", "screen-wake-lock", "serial", "usb"),
    *("window-management", "xr-spatial-tracking"),
)
_POLICY = ", ".join([*(f"{name}=(self)" for name in _OWN), *(f"{name}=()" for name in _REFUSED)])


@sync_and_async_middleware
def permissions_policy(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """Send the policy with every answer of Django's, files and errors included.

    Only documents use it, so live streams and refusals before Django need none.
    """

    def with_policy(response: HttpResponseBase) -> HttpResponseBase:
        response.headers.setdefault("Permissions-Policy", _POLICY)
        return response

    if iscoroutinefunction(get_response):

        async def answer_async(request: HttpRequest) -> HttpResponseBase:
            return with_policy(await get_response(request))

        return answer_async
    return lambda request: with_policy(get_response(request))
