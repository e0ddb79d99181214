"""The first of two approvals: it is kept while the request waits for a second person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User
from django.db.models import Q
from django.db.models.functions import Now

from agents.core.request_kinds import LAPSES
from agents.core.requests import Json
from agents.core.states import EscalationState
from agents.core.tiers import Yes, what_yes_does
from agents.db.inserts import insert_rows
from agents.engine.commit import Commit
from agents.engine.desk.company import LookedUp
from agents.engine.people.approval_demand import demand_for
from agents.models import Approval, Escalation, Membership, Role, Step
from agents.models.record import commanding_account
from agents.operations.requests.demand_checks import check_demand
from agents.operations.requests.granting import Grant, grant
from agents.shell.refusal import Refused, require_member

# Not expired, or its clock is stopped.
WAITS = Q(expires_at__gt=Now()) | Q(frozen_at__isnull=False)
SAW_NONE = 0  # the page showed no approval yet


def lapse_in_words(approval: Approval, why: Refused) -> str:
    """Return a sentence for others on why a first approval has lapsed."""
    said = f"{LAPSES[why.code]}." if why.code in LAPSES else str(why)
    return f"{approval.by.get_username()}’s approval no longer counts: {said}"


class ApprovalLapsed(Refused):
    """The first approval has lapsed. Raised to the second person once it is on record."""

    def __init__(self, approval: Approval, why: Refused) -> None:
        super().__init__(
            "approval_lapsed",
            f"{lapse_in_words(approval, why)} Nothing was decided. "
            "If you approve, yours is the first of two.",
        )
        self.why = why.code


@dataclass(frozen=True)
class First:
    """A valid first approval, and what it grants by present facts."""

    approval: Approval
    grant: Grant | None


def standing_approval(
    escalation: Escalation,
    steps: list[Step],
    *,
    at: datetime,
    ahead: LookedUp | None,
    shown: int | None = None,
) -> First | ApprovalLapsed | None:
    """Return the first approval, checked as if it were given now; None if there is none.

    A lapsed one is removed, on record: ApprovalLapsed tells a person who relied on it; a page that
    showed none goes on. `shown` is what the person saw: an approval's number, SAW_NONE, or None if
    unknown. Raises Refused if it was another approval.
    """
    found = first_of(escalation)
    judged = judge_first(found, escalation, steps, at=at, ahead=ahead) if found else None
    if isinstance(judged, ApprovalLapsed):
        with Commit(escalation.run, at=at) as commit:
            _lapse(escalation, judged, commit)
        return None if shown == SAW_NONE else judged
    if shown is not None and shown != (found.pk if found else SAW_NONE):
        who = found.by.get_username() if found else "Nobody"
        raise Refused("stale", f"{who} has approved this meanwhile. Load the page again.")
    return judged


def first_of(escalation: Escalation) -> Approval | None:
    """Return a request's valid first approval, without a query if there is none."""
    if escalation.approval_id is None:
        return None
    return escalation.approvals.select_related("by").get(pk=escalation.approval_id)


def membership_of(approval: Approval, escalation: Escalation) -> Membership:
    """Return the first person's membership if they might still approve this. Raises Refused."""
    person = require_member(escalation.workspace, approval.by, Role.REVIEWER, Role.ADMIN)
    if approval.action_sha256 != escalation.action_sha256:
        raise Refused("stale", "The request has changed since.")
    check_demand(escalation, person, demand_for(escalation))
    return person


def judge_first(
    approval: Approval,
    escalation: Escalation,
    steps: list[Step],
    *,
    at: datetime,
    ahead: LookedUp | None,
) -> First | ApprovalLapsed:
    """Judge a first approval as if it were given now."""
    try:
        person = membership_of(approval, escalation)
        granted = grant(escalation, steps, person, patch=approval.patch, at=at, ahead=ahead)
    except Refused as no:
        return ApprovalLapsed(approval, no)
    return First(approval, granted)


def _lapse(escalation: Escalation, lapsed: ApprovalLapsed, commit: Commit) -> None:
    facts = {**_facts_of_name(escalation), "approval": escalation.approval_id, "reason": lapsed.why}
    Escalation.objects.filter(pk=escalation.pk).update(approval=None)
    escalation.approval = None
    commit.say("approval.lapsed", facts)


def is_enough(escalation: Escalation, first: First | None, granted: Grant, by: User) -> bool:
    """Tell whether an approval decides or is the first of two. Raises Refused."""
    is_same = first is not None and granted == first.grant
    first_by = first.approval.by_id if first else None
    does = what_yes_does(demand_for(escalation), by=by.pk, first_by=first_by, is_same=is_same)
    if does is Yes.IS_REPEATED:
        raise Refused(
            "two_people",
            "You have approved this already. A second person has to approve it, or reject it.",
        )
    return does is Yes.DECIDES


def keep_first(
    escalation: Escalation,
    person: Membership,
    granted: Grant,
    patch: Mapping[str, Json] | None,
    comment: str,
    *,
    commit: Commit,
) -> bool:
    """Keep a first approval, replacing one of other terms. False: the request no longer waits.

    Its giver's claim ends, so that a second person can decide.
    """
    by, target = person.user, granted.target
    approval = Approval(
        run=escalation.run,
        escalation=escalation,
        by=by,
        account=commanding_account(),
        at=commit.at,
        action_sha256=escalation.action_sha256,
        patch=patch,
        resource=target.resource,
        granted_minor=target.amount_minor,
        currency=target.currency,
        comment=comment,
        is_simulated=person.is_simulated,
    )
    insert_rows(approval)
    waits = Escalation.objects.filter(WAITS, pk=escalation.pk, state=EscalationState.OPEN)
    if not waits.update(approval=approval, claimed_by=None, claimed_until=None):
        return False
    escalation.approval, escalation.claimed_by, escalation.claimed_until = approval, None, None
    facts: dict[str, Json] = {
        **_facts_of_name(escalation),
        "approval": approval.pk,
        "action_sha256": approval.action_sha256,
        "granted_minor": target.amount_minor,
        "comment": comment,
        "simulated": person.is_simulated,
    }
    facts |= {"currency": target.currency} if target.currency else {}
    facts |= {"resource": target.resource} if target.resource else {}
    facts |= {"patch": patch, "changed": sorted(patch)} if patch else {}
    commit.say("approval.given", facts, by.get_username())
    return True


def _facts_of_name(escalation: Escalation) -> dict[str, Json]:
    return {"escalation": escalation.pk, "key": escalation.step.key}
