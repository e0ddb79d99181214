"""The HTTP endpoints for agents and for keys of a workspace."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple
from uuid import UUID

from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Header, Query, Router, Status
from ninja.errors import HttpError
from ninja.parser import Parser
from ninja.security import HttpBearer

from agents.core.json_forms import BadJson, parse
from agents.core.limits import EXTERNAL
from agents.core.requests import ENDED
from agents.engine.desk.repeats import identifying
from agents.external import calls, keys, permits, sessions
from agents.external.schemas import (
    PROBLEMS,
    AskPerson,
    CallAnswer,
    CallsAnswer,
    DescribedAPI,
    EndRun,
    KeysAnswer,
    LeftAnswer,
    MoveOn,
    OpenRun,
    ProposeCall,
    ReportCall,
    RowsAnswer,
    RunAnswer,
    ToolAnswer,
    add_problems,
)
from agents.models import Escalation, Event, ExternalAgent, Run, Workspace
from agents.models.record import facts_of
from agents.policies.words import end_sentence
from agents.sdk.desk import tools_at
from agents.sdk.desk_tools import AGENT, CONSOLE
from agents.shell.listing import Keyset
from agents.tools import descriptions_of

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
    taken = permits.take_call(agent=agent_of(request), call_id=call_id, at=timezone.now())
    return _call_answer(request, taken)


@api.post("/calls/{int:call_id}/report", response={200: CallAnswer, 202: CallAnswer, **PROBLEMS})
def report_call(request: HttpRequest, call_id: int, body: ReportCall) -> Status[Any]:
    """Report the outcome of a call that you took. Without a report in time a person is asked."""
    reported = permits.report_call(
        agent=agent_of(request), call_id=call_id, at=timezone.now(), **body.dict()
    )
    return _call_answer(request, reported)


@api.post("/moved_on", response={200: LeftAnswer, **PROBLEMS})
def move_on(request: HttpRequest, body: MoveOn) -> dict[str, Any]:
    """End what you took of repeatable tools and will not report: a person is asked about it."""
    agent, at = agent_of(request), timezone.now()
    return {"calls": permits.move_on(agent=agent, reference=body.reference, at=at)}


@api.get("/permits/keys", response={200: KeysAnswer}, auth=None)
def permit_keys(request: HttpRequest) -> dict[str, Any]:
    """Return the keys that verify permits, as a JWKS."""
    return permits.public_keys()


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
        outcome["permit"] = permits.permit_of(agent_of(request), call, at=timezone.now())
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
