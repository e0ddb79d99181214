"""The morning report of the recorded cases: the figures of a day and its health.

Health depends on facts alone: red for a gateway incident, unknown if anything is missing, yellow
for many failed payments or an item out of stock, otherwise green.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from agents.core.requests import Json
from agents.sdk.desk_patterns import Report, SourcesFound

# Seconds that a source takes: for its first call in a run, and for later ones.
DEMO_SECONDS = {"sales": (0.4, 0.4), "payments": (2.6, 0.3), "inventory": (0.5, 0.5)}
FAILED_RATE = 0.03  # share of failed payments from which a day is yellow
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

    A field that a source leaves empty is good news.
    """
    parts = {part: found.sources.get(worker, {}) for worker, part in _PART.items()}
    wanted = [part for worker, part in _PART.items() if worker in found.expected]
    missing = [name for part in wanted for name in _lacking(part, parts[part])]
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
    """Return the first sentence of a brief; no rule of the recorded cases asks for more."""
    return f"Health {found['health']}: {found['region']}, {found['report_date']}."


def _lacking(part: str, facts: Mapping[str, Json]) -> list[str]:
    """Return the fields that a part lacks, or its name if it lacks all of them."""
    lacking = [name for name in _NEEDED[part] if not _has(facts, name)]
    return [part] if len(lacking) == len(_NEEDED[part]) else [f"{part}.{one}" for one in lacking]


def _has(facts: Mapping[str, Json], name: str) -> bool:
    """Tell whether a field is there: one that is empty is none, and NaN is no number."""
    return name in facts and not (isinstance(facts[name], float) and math.isnan(facts[name]))


REPORT = Report(scope, figures, headline, headline, about="day or region", in_any_case=("region",))
