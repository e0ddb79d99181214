"""What a person may grant: never more than the policy, the charge and their own limits allow."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.contrib.auth.models import User
from django.db.models import QuerySet, Sum

from agents.core.kinds import ACTION, AMOUNT, kind_of
from agents.core.limits import Limits
from agents.core.money import format_money
from agents.core.requests import Json
from agents.core.rulings import RulingKind, settled_by
from agents.db.driver import pipelined
from agents.engine.desk_lookup import LookedUp
from agents.engine.desks import case_of
from agents.engine.facts import fetch_facts
from agents.models import Escalation, Membership, Role, Step
from agents.operations.own_limits import check_own_limits
from agents.operations.refusal import Refused, require_member
from agents.policies import judge, review
from agents.sdk.changes import BadPatch, patched
from agents.sdk.desk import DESKS

HIGHER, ANOTHER = "a reviewer with a higher limit", "another reviewer"


@dataclass(frozen=True)
class Grant:
    """The amount that a person allows, in minor units, and the resource it is taken from."""

    amount_minor: int
    resource: str


@dataclass(frozen=True)
class Bound:
    """The most that something allows, and the sentence for whoever wants more."""

    most_minor: int
    code: str
    sentence: str


def grant(
    escalation: Escalation,
    steps: list[Step],
    person: Membership,
    *,
    amount_minor: int | None,
    at: datetime,
    lock: bool = True,
) -> Grant | None:
    """Return what the person allows, None where it is about no amount. Raises Refused.

    Call with the run and the workspace locked, so that what people granted does not grow
    meanwhile; to ask before anything is decided nothing is locked. Whoever wants too much is told
    the tightest bound.
    """
    kind = kind_of(escalation.kind, escalation.action)
    if kind.change != AMOUNT or escalation.requested_minor is None:
        if amount_minor is not None:
            raise Refused("no_amount", "This escalation is not about an amount.")
        return None
    amount = escalation.requested_minor if amount_minor is None else amount_minor
    run, limits = escalation.run, escalation.run.limits
    args = {**escalation.action["args"], "amount_minor": amount}
    action = {**escalation.action, "args": args}
    facts, resource = pipelined(fetch_facts, run, action, limits, steps, at=at, lock=lock)
    if amount < 1:
        raise Refused("too_little", f"The least that can be refunded is {format_money(1)}.")
    settled = settled_by(escalation.review)
    judged = review(action, facts, limits, settled=settled)
    if judged.decision == "block":
        raise Refused("policy", f"The policy stops this. {judged.deciding.sentence}")
    rulings = judge(action, facts, limits, settled=settled)
    bounds = [
        Bound(ruling.limit, "policy", f"The policy stops this. {ruling.sentence}")
        for ruling in rulings
        if ruling.verdict is RulingKind.REVISE and type(ruling.limit) is int
    ]
    asked = escalation.requested_minor
    more = f"{format_money(amount)} is more than the {format_money(asked)} that was asked for"
    bounds.append(Bound(asked, "above_request", f"{more}; you can only lower it."))
    bounds += own_bounds(escalation, person, limits, resource, at=at, wanted_minor=amount)
    exceeded = [bound for bound in bounds if amount > bound.most_minor]
    if exceeded:
        # What the policy cuts anybody to comes before what this person may grant of it.
        tightest = min(exceeded, key=lambda bound: (bound.code != "policy", bound.most_minor))
        raise Refused(tightest.code, tightest.sentence)
    # A new reason to ask is no reason to refuse: the run will put it as a new question.
    if judged.action != action:
        raise Refused("policy", f"The policy stops this. {judged.deciding.sentence}")
    return Grant(amount, resource)


def judge_amount(*, escalation_id: int, by: User, amount_minor: int, at: datetime) -> None:
    """Ask whether a person might grant an amount now. Changes nothing. Raises Refused."""
    found = Escalation.objects.select_related("run__policy", "workspace").get(pk=escalation_id)
    person = require_member(found.workspace, by, Role.REVIEWER, Role.ADMIN)
    steps = list(found.run.steps.order_by("position"))
    grant(found, steps, person, amount_minor=amount_minor, at=at, lock=False)


def check_patch(
    escalation: Escalation,
    steps: list[Step],
    person: Membership,
    patch: dict[str, Json] | None,
    *,
    at: datetime,
    ahead: LookedUp | None,
) -> None:
    """Refuse a change that a person may not make, or that the policy blocks. Raises Refused.

    What they leave is within their own limits, also where they change nothing.

    Call with the run and the workspace locked.
    """
    run, name = escalation.run, escalation.action.get("name", "")
    tool = DESKS[run.desk].tools.get(name) if run.desk in DESKS else None
    is_action = kind_of(escalation.kind, escalation.action) is ACTION
    if patch is None and not (tool and is_action):
        return
    if not patch and patch is not None:
        raise Refused("bad_patch", "Nothing is changed: approve it as it is.")
    if tool is None or not is_action:
        raise Refused("bad_patch", "Nothing of this can be changed.")
    args = escalation.action["args"]
    try:
        left = patched(tool.arguments, tool.may_change, args, patch or {}, case_of(run, at))
    except BadPatch as error:
        raise Refused("bad_patch", str(error)) from None
    action = {**escalation.action, "args": left}
    facts, _ = pipelined(fetch_facts, run, action, run.limits, steps, at=at, lock=True, ahead=ahead)
    judged = review(action, facts, run.limits, settled=settled_by(escalation.review))
    if judged.decision == "block" or judged.action != action:
        raise Refused("policy", f"The policy stops this. {judged.deciding.sentence}")
    if money := tool.amount_of(left):
        check_own_limits(escalation, person, tool, money, at=at)


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
        midnight = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
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
