"""The limits of refunds, which a policy document lists in the desk's part."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from agents.core.money import MAX_MINOR, format_money
from agents.core.old_names import CURRENCY
from opsconsole.desks import Count, Days, between, limit

in_usd = partial(format_money, currency=CURRENCY)  # an amount, for people

MOST = between(0, MAX_MINOR)


class Cents(Count):
    """Minor units, as in the documents of the first policies."""

    unit = CURRENCY


@dataclass(frozen=True)
class RefundLimits:
    """What an admin can set, per policy version."""

    auto_limit_minor: Annotated[Cents, MOST] = limit(
        Cents(100_000),
        "Automatic approval limit",
        "Refunds up to this amount are paid without approval. A larger one waits for a reviewer.",
    )
    run_limit_minor: Annotated[Cents, MOST] = limit(
        Cents(200_000),
        "Most refunded in one run",
        "A refund is lowered to what is left of this. With nothing left, further ones are blocked.",
    )
    window_days: Annotated[Days, between(0, 36500)] = limit(
        Days(14), "Refund window", "A refund of a charge older than this is blocked."
    )
    rolling_days: Days = limit(Days(30), "Refunds are added up over", hidden=True)
    # How the recorded cases behave.
    told_limit_minor: int | None = limit(None, "What a model is told of the limit", hidden=True)
    loose_topics: bool = limit(False, "Keywords within words", hidden=True)
    null_is_none: bool = limit(False, "What is left empty is none", hidden=True)
    fills_reason: bool = limit(False, "A missing reason is made up", hidden=True)
