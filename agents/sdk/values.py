"""Values with a unit, and the display of any value."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import date
from decimal import Decimal
from functools import total_ordering
from typing import Any, TypeAlias

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from agents.core.json_forms import exact_object
from agents.core.money import (
    MAX_MINOR,
    BadAmount,
    exponent,
    format_money,
    minor_of_number,
    plain_amount,
    with_unit,
)
from agents.core.requests import Json

Names: TypeAlias = tuple[str, ...]


class Count(int):
    """A whole number of something."""

    unit = ""

    def __str__(self) -> str:
        return with_unit(int(self), self.unit)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            cls,
            core_schema.int_schema(strict=True),
            serialization=core_schema.plain_serializer_function_ser_schema(int),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Any:
        return handler(schema) | ({"unit": cls.unit} if cls.unit else {})


class Days(Count):
    unit = "days"


class Calls(Count):
    unit = "calls"


@total_ordering
@dataclass(frozen=True)
class Money:
    """Minor units of an ISO 4217 currency; as JSON {"amount": "1200.00", "currency": "EUR"}.

    Raises BadAmount for an unknown currency, or one without a minor unit, such as gold.
    """

    minor: int
    currency: str

    def __post_init__(self) -> None:
        exponent(self.currency)
        if isinstance(self.minor, bool) or not -MAX_MINOR <= self.minor <= MAX_MINOR:
            raise BadAmount(f"{self.minor} is not a number of minor units")

    @classmethod
    def of(cls, text: str, currency: str) -> "Money":
        """Read "1200.00" with exactly the digits that the currency has. Raises BadAmount."""
        money = cls(int(Decimal(text).scaleb(exponent(currency))), currency) if text else None
        if money is None or money.amount != text:
            raise BadAmount(f"{text!r} is not an amount in {currency}")
        return money

    @property
    def amount(self) -> str:
        """Return the number alone, for JSON and form fields: 1200.00."""
        return plain_amount(self.minor, self.currency)

    @property
    def unit(self) -> str:
        return self.currency

    def __int__(self) -> int:
        return self.minor

    def __lt__(self, other: "Money") -> bool:
        return self.minor < self._like(other)

    def __add__(self, other: "Money") -> "Money":
        return Money(self.minor + self._like(other), self.currency)

    def __sub__(self, other: "Money") -> "Money":
        return Money(self.minor - self._like(other), self.currency)

    def __str__(self) -> str:
        return format_money(self.minor, self.currency)

    def _like(self, other: object) -> int:
        """Return the other's minor units. Raises TypeError if it is not of the same currency."""
        if not isinstance(other, Money) or self.currency != other.currency:
            raise TypeError(f"{self!r} and {other!r} are not compared or added")
        return other.minor

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            _read_money,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda money: {"amount": money.amount, "currency": money.currency}
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Any:
        return exact_object(
            amount={"type": "string", "description": "Digits as the currency has them: 1200.00"},
            currency={"type": "string", "description": "The ISO 4217 code: EUR"},
        )


def _read_money(value: Json) -> Money:
    if isinstance(value, Money):
        return value
    if not isinstance(value, Mapping) or set(value) != {"amount", "currency"}:
        raise BadAmount("Money is an amount and its currency")
    amount, currency = value["amount"], value["currency"]
    if not isinstance(amount, str) or not isinstance(currency, str):
        raise BadAmount("An amount is text, such as 1200.00, and so is its currency")
    try:
        return Money.of(amount, currency)
    except ArithmeticError:
        raise BadAmount(f"{amount!r} is not an amount in {currency}") from None


@dataclass(frozen=True)
class In:
    """Bind money to one currency: `Annotated[Money, In("EUR")]`."""

    currency: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> Any:
        declared = handler(schema)
        declared["properties"]["currency"] = {"type": "string", "enum": [self.currency]}
        return declared

    def _check(self, money: Money) -> Money:
        if money.currency != self.currency:
            raise BadAmount(f"It is paid in {self.currency}, not in {money.currency}")
        return money


@dataclass(frozen=True)
class AsNumber:
    """Write money as a number of its currency: `Annotated[Money, AsNumber("USD")]` is 1200.0.

    A number that is not above zero stays as it is: a desk's own rule answers it.
    """

    currency: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._read, serialization=core_schema.plain_serializer_function_ser_schema(_as_number)
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> Any:
        return {"type": "number", "unit": self.currency}

    def _read(self, value: Json) -> Money | float:
        if isinstance(value, Money):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadAmount("An amount is a number")
        return Money(minor_of_number(value), self.currency) if value > 0 else float(value)


def _as_number(value: Money | float) -> float:
    return value.minor / 10 ** exponent(value.currency) if isinstance(value, Money) else value


@dataclass(frozen=True)
class MinorOf:
    """Mark a whole number as minor units: `Annotated[int, MinorOf("EUR")]`."""

    currency: str

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> Any:
        return {**handler(schema), "unit": self.currency}


def unit_of_value(value: Any) -> str:
    """Return the unit of a value, or ""."""
    return str(getattr(value, "unit", ""))


def measured_value(value: Any) -> Json:
    """Return a value as stored in a ruling: a number in its unit, or a text."""
    if isinstance(value, int | Money):
        return int(value)
    return show(value) if isinstance(value, date | Decimal) else value


def show(value: Any) -> str:
    """Return a value in words: 21 January 2027, EUR 5.00, 7 days, yes."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, date):
        return f"{value.day} {value:%B %Y}"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, list | tuple):
        return ", ".join(show(item) for item in value) or "none"
    if is_dataclass(value) and type(value).__str__ is object.__str__:  # a company's, as on cards
        named = ((one.name.replace("_", " "), getattr(value, one.name)) for one in fields(value))
        return "; ".join(f"{name.capitalize()}: {show(part)}" for name, part in named)
    return str(value)


__all__ = ["Calls", "Count", "Days", "In", "Money", "Names"]
