"""Read customers and their charges."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, TypeGuard

from django.db import transaction
from django.db.models import QuerySet

from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import Pending
from agents.desks.refunds.models import Charge, Customer, Refund, SentMail

BIGINT = 2**63
MOST_FOUND = 6  # customers of one name
SHORTEST_NAME = 3  # letters; shorter parts of a name occur in too many sentences
_KEY = re.compile(r"0|[1-9]\d{0,18}", re.ASCII)


def could_be(customer_number: int | None) -> TypeGuard[int]:
    """Tell whether a customer number fits its column, as it must to exist."""
    return customer_number is not None and abs(customer_number) < BIGINT


def charges(*, book: Param | int, number: Param | int) -> QuerySet[Charge]:
    """Return the query for a customer's charges."""
    return Charge.objects.filter(customer__book=book, customer__number=number)


_OF_CUSTOMER = ("customer__name", "customer__country", "customer__tier")
_OF_CHARGE = (
    *("plan", "amount_minor", "currency", "paid_at", "refunded_minor", "held_minor", "reference"),
)
# The columns of an account in the order of `_newest_first`.
OF_ACCOUNT = ("pk", "customer", *_OF_CHARGE, "customer__pk", *_OF_CUSTOMER)


def _newest_first() -> QuerySet[Charge]:
    ours = charges(book=Param("book"), number=Param("number"))
    newest = ours.select_related("customer").only(*_OF_CHARGE, "customer", *_OF_CUSTOMER)
    return newest.order_by("-paid_at", "-pk")


_CUSTOMER = CompiledSelect(
    lambda: Customer.objects.filter(book=Param("book"), number=Param("number"))
)
_CHARGES = CompiledSelect(_newest_first)
_CHARGES_LOCKED = CompiledSelect(lambda: _newest_first().select_for_update(of=("self",)))


@dataclass(frozen=True)
class ChargeFacts:
    """A charge as it stands. Amounts in minor units, age in whole days."""

    charge_id: int
    customer_number: int
    plan: str
    amount_minor: int
    currency: str
    paid_at: datetime
    age_days: int
    refunded_minor: int
    held_minor: int
    reference: str = ""  # the billing system's name for it

    @property
    def name(self) -> str:
        """Return what people and agents call it, to tell it from the customer's others."""
        return f"CH-{self.charge_id}"

    @property
    def day(self) -> date:
        return self.paid_at.astimezone(UTC).date()

    @property
    def refundable_minor(self) -> int:
        return self.amount_minor - self.refunded_minor - self.held_minor


@dataclass(frozen=True)
class CustomerAccount:
    """Who a customer is, and their charges, the newest first."""

    name: str
    country: str
    tier: str
    charges: Sequence[ChargeFacts] = ()

    @property
    def charge(self) -> ChargeFacts | None:
        return next(iter(self.charges), None)


def customer(*, book_id: int, customer_number: int) -> Customer | None:
    """Return a customer, or None, also for a number that fits no column."""
    if not could_be(customer_number):
        return None
    return _CUSTOMER.first(book=book_id, number=customer_number)


def find_customer(key: str, book: int) -> Customer | None:
    """Return the customer with this key. A number is written in one way: "042" is nobody's."""
    return customer(book_id=book, customer_number=int(key)) if _KEY.fullmatch(key) else None


def words_of(key: str, book: int) -> set[str]:
    """Return by which words people write of a customer."""
    found = find_customer(key, book)
    parts = {part for part in found.name.split() if len(part) >= SHORTEST_NAME} if found else set()
    return {*parts, found.email} if found else parts


@transaction.atomic
def forget(key: str, book: int) -> bool:
    """Empty every text about a customer; their payments and refunds stay."""
    known = find_customer(key, book)
    if known is None:
        return False
    SentMail.objects.filter(customer=known).update(to="", body="", fault="")
    Refund.objects.filter(charge__customer=known).update(reason="")
    Charge.objects.filter(customer=known).update(reference="")
    Customer.objects.filter(pk=known.pk).update(name="", email="", country="")
    return True


def customer_name(*, book_id: int, customer_number: int) -> str:
    """Return a customer's name, "" if there is no such customer."""
    found = customer(book_id=book_id, customer_number=customer_number)
    return found.name if found else ""


def called(text: str, book: int) -> list[str]:
    """Return the numbers of a book's customers with this name or, if none, with this prefix."""
    within = Customer.objects.filter(book=book).order_by("name", "number")
    for fits in (within.filter(name__iexact=text), within.filter(name__istartswith=text)):
        if found := [str(number) for number in fits.values_list("number", flat=True)[:MOST_FOUND]]:
            return found
    return []


def first_customers(book: int, most: int) -> list[str]:
    """Return some customers of a book, by name and number."""
    within = Customer.objects.filter(book=book).order_by("name", "number")
    return [f"{name} ({number})" for number, name in within.values_list("number", "name")[:most]]


def customer_context(*, book_id: int, customer_number: int, at: datetime) -> dict[str, Any] | None:
    """Return a customer with their charges as an agent sees them, or None."""
    found = account(book_id=book_id, customer_number=customer_number, at=at)
    return context_of(found, customer_number) if found else None


def context_of(found: CustomerAccount, customer_number: int) -> dict[str, Any]:
    """Return an account as an agent sees it: of several charges, what is left of each."""
    charge = found.charge
    user = {
        "id": customer_number,
        "name": found.name,
        "country": found.country,
        "tier": found.tier,
    }
    if charge is None:
        return {"user": user, "billing": {}}
    return {
        "user": user,
        "billing": {
            "plan": charge.plan,
            "currency": charge.currency,
            "last_charge_minor": charge.amount_minor,
            "days_since_payment": charge.age_days,
        },
        **({"charges": [_listed(one) for one in found.charges]} if len(found.charges) > 1 else {}),
    }


def _listed(charge: ChargeFacts) -> dict[str, Any]:
    return {
        "charge": charge.name,
        **({"reference": charge.reference} if charge.reference else {}),
        "plan": charge.plan,
        "currency": charge.currency,
        "amount_minor": charge.amount_minor,
        "left_minor": charge.refundable_minor,
        "paid_on": charge.day.isoformat(),
    }


def account(
    *, book_id: int, customer_number: int, at: datetime, lock: bool = False
) -> CustomerAccount | None:
    """Return a customer with their charges, or None. `lock` holds these for the transaction."""
    return fetch_account(book_id=book_id, customer_number=customer_number, at=at, lock=lock).get()


def fetch_account(
    *, book_id: int, customer_number: int | None, at: datetime, lock: bool = False
) -> Pending[CustomerAccount | None]:
    """Fetch an account, in an open pipeline if any."""
    if not could_be(customer_number):
        return Pending(lambda: None)
    statement = _CHARGES_LOCKED if lock else _CHARGES
    charges = statement.fetch_tuples(book=book_id, number=customer_number)
    return Pending(lambda: account_of(charges.get(), book_id, customer_number, at))


def account_of(
    rows: list[tuple[Any, ...]], book_id: int, customer_number: int, at: datetime
) -> CustomerAccount | None:
    """Return a customer with the charges of some rows; a charge may have several."""
    charges = {}
    for pk, _, plan, amount, currency, paid_at, refunded, held, reference, *_ in rows:
        charges[pk] = ChargeFacts(
            charge_id=pk,
            customer_number=customer_number,
            plan=plan,
            amount_minor=amount,
            currency=currency,
            paid_at=paid_at,
            age_days=(at - paid_at).days,
            refunded_minor=refunded,
            held_minor=held,
            reference=reference,
        )
    if rows:
        name, country, tier = rows[0][-len(_OF_CUSTOMER) :]
        return CustomerAccount(name, country, tier, tuple(charges.values()))
    known = customer(book_id=book_id, customer_number=customer_number)
    return CustomerAccount(known.name, known.country, known.tier) if known else None
