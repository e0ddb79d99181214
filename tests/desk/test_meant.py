"""Which of several charges people mean: a table of what they write."""

import json
from datetime import UTC, date, datetime, time, timedelta
from itertools import chain
from pathlib import Path

import pytest

from agents.core.requests import Json
from agents.desks.refunds.billing import ChargeFacts
from agents.desks.refunds.facts import kept_charge, meant_charge

TODAY = date(2026, 11, 28)
AT = datetime.combine(TODAY, time(12), UTC)


def charge(
    pk: int,
    plan: str,
    minor: int,
    days: int,
    refunded: int = 0,
    currency: str = "USD",
    reference: str = "",
) -> ChargeFacts:
    paid = datetime.combine(TODAY - timedelta(days=days), time(), UTC)
    return ChargeFacts(pk, plan, minor, currency, paid, days, refunded, 0, reference)


ANNUAL, ADD_ON = charge(11, "annual_enterprise", 120000, 10), charge(12, "add on", 4900, 1)
TWO = [ADD_ON, ANNUAL]
PRO = [charge(pk, "pro", 4900, days) for pk, days in ((23, 1), (22, 31), (21, 62))]
OLD = [charge(31, "annual enterprise", 120000, 1), charge(30, "pro", 30000, 60)]
ONE_SPENT = [charge(41, "pro monthly", 4900, 1), charge(40, "pro monthly", 4900, 31, 4900)]
SAME_DAY = [charge(51, "pro monthly", 4900, 5), charge(52, "team plus", 19900, 5)]
EUROS = [charge(61, "pro monthly", 90000, 1, currency="EUR"), charge(60, "pro monthly", 90000, 31)]
ALIKE = [
    charge(pk, "pro", 4900, 1, reference=name)
    for pk, name in ((71, "INV-2026-7"), (72, "4900"), (73, ""))
]
ANNUAL_ONLY, NONE = [ANNUAL], list[ChargeFacts]()
# By what decides: the customer's charges, the goal, its amount, and the charge that is meant.
MEANT: dict[str, list[tuple[str, str, int, int | None]]] = json.loads(
    Path(__file__).with_name("meant.json").read_text("utf-8")
)


@pytest.mark.parametrize(("charges", "goal", "minor", "meant"), [*chain(*MEANT.values())])
def test_charge_is_named_or_alone_fits_what_people_write(
    charges: str, goal: str, minor: int, meant: int | None
) -> None:
    of_customer: list[ChargeFacts] = globals()[charges]

    for given in (of_customer, of_customer[::-1]):
        found = meant_charge(given, [goal], [], amount_minor=minor, today=TODAY)
        assert (found and found.charge_id) == meant


@pytest.mark.parametrize(
    ("advice", "meant"),
    [("It is CH-12.", 12), ("Of the annual enterprise charge.", 11), ("Less.", None)],
)
def test_person_names_a_charge_in_sending_back(advice: str, meant: int | None) -> None:
    goals = ["Refund USD 40."]

    found = meant_charge(TWO, goals, [advice], amount_minor=4000, today=TODAY)

    assert (found and found.charge_id) == meant


@pytest.mark.parametrize(
    ("facts", "kept"),
    [
        ({"resource": "12"}, 12),
        ({"charge": {"amount_minor": 120000, "currency": "USD", "age_days": 10}}, 11),
        ({"charge": {"amount_minor": 120000, "currency": "USD", "age_days": 1}}, None),
        ({"charge": None}, None),
        ({}, None),
    ],
)
def test_earlier_review_tells_its_charge(facts: Json, kept: int | None) -> None:
    found = kept_charge(TWO, facts, AT)

    assert (found and found.charge_id) == kept
