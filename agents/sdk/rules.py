"""What a rule sees and says: the case without a clock, its rulings, and the evidence on a card."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, TypeAlias

from agents.core.requests import Json
from agents.core.reviews import Ruling, RulingKind
from agents.sdk.values import Days, measured_value, show, unit_of_value


@dataclass(frozen=True)
class Case:
    """What the console itself knows of a run; stored with each ruling like the desk's facts."""

    subject: str  # the key of the run's subject
    label: str  # its name
    today: date  # of the review, in UTC
    launched_by: str = ""


NO_CASE = Case("", "", date.min)


def tomorrow(case: Case) -> date:
    return case.today + timedelta(days=1)


def days_ahead(days: int) -> Callable[[Case], date]:
    """Return the bound of a day that a person sets: so many days from the one of the case."""
    return lambda case: case.today + timedelta(days=days)


def days_until(day: date, today: date) -> Days:
    """Return the number of days until `day`; negative if it is past."""
    return Days((day - today).days)


def approve(reason: str, sentence: str, *, risk: int = 10, **measured: Any) -> Ruling:
    """Let a call pass. `measured`, as of each ruling: observed, limit and their unit."""
    return Ruling(RulingKind.APPROVE, reason, sentence, risk, **_measures(**measured))


def revise(
    reason: str, sentence: str, *, to: Json, risk: int = 30, flip: str = "", **measured: Any
) -> Ruling:
    """Change arguments of the call to those in `to`; it is then reviewed again from the start."""
    measures = _measures(**measured)
    return Ruling(RulingKind.REVISE, reason, sentence, risk, flip=flip, action=to, **measures)


def escalate(
    reason: str,
    sentence: str,
    *,
    risk: int = 60,
    flip: str = "",
    shown: Any = None,
    **measured: Any,
) -> Ruling:
    """Ask a person. An approval holds for `shown`: for that name, or for numbers up to it.

    If the value is another or higher when the call is about to be made, they are asked again.
    """
    held = _measures(**({"observed": shown} if shown is not None else {}), **measured)
    return Ruling(RulingKind.ESCALATE, reason, sentence, risk, flip=flip, **held)


def block(reason: str, sentence: str, *, risk: int = 80, flip: str = "", **measured: Any) -> Ruling:
    return Ruling(RulingKind.BLOCK, reason, sentence, risk, flip=flip, **_measures(**measured))


def _measures(observed: Any = None, limit: Any = None, unit: str | None = None) -> dict[str, Any]:
    """Return what a ruling has measured; without a `unit`, in that of the value observed."""
    of_value = unit_of_value(observed) or unit_of_value(limit)
    return {
        "observed": measured_value(observed),
        "limit": measured_value(limit),
        "unit": of_value if unit is None else unit,
    }


def within(observed: Any, most: Any, *, reason: str, what: str) -> Ruling:
    """Approve up to `most`, and ask a person above it; `what` begins the sentence.

    Both have the same type: Days, Money of one currency, or another Count.
    """
    if type(observed) is not type(most) or unit_of_value(observed) != unit_of_value(most):
        raise TypeError(f"{observed!r} is not measured as {most!r} is")
    held = {
        "observed": measured_value(observed),
        "limit": measured_value(most),
        "unit": unit_of_value(most),
    }
    if observed <= most:
        sentence = f"{what} {show(observed)}, within the automatic limit of {show(most)}."
        return Ruling(RulingKind.APPROVE, f"within_{reason}", sentence, 15, **held)
    return Ruling(
        RulingKind.ESCALATE,
        reason,
        f"{what} {show(observed)}, over the automatic limit of {show(most)}.",
        risk=min(90, 40 + 30 * (int(observed) - int(most)) // max(int(most), 1)),
        flip=f"{show(most)} or less would have been approved automatically.",
        **held,
    )


# Evidence is data without markup, stored with the review, with the values of that moment.


@dataclass(frozen=True)
class Fact:
    """A labelled value."""

    label: str
    value: Any


@dataclass(frozen=True)
class Table:
    """Rows under their columns."""

    label: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Link:
    """Where a person can look it up: http or https."""

    label: str
    address: str


@dataclass(frozen=True)
class Quote:
    """An outsider's text, shown as theirs."""

    label: str
    text: str


Evidence: TypeAlias = Fact | Table | Link | Quote


def write_evidence(evidence: Sequence[Evidence]) -> list[Json]:
    """Return evidence as stored with a review. Raises TypeError if it is not evidence."""
    return [_as_json(item) for item in evidence]


def _as_json(item: Evidence) -> Json:
    match item:
        case Fact(label, value):
            return {"kind": "fact", "label": label, "value": show(value)}
        case Table(label, columns, rows):
            shown = [[show(cell) for cell in row] for row in rows]
            return {"kind": "table", "label": label, "columns": list(columns), "rows": shown}
        case Link(label, address):
            if not address.startswith(("https://", "http://")):
                raise TypeError(f"{address!r} is no address of a page")
            return {"kind": "link", "label": label, "address": address}
        case Quote(label, text):
            return {"kind": "quote", "label": label, "text": text}
        case _:
            raise TypeError(f"{item!r} is no evidence: use Fact, Table, Link or Quote")


# Beside a request: what a desk's own books say at this moment, which is kept nowhere.


@dataclass(frozen=True)
class HeldRequest:
    """A request that a person reads."""

    subject: str  # the key of what its run is about; ""
    label: str  # its name
    book: int
    at: datetime
    key: str = ""  # of the call that it started, or that it asks about; "": none
    is_lost: bool = False  # it asks whether that call took effect
    is_open: bool = True
    attempts: int = 1  # at its step
    is_demo: bool = False  # its run has books of its own
    resource: str = ""  # what its call takes from, as far as that was judged
    facts: Any = None  # of its review, which was made at `asked_at`
    asked_at: datetime | None = None


@dataclass(frozen=True)
class Section:
    """A section of a card: Fact, Table, Link, Quote under a title."""

    title: str
    items: Sequence[Any]
    note: str = ""


@dataclass(frozen=True)
class Beside:
    """The present state of a desk's own books, for the reader of a request."""

    name: str = ""  # what people call whom it is about; "": nobody knows
    note: str = ""  # a line under the headline
    sections: Sequence[Section] = ()
    resource: str = ""  # that the amount is taken from, where the request does not name it
    left_minor: int | None = None  # of what the amount is taken from; None: it has no measure
