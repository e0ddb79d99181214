"""Log who was denied a page or a sign-in.

Refused decisions are in the record. Denials are not: anyone can cause any number of them without
signing in, and the record is kept for ever.
"""

from __future__ import annotations

import logging
from typing import Any

from django.contrib.auth.signals import user_login_failed
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.views.defaults import permission_denied

from opsconsole.client_address import client_address

log = logging.getLogger(__name__)
LONGEST_NAME = 150  # characters, as a user's name may have


def answer_denial(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 403, and log who wanted what."""
    who = request.user.get_username()
    log.warning("%r was denied %s %s: %s", who, request.method, request.path, exception)
    return permission_denied(request, exception)


@receiver(user_login_failed)
def sign_in_failed(
    credentials: dict[str, Any], request: HttpRequest | None = None, **_: object
) -> None:
    """Log the name that was tried and from where, never the password."""
    name = str(credentials.get("username"))[:LONGEST_NAME]
    address = client_address(request) if request else None
    log.warning("A sign-in as %r from %s was refused", name, address or "an unknown address")
