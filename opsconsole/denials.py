"""Answer and log what is denied, and answer what fails.

Refused decisions are in the record. Denials are not: anyone can cause any number of them without
signing in, and the record is kept permanently.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from django.contrib.auth.signals import user_login_failed
from django.db import InterfaceError, OperationalError
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views.defaults import permission_denied

from agents.db.driver import is_of_a_lock
from agents.external.schemas import failure
from agents.shell.pages import page_of
from opsconsole import databases
from opsconsole.middleware import client_address

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
