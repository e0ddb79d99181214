"""What stands around each request: limits of sign-ins and sessions, and what denials answer.

The policy tells browsers what no page may use: sensors, devices, payment, the screen.
"""

import ipaddress
import logging
import re
import sys
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, TypeAlias

from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth import logout
from django.contrib.auth.signals import user_login_failed
from django.db import InterfaceError, OperationalError
from django.db.models import Sum
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import sync_and_async_middleware
from django.utils.module_loading import import_string
from django.views.defaults import permission_denied

from agents.db.driver import is_of_a_lock
from agents.external.endpoints import failure
from agents.people.sign_in import is_over
from agents.shell.pages import page_of
from opsconsole import databases

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


# Answer and log what is denied, and answer what fails.
#
# Refused decisions are in the record. Denials are not: anyone can cause any number of them
# without signing in, and the record is kept permanently.


log = logging.getLogger(__name__)
_LONGEST_NAME = 150  # characters, as a user's name may have


def answer_denial(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 403, and log the person and the page."""
    who = request.user.get_username()
    log.warning("%r was denied %s %s: %s", who, request.method, request.path, exception)
    return permission_denied(request, exception)


@receiver(user_login_failed)
def sign_in_failed(
    credentials: dict[str, Any], request: HttpRequest | None = None, **_: object
) -> None:
    """Log the name that was tried and from where, never the password."""
    name = str(credentials.get("username"))[:_LONGEST_NAME]
    address = client_address(request) if request else None
    log.warning("A sign-in as %r from %s was refused", name, address or "an unknown address")


# Failures, on pages and for programs, use no database, which may be the reason for them.

_AGAIN = 5  # seconds until the next try, about as long as a database takes to restart


def answer_failure(request: HttpRequest) -> HttpResponse:
    """Answer 503 if the database is unusable or of another release, else 500."""
    error, is_program = sys.exc_info()[1], request.path.startswith("/api/")
    is_of_schema = error is not None and databases.is_schema_error(error)
    is_read_only = error is not None and databases.is_read_only(error.__cause__ or error)
    is_locked = error is not None and is_of_a_lock(error)
    if is_of_schema or is_read_only or isinstance(error, OperationalError | InterfaceError):
        context = {
            "request": request,
            "shown_at": page_of(request.get_full_path()),
            "is_of_schema": is_of_schema,
            "is_read_only": is_read_only,
            "is_locked": is_locked,
        }
        if is_program:
            return failure(again=_AGAIN)
        page = render_to_string("503.html", context)
        return HttpResponse(page, status=503, headers={"Retry-After": str(_AGAIN)})
    if is_program:
        return failure()
    return HttpResponse(render_to_string("500.html", {"request": request}), status=500)
