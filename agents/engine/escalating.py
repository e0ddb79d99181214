"""Hold an action until a person decides."""

from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Subquery
from django.db.models.functions import Coalesce, Now

from agents.core.decisions import ACTION, Tiers, demand_of, kind_of, tier_after
from agents.core.json_forms import sha256
from agents.core.limits import Limits
from agents.core.requests import EscalationState, Json
from agents.db.compiled import CompiledSelect, Param, send_columns
from agents.db.driver import Pending, pipeline
from agents.engine.commit import STEP_BY_KEY, Commit
from agents.engine.ending import ASKED_AGAIN, CARRIED_OUT, close_approvals, turn_of
from agents.engine.kill_switch import KILLED, fetch_switch_for_request
from agents.models import Escalation, Run, Snooze, Step, Team, Workspace
from agents.models.runs import target_of

_OF_STEP = CompiledSelect(
    lambda: Escalation.objects.filter(run=Param("run"), step__key=Param("key")).order_by("pk")
)


def fetch_escalation(run_id: UUID, key: str) -> Pending[list[Escalation]]:
    """Fetch the escalation opened by the step `key` of a run, in an open pipeline if any."""
    return _OF_STEP.fetch(run=run_id, key=key)


_NOT_FULL: Pending[str] = Pending(str)


def open_escalation(
    commit: Commit, *, step: Step, kind: str, action: Json, review: Json, limits: Limits
) -> str:
    """Put a step's action into the inbox, or return whose requests fill it.

    A question about a call's outcome ignores the limit.
    """
    at = commit.at
    run, request_kind = step.run, kind_of(kind, action)
    target = target_of(run, action)
    target = target._replace(resource=target.resource or _resource_in(review))
    with pipeline():  # the switch first: it locks the workspace against other requests
        standing = fetch_switch_for_request(run, action.get("name", ""))
        filled = _NOT_FULL if request_kind.settles_call else fetch_full(run, limits)
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
        is_marked=bool((review.get("facts") or {}).get("doubts")),
        created_at=at,
        frozen_at=at if switch == KILLED else None,
        expires_at=at + timedelta(seconds=limits.escalation_seconds),
    )
    of_tier = _put_to_tier(escalation)
    by_key = {"run": run.pk, "key": step.key}
    with pipeline():
        steps = commit.send_steps()  # the request refers to its own
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
    facts |= {"resource": resource} if (resource := _resource_in(review)) else {}
    facts |= {"action_sha256": escalation.action_sha256, **of_tier}
    facts |= {"tool": action["name"]} if action.get("kind") == "tool" else {}
    commit.say("escalation.opened", {**facts, "reason": review["deciding"]["reason"]})
    return ""


def _resource_in(review: Json) -> str:
    """Return a call's resource by the facts of its review; "" where its arguments have it."""
    return str((review.get("facts") or {}).get("resource") or "")


# Caps on waiting requests, so that nobody can flood the inbox.


LAUNCHER, SUBJECT = "launcher", "subject"  # as stored


def fetch_full(run: Run, limits: Limits) -> Pending[str]:
    """Fetch whose requests fill the inbox, in an open pipeline if any.

    The answer is LAUNCHER, SUBJECT, or "" if there is room. It holds while the workspace's row is
    locked: openers of requests lock it first.
    """
    by_launcher, about_subject = limits.open_per_launcher, limits.open_per_subject
    if by_launcher is None and (about_subject is None or not run.subject_key):
        return Pending(str)
    counted = _OPEN.fetch_tuples(
        workspace=run.workspace_id,
        launcher=run.launched_by_id,
        desk=run.desk,
        book=run.book_id,
        subject=run.subject_key,
    )

    def answer() -> str:
        [(theirs, about)] = counted.get()
        if by_launcher is not None and theirs >= by_launcher:
            return LAUNCHER
        is_filled = about_subject is not None and run.subject_key and about >= about_subject
        return SUBJECT if is_filled else ""

    return Pending(answer)


def _count_open(**those: object) -> Coalesce:
    """Count open requests of a workspace."""
    waiting = Escalation.objects.filter(
        workspace=Param("workspace"), state=EscalationState.OPEN, **those
    )
    counts = waiting.order_by().values("state").annotate(count=Count("pk"))
    return Coalesce(Subquery(counts.values("count")), 0)


# Read at each launch and at each request: both in one statement, each by its own index.
_OPEN = CompiledSelect(
    lambda: Workspace.objects.filter(pk=Param("workspace")).values_list(
        _count_open(run__launched_by=Param("launcher")),
        _count_open(run__desk=Param("desk"), run__book=Param("book"), subject_key=Param("subject")),
    )
)


# A request goes to its tier's team, and to the next tier's without an answer in time. The amount
# alone decides who may decide (see `core.decisions`); climbing changes only who is asked. After the
# last tier the request expires, which counts as a rejection.


def _put_to_tier(escalation: Escalation) -> dict[str, Json]:
    """Assign a new request to the team of its tier. Return the facts for its event."""
    run = escalation.run
    if not run.limits.tiers or kind_of(escalation.kind, escalation.action) is not ACTION:
        return {}
    tiers = run.limits.tiers_of(run.desk, escalation.currency)
    place = demand_of(tiers, escalation.amount_minor).place
    return (
        {}
        if not tiers or place is None
        else _put_to(escalation, tiers, place, at=escalation.created_at)
    )


def climb(pk: int, *, at: datetime) -> bool:
    """Move a request to its next tier if its present one has not answered in time."""
    with transaction.atomic():
        run_id = Escalation.objects.values_list("run_id", flat=True).get(pk=pk)
        run = Run.objects.select_related("policy").select_for_update(of=("self",)).get(pk=run_id)
        due = Escalation.objects.filter(
            pk=pk, state=EscalationState.OPEN, frozen_at=None, climbs_at__lte=Now()
        ).filter(expires_at__gt=Now())
        escalation = due.select_related("step").first()
        if escalation is None or escalation.tier is None:
            return False
        escalation.run, was = run, escalation.tier
        tiers = run.limits.tiers_of(run.desk, escalation.currency) or ()
        place = tier_after(tiers, was)
        escalation.climbs_at = None
        if place is None:
            escalation.save(update_fields=["climbs_at"])
            return False
        facts = {
            "escalation": pk,
            "key": escalation.step.key,
            **_put_to(escalation, tiers, place, at=at),
        }
        woken = Snooze.objects.filter(
            escalation=pk, user__memberships__teams=escalation.assigned_team
        )
        if names := sorted(woken.values_list("user__username", flat=True)):
            facts["woken"] = names
            woken.delete()
        escalation.save(update_fields=["tier", "climbs_at", "assigned_to", "assigned_team"])
        with Commit(run, at=at) as commit:
            commit.say("escalation.assigned", {**facts, "silent_minutes": tiers[was].answer_within})
    return True


def _put_to(escalation: Escalation, tiers: Tiers, place: int, *, at: datetime) -> dict[str, Json]:
    """Set a request's tier, and until when. Return that as facts."""
    tier = tiers[place]
    team = (
        tier.team and Team.objects.filter(workspace=escalation.workspace_id, slug=tier.team).first()
    )
    escalation.tier, escalation.assigned_to, escalation.assigned_team = place, None, team or None
    within = tier.answer_within
    escalation.climbs_at = at + timedelta(minutes=within) if within else None
    return {"tier": place, **({"team": team.slug, "team_name": team.name} if team else {})}
