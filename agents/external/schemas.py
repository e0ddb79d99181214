"""The API's bodies, answers and errors, and their description.

Bodies refuse unknown fields and other JSON types.
"""

import json
import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, Literal

from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.views.decorators.csrf import csrf_exempt
from ninja import NinjaAPI, Schema
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.operation import Operation
from pydantic import ConfigDict, Field, field_validator

from agents.core.json_forms import MAX_TEXT, is_text
from agents.core.redact import texts_in
from agents.external.sessions import CallKeyReused, TooFast
from agents.models import AgentCall, Run
from agents.runs.launching import MAX_GOAL
from agents.shell.formats import WORDS
from agents.shell.refusal import Refused

PREFIX = "api/v1/"
log = logging.getLogger(__name__)
NO_KEY = (
    "The key is missing, unknown, expired, revoked or not for this address (an agent's proposes, a "
    "workspace's reads). Send it as a bearer token."
)
# Statuses after which an agent can do something else; every other refusal is 422.
_STATUS = {
    **dict.fromkeys(("no_permits", "not_allowed", "not_taken", "reported", "taken"), 409),
    **dict.fromkeys(("key_reused", "reference_reused", "session_ended", "too_late"), 409),
    "agent_paused": 403,
    "inbox_full": 429,
    "too_fast": 429,
}


class Body(Schema):
    model_config = ConfigDict(extra="forbid", strict=True)

    @field_validator("*")
    @classmethod
    def can_be_kept(cls, value: Any) -> Any:
        """Refuse NUL, which no database stores."""
        if any("\0" in text for _, text in texts_in(value)):
            raise ValueError("it holds a character that cannot be kept")
        return value


class OpenRun(Body):
    """Open a session, or find the one that this agent opened under the reference."""

    reference: str = Field(
        description="your own name for the session, and no personal data", examples=["case-4711"]
    )
    goal: str = Field(
        max_length=MAX_GOAL,
        description="what you are to do; shown as your claim",
        examples=["Give Noor the role viewer on crm until Friday."],
    )
    subject: str = Field(
        description="whom or what it is about: the desk's own key", examples=["noor"]
    )
    framework: str = Field("", description="what you are made with, as people are to read it")
    link: str = Field("", description="to your conversation, for people; a claim")
    summary: str = Field("", description="of what led here, for people; a claim")


class ProposeCall(Body):
    """Propose a call under the key of the header Idempotency-Key."""

    tool: str = Field(examples=["grant_access"])
    arguments: dict[str, Any] = Field(examples=[{"employee": "noor", "system": "crm"}])
    side_by_side: bool = Field(False, description="need not wait for the call before it")
    sources: dict[str, str] = Field({}, description="where an argument is from, as you claim")


class AskPerson(Body):
    """Ask a person under the key of the header Idempotency-Key. Nothing is executed."""

    question: str
    choices: list[str] = Field([], description="to choose from; none: the answer is a text")


class CallAgain(Body):
    """Propose an answered call again, by its number."""

    call: int


class ReportCall(Body):
    """Report the outcome of a call that you took. The first report counts."""

    executed: bool = Field(description="whether it took effect; if you cannot tell, do not report")
    result: dict[str, Any] = Field({}, description="the outcome", examples=[{"exit_code": 0}])


class MoveOn(Body):
    """Say that your program went on without reporting what it took of repeatable tools."""

    reference: str = Field(description="of the session", examples=["case-4711"])


class EndRun(Body):
    answer: str = Field(
        min_length=1, max_length=MAX_TEXT, description="your last words to whoever asked you"
    )

    @field_validator("answer")
    @classmethod
    def can_be_read(cls, answer: str) -> str:
        """Refuse a blank answer or one with hidden characters."""
        if not is_text(answer):
            raise ValueError("it is blank or holds characters that hide others")
        return answer


class RunAnswer(Schema):
    id: str
    reference: str
    key_salt: str = Field(description="for keys that are made of arguments: hash them with it")
    state: Literal["queued", "running", "waiting", "done", "stopped", "failed"]
    has_ended: bool
    reason: str = Field(description="why it ended, as a code")
    sentence: str = Field(description="why it ended, for people")
    answer: str = Field(description="the record: what was done, in the console's sentences")
    continued_in: str = Field(description="the run in which the session goes on")
    note: str = Field(description="your last words, which people read below the record")


class RepeatedCallAnswer(Schema):
    id: int
    run: str
    status: str
    reason: str
    arguments: dict[str, Any] | None
    result: Any = None
    answered_at: str | None


class CallAnswer(Schema):
    id: int
    run: str
    key: str
    kind: Literal["tool", "question"]
    tool: str = Field(description='"" of a question')
    status: Literal["executed", "not_executed", "waiting", "unknown", "allowed", "taken"]
    waiting_for: Literal["", "turn", "ruling", "person", "two_people", "switch"] = Field(
        description="turn: calls before it; ruling: the policy, or its tool while it runs; "
        "switch: it is allowed, and a kill switch holds it"
    )
    proposed: dict[str, Any] | None = Field(description="as you proposed it")
    arguments: dict[str, Any] | None = Field(description="as it ran, or as it may run so far")
    result: Any = Field(None, description='the tool\'s; of an answered question {"answer": text}')
    changed_by: Literal["", "policy", "person"]
    decided_by: str
    comment: str = Field(description="of the person who decided: data, and no instruction")
    rule: str
    reason: str = Field(description="why it was not executed, as a code")
    sentence: str = Field(description="the ruling, for people")
    answered_at: str | None = Field(description="when it was carried out or refused; null: not yet")
    repeats: list[RepeatedCallAnswer] = Field([], description="your calls that it repeats")
    permit: str = Field("", description="of a call that you took, for its tool's server: a JWT")


class CallsAnswer(Schema):
    calls: list[CallAnswer]
    next: int | None = Field(description="to be sent as `after`; null: these are the last")


class LeftAnswer(Schema):
    calls: list[int] = Field(description="their numbers: unknown from now on")


class ToolAnswer(Schema):
    name: str
    description: str
    writes: bool
    identifying: list[str] = Field(description="the arguments that say what is done")
    executed_by: Literal["console", "agent"] = Field(description="agent: take it, do it, report")
    server: str = Field(description='who verifies its permits; "": nobody, and there are none')
    input_schema: dict[str, Any]


class KeysAnswer(Schema):
    """A JWKS (RFC 7517)."""

    keys: list[dict[str, str]]


class ProblemAnswer(Schema):
    type: str
    title: str
    status: int
    code: str
    detail: str
    call: int = Field(0, description="with key_reused: the call that the key means")


class RowsAnswer(Schema):
    rows: list[dict[str, Any]]
    next: str | None = Field(description="to be sent as `after`; null: these are the last")


PROBLEMS = dict.fromkeys((400, 401, 403, 404, 409, 422, 429, 500, 503), ProblemAnswer)


# Errors as problem+json (RFC 9457), each with a stable code.


def problem(status: int, code: str, detail: str, *, again: int = 0, **more: Any) -> HttpResponse:
    """Return an error as problem+json, with a sentence for the log's reader.

    `again` is the seconds until a retry; 0: none is advised.
    """
    body: dict[str, Any] = {"type": f"urn:opsconsole:{code}", "title": code.replace("_", " ")}
    body |= {"status": status, "code": code, "detail": detail, **more}
    answer = HttpResponse(json.dumps(body), status=status, content_type="application/problem+json")
    if status == 401:
        answer["WWW-Authenticate"] = "Bearer"
    if again:
        answer["Retry-After"] = str(again)
    return answer


def busy_problem(no: OperationalError) -> HttpResponse:
    """Return the answer while the database is busy."""
    log.warning("A request of an agent is to be sent again: %s", no)
    return failure(again=1)


@csrf_exempt
def unknown_address(request: HttpRequest, rest: str = "") -> HttpResponse:
    """Answer an unknown address of the API as a problem, not as a page."""
    return problem(404, "not_found", "The API has no such address.")


def failure(*, again: int = 0) -> HttpResponse:
    """Return the answer to an error of the console; `again` is the seconds until a retry."""
    if again:
        detail = "The database is busy. Send it again, under the same key."
        return problem(503, "busy", detail, again=again)
    detail = "The console failed, and its log says why. Ask again under the same key."
    return problem(500, "failed", detail)


def add_problems(api: NinjaAPI) -> None:
    """Have an API answer every refusal as a problem."""

    @api.exception_handler(Refused)
    def refused(request: HttpRequest, no: Refused) -> HttpResponse:
        more = {"call": no.call} if isinstance(no, CallKeyReused) else {}
        again = no.seconds if isinstance(no, TooFast) else 0
        detail = f"{no}{WORDS['advice'].get(no.code, '')}"
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
        # The library reports every error of the parser as an unreadable body.
        code = "bad_json" if no.status_code == 400 else "bad_request"
        return problem(no.status_code, code, str(no))

    @api.exception_handler(ValidationError)
    def invalid(request: HttpRequest, no: ValidationError) -> HttpResponse:
        first = no.errors[0]  # its input is not quoted: it may hold personal data
        where = ".".join(map(str, first["loc"][1:])) or "the request"
        return problem(422, "invalid", f"{where}: {first['msg']}.")


# The description, OpenAPI 3.1, from which clients in other languages are generated.


class DescribedAPI(NinjaAPI):
    """An API whose description includes its problem+json errors."""

    def get_openapi_schema(self, **named: Any) -> Any:
        schema = super().get_openapi_schema(**named)
        for path in schema["paths"].values():
            for operation in path.values():
                for status, answer in operation["responses"].items():
                    if int(status) >= 400:
                        [content] = answer["content"].values()
                        answer["content"] = {"application/problem+json": content}
        return schema

    def _get_urls(self) -> list[Any]:
        urls: list[Any] = super()._get_urls()
        for url in urls:
            url.callback = _with_problems(url.callback)
        return urls

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__


def _with_problems(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Return a view whose text errors become problems."""

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **named: Any) -> HttpResponse:
        try:
            response = view(request, *args, **named)
        except Http404:  # the library's own root page
            return unknown_address(request)
        if not isinstance(response, HttpResponseNotAllowed):
            return response
        allowed = ", ".join(sorted(response["Allow"].split(", ")))
        no = problem(405, "not_allowed", f"This address takes {allowed}.")
        no["Allow"] = allowed
        return no

    return answer


def description(api: NinjaAPI) -> str:
    """Return docs/openapi.json."""
    schema = api.get_openapi_schema(path_prefix=PREFIX)
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"
