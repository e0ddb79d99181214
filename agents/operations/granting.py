"""What a person may grant: never more than the policy, the charge and their own limits allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from django.contrib.auth.models import User
from django.db.models import QuerySet, Sum

from agents.core.days import utc_midnight
from agents.core.kinds import ACTION, kind_of
from agents.core.limits import Limits
from agents.core.money import format_money
from agents.core.requests import Json
from agents.core.rulings import RulingKind, consent_of
from agents.db.driver import pipelined
from agents.engine.desk_lookup import LookedUp, LookupFailed, look_up_now
from agents.engine.desk_system import case_of
from agents.engine.facts import fetch_facts
from agents.models import Escalation, Membership, Role, Run, Step
from agents.operations.own_limits import check_own_limits
from agents.operations.refusal import Refused, require_member
from agents.policies import judge, review
from agents.sdk.arguments import BadArguments
from agents.sdk.desk import DESKS
from agents.sdk.open_fields import BadPatch, OpenField, open_fields
from agents.sdk.patches import patched
from agents.sdk.rulings import Case
from agents.tools import TOOLS, Tool

HIGHER, ANOTHER = "a reviewer with a higher limit", "another reviewer"


Patch: TypeAlias = Mapping[str, Json]  # arguments that a person sets, by name


@dataclass(frozen=True)
class Grant:
    """What a person allows: the arguments as they leave them."""

    args: Json
    amount_minor: int | None  # None: it is about no amount
    resource: str  # that the amount is taken from


@dataclass(frozen=True)
class Bound:
    """The most that something allows, and the sentence for whoever wants more."""

    most_minor: int
    code: str
    sentence: str


def fields_of(escalation: Escalation, *, at: datetime) -> list[OpenField]:
    """Return what a person may change of what is asked, with its bounds; values as JSON.

    The one table for form, API and command line.
    """
    tool = _tool(escalation)
    if tool is None or tool.typed is None:
        return []
    try:
        args = escalation.action["args"]
        return open_fields(tool.typed, tool.may_change, args, case_of(escalation.run, at))
    except BadArguments:  # of an older form of the tool: it can be approved or rejected
        return []


def _tool(escalation: Escalation) -> Tool | None:
    """Return the tool whose call is held, where a yes runs it with arguments of its own."""
    if kind_of(escalation.kind, escalation.action) is not ACTION:
        return None
    return TOOLS.get(escalation.action.get("name", ""))


def grant(
    escalation: Escalation,
    steps: list[Step],
    person: Membership,
    *,
    patch: Patch | None,
    at: datetime,
    ahead: LookedUp | None,
    lock: bool = True,
) -> Grant | None:
    """Return what the person allows, None where no call of a tool is held. Raises Refused.

    Call with the run and the workspace locked, so that what people granted does not grow
    meanwhile; to ask before anything is decided nothing is locked. Whoever wants too much is told
    the tightest bound. `ahead` is what the desk was told by another machine before.
    """
    tool = _tool(escalation)
    if patch is not None and (tool is None or not patch):
        raise Refused("bad_patch", "Nothing of this can be changed, or nothing is changed.")
    if tool is None:
        return None
    run, args = escalation.run, escalation.action["args"]
    if patch is not None:
        args = _changed(tool, args, patch, case_of(run, at))
    action = {**escalation.action, "args": args}
    asked = (run, action, run.limits, steps)
    facts, resource = pipelined(fetch_facts, *asked, at=at, lock=lock, ahead=ahead)
    consent = consent_of(escalation.review)
    judged = review(action, facts, run.limits, consent=consent)
    if judged.decision == "block":
        raise Refused("policy", f"The policy stops this. {judged.deciding.sentence}")
    amount = args.get("amount_minor") if escalation.requested_minor is not None else None
    if amount is not None:
        bounds = [
            Bound(ruling.limit, "policy", f"The policy stops this. {ruling.sentence}")
            for ruling in judge(action, facts, run.limits, consent=consent)
            if ruling.verdict is RulingKind.REVISE and type(ruling.limit) is int
        ]
        bounds += own_bounds(escalation, person, run.limits, resource, at=at, wanted_minor=amount)
        exceeded = [bound for bound in bounds if amount > bound.most_minor]
        if exceeded:
            # What the policy cuts anybody to comes before what this person may grant of it.
            tightest = min(exceeded, key=lambda bound: (bound.code != "policy", bound.most_minor))
            raise Refused(tightest.code, tightest.sentence)
    # A new reason to ask is no reason to refuse: the run will put it as a new question.
    if judged.action != action:
        raise Refused("policy", f"The policy stops this. {judged.deciding.sentence}")
    declared = DESKS[run.desk].tools.get(tool.name) if run.desk in DESKS else None
    if declared and (money := declared.amount_of(args)):
        check_own_limits(escalation, person, declared, money, at=at)
    return Grant(args, amount, resource)


def _changed(tool: Tool, args: Json, patch: Patch, case: Case) -> dict[str, Json]:
    """Return the arguments as a person leaves them. Raises Refused."""
    if tool.typed is None:
        raise Refused("bad_patch", "Nothing of this can be changed.")
    try:
        return patched(tool.typed, tool.may_change, args, patch, case)
    except BadPatch as error:
        raise Refused("bad_patch", str(error), field=error.name) from None


def judge_change(*, escalation_id: int, by: User, patch: Patch, at: datetime) -> Grant | None:
    """Return what a person might grant now, with these changes. Changes nothing. Raises Refused."""
    found = Escalation.objects.select_related("run__policy", "workspace").get(pk=escalation_id)
    person = require_member(found.workspace, by, Role.REVIEWER, Role.ADMIN)
    steps = list(found.run.steps.order_by("position"))
    ahead = look_ahead(found.run)
    return grant(found, steps, person, patch=patch, at=at, ahead=ahead, lock=False)


def look_ahead(run: Run) -> LookedUp | None:
    """Ask what the desk needs of other machines, before anything is locked. Raises Refused."""
    try:
        return look_up_now(run)
    except LookupFailed:
        sentence = "What the desk has to look up cannot be had now. Try again in a minute."
        raise Refused("lookup_failed", sentence) from None


def own_bounds(
    escalation: Escalation,
    person: Membership,
    limits: Limits,
    resource: str,
    *,
    at: datetime,
    wanted_minor: int,
) -> list[Bound]:
    """Return what the person's own limits leave: on this charge, and today.

    An approval that came to nothing does not count.
    """
    bounds = []
    mine = Escalation.objects.filter(
        run__desk=escalation.run.desk,
        decided_by=person.user_id,
        granted_minor__isnull=False,
        not_carried_out="",
    ).exclude(pk=escalation.pk)
    if (limit := person.refund_limit_minor) is not None:
        since = at - timedelta(days=limits.rolling_days)
        before = _sum(mine.filter(resource=resource, decided_at__gte=since)) if resource else 0
        days = limits.rolling_days
        given = f"With the {format_money(before)} you granted on this charge in {days} days, "
        above = f"{format_money(wanted_minor)} is above your own limit of {format_money(limit)}."
        sentence = f"{given}{above}" if before else above
        bounds.append(_own("above_own_limit", limit - before, sentence, others=HIGHER))
    if (most := limits.reviewer_daily_minor) is not None:
        midnight = utc_midnight(at)
        today = mine.filter(workspace=escalation.workspace_id, decided_at__gte=midnight)
        before = _sum(today)
        sentence = (
            f"With the {format_money(before)} you granted today, {format_money(wanted_minor)} is "
            f"above the {format_money(most)} that one person may grant in a day (UTC)."
        )
        bounds.append(_own("above_daily_total", most - before, sentence, others=ANOTHER))
    return bounds


def _own(code: str, left: int, sentence: str, *, others: str) -> Bound:
    at_most = f"Grant at most {format_money(left)}" if left > 0 else "Reject it"
    return Bound(max(left, 0), code, f"{sentence} {at_most}, or leave it to {others}.")


def _sum(granted: QuerySet[Escalation]) -> int:
    return granted.aggregate(total=Sum("granted_minor"))["total"] or 0
