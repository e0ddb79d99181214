"""Errors as problem+json (RFC 9457), each with a stable code."""

from __future__ import annotations

import json
import logging
from typing import Any

from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from agents.models import AgentCall, Run
from agents.operations.runs.proposing import CallKeyReused, TooFast
from agents.shell.refusal import Refused

log = logging.getLogger(__name__)

NO_KEY = (
    "The key is missing, unknown, expired, revoked or not for this address (an agent's proposes, a "
    "workspace's reads). Send it as a bearer token."
)
# What an agent may do about it differs by status; every other refusal is 422.
_STATUS = {
    "agent_paused": 403,
    "no_permits": 409,
    "not_allowed": 409,
    "not_taken": 409,
    "reported": 409,
    "taken": 409,
    "inbox_full": 429,
    "key_reused": 409,
    "reference_reused": 409,
    "session_ended": 409,
    "too_fast": 429,
    "too_late": 409,
}


def problem(status: int, code: str, detail: str, *, again: int = 0, **more: Any) -> HttpResponse:
    """Return an error for a program, with a sentence for whoever reads its log.

    `again` is after how many seconds to send the request again; 0: it says nothing of that.
    """
    body: dict[str, Any] = {"type": f"urn:opsconsole:{code}", "title": code.replace("_", " ")}
    body |= {"status": status, "code": code, "detail": detail, **more}
    answer = HttpResponse(json.dumps(body), status=status, content_type="application/problem+json")
    if status == 401:
        answer["WWW-Authenticate"] = "Bearer"
    if again:
        answer["Retry-After"] = str(again)
    return answer


# What a program can do about a refusal; a model that calls tools cannot.
_ADVICE = {
    "no_subject": " Send it as `subject`.",
    "reference_reused": " Open a new session under a new one.",
    "session_ended": " Open a new session under a new reference.",
}


def busy_problem(no: OperationalError) -> HttpResponse:
    """Return the answer of a database that cannot answer now."""
    log.warning("A request of an agent is to be sent again: %s", no)
    return failure(again=1)


@csrf_exempt
def unknown_address(request: HttpRequest, rest: str = "") -> HttpResponse:
    """Say to a program, and not by a page, that the API has no such address."""
    return problem(404, "not_found", "The API has no such address.")


def failure(*, again: int = 0) -> HttpResponse:
    """Return that the console failed: for so many seconds or, if 0, as nobody foresaw."""
    if again:
        detail = "The database is busy. Send it again, under the same key."
        return problem(503, "busy", detail, again=again)
    detail = "The console failed, and its log says why. Ask again under the same key."
    return problem(500, "failed", detail)


def add_problems(api: NinjaAPI) -> None:
    """Have an API answer every refusal so."""

    @api.exception_handler(Refused)
    def refused(request: HttpRequest, no: Refused) -> HttpResponse:
        more = {"call": no.call} if isinstance(no, CallKeyReused) else {}
        again = no.seconds if isinstance(no, TooFast) else 0
        detail = f"{no}{_ADVICE.get(no.code, '')}"
        return problem(_STATUS.get(no.code, 422), no.code, detail, again=again, **more)

    @api.exception_handler(AgentCall.DoesNotExist)
    @api.exception_handler(Run.DoesNotExist)
    @api.exception_handler(Http404)
    def not_found(request: HttpRequest, no: Exception) -> HttpResponse:
        return problem(404, "not_found", "There is nothing here that this key may read.")

    @api.exception_handler(AuthenticationError)
    def unauthorized(request: HttpRequest, no: AuthenticationError) -> HttpResponse:
        return problem(401, "unauthorized", NO_KEY)

    @api.exception_handler(OperationalError)
    def busy(request: HttpRequest, no: OperationalError) -> HttpResponse:
        return busy_problem(no)

    @api.exception_handler(HttpError)
    def failed(request: HttpRequest, no: HttpError) -> HttpResponse:
        # A body that cannot be read: the library says so of whatever the parser raised.
        code = "bad_json" if no.status_code == 400 else "bad_request"
        return problem(no.status_code, code, str(no))

    @api.exception_handler(ValidationError)
    def invalid(request: HttpRequest, no: ValidationError) -> HttpResponse:
        first = no.errors[0]  # its input is not quoted: it may hold personal data
        where = ".".join(map(str, first["loc"][1:])) or "the request"
        return problem(422, "invalid", f"{where}: {first['msg']}.")
