"""Tiers as pure functions: who may approve an amount, and how many people it takes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.decisions import (
    Demand,
    Tier,
    Yes,
    demand_of,
    read_tiers,
    tier_after,
    what_yes_does,
)
from agents.core.limits import BadPolicy, read_limits
from agents.desks.refunds.limits import STRICT

THREE = [
    {"up_to_minor": 100_000},
    {"up_to_minor": 300_000, "team": "leads", "answer_within": 30},
    {"team": "finance", "people": 2},
]


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """Draw bands, valid or invalid."""
    amounts = st.integers(1, 20) | st.none()
    tier = st.fixed_dictionaries(
        {},
        optional={
            "up_to_minor": amounts,
            "team": st.sampled_from(["leads", "finance"]),
            "people": st.sampled_from([1, 2]),
            "answer_within": st.sampled_from([1, 30]),
        },
    )
    return draw(st.lists(tier, min_size=1, max_size=4))


def tiers_from(bands: object) -> tuple[Tier, ...] | None:
    try:
        return read_tiers({"refunds": {"USD": bands}})["refunds"]["USD"]
    except ValueError:
        return None


@pytest.mark.proves("I19")
@given(documents(), st.integers(1, 30), st.integers(1, 30), st.sampled_from(["leads", "finance"]))
def test_more_money_never_eases_approval(
    bands: list[dict[str, object]], one: int, other: int, team: str
) -> None:
    tiers = tiers_from(bands)
    if tiers is None:
        return
    less, more = (demand_of(tiers, amount) for amount in sorted((one, other)))

    assert less.people <= more.people
    for teams in ((), (team,)):
        assert less.admits(teams) or not more.admits(teams)


@pytest.mark.proves("I19")
@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["100", "80"])), max_size=8),
    st.sampled_from([1, 2]),
)
def test_nobody_alone_decides_what_takes_two(yeses: list[tuple[int, str]], declared: int) -> None:
    demand = demand_of(None if declared == 2 else tiers_from(THREE), 400_000, people=declared)
    first: tuple[int, str] | None = None
    for by, terms in yeses:
        is_same = first is not None and first[1] == terms
        did = what_yes_does(demand, by=by, first_by=first and first[0], is_same=is_same)
        if did is Yes.DECIDES:
            assert first is not None
            assert (first[0] != by, first[1]) == (True, terms)
            return
        if did is Yes.IS_FIRST:
            first = (by, terms)


@pytest.mark.parametrize(
    ("amount", "demand"),
    [
        (100_000, Demand(1, None, 0)),
        (100_001, Demand(1, ("leads", "finance"), 1)),
        (300_001, Demand(2, ("finance",), 2)),
        (None, Demand()),
    ],
)
def test_the_amount_that_is_asked_for_picks_the_tier(amount: int | None, demand: Demand) -> None:
    assert demand_of(tiers_from(THREE), amount) == demand


def test_currency_without_tiers_has_no_approver() -> None:
    limits = read_limits({**STRICT.as_json(), "tiers": {"refunds": {"USD": THREE}}})

    assert not demand_of(limits.tiers_of("refunds", "EUR"), 1).admits(["leads", "finance"])
    assert limits.tiers_of("bank", "EUR") is None


def test_silence_climbs_to_the_last_tier_and_no_further() -> None:
    tiers = tiers_from([{"up_to_minor": 1, "answer_within": 5}, *THREE[1:]])

    assert tiers is not None
    assert [tier_after(tiers, place) for place in range(3)] == [1, 2, None]


@pytest.mark.parametrize(
    "bands",
    [
        [],
        {},
        [{"up_to_minor": 5}],
        [{}, {}],
        [{"up_to_minor": 5}, {"up_to_minor": 5}, {}],
        [{"up_to_minor": True}, {}],
        [{"up_to_minor": 0}, {}],
        [{"people": 0}],
        [{"people": 3}],
        [{"up_to_minor": 5, "people": 2}, {"people": 1}],
        [{"up_to_minor": 5, "team": "leads"}, {}],
        [{"team": ""}],
        [{"team": None}],
        [{"answer_within": 5}],
        [{"up_to_minor": 5, "answer_within": 0.5}, {}],
        [{"upto": 5}, {}],
        ["any"],
    ],
)
def test_tiers_that_leave_a_gap_or_grow_easier_are_refused(bands: object) -> None:
    with pytest.raises(BadPolicy, match=r"[Tt]ier"):
        read_limits({**STRICT.as_json(), "tiers": {"refunds": {"USD": bands}}})


def test_a_currency_that_nobody_pays_in_is_refused() -> None:
    with pytest.raises(BadPolicy, match="'XAU' is not a currency"):
        read_limits({**STRICT.as_json(), "tiers": {"refunds": {"XAU": THREE}}})
