"""Which of several charges people mean: a table of what they write."""

from datetime import UTC, date, datetime, time, timedelta

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
    return ChargeFacts(pk, 42, plan, minor, currency, paid, days, refunded, 0, reference)


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


@pytest.mark.parametrize(
    ("charges", "goal", "minor", "meant"),
    [
        # It alone fits: by what is left of it, its plan, its day.
        (TWO, "Refund USD 300 of the annual charge.", 30000, 11),
        (TWO, "Refund USD 300 to customer 42.", 30000, 11),
        (TWO, "Refund USD 40 of the annual enterprise charge.", 4000, 11),
        (TWO, "Refund USD 40 of the annual plan.", 4000, 11),
        (TWO, "Refund USD 40 of the add-on.", 4000, 12),
        (TWO, "Refund what she paid for the annual enterprise plan.", 120000, 11),
        (TWO, "Refund USD 40 of the charge of 18 November 2026.", 4000, 11),
        (TWO, "Refund USD 40, paid on 2026-11-27.", 4000, 12),
        (TWO, "Refund USD 40 that she paid 10 days ago.", 4000, 11),
        (OLD, "Refund the USD 300.00 that customer 985 paid 60 days ago for pro.", 30000, 30),
        (ONE_SPENT, "Refund USD 49 of pro monthly.", 4900, 41),
        (EUROS, "Refund USD 300.", 30000, 60),
        # Its reference names it, whatever fits.
        (TWO, "Refund USD 300 of CH-12.", 30000, 12),
        (TWO, "Refund ch-11, not the add-on.", 4900, 11),
        (ONE_SPENT, "Refund USD 49 of CH-40.", 4900, 40),
        (EUROS, "Refund USD 300 of CH-61.", 30000, 61),
        (ALIKE, "Refund USD 49 of inv-2026-7.", 4900, 71),
        (ALIKE, "Refund USD 49 of invoice 4900.", 4900, 72),
        (ALIKE, "Refund 4900 USD.", 490000, None),
        # Several fit, or none; an amount that is one whole charge does not choose it.
        (TWO, "Refund USD 40 to customer 42.", 4000, None),
        (TWO, "Refund USD 49.00 to customer 42.", 4900, None),
        (TWO, "Refund USD 1,300.00 of the annual enterprise charge.", 130000, None),
        (TWO, "Refund USD 300 of the add-on.", 30000, None),
        (PRO, "Refund USD 147.00: three months of 49.00 each.", 14700, None),
        (PRO, "Refund USD 49 of pro.", 4900, None),
        (SAME_DAY, "Refund USD 49 of the charge of 23 November.", 4900, None),
        (TWO, "Refund what can be refunded.", 120000, None),  # the agent's own amount
        # Something else is written of than what alone is left.
        (TWO, "Refund USD 300 of the add-on of the annual enterprise charge.", 30000, None),
        (TWO, "Refund USD 300 of the last charge.", 30000, None),
        (TWO, "Refund USD 300 of the starter plan.", 30000, None),
        (TWO, "Refund USD 300 that she paid on 27 November.", 30000, None),
        (TWO, "Refund USD 300, paid on 3 November 2026.", 30000, None),
        (TWO, "Refund USD 300 of the charge of 10/11/2026.", 30000, None),
        (TWO, "Refund USD 300 that she paid in October.", 30000, None),
        (TWO, "Refund USD 300 that she paid ten days ago.", 30000, None),
        (TWO, "Refund USD 300 that she paid two weeks ago.", 30000, None),
        (ONE_SPENT, "Refund USD 49: the first pro monthly charge.", 4900, None),
        (SAME_DAY, "Refund USD 40: the team stays with its old tool.", 4000, None),
        (SAME_DAY, "Refund USD 40 pro rata.", 4000, None),
        (TWO, "Refund USD 300 of the USD 49.00 charge.", 30000, None),
        (TWO, "Refund USD 300 of the 49.00 charge.", 30000, None),
        (TWO, "Refund USD 300 and USD 49.", 30000, None),
        (TWO, "Refund USD 300 over her charges.", 30000, None),
        (TWO, "Refund USD 300 of the monthly.", 30000, None),
        (TWO, "Refund USD 300 of the charge of 27.11.", 30000, None),
        (TWO, "Refund USD 300 of the charge of 11/27.", 30000, None),
        (TWO, "Refund USD 300 of the charge of the 27th.", 30000, None),
        (TWO, "Refund USD 300 of the charge of 27-11-2026.", 30000, None),
        (TWO, "Erstatte 300 USD der Zahlung vom 27. November.", 30000, None),
        (TWO, "Remboursez 300 USD du paiement du 27 novembre.", 30000, None),
        (TWO, "Erstatte 300 USD der letzten Zahlung.", 30000, None),
        (TWO, "Reembolse 300 USD del último cargo.", 30000, None),
        (TWO, "Refund USD 300 of charge no. 12.", 30000, None),
        (TWO, "Refund USD 300 of CH12.", 30000, None),
        (ALIKE, "Refund USD 60 of INV-992.", 6000, None),
        (ONE_SPENT, "Refund USD 49 of invoice 992.", 4900, None),
        (PRO, "Refund USD 49 for the October charge.", 4900, 22),
        (TWO, "Refund USD 300 of the USD 1,200.00 charge.", 30000, 11),
        # What is written of is not where the money is to come from.
        (TWO, "She wrote on 2026-11-27. Refund USD 40.", 4000, None),
        (TWO, "Leave it: do not touch the annual enterprise charge. Refund USD 40.", 4000, None),
        (TWO, "Refund USD 40 of CH-11 or CH-12.", 4000, None),
        (TWO, "Refund USD 40, but not CH-12.", 4000, None),
        (TWO, "Keep CH-11; refund USD 40.", 4000, None),
        (TWO, "CH-12 was refunded already. Refund USD 300.", 30000, None),
        (TWO, "Erstatte 300 USD, nicht vom annual enterprise.", 30000, None),
        (TWO, "Refund USD 300 of CH-99.", 30000, None),
        ([ANNUAL], "Refund USD 300 of the last pro charge.", 30000, 11),  # there is no other
        ([], "Refund USD 300.", 30000, None),
    ],
)
def test_charge_is_named_or_alone_fits_what_people_write(
    charges: list[ChargeFacts], goal: str, minor: int, meant: int | None
) -> None:
    for given in (charges, charges[::-1]):
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
