"""For any declared arguments the schema is exact, fitting values are read, others refused."""

from dataclasses import dataclass, make_dataclass
from datetime import date
from decimal import Decimal
from inspect import Parameter, Signature
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.json_forms import is_text
from agents.sdk.adjustments import (
    BadPatch,
    Choose,
    Lower,
    Range,
    apply_patch,
    changed_fields,
    check_change,
    open_fields,
)
from agents.sdk.rules import Case
from agents.sdk.values import Arguments, BadArguments, Days, In, Money, arguments_of, between
from tests.sdk.changing import Line, Open, as_typed, open_argument, whole

TODAY = date(2026, 11, 22)
CASE = Case("noor", "Noor", TODAY)
texts = st.text(max_size=20).filter(is_text)
days = st.dates(date(2026, 1, 1), date(2030, 1, 1)).map(date.isoformat)


def money(currency: str) -> st.SearchStrategy[Any]:
    amounts = st.integers(1, 10**9).map(lambda minor: Money(minor, currency).amount)
    return amounts.map(lambda amount: {"amount": amount, "currency": currency})


@dataclass(frozen=True)
class Kind:
    """A declarable type, values that fit it, and close ones that do not."""

    hint: Any
    fitting: st.SearchStrategy[Any]
    others: tuple[Any, ...]


SCALARS = [
    Kind(str, texts, ("", " ", 1, None, "a\u202eb")),
    Kind(int, st.integers(-(10**9), 10**9), (1.0, "1", True, None)),
    Kind(Annotated[int, between(1, 9)], st.integers(1, 9), (0, 10, 1.0)),
    Kind(Days, st.integers(0, 999), (1.0, "1", None)),
    Kind(Decimal, st.decimals(-99, 99, places=2).map(lambda d: f"{d:.2f}"), (1.5, 1, "NaN", "")),
    Kind(bool, st.booleans(), (1, 0, "true", None)),
    Kind(date, days, ("20261220", "2026-02-30", 1, "2026-12-20T00:00:00")),
    Kind(Literal["a", "b", "c"], st.sampled_from(["a", "b", "c"]), ("A", "d", "", None)),
    Kind(Money, st.sampled_from(["EUR", "JPY", "BHD"]).flatmap(money), ("1.00", {}, 100)),
    Kind(
        Annotated[Money, In("EUR")],
        money("EUR"),
        ({"amount": "1.00", "currency": "USD"}, {"amount": "1.0", "currency": "EUR"}),
    ),
]


def nest(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    lists = inner.map(
        lambda kind: Kind(_list_of(kind.hint), st.lists(kind.fitting, max_size=3), ({}, "x"))
    )
    optional = inner.map(lambda kind: Kind(kind.hint | None, kind.fitting | st.none(), ({"?": 1},)))
    objects = st.lists(inner, min_size=1, max_size=3).map(_object)
    return lists | optional | objects


def _list_of(hint: Any) -> Any:
    return list.__class_getitem__(hint)  # a type that is only known when it is drawn


def _object(kinds: list[Kind]) -> Kind:
    named = {f"f{n}": kind for n, kind in enumerate(kinds)}
    hint = make_dataclass("Part", [(name, kind.hint) for name, kind in named.items()], frozen=True)
    fitting = st.fixed_dictionaries({name: kind.fitting for name, kind in named.items()})
    return Kind(hint, fitting, ({"more": 1}, {}, [], "x"))


kinds = st.recursive(st.sampled_from(SCALARS), nest, max_leaves=4)


def arguments_for(named: dict[str, Kind]) -> Arguments:
    """Return the arguments of a function with these parameters."""

    def tool(call: Any, **args: Any) -> None: ...

    first = Parameter("call", Parameter.POSITIONAL_OR_KEYWORD)
    rest = [Parameter(name, Parameter.KEYWORD_ONLY) for name in named]
    function: Any = tool
    function.__signature__ = Signature([first, *rest])
    tool.__annotations__ = {name: kind.hint for name, kind in named.items()}
    return arguments_of(tool)


def fits(schema: Any, value: Any) -> bool:
    """Tell whether a value fits a schema, by the few keywords that ours use."""
    if "anyOf" in schema:
        return any(fits(branch, value) for branch in schema["anyOf"])
    types = {"string": str, "integer": int, "boolean": bool, "null": type(None)}
    match schema["type"]:
        case "object":
            properties = schema["properties"]
            assert (schema["required"], schema["additionalProperties"]) == ([*properties], False)
            is_object = isinstance(value, dict) and value.keys() == properties.keys()
            return is_object and all(fits(properties[name], value[name]) for name in value)
        case "array":
            return isinstance(value, list) and all(fits(schema["items"], item) for item in value)
        case kind:
            if type(value) is not types[kind] or value not in schema.get("enum", [value]):
                return False
            least, most = schema.get("minimum"), schema.get("maximum")
            return (least is None or least <= value) and (most is None or value <= most)


@pytest.mark.slow
@given(named=st.dictionaries(st.sampled_from("abcd"), kinds, min_size=1), data=st.data())
def test_what_fits_is_read_and_written_as_it_came(named: dict[str, Kind], data: Any) -> None:
    arguments = arguments_for(named)
    value = {name: data.draw(kind.fitting, name) for name, kind in named.items()}

    assert fits(arguments.schema, value)
    assert arguments.write(arguments.read(value)) == value


@pytest.mark.slow
@given(named=st.dictionaries(st.sampled_from("abcd"), kinds, min_size=1), data=st.data())
def test_what_does_not_fit_is_refused(named: dict[str, Kind], data: Any) -> None:
    value = {name: data.draw(kind.fitting, name) for name, kind in named.items()}
    name = data.draw(st.sampled_from(sorted(named)))
    kind = named[name]
    wrong = data.draw(st.sampled_from([other for other in kind.others if other is not None]))

    with pytest.raises(BadArguments):
        arguments_for(named).read({**value, name: wrong})


@given(named=st.dictionaries(st.sampled_from("abc"), open_argument(TODAY), min_size=1))
def test_a_person_stays_within_the_bounds_of_every_kind(named: dict[str, Open]) -> None:
    arguments = arguments_for({name: Kind(one.hint, st.none(), ()) for name, one in named.items()})
    may_change = {name: one.how for name, one in named.items()}
    asked = {name: one.asked for name, one in named.items()}
    for name, how in may_change.items():
        check_change(arguments, name, how)

    fields = open_fields(arguments, may_change, asked, CASE)

    assert (
        changed_fields(fields, {field.name: field.text(field.typed) for field in fields}, asked)
        == {}
    )
    for (name, one), field in zip(named.items(), fields, strict=True):
        inside, outside = whole(one, one.inside), whole(one, one.outside)
        assert field.name == (f"{name}.{one.part}" if one.part else name)
        patch = {} if inside == one.asked else {name: inside}
        assert changed_fields([field], {field.name: as_typed(one.inside)}, asked) == patch
        left = apply_patch(arguments, may_change, asked, {name: inside}, CASE)
        assert left == {**asked, name: inside}
        with pytest.raises(BadPatch):
            apply_patch(arguments, may_change, asked, {name: outside}, CASE)
        if one.part:
            other = {**inside, "pieces": 10**6, "text": "another"}
            with pytest.raises(BadPatch):
                apply_patch(arguments, may_change, asked, {name: other}, CASE)


@pytest.mark.parametrize(
    ("hint", "how"),
    [
        (str, Lower()),
        (str, Lower),
        (str, Range("a", "b")),
        (str, Range(5, 1)),
        (bool, Range(False, True)),
        (bool, Choose(1, 0)),
        (list[int], Lower("a")),
        (list[Line], Range(1, 2)),
        (list[Line], Choose("a")),
        (list[int], Choose("a")),
        (list[int | str], Choose("a")),
        (Line, Lower()),
        (Line, {}),
        (Line, {"texts": Lower()}),
        (Line, {"text": Lower()}),
        (Line, {"pieces": {"of": Lower()}}),
        (int, {"pieces": Lower()}),
        (int, Lower(True)),
        (int, Lower(Decimal(1))),
        (date, Lower("2027-01-21")),
        (Money, Range(Money(1, "EUR"), Money(1, "USD"))),
        (int, Range(1, None)),
        (int, Range(None, 1)),
        (Literal["a", "b"], Choose("a", "c")),
        (Literal["a", "b"], Lower("c")),
        (bool, Lower(1)),
        (Literal["a", "b"], Choose()),
        (str, Choose(1)),
    ],
)
def test_a_change_without_an_order_or_a_bound_cannot_be_declared(hint: Any, how: Any) -> None:
    with pytest.raises(TypeError, match=r"tool: x.* cannot be changed by .*: "):
        check_change(arguments_for({"x": Kind(hint, st.none(), ())}), "x", how)


def test_a_list_whose_least_is_none_may_be_emptied() -> None:
    arguments = arguments_for({"x": Kind(list[str], st.none(), ())})

    assert apply_patch(arguments, {"x": Range(0, 1)}, {"x": ["a"]}, {"x": []}, CASE) == {"x": []}


def test_another_argument_and_another_currency_are_no_change() -> None:
    arguments = arguments_for({"to": SCALARS[0], "x": SCALARS[8]})
    given = {"to": "Anna", "x": {"amount": "10.00", "currency": "EUR"}}

    for patch in ({"to": "Eve"}, {"x": {"amount": "1", "currency": "JPY"}}, {"y": 1}, {"x": None}):
        with pytest.raises(BadPatch):
            apply_patch(arguments, {"x": Lower()}, given, patch, CASE)
