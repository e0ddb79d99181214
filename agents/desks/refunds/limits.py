"""The limits of refunds, which a policy document lists in the desk's part, and shipped policies."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from agents.core.compat_0_2 import CURRENCY, FIRST_DESK
from agents.core.json_forms import parse
from agents.core.limits import strict
from agents.core.money import MAX_MINOR, format_money
from agents.sdk.values import limit_fields
from opsconsole.desks import Count, Days, between, limit

in_usd = partial(format_money, currency=CURRENCY)  # an amount, for people

MOST = between(0, MAX_MINOR)


class Cents(Count):
    """Minor units, as in the documents of the first policies."""

    unit = CURRENCY


@dataclass(frozen=True)
class RefundLimits:
    """The limits that an admin can set, per policy version."""

    auto_limit_minor: Annotated[Cents, MOST] = limit(
        Cents(100_000),
        "Automatic approval limit",
        "Refunds up to this amount are paid without approval. A larger one waits for a reviewer.",
        below="run_limit_minor",
        says="Refunds up to {} are paid without asking.",
    )
    run_limit_minor: Annotated[Cents, MOST] = limit(
        Cents(200_000),
        "Most refunded in one run",
        "A refund is lowered to what is left of this. With nothing left, further ones are blocked.",
        most=Cents(10**9),
        says="One run refunds up to {} in all.",
    )
    window_days: Annotated[Days, between(0, 36500)] = limit(
        Days(14),
        "Refund window",
        "A refund of a charge older than this is blocked.",
        says="Charges of the last {} can be refunded.",
    )
    rolling_days: Days = limit(Days(30), "Refunds are added up over", hidden=True, gathered=True)


# The shipped policy. Its limits are those above.
_PART = parse((Path(__file__).parent / "policy.json").read_text(encoding="utf-8"))
_DEFAULTS = {one.name: one.default for one in limit_fields(RefundLimits)}
STRICT = strict({FIRST_DESK: {**_PART, "limits": _DEFAULTS}})
