"""What one person may grant of a declared desk's money, in its currency."""

from __future__ import annotations

from datetime import datetime, timedelta

from agents.core.days import utc_midnight
from agents.core.states import GRANTED
from agents.models import Escalation, Membership
from agents.operations.refusal import Refused
from agents.sdk.arguments import BadArguments
from agents.sdk.desk import DESKS, DeskTool
from agents.sdk.values import Money


def check_own_limits(
    escalation: Escalation, person: Membership, tool: DeskTool, money: Money, *, at: datetime
) -> None:
    """Refuse what is above the person's own limit, or their cap of the day. Raises Refused.

    With what they granted on the resource before, and today; what came to nothing does not count.
    Call with the workspace locked.
    """
    run, limits = escalation.run, escalation.run.limits
    own = person.desk_limits.get(run.desk)
    if own is not None:
        since = at - timedelta(days=limits.rolling_days)
        before = _granted(escalation, person, tool, money.currency, since, same_resource=True)
        most = Money(own.get(money.currency, 0), money.currency)
        if before + money > most:
            told = (
                f"With the {before} you granted on this before, {money}" if before.minor else money
            )
            raise Refused("above_own_limit", f"{told} is above your own limit of {most}.")
    part = (limits.desks or {}).get(run.desk, {}).get("caps", {}).get(money.currency, {})
    cap = part.get("reviewer_daily_minor")
    if cap is not None:
        midnight = utc_midnight(at)
        today = _granted(escalation, person, tool, money.currency, midnight, same_resource=False)
        if today + money > Money(cap, money.currency):
            raise Refused(
                "above_daily_total",
                f"With the {today} you granted today, {money} is above the "
                f"{Money(cap, money.currency)} that one person may grant in a day (UTC).",
            )


def above_own_limits(escalation: Escalation, person: Membership, *, at: datetime) -> str:
    """Return why a person may not grant the whole of what is asked of a declared desk, or ""."""
    desk, action = DESKS.get(escalation.run.desk), escalation.action
    tool = desk.tools.get(str(action.get("name"))) if desk else None
    try:
        money = tool.amount_of(action["args"]) if tool else None
        if tool and money:
            check_own_limits(escalation, person, tool, money, at=at)
    except (BadArguments, Refused) as no:
        return str(no)
    return ""


def _granted(
    escalation: Escalation,
    person: Membership,
    tool: DeskTool,
    currency: str,
    since: datetime,
    *,
    same_resource: bool,
) -> Money:
    """Return what the person allowed since then, as they left it."""
    mine = Escalation.objects.filter(
        decided_by=person.user_id,
        decided_at__gte=since,
        state__in=GRANTED,
        workspace=escalation.workspace_id,
        run__desk=escalation.run.desk,
        currency=currency,
        amount_minor__isnull=False,
        not_carried_out="",
    ).exclude(pk=escalation.pk)
    if same_resource:
        mine = mine.filter(resource=escalation.resource, run__book=escalation.run.book_id)
    total = Money(0, currency)
    for action, patch in mine.values_list("action", "patch"):
        money = tool.amount_of({**action["args"], **(patch or {})})
        total += money if money and action["name"] == tool.name else Money(0, currency)
    return total
