"""The refund desk's morning report: the figures of a day and its health.

Health depends on facts alone: red for a gateway incident, unknown if anything is missing, yellow
for many failed payments or an item out of stock, otherwise green.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping

from agents.core.money import format_money
from agents.core.requests import Json
from agents.sdk.desk_patterns import Report, SourcesFound, repeatable

# Seconds that a source takes: for its first call in a run, and for later ones.
DEMO_SECONDS = {"sales": (0.4, 0.4), "payments": (2.6, 0.3), "inventory": (0.5, 0.5)}
FAILED_RATE = 0.03  # share of failed payments from which a day is yellow
_SKU = re.compile(r"[\w-]{1,40}", re.ASCII)
_PART = {"sales_worker": "sales", "payments_worker": "payments", "inventory_worker": "inventory"}
# Without these a part says nothing about the day.
_NEEDED = {
    "sales": ("gross_sales_usd",),
    "payments": ("failed_payment_rate", "gateway_incident"),
    "inventory": ("out_of_stock_skus",),
}


def scope(book: int) -> dict[str, str] | None:
    """Return the newest day with numbers in a book, and its region."""
    return {"report_date": "2026-02-26", "region": "US"}


def figures(found: SourcesFound) -> dict[str, Json]:
    """Return the facts of the day, its health, and what failed or is missing.

    Under the reference's quirk `null_is_none` a field that a source leaves empty is good news.
    """
    parts = {part: found.sources.get(worker, {}) for worker, part in _PART.items()}
    wanted = [part for worker, part in _PART.items() if worker in found.expected]
    quirk = True
    missing = [name for part in wanted for name in _lacking(part, parts[part], quirk)]
    return {
        **found.scope,
        "health": health(parts, missing),
        **parts,
        "failed_tasks": found.failed_tasks,
        **({"missing": missing} if missing else {}),
    }


def health(parts: Mapping[str, Mapping[str, Json]], missing: Collection[str]) -> str:
    """Return red, unknown, yellow or green; unknown facts are never green."""
    incident = parts["payments"].get("gateway_incident")
    if incident is not None and str(incident).strip().lower() not in ("none", ""):
        return "red"
    if missing:
        return "unknown"
    many_fail = (parts["payments"].get("failed_payment_rate") or 0) >= FAILED_RATE
    return "yellow" if many_fail or parts["inventory"].get("out_of_stock_skus") else "green"


def headline(found: Json) -> str:
    """Return the first sentence of a brief, which no model writes."""
    said = f"Health {found['health']}: {found['region']}, {found['report_date']}."
    if found.get("missing"):
        said += f" Partial report, without {', '.join(found['missing'])}."
    return said


def findings(found: Json) -> str:
    """Return the facts of the day in sentences, which no model writes either."""
    return " ".join(_findings(found["sales"], found["payments"], found["inventory"]))


def _findings(sales: Json, payments: Json, inventory: Json) -> Iterator[str]:
    if "gross_sales_usd" in sales and _is_number(sales.get("orders")):
        gross = format_money(round(sales["gross_sales_usd"] * 100), "USD")
        yield f"Gross sales were {gross} in {sales['orders']:,} orders."
    if _is_number(payments.get("failed_payment_rate")):
        yield f"{payments['failed_payment_rate'] * 100:.1f}% of payments failed."
    if _is_known(payments.get("gateway_incident")):
        yield f"Gateway incident: {repeatable(str(payments['gateway_incident']))}."
    gone = inventory.get("out_of_stock_skus")
    if gone:
        days = inventory.get("restock_eta_days")
        again = f"; restocking takes {days} days" if _is_number(days) else ""
        plain = [sku for sku in gone if _SKU.fullmatch(sku)]
        others = f"{len(gone) - len(plain)} more" if len(plain) < len(gone) else ""
        listed = " and ".join(filter(None, (", ".join(plain), others)))
        yield f"Out of stock: {listed}{again}."
    elif gone is not None:
        yield "Nothing is out of stock."


def _lacking(part: str, facts: Mapping[str, Json], null_is_none: bool) -> list[str]:
    """Return the fields that a part lacks, or its name if it lacks all of them."""
    lacking = [names for names in _NEEDED[part] if not _has(facts, names, null_is_none)]
    whole = len(lacking) == len(_NEEDED[part])
    return [part] if whole else [f"{part}.{names.partition('|')[0]}" for names in lacking]


def _has(facts: Mapping[str, Json], names: str, null_is_none: bool) -> bool:
    values = [facts[name] for name in names.split("|") if name in facts]
    return bool(values) and (
        all(map(_is_known, values))
        or (null_is_none and not any(isinstance(v, float) and math.isnan(v) for v in values))
    )


def _is_known(value: Json) -> bool:
    """Tell whether a source gave a value; an empty list is one, an empty text is not."""
    if isinstance(value, float):
        return math.isfinite(value)
    return bool(value.strip()) if isinstance(value, str) else value is not None


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


REPORT = Report(scope, figures, headline, findings, about="day or region", in_any_case=("region",))
