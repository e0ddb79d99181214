"""What a key of a workspace reads: all its rows, oldest first, in pages. It proposes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router
from ninja.errors import HttpError
from ninja.security import HttpBearer

from agents.api.schemas import PROBLEMS, RowsAnswer
from agents.models import Escalation, Event, Run, Workspace
from agents.models.record import facts_of
from agents.operations.people import agents


class ReadingKey(HttpBearer):
    """A key of a workspace, as a bearer token."""

    def authenticate(self, request: HttpRequest, token: str) -> Workspace | None:
        key = agents.key_of(token, at=timezone.now())
        return key.workspace if key else None


class PagedRows(NamedTuple):
    """Rows that are read in the order of a column, then of their keys."""

    rows: Callable[[Workspace], QuerySet[Any]]
    column: str
    show: Callable[[Any], dict[str, Any]]


def _run(run: Run) -> dict[str, Any]:
    names = ("reference", "pattern", "desk", "goal", "subject_key", "subject_label", "state")
    told = {name: getattr(run, name) for name in (*names, "stop_reason", "outcome")}
    told |= {"policy": run.policy.number, "launched_by": run.launched_by.get_username()}
    return told | {
        "agent": run.agent.name if run.agent else "",
        "created_at": run.created_at,
        "ended_at": run.ended_at,
    }


def _request(request: Escalation) -> dict[str, Any]:
    names = ("kind", "state", "action", "subject_key", "resource", "amount_minor", "currency")
    told = {name: getattr(request, name) for name in (*names, "created_at", "expires_at")}
    ruling = request.review["deciding"]
    told |= {"run": request.run_id, "rule": ruling["rule"], "sentence": ruling["sentence"]}
    return told | {"agent": request.run.agent.name if request.run.agent else ""}


def _decision(request: Escalation) -> dict[str, Any]:
    names = ("state", "decided_at", "comment", "patch", "granted_minor", "currency")
    told = {name: getattr(request, name) for name in (*names, "is_simulated", "not_carried_out")}
    by = request.decided_by.get_username() if request.decided_by else ""
    return told | {"run": request.run_id, "decided_by": by}


def _event(event: Event) -> dict[str, Any]:
    told = {name: getattr(event, name) for name in ("seq", "kind", "actor", "at", "hash")}
    return told | {"run": event.run_id, "facts": facts_of(event)}


def _requests(workspace: Workspace) -> QuerySet[Escalation]:
    found = Escalation.objects.filter(workspace=workspace, run__workspace=workspace)
    return found.select_related("run__agent", "decided_by")


TABLES: Mapping[str, PagedRows] = {
    "runs": PagedRows(
        lambda home: Run.objects.filter(workspace=home).select_related(
            "policy", "launched_by", "agent"
        ),
        "created_at",
        _run,
    ),
    "requests": PagedRows(_requests, "pk", _request),
    "decisions": PagedRows(
        lambda home: _requests(home).filter(decided_at__isnull=False), "decided_at", _decision
    ),
    "events": PagedRows(
        lambda home: Event.objects.filter(workspace=home).prefetch_related("texts"), "pk", _event
    ),
}
router = Router(auth=ReadingKey())


@router.get("/{table}", response={200: RowsAnswer, **PROBLEMS})
def read_rows(
    request: HttpRequest,
    table: Literal["runs", "requests", "decisions", "events"],
    after: str = "",
    limit: int = Query(100, ge=1, le=1000),
) -> dict[str, Any]:
    """Read a workspace's rows, as they are kept: masked as the policy says."""
    asked = TABLES[table]
    found = asked.rows(request.auth).order_by(*dict.fromkeys((asked.column, "pk")))  # type: ignore[attr-defined]
    rows = list((_behind(found, asked.column, after) if after else found)[: limit + 1])
    shown = rows[:limit]
    return {
        "rows": [{"id": row.pk, **asked.show(row)} for row in shown],
        "next": _place(shown[-1], asked.column) if len(rows) > limit else None,
    }


def _place(row: Model, column: str) -> str:
    at = getattr(row, column)
    # In UTC with a Z: the + of an offset would be a blank in an address.
    return f"{at:%Y-%m-%dT%H:%M:%S.%fZ}_{row.pk}" if isinstance(at, datetime) else str(at)


def _behind(found: QuerySet[Any], column: str, after: str) -> QuerySet[Any]:
    """Return the rows after a place. Raises HttpError for a place that is none."""
    at, _, pk = after.rpartition("_")
    try:
        key = found.model._meta.pk.to_python(pk)
        if not at:
            return found.filter(pk__gt=key)
        when = datetime.fromisoformat(at).astimezone(UTC)
        later = Q(**{f"{column}__gt": when}) | Q(**{column: when}, pk__gt=key)
        return found.filter(later, **{f"{column}__gte": when})
    except (OverflowError, ValueError, ValidationError):
        raise HttpError(422, "after: this is not the `next` of an answer.") from None
