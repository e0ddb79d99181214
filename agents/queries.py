"""What pages and commands read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import QuerySet

from agents import patterns
from agents.core.effects import Json
from agents.core.money import told
from agents.core.states import EscalationState, RunState
from agents.core.strands import Reply
from agents.core.verify import Fault, Linked, first_fault
from agents.engine.advance import brief_of
from agents.models import Escalation, Event, Run, Workspace
from agents.models.event import linked

CHUNK = 500  # rows in memory at once


def result(run: Run) -> dict[str, Json]:
    """Return a run as the reference prints one, with our `run_id` and what it waits for.

    It is derived from the run's steps; where the engine ended the run, its reason counts.
    """
    steps = list(run.steps.order_by("position"))
    replies = {step.key: Reply(step.reply, step.failed) for step in steps if step.ended_at}
    found = patterns.result(run.pattern, brief_of(run), replies)
    if run.state in (RunState.STOPPED, RunState.FAILED):
        found |= {"status": run.state, "stop_reason": run.stop_reason}
    elif run.state == RunState.WAITING:
        found |= {"status": "waiting", "escalation": _waiting_for(run)}
    return {
        **found,
        "run_id": str(run.pk),
        "pattern": run.pattern,
        "profile": run.policy.document["profile"],
        "demo_model": any((step.reply or {}).get("demo") for step in steps if _is_answer(step)),
    }


def _is_answer(step: Json) -> bool:
    return step.kind == "ask" and isinstance(step.reply, dict)


def _waiting_for(run: Run) -> Json:
    """Return the open escalation that is soonest to expire."""
    escalation = (
        Escalation.objects.filter(run=run, state=EscalationState.OPEN)
        .order_by("expires_at", "pk")
        .first()
    )
    if escalation is None:
        return None
    deciding = escalation.review["deciding"]
    return {
        "id": escalation.pk,
        "kind": escalation.kind,
        "action": told(escalation.action),
        "reason": deciding["reason"],
        "sentence": deciding["sentence"],
        "expires_at": escalation.expires_at.isoformat(),
        "frozen": escalation.frozen_at is not None,
    }


@dataclass(frozen=True)
class Chain:
    """One chain of the record, checked from its first event to its head."""

    name: str
    fault: Fault | None

    def __str__(self) -> str:
        if self.fault is None:
            return f"{self.name}: holds"
        return f"{self.name}: event {self.fault.seq}: {self.fault.why}"


def chains(runs: QuerySet[Run], workspaces: QuerySet[Workspace]) -> Iterator[Chain]:
    """Check the chain of each workspace and of each run; the cost is every event of them."""
    for workspace in workspaces.order_by("pk"):
        events = Event.objects.filter(workspace=workspace, run=None)
        yield Chain(f"workspace {workspace.slug}", _fault(events, workspace))
    for run in runs.order_by("created_at", "pk").iterator(CHUNK):
        yield Chain(f"run {run.pk}", _fault(Event.objects.filter(run=run), run))


def _fault(events: QuerySet[Event], row: Run | Workspace) -> Fault | None:
    found = events.order_by("seq").iterator(CHUNK)
    links = (Linked(linked(event), event.previous, event.hash) for event in found)
    return first_fault(links, count=row.event_count, head=row.head_hash)
