"""The zone in which a person reads and types times: their own, from a cookie; UTC in the record."""

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

COOKIE = "zone"  # the name of a zone, such as Europe/Berlin, set by opsconsole.js
P = ParamSpec("P")
GetResponse: TypeAlias = Callable[[HttpRequest], HttpResponse]
R = TypeVar("R", bound=HttpResponseBase)
View: TypeAlias = Callable[Concatenate[HttpRequest, P], R]


def viewer_zone(get_response: GetResponse) -> GetResponse:
    """Answer each request in the viewer's zone, or UTC if it is unknown."""

    def answer(request: HttpRequest) -> HttpResponse:
        name = request.COOKIES.get(COOKIE, "")
        with timezone.override(ZoneInfo(name) if name in _zones() else UTC):
            return get_response(request)

    return answer


def day_begun(at: datetime) -> datetime:
    """Return the beginning of a time's day in the viewer's zone."""
    return timezone.localtime(at).replace(hour=0, minute=0, second=0, microsecond=0)


def in_utc(view: View[P, R]) -> View[P, R]:
    """Show and read a page's times in UTC for every viewer: they are evidence."""

    @wraps(view)
    def answer(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> R:
        request.META["opsconsole.in_utc"] = True
        with timezone.override(UTC):
            return view(request, *args, **kwargs)

    return answer


def is_in_utc(request: HttpRequest) -> bool:
    """Tell whether a page's times are in UTC for every viewer."""
    return "opsconsole.in_utc" in request.META


def read_time(text: str) -> datetime | None:
    """Return a time in UTC, for a date its beginning; None if invalid or beyond the calendar.

    Without an offset it is read in the viewer's zone.
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
    """Return the names that may be looked up, so that a cookie's text is never used as a path."""
    return frozenset(available_timezones())
