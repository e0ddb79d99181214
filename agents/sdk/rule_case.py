"""The case that a rule sees, and the rulings it returns; a rule reads no clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from agents.core.requests import Json
from agents.core.rulings import Ruling, RulingKind
from agents.sdk.values import Days, measured_value, show, unit_of_value


@dataclass(frozen=True)
class Case:
    """What the console itself knows of a run; stored with each ruling like the desk's facts."""

    subject: str  # the key of the run's subject
    label: str  # its name
    today: date  # of the review, in UTC
    launched_by: str = ""


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
