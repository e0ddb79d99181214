"""The limits of refunds, which a policy document lists among those for all desks."""

from __future__ import annotations

from dataclasses import dataclass

from agents.core.former import CURRENCY
from agents.core.limits import FIRST_LIMITS, Limits
from agents.sdk.serialization import limit_fields
from opsconsole.desks import Count, Days, limit


class Cents(Count):
    """Minor units, as in the documents of the first policies."""

    unit = CURRENCY


@dataclass(frozen=True)
class RefundLimits:
    """What an admin can set, per policy version."""

    auto_limit_minor: Cents = limit(
        Cents(100_000),
        "Automatic approval limit",
        "Refunds up to this amount are paid without approval. A larger one waits for a reviewer.",
    )
    run_limit_minor: Cents = limit(
        Cents(200_000),
        "Most refunded in one run",
        "A refund is lowered to what is left of this. With nothing left, further ones are blocked.",
    )
    window_days: Days = limit(
        Days(14), "Refund window", "A refund of a charge older than this is blocked."
    )
    tells_subject: bool = limit(
        True,
        "Confirms a refund even when time is up",
        "If yes, a run that has paid still emails the customer after its working time is used up.",
    )


FIRST_LIMITS |= {one.name: one for one in limit_fields(RefundLimits)}


def refund_limits(limits: Limits) -> RefundLimits:
    """Return a policy's limits of refunds as plain numbers, as rulings name the units."""
    return RefundLimits(**{name: limits.first_limit(name) for name in FIRST_LIMITS})
