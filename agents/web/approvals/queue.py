"""What an address of the queue asks for: which requests, in which order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from agents.web.amounts import read_amount, read_currency
from agents.web.forms import whole_number

ALL, MINE, UNCLAIMED, ABOVE, SNOOZED = "all", "mine", "unclaimed", "above", "snoozed"
VIEWS: Mapping[str, str] = {
    MINE: "Mine and my teams’",
    UNCLAIMED: "Unclaimed",
    ABOVE: "Above my limit",
    SNOOZED: "Snoozed",
    ALL: "All but snoozed",
}
DEADLINE, AMOUNT, RISK = "deadline", "amount", "risk"
ORDERS: Mapping[str, str] = {DEADLINE: "Soonest to expire", AMOUNT: "Amount", RISK: "Risk"}
MINUTES: Mapping[str, str] = {"10": "10 min", "60": "1 h", "240": "4 h", "1440": "1 day"}
LONGEST = 200  # characters of a filter
MOST_MINUTES = 100_000  # which leads to no time before all times


def _text(text: str) -> str | None:
    """Return a text that a row may hold; PostgreSQL refuses to look for NUL."""
    return None if "\0" in text or len(text) > LONGEST else text


def _minutes(text: str) -> int | None:
    found = whole_number(text)
    return found if found is not None and found < MOST_MINUTES else None


# A filter's name in the address, and what reads it: None where it makes no sense.
FILTERS: Mapping[str, Callable[[str], object]] = {
    "desk": _text,
    "tool": _text,
    "rule": _text,
    "pattern": _text,
    "subject": _text,
    "launcher": _text,
    "amount_from": read_amount,
    "amount_to": read_amount,
    "currency": read_currency,
    "age": _minutes,  # has waited at least so many minutes
    "due": _minutes,  # expires within so many minutes
}


@dataclass(frozen=True)
class QueueAddress:
    """Which of the open requests somebody wants to see, and in which order."""

    view: str
    order: str
    given: Mapping[str, str]  # the filters, by name

    @property
    def title(self) -> str:
        return VIEWS[self.view]

    @property
    def unreadable(self) -> str:
        """Return the filter that makes no sense, or "": then no request fits."""
        return next((name for name, text in self.given.items() if FILTERS[name](text) is None), "")

    @property
    def query(self) -> str:
        """Return it as an address holds it; "" for all requests, soonest to expire first."""
        return self.other()

    @property
    def suffix(self) -> str:
        """Return what leads from any page of a request back into this queue."""
        return f"?{self.query}" if self.query else ""

    def address(self, key: int | None = None, **more: str) -> str:
        """Return the address of a request's card in this queue; without one, of its list."""
        page = reverse("approvals") if key is None else reverse("approval", args=[key])
        query = self.other(**more)
        return f"{page}?{query}" if query else page

    def other(self, **changed: str) -> str:
        """Return the address with some parts replaced; "" removes one."""
        parts = {"view": self.view, "order": self.order, **self.given, **changed}
        usual = {"view": ALL, "order": DEADLINE}
        return urlencode({k: text for k, text in parts.items() if text and usual.get(k) != text})


def read_queue(asked: Mapping[str, str]) -> QueueAddress:
    """Return what an address asks for; of an unknown view or order the usual one."""
    view, order = asked.get("view", ""), asked.get("order", "")
    texts = {name: asked.get(name, "").strip() for name in FILTERS}
    return QueueAddress(
        view=view if view in VIEWS else ALL,
        order=order if order in ORDERS else DEADLINE,
        given={name: text for name, text in texts.items() if text},
    )


def view_addresses() -> list[str]:
    """Return where the keys 1 to 6 lead, without filters: the views, and what one decided."""
    waiting = [read_queue({"view": name}).address() for name in VIEWS]
    return [*waiting[:-1], f"{reverse('decided')}?by=me", waiting[-1]]


WHOLE = QueueAddress(ALL, DEADLINE, {})  # all that waits, soonest to expire first
