"""Customers, their charges, and refunds of these.

Everything is idempotent by key: one key pays once. Conditional updates guard the sums, never a read
before: two calls cannot use the same last cents of a charge.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from hashlib import sha256
from itertools import starmap
from typing import Any, TypeGuard

from django.db import transaction
from django.db.models import BigIntegerField, F, FilteredRelation, Q, QuerySet

from agents.db.compiled import CompiledSelect, CompiledUpdate, Param, insert_new, new_row
from agents.db.driver import Pending, fetch_now
from agents.desks.refunds.models import Charge, Customer, Refund, RefundState, SentMail

_BIGINT = 2**63
_MOST_FOUND = 6  # customers of one name
_SHORTEST_NAME = 3  # letters; shorter parts of a name occur in too many sentences
_KEY = re.compile(r"0|[1-9]\d{0,18}", re.ASCII)


def could_be(customer_number: int | None) -> TypeGuard[int]:
    """Tell whether a customer number fits its column, as it must to exist."""
    return customer_number is not None and abs(customer_number) < _BIGINT


def charges(*, book: Param | int, number: Param | int) -> QuerySet[Charge]:
    """Return the query for a customer's charges."""
    return Charge.objects.filter(customer__book=book, customer__number=number)


_OF_CUSTOMER = ("customer__name", "customer__country", "customer__tier")
_OF_CHARGE = (
    *("plan", "amount_minor", "currency", "paid_at", "refunded_minor", "held_minor", "reference"),
)
# The columns of an account in the order of `_newest_first`.
_OF_ACCOUNT = ("pk", "customer", *_OF_CHARGE, "customer__pk", *_OF_CUSTOMER)


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
    """A charge with its present amounts in minor units, and its age in whole days."""

    charge_id: int
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
        """Return its name for people and agents, distinct among the customer's charges."""
        return f"CH-{self.charge_id}"

    @property
    def day(self) -> date:
        return self.paid_at.astimezone(UTC).date()

    @property
    def refundable_minor(self) -> int:
        return self.amount_minor - self.refunded_minor - self.held_minor


@dataclass(frozen=True)
class CustomerAccount:
    """A customer's data, and their charges, the newest first."""

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
    """Return the customer with this key. A number has one spelling: "042" is nobody's."""
    return customer(book_id=book, customer_number=int(key)) if _KEY.fullmatch(key) else None


def words_of(key: str, book: int) -> set[str]:
    """Return the words by which people write of a customer."""
    known = find_customer(key, book)
    parts = {part for part in known.name.split() if len(part) >= _SHORTEST_NAME} if known else set()
    return {*parts, known.email} if known else parts


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
    known = customer(book_id=book_id, customer_number=customer_number)
    return known.name if known else ""


def called(text: str, book: int) -> list[str]:
    """Return the numbers of a book's customers with this name or, if none, with this prefix."""
    within = Customer.objects.filter(book=book).order_by("name", "number")
    for fits in (within.filter(name__iexact=text), within.filter(name__istartswith=text)):
        if keys := [str(number) for number in fits.values_list("number", flat=True)[:_MOST_FOUND]]:
            return keys
    return []


def first_customers(book: int, most: int) -> list[str]:
    """Return some customers of a book, by name and number."""
    within = Customer.objects.filter(book=book).order_by("name", "number")
    return [f"{name} ({number})" for number, name in within.values_list("number", "name")[:most]]


def customer_context(*, book_id: int, customer_number: int, at: datetime) -> dict[str, Any] | None:
    """Return a customer with their charges as an agent sees them, or None."""
    known = account(book_id=book_id, customer_number=customer_number, at=at)
    return context_of(known, customer_number) if known else None


def context_of(known: CustomerAccount, customer_number: int) -> dict[str, Any]:
    """Return an account as an agent sees it: of several charges, what is left of each."""
    charge = known.charge
    user = {"id": customer_number, "name": known.name, "country": known.country, "tier": known.tier}
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
        **({"charges": [_listed(one) for one in known.charges]} if len(known.charges) > 1 else {}),
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
    return Pending(lambda: _account_of(charges.get(), book_id, customer_number, at))


def _account_of(
    rows: list[tuple[Any, ...]], book_id: int, customer_number: int, at: datetime
) -> CustomerAccount | None:
    """Return a customer with the charges of some rows; a charge may have several."""
    charges = {}
    for pk, _, plan, amount, currency, paid_at, refunded, held, reference, *_ in rows:
        charges[pk] = ChargeFacts(
            charge_id=pk,
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


# Refunds: every statement that moves money of a charge.

_AMOUNT = Param("amount_minor", BigIntegerField())


class RefundRefused(Exception):
    """The refund cannot be made; `code` says why, `max_minor` how much could be, if known."""

    def __init__(self, code: str, max_minor: int | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.max_minor = max_minor


class KeyReused(Exception):
    """The key was used before, with other arguments."""


@dataclass(frozen=True)
class _Order:
    """The refund requested with a key, which must always be the same."""

    book_id: int
    customer_number: int
    amount_minor: int
    currency: str
    reason: str
    key: str
    charge_id: int | None  # None: the one that the key holds, or the customer's only one


def _order_of(fields: dict[str, Any]) -> _Order:
    return _Order(**{"charge_id": None, **fields, "reason": fields["reason"].strip()})


@dataclass(frozen=True)
class Receipt(_Order):
    """The state of a key's refund."""

    pk: int
    reference: str
    state: str  # held, paid, released
    paid_at: datetime | None


# As in a receipt.
COLUMNS = (
    *("charge__customer__book_id", "charge__customer__number", "amount_minor", "currency"),
    *("reason", "key", "charge_id", "pk", "reference", "state", "paid_at"),
)


def reserve(*, at: datetime, **fields: Any) -> Receipt:
    """Hold an amount on a charge of the customer. Raises RefundRefused, KeyReused.

    `fields` are those of `_Order`. A known key returns its receipt in its present state.
    """
    order = _order_of(fields)
    return _checked(order, _reserve(order, at))


def pay(*, at: datetime, held_only: bool = False, **fields: Any) -> Receipt:
    """Pay a refund, held before or, unless `held_only`, not. Raises RefundRefused, KeyReused.

    A key that has paid returns its receipt again. A released key never pays: its release promised
    that nothing will happen, and a late call must not undo that.
    """
    order = _order_of(fields)
    with transaction.atomic():
        if paid := _pay_held(order, at):  # without a look, as it is usually held
            return paid
        known = find(key=order.key)
        if known is None and held_only:
            raise _refusal(order, at)
        refund = _checked(order, known or _reserve(order, at))
        if refund.state == RefundState.HELD:  # just now by us, or by another since we tried
            refund = _pay_held(order, at) or find(key=order.key) or refund
        if refund.state == RefundState.RELEASED:
            raise RefundRefused("refund_released")
        return refund


def release(key: str, at: datetime) -> bool:
    """Give a held amount back to its charge. Return False if nothing is held."""
    with transaction.atomic():
        refund = find(key=key)
        if refund is None or not _RELEASE(pk=refund.pk, at=at):
            return False
        _GIVE_BACK(pk=refund.charge_id, amount_minor=refund.amount_minor)
        return True


def find(*, key: str) -> Receipt | None:
    """Return the state of a key's refund, or None if the key is unknown."""
    rows = fetch_now(_BY_KEY.fetch_tuples, key=key)
    return next(starmap(Receipt, rows), None)


def account_with_refunds(
    *, book_id: int, customer_number: int, at: datetime
) -> tuple[CustomerAccount | None, list[Receipt]]:
    """Return a customer with their charges and refunds, newest first.

    In one query, if there is a charge.
    """
    if not could_be(customer_number):
        return None, []
    paid = FilteredRelation("refunds", condition=Q(refunds__state=RefundState.PAID))
    annotated = charges(book=book_id, number=customer_number).annotate(paid=paid)
    columns = [name.replace("charge__", "") for name in COLUMNS[:2]]
    columns += [f"paid__{name}" for name in COLUMNS[2:]]
    rows = list(annotated.order_by("-paid_at", "-pk").values_list(*_OF_ACCOUNT, *columns))
    cut = len(_OF_ACCOUNT)
    known = _account_of([row[:cut] for row in rows], book_id, customer_number, at)
    receipts = [Receipt(*row[cut:]) for row in rows if row[cut + 2] is not None]
    return known, sorted(receipts, key=lambda one: (one.paid_at, one.pk), reverse=True)


def _checked(order: _Order, refund: Receipt) -> Receipt:
    """Return the refund of an order's key. Raises KeyReused if it was for another order."""
    columns = {name: value for name, value in vars(order).items() if value is not None}
    if not columns.items() <= vars(refund).items():
        raise KeyReused(order.key)
    return refund


def _pay_held(order: _Order, at: datetime) -> Receipt | None:
    """Pay the refund that is held for an order. Return None if none is."""
    if not _fits(order):
        return None
    for pk, charge_id, reference in fetch_now(_PAY.fetch_tuples, **vars(order), at=at):
        if order.charge_id not in (None, charge_id):  # rolled back
            raise KeyReused(order.key)
        _TAKE_OUT(pk=charge_id, amount_minor=order.amount_minor)
        return Receipt(
            **{**vars(order), "charge_id": charge_id},
            pk=pk,
            reference=reference,
            state=RefundState.PAID,
            paid_at=at,
        )
    return None


def _reserve(order: _Order, at: datetime) -> Receipt:
    """Hold an amount under a new key, or return the key's refund. Raises RefundRefused.

    It checks neither key nor charge first: the key is usually new, and the hold usually possible.
    """
    # No savepoint: no expected error is raised in here, so nothing is rolled back.
    with transaction.atomic(savepoint=False):
        order = _with_charge(order, at)
        for (charge_id,) in _HOLD.tuples(**vars(order)) if _fits(order) and order.charge_id else ():
            return _enter_refund(order, charge_id, at)
    if known := find(key=order.key):  # it may have held the last cents itself
        return known
    raise _refusal(order, at)


def _with_charge(order: _Order, at: datetime) -> _Order:
    """Return an order with its charge: the customer's, if they have only one. None is guessed."""
    if order.charge_id is not None:
        return order
    known = account(book_id=order.book_id, customer_number=order.customer_number, at=at)
    ids = [one.charge_id for one in known.charges] if known else []
    return replace(order, charge_id=ids[0]) if len(ids) == 1 else order


def _fits(order: _Order) -> bool:
    """Tell whether a refund could be made of these numbers, which also fit their columns."""
    return 0 < order.amount_minor < _BIGINT and could_be(order.customer_number)


def _refusal(order: _Order, at: datetime) -> RefundRefused:
    """Return why an amount could not be held."""
    known = account(book_id=order.book_id, customer_number=order.customer_number, at=at)
    charges = known.charges if known else ()
    if not charges:
        return RefundRefused(f"refund_user_not_found:{order.customer_number}")
    named = [one for one in charges if len(charges) == 1 or one.charge_id == order.charge_id]
    if not named:
        return RefundRefused("charge_not_named")
    charge = named[0]
    if order.amount_minor < 1:
        return RefundRefused("refund_amount_must_be_positive")
    if order.currency != charge.currency:
        return RefundRefused("currency_mismatch")
    return RefundRefused("refund_exceeds_last_charge", charge.refundable_minor)


def _enter_refund(order: _Order, charge_id: int, at: datetime) -> Receipt:
    """Enter a refund whose amount is held, or release that and return the key's existing one."""
    refund = new_row(
        Refund,
        charge_id=charge_id,
        key=order.key,
        amount_minor=order.amount_minor,
        currency=order.currency,
        reason=order.reason,
        reference=f"rf_{order.customer_number}_{sha256(order.key.encode()).hexdigest()[:12]}",
        held_at=at,
    )
    if insert_new(refund):
        return Receipt(
            **vars(order),
            pk=refund.pk,
            reference=refund.reference,
            state=refund.state,
            paid_at=None,
        )
    _GIVE_BACK(pk=charge_id, amount_minor=order.amount_minor)
    [first] = _BY_KEY.tuples(key=order.key)
    return Receipt(*first)


_BY_KEY = CompiledSelect(lambda: Refund.objects.filter(key=Param("key")).values_list(*COLUMNS))


def _charges() -> QuerySet[Charge]:
    """Return the query for the charges of an order's customer."""
    return charges(book=Param("book_id"), number=Param("customer_number"))


# The conditional updates: of two calls for the same cents or the same refund, one changes nothing.
_HOLD = CompiledUpdate(
    lambda: Charge.objects.filter(
        pk__in=_charges().filter(pk=Param("charge_id")).values("pk"),
        currency=Param("currency"),
        # Subtracted, because with a huge amount the sum might overflow the column.
        refunded_minor__lte=F("amount_minor") - F("held_minor") - _AMOUNT,
    ),
    ("id",),
    held_minor=F("held_minor") + _AMOUNT,
)
_PAY = CompiledUpdate(
    lambda: Refund.objects.filter(
        key=Param("key"),
        state=RefundState.HELD,
        amount_minor=_AMOUNT,
        currency=Param("currency"),
        reason=Param("reason"),
        charge__in=_charges(),
    ),
    ("id", "charge_id", "reference"),
    state=RefundState.PAID,
    paid_at=Param("at"),
)
_RELEASE = CompiledUpdate(
    lambda: Refund.objects.filter(pk=Param("pk"), state=RefundState.HELD),
    state=RefundState.RELEASED,
    released_at=Param("at"),
)

_TAKE_OUT = CompiledUpdate(
    lambda: Charge.objects.filter(pk=Param("pk")),
    held_minor=F("held_minor") - _AMOUNT,
    refunded_minor=F("refunded_minor") + _AMOUNT,
)
_GIVE_BACK = CompiledUpdate(
    lambda: Charge.objects.filter(pk=Param("pk")), held_minor=F("held_minor") - _AMOUNT
)
