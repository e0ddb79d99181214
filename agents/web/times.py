"""In which zone a person reads and types times: their own, from a cookie; UTC in the record."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, wraps
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

COOKIE = "zone"  # set by opsconsole.js; the name of a zone, such as Europe/Berlin
P = ParamSpec("P")
GetResponse: TypeAlias = Callable[[HttpRequest], HttpResponse]
R = TypeVar("R", bound=HttpResponseBase)
View: TypeAlias = Callable[Concatenate[HttpRequest, P], R]


def viewer_zone(get_response: GetResponse) -> GetResponse:
    """Answer each request in the zone of who asks; UTC where none is known."""

    def answer(request: HttpRequest) -> HttpResponse:
        name = request.COOKIES.get(COOKIE, "")
        with timezone.override(ZoneInfo(name) if name in _zones() else UTC):
            return get_response(request)

    return answer


def in_utc(view: View[P, R]) -> View[P, R]:
    """Show and read the times of a page in UTC, whoever asks: they are evidence."""

    @wraps(view)
    def answer(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> R:
        request.META["opsconsole.in_utc"] = True
        with timezone.override(UTC):
            return view(request, *args, **kwargs)

    return answer


def is_in_utc(request: HttpRequest) -> bool:
    """Tell whether a page's times are UTC for everybody."""
    return "opsconsole.in_utc" in request.META


def read_time(text: str) -> datetime | None:
    """Return the time in UTC; a date is its first moment. None: no time, or beyond the calendar.

    Without an offset it is a time of the viewer's zone.
    """
    try:
        found = parse_datetime(text)
        if found is None and (day := parse_date(text)) is not None:
            found = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - made aware below
        if found is None:
            return None
        aware = found if timezone.is_aware(found) else timezone.make_aware(found)
        return aware.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


@cache
def _zones() -> frozenset[str]:
    """Return the names that may be looked up: a cookie's other text is never a path."""
    return frozenset(available_timezones())
