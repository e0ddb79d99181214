"""Log lines with the id of their request: one per event, one a minute for a database outage."""

import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import iscoroutinefunction
from threading import Lock
from typing import Any, cast

import psycopg
from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.db.backends.signals import connection_created
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from agents.core.redact import KINDS, mask
from opsconsole.databases import is_read_only, is_schema_error

log = logging.getLogger(__name__)

_OUTAGES = (OperationalError, InterfaceError, psycopg.OperationalError)
_LINK = re.compile(r"(?<=/invitations/)[0-9a-f]{64}")  # an invitation's secret
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class OneLine(logging.Formatter):
    """Time, level, logger, the request if any, message; a traceback follows."""

    default_msec_format = "%s.%03d"

    def __init__(self) -> None:
        super().__init__("{asctime} {levelname} {name} {within}{message}", style="{")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, traceback included, masked: a desk's own code works with real values."""
        return mask(super().format(record), KINDS)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        # Django logs a failed page after its request, which it passes along.
        request = getattr(record, "request", None)
        name = current.get() or getattr(request, "request_id", "")
        record.within = f"[{name}] " if name else ""
        # A line break or an escape sequence in a message could forge a line or hide one.
        line = _LINK.sub("…", super().formatMessage(record))
        return _CONTROL.sub(lambda match: repr(match[0])[1:-1], line)


class Outages(logging.Filter):
    """Log once a minute that the database is unusable, and once when it is usable again.

    Otherwise everything that meets the outage would log a traceback several times a second. Tables
    of another release, and a database that takes no writes, are logged as often, though a new
    connection does not end that.
    """

    every = 60.0  # seconds
    settles = 10.0  # seconds after an outage in which late errors of it may still be logged

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()
        self._count = 0  # errors since the last line
        self._began_at = self._told_at = self._over_at = float("-inf")
        self._is_connected = False  # although the last line said that the database is unusable
        connection_created.connect(self._open, weak=False)

    def filter(self, record: logging.LogRecord) -> bool:
        error = _outage_in(record)
        if error is None:
            # Django's line about a 503; its cause has one, and a probe comes every few seconds.
            return getattr(record, "status_code", 0) != 503
        now = time.monotonic()
        is_of_schema = is_schema_error(error)
        with self._lock:
            self._count += 1
            if now - self._told_at < self.every or now - self._over_at < self.settles:
                return False
            if now - self._told_at > 2 * self.every:
                self._began_at = now
            count, self._count, self._told_at = self._count, 0, now
            self._is_connected = is_of_schema or is_read_only(error)
        message = str(error).partition("\n")[0]
        more = f"; errors since it was last told: {count}" if count > 1 else ""
        what = "has other tables than this program" if is_of_schema else "cannot be used"
        record.msg = f"The database {what}: {type(error).__name__}: {message}{more}"
        record.args, record.exc_info, record.exc_text = (), None, None
        return True

    def _open(self, **_: Any) -> None:
        """Log that a connection was opened after an outage."""
        with self._lock:
            if self._is_connected:
                return
            lasted, count = time.monotonic() - self._began_at, self._count
            is_over = self._told_at > float("-inf")
            self._began_at = self._told_at = float("-inf")
            if is_over:
                self._count, self._over_at = 0, time.monotonic()
        if is_over:
            log.info("The database answers again after %.0f s (unlogged errors: %s)", lasted, count)


class Refusals(logging.Filter):
    """Log a refused request in one line, without a traceback.

    Anyone can send any number of them, and a wrong Host is not our fault. `denials` logs a denied
    page, with the person and the page.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("django.security."):
            record.exc_info = record.exc_text = None
        error = record.exc_info[1] if record.exc_info else None
        return not (record.name == "django.request" and isinstance(error, PermissionDenied))


def _outage_in(record: logging.LogRecord) -> BaseException | None:
    """Return the database error behind a log record, at any depth."""
    args = record.args if isinstance(record.args, tuple) else ()
    first = record.exc_info[1] if record.exc_info else None
    errors = [*([first] if first else []), *(each for each in args if isinstance(each, Exception))]
    for error in errors:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, _OUTAGES) or is_schema_error(cause) or is_read_only(cause):
                return cause
            cause = cause.__cause__ or cause.__context__
    return None


# An id for each request: on its error page, in a response header, in its log lines. People who
# report a failed page can name it. Ids of clients are ignored, as they could point to the log lines
# of another person's request.

HEADER = "X-Request-ID"

current: ContextVar[str] = ContextVar("request_id", default="")

View = Callable[[HttpRequest], HttpResponseBase]
AsyncView = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


@sync_and_async_middleware
def request_ids(get_response: Callable[..., Any]) -> View | AsyncView:
    """Give every request its id; `request.request_id` for templates."""
    if iscoroutinefunction(get_response):

        async def answer_async(request: HttpRequest) -> HttpResponseBase:
            with _name_request(request) as name:
                response = cast(HttpResponseBase, await get_response(request))
                response.headers[HEADER] = name
                return response

        return answer_async

    def answer(request: HttpRequest) -> HttpResponseBase:
        with _name_request(request) as name:
            response = cast(HttpResponseBase, get_response(request))
            response.headers[HEADER] = name
            return response

    return answer


@contextmanager
def _name_request(request: HttpRequest) -> Iterator[str]:
    name = secrets.token_hex(6)
    request.request_id = name  # type: ignore[attr-defined] # ours, for templates
    before = current.set(name)
    try:
        yield name
    finally:
        current.reset(before)
