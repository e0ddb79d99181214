"""The HTTP API for agents and for keys of a workspace: its forms, errors and endpoints.

Bodies refuse unknown fields and other JSON types.
"""

import json
import logging
import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Literal, NamedTuple
from uuid import UUID

from django.db import OperationalError
from django.db.models import F, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from ninja import Header, NinjaAPI, Query, Router, Schema, Status
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.operation import Operation
from ninja.parser import Parser
from ninja.security import HttpBearer
from pydantic import ConfigDict, Field, field_validator

from agents.core.json_forms import MAX_TEXT, BadJson, is_text, parse
from agents.core.limits import EXTERNAL
from agents.core.redact import texts_in
from agents.core.requests import ENDED
from agents.engine.desk.repeats import identifying
from agents.external import calls, keys, sessions
from agents.external.sessions import CallKeyReused, TooFast
from agents.models import AgentCall, Escalation, Event, ExternalAgent, Run, Workspace
from agents.models.record import facts_of
from agents.policies.words import end_sentence
from agents.runs.launching import MAX_GOAL
from agents.sdk.desk import tools_at
from agents.sdk.desk_tools import AGENT, CONSOLE
from agents.shell.formats import WORDS
from agents.shell.listing import Keyset
from agents.shell.refusal import Refused
from agents.tools import descriptions_of

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


# The HTTP endpoints for agents and for keys of a workspace.


WAIT = "wait"  # seconds; agents.external.waiting applies it before a request gets here
_KEY = Header(..., alias="Idempotency-Key")
_PARENT = Header("", description="W3C trace context: the span that the call belongs to")


class Key(HttpBearer):
    """A key of an agent, as a bearer token."""

    def authenticate(self, request: HttpRequest, token: str) -> ExternalAgent | None:
        return keys.agent_of(token, at=timezone.now())


class _StrictParser(Parser):
    """Reads bodies as the console reads a model's reply: no doubled keys, no NaN."""

    def parse_body(self, request: HttpRequest) -> Any:
        try:
            return parse(request.body.decode())
        except UnicodeDecodeError:
            raise BadJson("it is not UTF-8") from None


api = DescribedAPI(
    title="opsconsole",
    version="1",
    description="Put an agent's tool calls through the console.",
    auth=Key(),
    parser=_StrictParser(),
    docs_url=None,
    urls_namespace="api",
)
add_problems(api)


def agent_of(request: HttpRequest) -> ExternalAgent:
    agent: ExternalAgent = request.auth  # type: ignore[attr-defined]  # set by ninja
    return agent


@api.get("/tools", response={200: list[ToolAnswer], **PROBLEMS})
def list_tools(request: HttpRequest) -> list[dict[str, Any]]:
    """List the tools that the agent may propose, under the published policy."""
    return tools_of(agent_of(request))


def tools_of(agent: ExternalAgent) -> list[dict[str, Any]]:
    """Return an agent's tools with their schemas, for every client."""
    policy = agent.workspace.policy
    names = policy.limits_of(EXTERNAL, agent.desk).proposable if policy else ()
    described, tools = descriptions_of(agent.desk, names), tools_at(agent.desk)
    return [
        {
            "name": name,
            "description": described[name],
            "writes": tools[name].writes,
            "identifying": identifying(agent.desk, tools[name]),
            "executed_by": AGENT if tools[name].by_agent else CONSOLE,
            "server": tools[name].server,
            "input_schema": calls.input_schema(tools[name]),
        }
        for name in names
        if name in tools
    ]


@api.post("/runs", response={200: RunAnswer, **PROBLEMS})
def open_run(request: HttpRequest, body: OpenRun) -> dict[str, Any]:
    """Open a session. The same reference finds the same session, also after its end."""
    fields = body.dict()
    claims = {name: fields.pop(name) for name in sessions.CLAIMS}
    run = sessions.open_session(agent=agent_of(request), at=timezone.now(), claims=claims, **fields)
    return _run_answer(run)


@api.get("/runs/{uuid:run_id}", response={200: RunAnswer, 202: RunAnswer, **PROBLEMS})
def read_run(request: HttpRequest, run_id: UUID, wait: int = Query(0, ge=0)) -> Status[Any]:
    """Read a session; with `wait`, once it has ended or after so many seconds, at most 25."""
    run = calls.run_of(agent_of(request), run_id)
    return Status(200 if run.state in ENDED else 202, _run_answer(run))


@api.post("/runs/{uuid:run_id}/calls", response={200: CallAnswer, 202: CallAnswer, **PROBLEMS})
def propose(
    request: HttpRequest,
    run_id: UUID,
    body: ProposeCall,
    idempotency_key: str = _KEY,
    traceparent: str = _PARENT,
) -> Status[Any]:
    """Propose a call. 202 while it waits; the same key always means the same call."""
    call = sessions.propose(
        agent=agent_of(request),
        run_id=run_id,
        key=idempotency_key,
        name=body.tool,
        args=body.arguments,
        side_by_side=body.side_by_side,
        sources=body.sources,
        traceparent=traceparent,
        at=timezone.now(),
    )
    return _call_answer(request, call)


@api.post("/runs/{uuid:run_id}/questions", response={200: CallAnswer, 202: CallAnswer, **PROBLEMS})
def ask(
    request: HttpRequest,
    run_id: UUID,
    body: AskPerson,
    idempotency_key: str = _KEY,
    traceparent: str = _PARENT,
) -> Status[Any]:
    """Ask a person, as a call that executes nothing: `executed` says that it was answered."""
    call = sessions.ask_person(
        agent=agent_of(request),
        run_id=run_id,
        key=idempotency_key,
        traceparent=traceparent,
        at=timezone.now(),
        **body.dict(),
    )
    return _call_answer(request, call)


@api.get("/calls", response={200: CallsAnswer, **PROBLEMS})
def list_calls(
    request: HttpRequest,
    run: UUID | None = None,
    key: str = Query("", pattern=r"^[^\x00]*$"),
    after: int = Query(0, ge=0),
    limit: int = Query(50, ge=1, le=calls.MOST_ROWS),
) -> dict[str, Any]:
    """List what you were told of your calls, of one session or of all, in order of proposal.

    A session is all its runs; `run` is any of them. `key` is how the calls' keys begin.
    """
    agent = agent_of(request)
    mine = calls.run_of(agent, run) if run else None
    rows = calls.calls_of(agent, run=mine, key=key, after=after, most=limit + 1)
    shown = rows[:limit]
    outcomes = zip(shown, calls.outcomes_of(shown), strict=True)
    return {
        "calls": [one | place_of(call) for call, one in outcomes],
        "next": shown[-1].row.pk if len(rows) > limit else None,
    }


@api.get("/runs/{uuid:run_id}/events", response={200: None, **PROBLEMS})
def read_events(
    request: HttpRequest, run_id: UUID, last_event_id: str = Header("", alias="Last-Event-ID")
) -> HttpResponse:
    """Read what happens in a session as server-sent events, from Last-Event-ID on.

    call.waiting, call.decided, call.answered and session.ended, each with the number of its call;
    session.continued says that the session goes on in another run.
    """
    # A server that streams sends the same and goes on: see agents.external.waiting.
    body = news_of(agent_of(request), run_id, after=event_number(last_event_id)).body
    return HttpResponse(body, content_type="text/event-stream")


def event_number(given: str) -> int:
    """Return the number of the last event that was read; 0 for none."""
    return int(given) if re.fullmatch(r"[0-9]{1,18}", given) else 0


class News(NamedTuple):
    """A session's events after a number, as server-sent events."""

    body: bytes
    seen: int  # number of the last event
    is_over: bool


def news_of(agent: ExternalAgent, run_id: UUID, *, after: int) -> News:
    """Return a session's events after a number. Raises Run.DoesNotExist."""
    run = calls.run_of(agent, run_id)
    events = calls.events_of(run, after=after)
    body = "".join(
        f"id: {one['id']}\nevent: {one['event']}\ndata: {json.dumps(one)}\n\n" for one in events
    )
    is_whole = len(events) < calls.MOST_ROWS
    seen = max([0, *(one["id"] for one in events), *([run.event_count] if is_whole else [])])
    return News(body.encode(), seen, is_whole and run.state in ENDED)


@api.get("/calls/{int:call_id}", response={200: CallAnswer, 202: CallAnswer, **PROBLEMS})
def read_call(request: HttpRequest, call_id: int, wait: int = Query(0, ge=0)) -> Status[Any]:
    """Read a call; with `wait`, once it is answered or after so many seconds, at most 25."""
    return _call_answer(request, calls.call_of(agent_of(request), call_id))


@api.post("/calls/{int:call_id}/cancel", response={200: CallAnswer, 202: CallAnswer, **PROBLEMS})
def cancel_call(request: HttpRequest, call_id: int) -> Status[Any]:
    """Take back a call of which nothing has begun; `too_late` for any other."""
    withdrawn = sessions.withdraw_call(agent=agent_of(request), call_id=call_id, at=timezone.now())
    return _call_answer(request, withdrawn)


@api.post("/calls/{int:call_id}/take", response={200: CallAnswer, 202: CallAnswer, **PROBLEMS})
def take_call(request: HttpRequest, call_id: int) -> Status[Any]:
    """Take a call that is `allowed`, to execute it yourself once it is `taken`.

    It is checked again until then. Where a server verifies permits, `permit` is for it.
    """
    taken = sessions.take_call(agent=agent_of(request), call_id=call_id, at=timezone.now())
    return _call_answer(request, taken)


@api.post("/calls/{int:call_id}/report", response={200: CallAnswer, 202: CallAnswer, **PROBLEMS})
def report_call(request: HttpRequest, call_id: int, body: ReportCall) -> Status[Any]:
    """Report the outcome of a call that you took. Without a report in time a person is asked."""
    reported = sessions.report_call(
        agent=agent_of(request), call_id=call_id, at=timezone.now(), **body.dict()
    )
    return _call_answer(request, reported)


@api.post("/moved_on", response={200: LeftAnswer, **PROBLEMS})
def move_on(request: HttpRequest, body: MoveOn) -> dict[str, Any]:
    """End what you took of repeatable tools and will not report: a person is asked about it."""
    agent, at = agent_of(request), timezone.now()
    return {"calls": sessions.move_on(agent=agent, reference=body.reference, at=at)}


@api.get("/permits/keys", response={200: KeysAnswer}, auth=None)
def permit_keys(request: HttpRequest) -> dict[str, Any]:
    """Return the keys that verify permits, as a JWKS."""
    return sessions.public_keys()


@api.post("/runs/{uuid:run_id}/end", response={200: RunAnswer, 202: RunAnswer, **PROBLEMS})
def end_run(request: HttpRequest, run_id: UUID, body: EndRun) -> Status[Any]:
    """End a session, once everything that was proposed is answered. The first end stands."""
    call = sessions.end_session(
        agent=agent_of(request), run_id=run_id, answer=body.answer, at=timezone.now()
    )
    return Status(200 if call.run.state in ENDED else 202, _run_answer(call.run))


def _call_answer(request: HttpRequest, call: calls.ProposedCall) -> Status[Any]:
    outcome = calls.outcome_of_call(call) | place_of(call)
    if outcome["status"] == calls.TAKEN:
        outcome["permit"] = sessions.permit_of(agent_of(request), call, at=timezone.now())
    is_over = outcome["status"] != calls.WAITING and call.run.ended_at is not None
    is_answered = outcome["status"] in ("executed", "not_executed", "allowed", "taken") or is_over
    return Status(200 if is_answered else 202, outcome)


def place_of(call: calls.ProposedCall) -> dict[str, Any]:
    """Return the numbers of a call and its run."""
    return {"id": call.row.pk, "run": str(call.run.pk)}


def _run_answer(run: Run) -> dict[str, Any]:
    """Return a session as its agent reads it."""
    outcome = run.outcome if isinstance(run.outcome, dict) else {}
    later = run.launched_again.first() if run.state in ENDED else None
    return {
        "id": str(run.pk),
        "reference": run.reference,
        "key_salt": sessions.key_salt(run),
        "state": run.state,
        "has_ended": run.state in ENDED,
        "reason": run.stop_reason,
        "sentence": end_sentence(run.stop_reason),
        "answer": str(outcome.get("answer", "")),
        "continued_in": str(later.pk) if later else "",
        "note": str(outcome.get("note", "")),
    }


# Reading a workspace's rows by its key: all of them, oldest first, in pages.


class ReadingKey(HttpBearer):
    """A key of a workspace, as a bearer token."""

    def authenticate(self, request: HttpRequest, token: str) -> Workspace | None:
        key = keys.key_of(token, at=timezone.now())
        return key.workspace if key else None


_router = Router(auth=ReadingKey())


@_router.get("/{table}", response={200: RowsAnswer, **PROBLEMS})
def read_rows(
    request: HttpRequest,
    table: Literal["runs", "requests", "decisions", "events"],
    after: str = "",
    limit: int = Query(100, ge=1, le=1000),
) -> dict[str, Any]:
    """Read a workspace's rows, as they are kept: masked as the policy says."""
    rows, time, show = _TABLES[table]
    order = Keyset(time, is_oldest_first=True)
    if after and order.place(rows.model, after) is None:
        raise HttpError(422, "after: this is not the `next` of an answer.")
    page = order.page(rows.filter(workspace=request.auth), after, limit)  # type: ignore[attr-defined]
    return {"rows": [{"id": row.pk, **show(row)} for row in page.rows], "next": page.older or None}


def _run(run: Run) -> dict[str, Any]:
    names = ("reference", "pattern", "desk", "goal", "subject_key", "subject_label", "state")
    fields = {name: getattr(run, name) for name in (*names, "stop_reason", "outcome")}
    fields |= {"policy": run.policy.number, "launched_by": run.launched_by.get_username()}
    return fields | {
        "agent": run.agent.name if run.agent else "",
        "created_at": run.created_at,
        "ended_at": run.ended_at,
    }


def _request(request: Escalation) -> dict[str, Any]:
    names = ("kind", "state", "action", "subject_key", "resource", "amount_minor", "currency")
    fields = {name: getattr(request, name) for name in (*names, "created_at", "expires_at")}
    ruling = request.review["deciding"]
    fields |= {"run": request.run_id, "rule": ruling["rule"], "sentence": ruling["sentence"]}
    return fields | {"agent": request.run.agent.name if request.run.agent else ""}


def _decision(request: Escalation) -> dict[str, Any]:
    names = ("state", "decided_at", "comment", "patch", "granted_minor", "currency")
    fields = {name: getattr(request, name) for name in (*names, "is_simulated", "not_carried_out")}
    by = request.decided_by.get_username() if request.decided_by else ""
    return fields | {"run": request.run_id, "decided_by": by}


def _event(event: Event) -> dict[str, Any]:
    fields = {name: getattr(event, name) for name in ("seq", "kind", "actor", "at", "hash")}
    return fields | {"run": event.run_id, "facts": facts_of(event)}


_REQUESTS = Escalation.objects.filter(run__workspace=F("workspace")).select_related(
    "run__agent", "decided_by"
)
# Rows of all workspaces, the time that orders them before their key, and how one is shown.
_TABLES: Mapping[str, tuple[QuerySet[Any], str, Callable[[Any], dict[str, Any]]]] = {
    "runs": (Run.objects.select_related("policy", "launched_by", "agent"), "created_at", _run),
    "requests": (_REQUESTS, "", _request),
    "decisions": (_REQUESTS.filter(decided_at__isnull=False), "decided_at", _decision),
    "events": (Event.objects.prefetch_related("texts"), "", _event),
}


api.add_router("/workspace", _router)
