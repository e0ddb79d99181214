"""The queue's address: which requests it selects, in which order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from agents.shell.formats import read_amount, read_currency
from agents.shell.pages import whole_number

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
MOST_MINUTES = 100_000  # keeps the computed time within the calendar


def _text(text: str) -> str | None:
    """Return a text that a row may hold; PostgreSQL rejects NUL."""
    return None if "\0" in text or len(text) > LONGEST else text


def _minutes(text: str) -> int | None:
    found = whole_number(text)
    return found if found is not None and found < MOST_MINUTES else None


# By its name in the address: a filter's label, and its reader, which returns None if it is invalid.
FILTERS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "desk": ("Desk", _text),
    "tool": ("Tool", _text),
    "rule": ("Rule", _text),
    "pattern": ("Pattern", _text),
    "subject": ("About (name or key)", _text),
    "launcher": ("Launched by", _text),
    "agent": ("Opened by the agent", _text),
    "amount_from": ("Amount from", read_amount),
    "amount_to": ("Amount to", read_amount),
    "currency": ("Currency", read_currency),
    "age": ("Waiting at least", _minutes),
    "due": ("Expires within", _minutes),
}


@dataclass(frozen=True)
class QueueAddress:
    """The open requests that someone wants to see, and their order."""

    view: str
    order: str
    given: Mapping[str, str]  # the filters, by name

    @property
    def title(self) -> str:
        return VIEWS[self.view]

    @property
    def unreadable(self) -> str:
        """Return the label of an invalid filter, with which no request fits, or ""."""
        filters = ((*FILTERS[name], text) for name, text in self.given.items())
        return next((label for label, read, text in filters if read(text) is None), "")

    @property
    def query(self) -> str:
        """Return the address's query; "" for all requests, soonest to expire first."""
        return self.other()

    @property
    def suffix(self) -> str:
        """Return the suffix that links a request's pages back to this queue."""
        return f"?{self.query}" if self.query else ""

    def address(self, key: int | None = None, **more: str) -> str:
        """Return the address of a request's card in this queue or, without a key, of its list."""
        page = reverse("approvals") if key is None else reverse("approval", args=[key])
        query = self.other(**more)
        return f"{page}?{query}" if query else page

    def other(self, **changed: str) -> str:
        """Return the address with some parts replaced, or removed by ""."""
        parts = {"view": self.view, "order": self.order, **self.given, **changed}
        usual = {"view": ALL, "order": DEADLINE}
        return urlencode({k: text for k, text in parts.items() if text and usual.get(k) != text})


def read_queue(asked: Mapping[str, str]) -> QueueAddress:
    """Read a queue's address; an unknown view or order becomes the default."""
    view, order = asked.get("view", ""), asked.get("order", "")
    texts = {name: asked.get(name, "").strip() for name in FILTERS}
    return QueueAddress(
        view=view if view in VIEWS else ALL,
        order=order if order in ORDERS else DEADLINE,
        given={name: text for name, text in texts.items() if text},
    )


def view_addresses() -> list[str]:
    """Return the addresses for the keys 1 to 6: the unfiltered views, and one's own decisions."""
    waiting = [read_queue({"view": name}).address() for name in VIEWS]
    return [*waiting[:-1], f"{reverse('decided')}?by=me", waiting[-1]]


WHOLE = QueueAddress(ALL, DEADLINE, {})  # all open requests, soonest to expire first
