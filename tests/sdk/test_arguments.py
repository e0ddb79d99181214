"""A tool's arguments: exactly what the signature declares is read."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NewType, Optional

import pytest
from typing_extensions import TypeAliasType

from agents.core.json_forms import exact_object
from agents.sdk.values import (
    BadArguments,
    Days,
    In,
    Money,
    arguments_of,
    between,
    is_text,
    key,
    longest,
)

LINES: list[Any] = [{}, [{"text": "a", "more": 1}], [{"text": 1}], [{}], "a"]


@dataclass(frozen=True)
class Line:
    text: str
    pieces: int = 1


def ship(
    call: Any,
    *,
    to: str,
    day: date,
    weight: Decimal,
    price: Annotated[Money, In("EUR")],
    speed: Literal["slow", "fast"],
    lines: list[Line],
    boxes: Annotated[int, between(1, 5)],
    pallets: Annotated[Days, between(1, 5)],
    worth: Annotated[Money, between(Money(1, "EUR"), Money(500, "EUR"))],
    insured: bool,
    keep: Days,
    note: str | None = None,
) -> None:
    """Send something."""


SHIP = arguments_of(ship)
GIVEN: dict[str, Any] = {
    "to": "Anna",
    "day": "2026-12-20",
    "weight": "1.50",
    "price": {"amount": "1200.00", "currency": "EUR"},
    "speed": "slow",
    "lines": [{"text": "a lamp", "pieces": 2}],
    "boxes": 1,
    "pallets": 1,
    "worth": {"amount": "5.00", "currency": "EUR"},
    "insured": True,
    "keep": 3,
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("day", bad) for bad in ("20261220", "2026-12-20T00:00", "2026-02-30", 1, None, "")],
        *[(name, bad) for name in ("boxes", "pallets") for bad in (0, 6, 1.0, "1", True, None)],
        ("worth", {"amount": "5.01", "currency": "EUR"}),
        *[("weight", bad) for bad in (1.5, 1, "x", "NaN", " 1", "1e3x")],
        ("price", {"amount": "1200.00", "currency": "USD"}),
        ("price", {"amount": "1200", "currency": "EUR"}),
        ("price", {"amount": "1200.005", "currency": "EUR"}),
        ("price", {"amount": "1e3", "currency": "EUR"}),
        ("price", {"amount": "١٢.٠٠", "currency": "EUR"}),
        ("price", {"amount": 1200.0, "currency": "EUR"}),
        ("price", {"amount": "1200.00", "currency": "eur"}),
        ("price", {"amount": "1200.00", "currency": "EUR", "minor": 1}),
        ("price", "1200.00"),
        *[("speed", bad) for bad in ("FAST", "", None, 1)],
        *[("lines", bad) for bad in LINES],
        *[("insured", bad) for bad in (1, "true", None)],
        *[("to", bad) for bad in ("", "  ", "x" * 4001, "a\u202eb", "a\x00b", 1)],
        ("note", "\u202e"),
        ("lines", [{"text": "a\u2066b", "pieces": 1}]),
        ("keep", 3.0),
        ("other", 1),
    ],
)
def test_what_is_not_to_the_letter_of_its_type_is_refused(name: str, value: Any) -> None:
    with pytest.raises(BadArguments):
        SHIP.read({**GIVEN, name: value})


def test_the_schema_leaves_no_room() -> None:
    assert SHIP.schema["required"] == [*GIVEN, "note"]
    assert SHIP.schema["properties"] | {"price": None} == {
        "to": {"type": "string"},
        "day": {"type": "string", "format": "date"},
        "weight": SHIP.schema["properties"]["weight"],
        "price": None,
        "speed": {"type": "string", "enum": ["slow", "fast"]},
        "lines": {
            "type": "array",
            "items": exact_object(text={"type": "string"}, pieces={"type": "integer"}),
        },
        "boxes": {"type": "integer", "minimum": 1, "maximum": 5},
        "pallets": {"type": "integer", "minimum": 1, "maximum": 5},
        "worth": arguments_of(pay).schema["properties"]["money"],
        "insured": {"type": "boolean"},
        "keep": {"type": "integer"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    }
    assert SHIP.schema["properties"]["price"]["properties"]["currency"]["enum"] == ["EUR"]
    assert SHIP.shown["properties"]["keep"] == {"type": "integer", "unit": "days"}
    assert not {"$ref", "$defs", "default", "title"} & set(json.dumps(SHIP.schema).split('"'))


def pay(call: Any, *, money: Money) -> None: ...
def takes_a_float(call: Any, *, x: float) -> None: ...
def takes_anything(call: Any, *, x: Any) -> None: ...
def takes_a_moment(call: Any, *, x: datetime) -> None: ...
def takes_a_mapping(call: Any, *, x: dict[str, int]) -> None: ...
def takes_bytes(call: Any, *, x: bytes) -> None: ...
def takes_a_place(call: Any, x: int) -> None: ...
def takes_a_text_for_a_number(call: Any, *, x: int = "1") -> None: ...  # type: ignore[assignment]
def takes_a_number_for_a_yes(call: Any, *, x: bool = 1) -> None: ...  # type: ignore[assignment]
def takes_what_it_does_not_say(call, *, x): ...  # type: ignore[no-untyped-def]


@pytest.mark.parametrize(
    "function",
    [
        *(takes_a_float, takes_anything, takes_a_moment, takes_a_mapping, takes_bytes),
        *(takes_a_place, takes_a_text_for_a_number, takes_a_number_for_a_yes),
        takes_what_it_does_not_say,
    ],
)
def test_what_no_ledger_holds_exactly_cannot_be_declared(function: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=function.__name__):
        arguments_of(function)


def test_model_sees_choices_and_list_items() -> None:
    def pack(call: Any, *, boxes: Literal[1, 2], speeds: list[Literal["slow", "fast"]]) -> None: ...

    assert arguments_of(pack).description == "boxes (1 or 2), speeds (list of slow or fast)"


class Size(Enum):
    SMALL = "small"


Sku = NewType("Sku", str)
Note = TypeAliasType("Note", Annotated[str, longest(40)] | None)


@pytest.mark.parametrize(
    ("hint", "is_free"),
    [
        *((one, True) for one in (str, str | None, Optional[str], Sku, Sku | None, Note)),  # noqa: UP045
        *((one, True) for one in (Annotated[str, longest(9)], Note | None, int | str)),
        *((one, True) for one in (Annotated[Sku | None, longest(9)],)),
        *((one, False) for one in (list[str], list[Note] | None)),
        *((one, False) for one in (Literal["a"], Literal["a"] | None, list[Literal["a"]])),
        *((one, False) for one in (Size, Size | None, int, Decimal, Decimal | None, bool)),
        *((one, False) for one in (date | None, Money, Annotated[Money, In("EUR")], Days)),
        *((one, False) for one in (Line, list[Line])),
    ],
)
def test_texts_are_known_by_their_declared_type(hint: Any, is_free: bool) -> None:
    assert is_text(hint) == is_free


def test_a_key_is_an_argument_with_or_without_a_default() -> None:
    def order(call: Any, *, sku: str = key(), size: str | None = key(None), why: str) -> None: ...

    made = arguments_of(order)

    assert (made.keys, made.required) == ({"sku", "size"}, ("sku", "why"))
    assert made.read({"sku": "A", "why": "b"}).size is None
    with pytest.raises(BadArguments, match="sku"):
        made.read({"why": "b"})
    with pytest.raises(TypeError, match="x cannot be None where it is left out"):
        arguments_of(takes_a_key_of_another_type)


def takes_a_key_of_another_type(call: Any, *, x: str = key(None)) -> None: ...
