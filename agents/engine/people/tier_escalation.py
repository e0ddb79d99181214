"""Ask the team of a request's tier, and the next tier's if it does not answer in time.

Who may decide depends on the amount alone (see `core.decisions`); climbing changes only who
is asked. After the last tier the request expires, which counts as a no.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models.functions import Now

from agents.core.decisions import Tiers, demand_of, tier_after
from agents.core.request_kinds import ACTION, kind_of
from agents.core.requests import Json
from agents.core.states import EscalationState
from agents.engine.commit import Commit
from agents.models import Escalation, Run, Snooze, Team


def put_to_tier(escalation: Escalation) -> dict[str, Json]:
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
    """Put one request to its next tier if its present one has not answered in time."""
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
    """Set which tier a request is put to, and until when. Return that as facts."""
    tier = tiers[place]
    team = (
        tier.team and Team.objects.filter(workspace=escalation.workspace_id, slug=tier.team).first()
    )
    escalation.tier, escalation.assigned_to, escalation.assigned_team = place, None, team or None
    within = tier.answer_within
    escalation.climbs_at = at + timedelta(minutes=within) if within else None
    return {"tier": place, **({"team": team.slug, "team_name": team.name} if team else {})}
