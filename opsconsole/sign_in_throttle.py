"""Limit failed sign-ins from one address to what an office of people might cause.

Axes counts each pair of name and address separately, so one password could be tried on every name.
Refused tries are not counted, so further tries do not prolong the wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from axes.models import AccessAttempt
from django.conf import settings
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.module_loading import import_string

from opsconsole.client_address import client_address

Answer: TypeAlias = Callable[[HttpRequest], HttpResponse]


def address_limit(get_response: Answer) -> Answer:
    """Refuse a sign-in from an address with too many failures, before its password is read."""

    def answer(request: HttpRequest) -> HttpResponse:
        # The password's form, and that of the code after it.
        is_try = request.method == "POST" and request.path.startswith(reverse(settings.LOGIN_URL))
        if (
            is_try
            and failures_from(client_address(request)) >= settings.OPSCONSOLE_ADDRESS_FAILURES
        ):
            refuse: Callable[..., HttpResponse] = import_string(settings.AXES_LOCKOUT_CALLABLE)
            return refuse(request, None, {})
        return get_response(request)

    return answer


def failures_from(address: str | None) -> int:
    """Return the number of recent failed sign-ins from an address, for any name."""
    since = timezone.now() - settings.AXES_COOLOFF_TIME
    lately = AccessAttempt.objects.filter(ip_address=address, attempt_time__gte=since)
    return lately.aggregate(count=Sum("failures_since_start"))["count"] or 0
