"""Every kind of argument that a person may change, with values within its bounds."""

from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

from hypothesis import strategies as st

from agents.sdk.adjustments import Change, Choose, Lower, Range
from agents.sdk.rules import Case, tomorrow
from agents.sdk.values import Count, Days, In, Money, between, longest

# With characters to escape, and nothing that a policy masks.
words = st.text("ab<>&\"'{ äß", min_size=1, max_size=12).map(str.strip).filter(len)
Level = Literal["low", "mid", "high"]


class Units(Count):
    unit = "units"


@dataclass(frozen=True)
class Line:
    """An object that is an argument."""

    text: Annotated[str, longest(12)]
    pieces: int


@dataclass(frozen=True)
class Open:
    """An argument as declared and requested, with an allowed and a forbidden change."""

    hint: Any
    how: Change
    asked: Any
    inside: Any
    outside: Any
    part: str = ""  # of an object: the field that is changed


def day(today: date, ahead: int) -> str:
    return (today + timedelta(days=ahead)).isoformat()


def euros(minor: int) -> dict[str, str]:
    return {"amount": Money(minor, "EUR").amount, "currency": "EUR"}


@st.composite
def open_argument(draw: Any, today: date) -> Open:
    """Draw one argument with its change."""
    n, less = draw(st.integers(6, 90)), draw(st.integers(2, 5))
    beyond = draw(st.sampled_from([n + 1, n + 500]))
    short, items = draw(words), draw(st.lists(words, min_size=2, max_size=4, unique=True))
    kept = draw(st.integers(1, len(items) - 1))
    lines = [{"text": text, "pieces": place} for place, text in enumerate(items)]
    euro, whole = Annotated[Money, In("EUR")], Annotated[int, between(2, n)]

    def later(case: Case) -> date:
        return case.today + timedelta(days=n)

    return draw(
        st.sampled_from(
            [
                Open(int, Lower(2), n, less, beyond),
                Open(int, Lower(2), n, less, 1),
                Open(whole, Lower(), n, less, 1),
                Open(Days, Range(2, Days(n)), 1, less, beyond),
                Open(Units, Lower(), n, less, beyond),
                Open(Annotated[Units, between(2, n)], Lower(0), n, less, 0),
                Open(Decimal, Range(Decimal("0.5"), Decimal(n)), "1.50", f"{less}.5", f"{n}.01"),
                Open(euro, Lower(), euros(n), euros(less), euros(beyond)),
                Open(Money, Range(Money(2, "EUR"), Money(n, "EUR")), euros(2), euros(n), euros(1)),
                Open(date, Lower(tomorrow), day(today, n), day(today, less), day(today, 0)),
                Open(date, Range(tomorrow, later), day(today, 1), day(today, n), day(today, n + 1)),
                Open(Level, Lower(), "mid", "low", "high"),
                Open(Level, Lower("mid"), "high", "mid", "low"),
                Open(Level, Choose("low", "high"), "mid", "high", "middle"),
                Open(bool, Lower(), True, False, "maybe"),
                Open(bool, Choose(True, False), False, True, 1),
                Open(
                    str,
                    Range(1, 12),
                    short,
                    short[:-1] + "x" if short[-1] != "x" else "y",
                    "x" * 13,
                ),
                Open(Annotated[str, longest(12)], Range(1, 99), short, short[:11] + "y", "x" * 13),
                Open(str, Choose("here", "there"), short, "there", "nowhere"),
                Open(list[str], Lower(), items, items[:kept], [*items, "more"]),
                Open(list[str], Lower(), items, items[-kept:], []),
                Open(list[str], Lower(), items, items[-kept:], items[::-1]),
                Open(list[str], Range(1, 4), items, [*items[:2], "more"], ["x"] * 5),
                Open(list[str], Choose(*items, "more"), items, ["more"], ["nowhere"]),
                Open(list[Line], Lower(), lines, lines[kept:], [*lines, lines[0]]),
                Open(Line, {"pieces": Lower()}, {**lines[0], "pieces": n}, less, n + 1, "pieces"),
                Open(Line, {"text": Range(1, 12)}, lines[0], "other", "x" * 13, "text"),
            ]
        )
    )


def whole(one: Open, value: Any) -> Any:
    """Return the argument with a value in its place."""
    return {**one.asked, one.part: value} if one.part else value


def as_typed(value: Any) -> str:
    """Return a value as a person types it into a form."""
    if isinstance(value, list):
        return "\r\n".join(as_typed(one) for one in value)
    if isinstance(value, dict):
        return value.get("amount") or "; ".join(f"{k.capitalize()}: {v}" for k, v in value.items())
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
