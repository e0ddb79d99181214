"""Values with a unit, the typed values of a desk, and the display of any value."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, make_dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from functools import total_ordering
from inspect import Parameter, signature
from types import UnionType
from typing import Annotated, Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import (
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import CoreSchema, PydanticSerializationError, core_schema

from agents.core.compat_0_2 import AMOUNT
from agents.core.json_forms import exact_object
from agents.core.json_forms import is_text as is_readable
from agents.core.limits import LimitField
from agents.core.money import (
    MAX_MINOR,
    BadAmount,
    exponent,
    format_money,
    minor_of_number,
    plain_amount,
    with_unit,
)
from agents.core.redact import has_name, texts_in
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


# The typed values of a desk: a tool's arguments by its signature, and its facts and limits.
#
# Arguments have one schema for models, forms and the API.
#
# The library reads them strictly. We check that writing them again gives exactly the same, so
# that no value is misread.


STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_SCALARS = {"string", "integer", "boolean", "null"}
_FORMATS = {None, "date"}
_BOUNDS = {"ge": "minimum", "le": "maximum"}
_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_CALL = "call: Call"
_KINDS = (
    "take str, int, Decimal, Money, bool, date, Literal, a list of these or a dataclass of these"
)


def between(least: Any, most: Any) -> Any:
    """Bound an argument: `Annotated[int, between(1, 5)]`; also a date or an amount."""
    return Field(ge=least, le=most)


def longest(characters: int) -> Any:
    """Bound a text: `Annotated[str, longest(140)]`."""
    return Field(max_length=characters)


@dataclass(frozen=True)
class _DeclaredKey:
    """Marks an argument that identifies a call, instead of a default."""

    default: Any = MISSING


def key(default: Any = MISSING) -> Any:
    """Declare that an argument identifies a call: `sku: str = key()`.

    The wording of other texts may vary. With a `default` it may be left out.
    """
    return _DeclaredKey(default)


def is_text(hint: Any) -> bool:
    """Tell whether a declared type is, or may be, a text.

    One of a few texts (`Literal`, an Enum) is a choice. A list names recipients or things, and a
    dataclass is more than its texts.
    """
    # For `type Sku = str` and NewType("Sku", str).
    hint = getattr(hint, "__value__", getattr(hint, "__supertype__", hint))
    if get_origin(hint) is Annotated:
        return is_text(hint.__origin__)
    if get_origin(hint) in (Union, UnionType):
        return any(map(is_text, get_args(hint)))
    return isinstance(hint, type) and issubclass(hint, str) and not issubclass(hint, Enum)


class BadArguments(ValueError):
    """The arguments do not fit the tool. The message says which and why, `code` in one word."""

    def __init__(self, said: str, code: str = "bad_arg_type") -> None:
        super().__init__(said)
        self.code = code


_CODES = {"unexpected_keyword_argument": "extra_tool_args", "missing": "missing_required_arg"}
_FIRST = (*_CODES.values(), "bad_arg_type")  # the first fault is told


def _code(error: Any) -> str:
    return _CODES.get(error["type"], "bad_arg_type")


@dataclass(frozen=True)
class Arguments:
    """The typed arguments of one tool."""

    tool: str
    hints: Mapping[str, Any]  # the declared type of each
    schema: Json  # an exact object; null stands for an omitted argument
    shown: Json  # the same with the unit of each number, for people; models never see it
    required: tuple[str, ...]
    adapter: TypeAdapter[Any]
    keys: frozenset[str] = frozenset()  # declared by `key()`
    clean: Callable[[Mapping[str, Json]], dict[str, Json]] | None = None  # before they are read

    def __contains__(self, name: object) -> bool:
        return name in self.hints

    @property
    def description(self) -> str:
        """Return their description for models: role (viewer or editor), until (date)."""
        kinds = self.schema["properties"]
        return ", ".join(f"{name} ({_describe(kind)})" for name, kind in kinds.items())

    def accepts(self, given: Json) -> bool:
        try:
            self.read(given)
        except BadArguments:
            return False
        return True

    def read(self, given: Json) -> Any:
        """Return JSON arguments with the types of the function. Raises BadArguments."""
        if not isinstance(given, Mapping):
            raise BadArguments("the arguments are no object")
        try:
            text = json.dumps(given, sort_keys=True, allow_nan=False)
            args = self.adapter.validate_json(text)
        except ValidationError as error:
            first = min(error.errors(), key=lambda one: _FIRST.index(_code(one)))
            place = ".".join(str(part) for part in first["loc"])
            raise BadArguments(f"{place}: {first['msg']}", _code(first)) from error
        except (TypeError, ValueError) as error:
            raise BadArguments(str(error)) from None
        written = self.write(args)
        for name, value in given.items():
            if json.dumps(value, sort_keys=True) != json.dumps(written[name], sort_keys=True):
                raise BadArguments(f"{name}: it is written {written[name]!r}")
            if not all(is_readable(text) for _, text in texts_in(value)):
                what = "a text is blank, too long, or holds characters that hide others"
                raise BadArguments(f"{name}: {what}")
        return args

    def fits_but_for_names(self, given: Json) -> bool:
        """Tell whether only names of masked values do not fit.

        A stored reply has to be readable without the values; they are checked where a tool, a rule
        or a bound gets them.
        """
        try:
            self.adapter.validate_json(json.dumps(given, allow_nan=False))
        except ValidationError as error:
            return all(has_name(one["input"]) for one in error.errors())
        except (TypeError, ValueError):
            return False
        return False

    def write(self, args: Any) -> dict[str, Json]:
        written: dict[str, Json] = self.adapter.dump_python(args, mode="json")
        return written


def flat_specs(arguments: Arguments) -> dict[str, str]:
    """Return arguments as kinds by name; models see their amounts as plain numbers.

    An amount `…_minor` is `…_usd` there. Raises TypeError for other types.
    """
    specs = dict[str, str]()
    for name, hint in arguments.hints.items():
        if hint in _FLAT:
            specs[name] = _FLAT[hint]
        elif any(isinstance(one, MinorOf) for one in getattr(hint, "__metadata__", ())):
            specs[name.removesuffix("_minor") + f"_{AMOUNT}"] = AMOUNT
        else:
            raise TypeError(f"{arguments.tool}: {name} is no whole number, amount or text")
    return specs


_FLAT: Mapping[Any, str] = {int: "int", str: "str", str | None: "str?"}


def arguments_of(function: Callable[..., Any]) -> Arguments:
    """Read the arguments of a tool from its signature: all but the first, by keyword.

    Raises TypeError for a type that schema, form and ledger cannot hold exactly.
    """
    name = function.__name__
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"{name}: {error}") from None
    parameters = list(signature(function).parameters.values())
    if not parameters or parameters.pop(0).kind not in _BY_PLACE:
        raise TypeError(f"{name}: its first parameter is the call, as in ({_CALL}, *, …)")
    declared: list[Any] = []
    keys, required = set[str](), list[str]()
    for parameter in parameters:
        if parameter.kind is not Parameter.KEYWORD_ONLY or parameter.name not in hints:
            wanted = f"{name}({_CALL}, *, {parameter.name}: …)"
            raise TypeError(f"{name}: {parameter.name} is to be a keyword with a type: {wanted}")
        default = MISSING if parameter.default is Parameter.empty else parameter.default
        if isinstance(default, _DeclaredKey):
            keys.add(parameter.name)
            default = default.default
        if default is MISSING:
            required.append(parameter.name)
        _check_argument(f"{name}: {parameter.name}", hints[parameter.name], default)
        declared.append((parameter.name, hints[parameter.name], field(default=default)))
    return _arguments(name, declared, required, keys)


def texts_of(tool: str, names: Iterable[str]) -> Arguments:
    """Return the arguments of a tool that takes these texts."""
    return _arguments(tool, [(name, str, field()) for name in names], names, ())


def _arguments(
    tool: str,
    declared: Sequence[tuple[str, Any, Any]],
    required: Iterable[str],
    keys: Iterable[str],
) -> Arguments:
    made: Any = make_dataclass(tool, declared, frozen=True, kw_only=True)
    made.__pydantic_config__ = STRICT
    adapter = TypeAdapter(made)
    schema = adapter.json_schema(mode="serialization")
    exact, shown = _exact_schema(schema, tool), _exact_schema(schema, tool, units=True)
    own = {name: hint for name, hint, _ in declared}
    return Arguments(tool, own, exact, shown, tuple(required), adapter, frozenset(keys))


def _check_argument(place: str, hint: Any, default: Any) -> None:
    """Raise TypeError for a type that cannot be held exactly, or a default of another type."""
    try:
        adapter = TypeAdapter(hint)
        schema = adapter.json_schema(mode="serialization")
        _exact_schema({"$defs": schema.pop("$defs", {}), "properties": {"it": schema}}, place)
    except (TypeError, PydanticUserError):
        called = getattr(hint, "__name__", str(hint))
        raise TypeError(f"{place} cannot be of type {called}: {_KINDS}") from None
    if default is not MISSING:
        try:
            adapter.validate_python(default, strict=True)
        except ValidationError:
            raise TypeError(f"{place} cannot be {default!r} where it is left out") from None


def _exact_schema(schema: Json, name: str, *, units: bool = False) -> Json:
    """Return a schema without references, titles and defaults, every property required.

    The library writes bounds of our own types as `ge` and `le`, which JSON schema does not know.
    """
    definitions = schema.get("$defs", {})
    left_out = {"$defs", "title", "default", *_BOUNDS} | (set() if units else {"unit"})

    def exact(part: Json) -> Json:
        if "$ref" in part:
            return exact(definitions[part["$ref"].rpartition("/")[2]])
        kept = {key: part[key] for key in part if key not in left_out}
        kind = kept.get("type")
        if kind == "integer":
            kept |= {_BOUNDS[key]: int(part[key]) for key in part if key in _BOUNDS}
        if "anyOf" in kept:
            kept["anyOf"] = [exact(branch) for branch in kept["anyOf"]]
        elif kind == "object" and "properties" in kept:
            kept["properties"] = {key: exact(p) for key, p in kept["properties"].items()}
            kept |= {"required": list(kept["properties"]), "additionalProperties": False}
        elif kind == "array" and "items" in kept:
            kept["items"] = exact(kept["items"])
        elif "const" in kept:
            kept["enum"] = [kept.pop("const")]
        elif kind == "number" and "unit" in part:
            pass  # money as a number; a float would lose digits
        elif kind not in _SCALARS or kept.get("format") not in _FORMATS:
            raise TypeError(f"{name}: an argument cannot be {part}")
        return kept

    return exact({"type": "object", "properties": {}, **schema})


def _describe(schema: Json) -> str:
    if "anyOf" in schema:
        return " or ".join(_describe(branch) for branch in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if "items" in schema:
        return f"list of {_describe(schema['items'])}"
    names = ", ".join(schema.get("properties", ()))
    return names or str(schema.get("format", schema["type"]))


# Facts and limits as JSON and back, by the types that a desk declares.

T = TypeVar("T")


class BadValue(ValueError):
    """A stored value does not have the type that the desk declares. The message says where."""


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def _adapter(kind: Any) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        kind.__pydantic_config__ = STRICT  # so the library wants it of a plain dataclass
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def write(value: Any) -> Json:
    """Return a dataclass of a desk as JSON."""
    return _adapter(type(value)).dump_python(value, mode="json")


def read_stored(kind: type[T], stored: Json) -> T:
    """Read what `write` wrote, with defaults for newer fields. Raises BadValue."""
    try:
        value: T = _adapter(kind).validate_json(json.dumps(stored, allow_nan=False))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadValue(f"{place or kind.__name__}: {first['msg']}") from None
    except (TypeError, ValueError) as error:
        raise BadValue(f"{kind.__name__}: {error}") from None
    return value


def read_whole(kind: type[T], stored: Json) -> T:
    """Read what `write` wrote, all of it: a newer field has no value then. Raises BadValue."""
    value = read_stored(kind, stored)
    if missing := [one.name for one in fields(kind) if one.name not in stored]:  # type: ignore[arg-type]
        raise BadValue(f"{missing[0]}: it is not stored")
    return value


def limit(
    default: Any,
    label: str,
    help: str = "",  # noqa: A002 - as a form calls it
    *,
    hidden: bool = False,
    most: Any = None,
    below: str = "",
    says: str = "",
    gathered: bool = False,
) -> Any:
    """Declare a limit of a desk: its default, and its label and help for admins.

    `says` is what it does, with its value at {}: "Loans up to {} are free."

    A `hidden` one is on no page and in no policy that the desk begins with. No version is published
    in which it is above `most`, of its own type, or above the limit that `below` names. Facts are
    gathered by a `gathered` one: what another value would have done is then not known.
    """
    words = {"label": label, "help": help, "hidden": hidden, "most": most, "below": below}
    return field(default=default, metadata={**words, "says": says, "gathered": gathered})


def limit_fields(kind: type[Any]) -> list[LimitField]:
    """Return the limits that a desk shows. Raises TypeError for one without a default."""
    if not is_dataclass(kind):
        raise TypeError(f"{kind.__name__}: put @dataclass(frozen=True) above it")
    bare = [one.name for one in fields(kind) if one.default is MISSING]
    if bare:
        raise TypeError(f"{kind.__name__}: {bare[0]} needs a default: limit(…, label, help)")
    try:
        properties = _adapter(kind).json_schema(mode="serialization")["properties"]
        defaults = json.loads(json.dumps(write(kind())))
        known, given = vars(read_stored(kind, defaults)), vars(kind())
    except (BadValue, PydanticUserError, PydanticSerializationError) as error:
        raise TypeError(f"{kind.__name__}: {str(error).splitlines()[0]}") from None
    for name, value in given.items():
        if (type(value), value) != (type(known[name]), known[name]):
            wanted = type(known[name]).__name__
            raise TypeError(f"{kind.__name__}: the default of {name}, {value!r}, is no {wanted}")
    hints = get_type_hints(kind)
    for one in fields(kind):
        below = one.metadata.get("below") or one.name
        bounds = one.metadata.get("most"), given.get(below, below)
        if any(type(bound) not in (type(one.default), type(None)) for bound in bounds):
            raise TypeError(f"{kind.__name__}: most= and below= of {one.name} are of its own type")
    return [
        LimitField(
            name=one.name,
            label=one.metadata.get("label", one.name),
            help=one.metadata.get("help", ""),
            unit=str(getattr(one.default, "unit", getattr(hints[one.name], "unit", ""))),
            default=defaults[one.name],
            schema=properties[one.name],
            most=one.metadata.get("most"),
            below=one.metadata.get("below", ""),
            says=one.metadata.get("says", ""),
        )
        for one in fields(kind)
        if not one.metadata.get("hidden")
    ]
