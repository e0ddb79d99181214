"""The limits of refunds, which a policy document lists among those for all desks."""

from __future__ import annotations

from dataclasses import dataclass

from agents.core.former import CURRENCY
from agents.core.limits import FIRST_LIMITS
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
    rolling_days: Days = limit(Days(30), "Refunds are added up over", hidden=True)
    # How the recorded cases behave.
    told_limit_minor: int | None = limit(None, "What a model is told of the limit", hidden=True)
    loose_topics: bool = limit(False, "Keywords within words", hidden=True)
    null_is_none: bool = limit(False, "What is left empty is none", hidden=True)


FIRST_LIMITS |= {one.name: one for one in limit_fields(RefundLimits)}
