"""Hold an action until a person decides."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from agents.core.json_forms import sha256
from agents.core.limits import Limits
from agents.core.request_kinds import kind_of
from agents.core.requests import Json
from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import Pending, pipeline
from agents.db.inserts import send_columns
from agents.engine.commit import STEP_BY_KEY, Commit
from agents.engine.kill_switch import fetch_switch_for_request
from agents.engine.people.approvals import ASKED_AGAIN, CARRIED_OUT, close_approvals, turn_of
from agents.engine.people.open_requests import fetch_full
from agents.engine.people.tier_escalation import put_to_tier
from agents.models import Escalation, Step
from agents.models.runs import target_of

_OF_STEP = CompiledSelect(
    lambda: Escalation.objects.filter(run=Param("run"), step__key=Param("key")).order_by("pk")
)


def fetch_escalation(run_id: UUID, key: str) -> Pending[list[Escalation]]:
    """Fetch the escalation opened by the step `key` of a run, in an open pipeline if any."""
    return _OF_STEP.fetch(run=run_id, key=key)


def open_escalation(
    commit: Commit, *, step: Step, kind: str, action: Json, review: Json, limits: Limits
) -> str:
    """Put a step's action into the inbox, or return whose requests fill it.

    A question about the outcome of a call is put even into a full inbox.
    """
    at = commit.at
    run, asked = step.run, kind_of(kind, action)
    target = target_of(run, action)
    target = target._replace(resource=target.resource or resource_in(review))
    with pipeline():  # the switch first: it locks the workspace against other requests
        standing = fetch_switch_for_request(run, action.get("name", ""))
        filled = NOT_FULL if asked.settles_call else fetch_full(run, limits)
    switch, full = standing.get(), filled.get()
    if full:
        return full
    escalation = Escalation(
        **target._asdict(),
        workspace_id=run.workspace_id,
        run=run,
        step=step,
        kind=kind,
        action=action,
        action_sha256=sha256(action),
        review=review,
        created_at=at,
        frozen_at=at if switch else None,
        expires_at=at + timedelta(seconds=limits.escalation_seconds),
    )
    of_tier = put_to_tier(escalation)
    by_key = {"run": run.pk, "key": step.key}
    with pipeline():
        steps = commit.send_steps()  # the escalation refers to its own
        keys = send_columns(
            Escalation, [{**vars(escalation), "step_id": by_key}], keys={"step_id": STEP_BY_KEY}
        )
    steps.get()
    [escalation.pk] = keys.get()
    # This request replaces an approval of the same turn. A first claim has none.
    if kind in CARRIED_OUT and run.fence > 1:
        commit.tell(close_approvals(run, why=ASKED_AGAIN, turn=turn_of(step.key)))
    facts = {"escalation": escalation.pk, "key": step.key, "kind": kind}
    # The page shows the row; the event proves its content.
    facts |= {"requested_minor": target.amount_minor, "currency": target.currency}
    facts |= {"resource": found} if (found := resource_in(review)) else {}
    facts |= {"action_sha256": escalation.action_sha256, **of_tier}
    facts |= {"tool": action["name"]} if action.get("kind") == "tool" else {}
    commit.say("escalation.opened", {**facts, "reason": review["deciding"]["reason"]})
    return ""


def resource_in(review: Json) -> str:
    """Return what a call takes from by the facts of its review; "" where its arguments say it."""
    return str((review.get("facts") or {}).get("resource") or "")


NOT_FULL: Pending[str] = Pending(str)
