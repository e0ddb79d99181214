"""The day's report on an account: its bills, and what left it."""

from __future__ import annotations

from datetime import date

from agents.desks.bank.models import Invoice
from opsconsole.desks import Found, Json, Report

PARTS = {"bills_of_day": "bills", "transfers_of_day": "transfers"}


def scope(book: int) -> dict[str, str] | None:
    """Return the account with the newest bill, and the day of that."""
    newest = Invoice.objects.filter(account__book=book).order_by("-received_on", "-pk").first()
    if newest is None:
        return None
    return {"account": newest.account.key, "day": newest.received_on.isoformat()}


def figures(found: Found) -> dict[str, Json]:
    """Return both parts, and the health: yellow while a bill is open, unknown without a part."""
    parts = {part: found.sources.get(source, {}) for source, part in PARTS.items()}
    missing = [PARTS[source] for source in found.missing]
    health = "unknown" if missing else "yellow" if parts["bills"]["open"] else "green"
    return {"health": health, **parts, **({"missing": missing} if missing else {})}


def headline(told: Json) -> str:
    without = f" Without {', '.join(told['missing'])}." if "missing" in told else ""
    day = f"{date.fromisoformat(told['day']):%-d %B %Y}"
    return f"Health {told['health']}: account {told['account']}, {day}.{without}"


def findings(told: Json) -> str:
    bills, sent = told["bills"], told["transfers"]
    sentences = []
    if "open" in bills:
        sentences.append(f"Of {bills['received']} bills received, {bills['open']} are open.")
    if "sent" in sent:
        sentences.append(f"{sent['sent']} left the account in {sent['count']} transfers.")
    return " ".join(sentences)


REPORT = Report(scope, figures, headline, findings, about="account or day")
