"""The morning report of a day: what its sources owe, its figures and its health.

Health depends on facts alone: red for a gateway incident, unknown if anything is missing, yellow
for many failed payments or an item out of stock, otherwise green.
"""

from collections.abc import Callable, Collection, Mapping

from agents.core.requests import Json
from agents.sdk import desk_patterns
from agents.sdk.desk import Desk
from agents.sdk.desk_tools import DeskCall

FAILED_RATE = 0.03  # share of failed payments from which a day is yellow
# Seconds that a demo's sources take: for their first call in a run, and for later ones. The
# payments source at first exceeds a task's timeout, to show a retry.
DEMO_SECONDS = {"sales": (0.4, 0.4), "payments": (2.6, 0.3), "inventory": (0.5, 0.5)}
_PART = {"sales_worker": "sales", "payments_worker": "payments", "inventory_worker": "inventory"}
# Without these a part says nothing about the day. `unit` ends the names of amounts.
_NEEDED = {
    "sales": ("gross_sales_{unit}",),
    "payments": ("failed_payment_rate", "gateway_incident"),
    "inventory": ("out_of_stock_skus",),
}


def contract_of(unit: str) -> Callable[[Json], bool]:
    """Return the check of a source's findings.

    An absent field is missing data; one of another kind is a broken reply.
    """
    known: dict[str, Callable[[Json], bool]] = {
        f"gross_sales_{unit}": desk_patterns.is_count,
        "orders": desk_patterns.is_count,
        f"aov_{unit}": desk_patterns.is_count,
        "failed_payment_rate": desk_patterns.is_share,
        "chargeback_alerts": desk_patterns.is_count,
        "gateway_incident": desk_patterns.is_word,
        "low_stock_skus": desk_patterns.are_names,
        "out_of_stock_skus": desk_patterns.are_names,
        "restock_eta_days": desk_patterns.is_count,
        "warning": desk_patterns.is_word,
    }
    return lambda found: all(fits(found[name]) for name, fits in known.items() if name in found)


def declare_sources(desk: Desk, unit: str, read: Callable[[str, DeskCall, str, str], Json]) -> None:
    """Declare a report's sources: `read` gets the part, the call, the day and the region."""
    in_contract = contract_of(unit)

    @desk.source(title="Sales worker", critical=True, valid=in_contract)
    def sales_worker(call: DeskCall, report_date: str, region: str) -> Json:
        """Read what was sold."""
        return read("sales", call, report_date, region)

    @desk.source(title="Payments worker", critical=True, valid=in_contract)
    def payments_worker(call: DeskCall, report_date: str, region: str) -> Json:
        """Read how payments went."""
        return read("payments", call, report_date, region)

    @desk.source(title="Inventory worker", valid=in_contract)
    def inventory_worker(call: DeskCall, report_date: str, region: str) -> Json:
        """Read what is short in stock."""
        return read("inventory", call, report_date, region)


def figures_of(
    found: desk_patterns.SourcesFound, unit: str, has: Callable[[Mapping[str, Json], str], bool]
) -> dict[str, Json]:
    """Return the facts of the day, its health, and what failed or is missing.

    `has` tells whether a part has a field.
    """
    parts = {part: found.sources.get(worker, {}) for worker, part in _PART.items()}
    missing: list[str] = []
    for worker, part in _PART.items():
        needed = [name.format(unit=unit) for name in _NEEDED[part]]
        lacking = [name for name in needed if not has(parts[part], name)]
        if worker in found.expected:
            missing += [part] if lacking == needed else [f"{part}.{name}" for name in lacking]
    return {
        **found.scope,
        "health": _health(parts, missing),
        **parts,
        "failed_tasks": found.failed_tasks,
        **({"missing": missing} if missing else {}),
    }


def _health(parts: Mapping[str, Mapping[str, Json]], missing: Collection[str]) -> str:
    """Return red, unknown, yellow or green; unknown facts are never green."""
    incident = parts["payments"].get("gateway_incident")
    if incident is not None and str(incident).strip().lower() not in ("none", ""):
        return "red"
    if missing:
        return "unknown"
    many_fail = (parts["payments"].get("failed_payment_rate") or 0) >= FAILED_RATE
    return "yellow" if many_fail or parts["inventory"].get("out_of_stock_skus") else "green"


def headline(figures: Json) -> str:
    """Return the first sentence of a brief, which no model writes."""
    return f"Health {figures['health']}: {figures['region']}, {figures['report_date']}."
