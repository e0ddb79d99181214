"""Pay part of a charge back. Everything is idempotent by key: one key pays once.

Conditional updates guard the sums, never a read before: two calls cannot use the same last cents of
a charge. One file with every statement that moves money of a charge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from itertools import starmap

from django.db import transaction
from django.db.models import BigIntegerField, F, FilteredRelation, Q, QuerySet

from agents.db.compiled import CompiledSelect, CompiledUpdate, Param
from agents.db.driver import Pending, fetch_now
from agents.db.inserts import insert_new
from agents.desks.refunds import billing
from agents.desks.refunds.models import Charge, Refund
from agents.desks.refunds.models.refund import RefundState

AMOUNT = Param("amount_minor", BigIntegerField())


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


@dataclass(frozen=True)
class Receipt(_Order):
    """The state of a key's refund."""

    pk: int
    reference: str
    state: str  # held, paid, released
    paid_at: datetime | None

    def is_for(self, order: _Order) -> bool:
        asked = {name: value for name, value in vars(order).items() if value is not None}
        return asked.items() <= vars(self).items()


# As in a receipt.
COLUMNS = (
    *("charge__customer__book_id", "charge__customer__number", "amount_minor", "currency"),
    *("reason", "key", "charge_id", "pk", "reference", "state", "paid_at"),
)


def reserve(
    *,
    book_id: int,
    customer_number: int,
    amount_minor: int,
    currency: str,
    reason: str,
    key: str,
    at: datetime,
    charge_id: int | None = None,
) -> Receipt:
    """Hold an amount on a charge of the customer. Raises RefundRefused, KeyReused.

    A known key returns its receipt in its present state.
    """
    about = (book_id, customer_number, amount_minor, currency, reason.strip(), key)
    order = _Order(*about, charge_id)
    return _checked(order, _reserve(order, at))


def pay(
    *,
    book_id: int,
    customer_number: int,
    amount_minor: int,
    currency: str,
    reason: str,
    key: str,
    at: datetime,
    charge_id: int | None = None,
    held_only: bool = False,
) -> Receipt:
    """Pay a refund, held before or, unless `held_only`, not. Raises RefundRefused, KeyReused.

    A key that has paid returns its receipt again. A released key never pays: its release promised
    that nothing will happen, and a late call must not undo that.
    """
    about = (book_id, customer_number, amount_minor, currency, reason.strip(), key)
    order = _Order(*about, charge_id)
    with transaction.atomic():
        if paid := _pay_held(order, at):  # without a look, as it mostly is held
            return paid
        known = find(key=key)
        if known is None and held_only:
            raise _refusal(order, at)
        refund = _checked(order, known or _reserve(order, at))
        if refund.state == RefundState.HELD:  # just now by us, or by another since we tried
            refund = _pay_held(order, at) or find(key=key) or refund
        if refund.state == RefundState.RELEASED:
            raise RefundRefused("refund_released")
        return refund


def release(*, key: str, at: datetime) -> bool:
    """Give a held amount back to its charge. Return False if nothing is held."""
    with transaction.atomic():
        refund = find(key=key)
        if refund is None or not _RELEASE(pk=refund.pk, at=at):
            return False
        _GIVE_BACK(pk=refund.charge_id, amount_minor=refund.amount_minor)
        return True


def find(*, key: str) -> Receipt | None:
    """Return the state of a key's refund, or None if the key is unknown."""
    return fetch_now(_fetch_key, key)


def account_with_refunds(
    *, book_id: int, customer_number: int, at: datetime
) -> tuple[billing.CustomerAccount | None, list[Receipt]]:
    """Return a customer with their charges and refunds, newest first.

    In one query, if there is a charge.
    """
    if not billing.could_be(customer_number):
        return None, []
    paid = FilteredRelation("refunds", condition=Q(refunds__state=RefundState.PAID))
    found = billing.charges(book=book_id, number=customer_number).annotate(paid=paid)
    columns = [name.replace("charge__", "") for name in COLUMNS[:2]]
    columns += [f"paid__{name}" for name in COLUMNS[2:]]
    rows = list(found.order_by("-paid_at", "-pk").values_list(*billing.OF_ACCOUNT, *columns))
    cut = len(billing.OF_ACCOUNT)
    account = billing.account_of([row[:cut] for row in rows], book_id, customer_number, at)
    receipts = [Receipt(*row[cut:]) for row in rows if row[cut + 2] is not None]
    return account, sorted(receipts, key=lambda one: (one.paid_at, one.pk), reverse=True)


def _fetch_key(key: str) -> Pending[Receipt | None]:
    """Fetch the refund of a key, in an open pipeline if any."""
    found = _BY_KEY.fetch_tuples(key=key)
    return Pending(lambda: next(starmap(Receipt, found.get()), None))


def _checked(order: _Order, refund: Receipt) -> Receipt:
    """Return the refund of an order's key. Raises KeyReused if it was for another order."""
    if not refund.is_for(order):
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
    """Hold an amount under a key that is new, or return the key's refund. Raises RefundRefused.

    It looks neither for the key nor at the charge first: what is to be held is mostly new, and
    mostly possible.
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
    known = billing.account(book_id=order.book_id, customer_number=order.customer_number, at=at)
    ids = [one.charge_id for one in known.charges] if known else []
    return replace(order, charge_id=ids[0]) if len(ids) == 1 else order


def _fits(order: _Order) -> bool:
    """Tell whether a refund could be made of these numbers, which also fit their columns."""
    return 0 < order.amount_minor < billing.BIGINT and billing.could_be(order.customer_number)


def _refusal(order: _Order, at: datetime) -> RefundRefused:
    """Return why an amount could not be held."""
    account = billing.account(book_id=order.book_id, customer_number=order.customer_number, at=at)
    charges = account.charges if account else ()
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
    refund = Refund(
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
    return billing.charges(book=Param("book_id"), number=Param("customer_number"))


# The conditional updates: of two calls for the same cents or the same refund, one changes nothing.
_HOLD = CompiledUpdate(
    lambda: Charge.objects.filter(
        pk__in=_charges().filter(pk=Param("charge_id")).values("pk"),
        currency=Param("currency"),
        # Subtracted, because with a huge amount the sum might overflow the column.
        refunded_minor__lte=F("amount_minor") - F("held_minor") - AMOUNT,
    ),
    ("id",),
    held_minor=F("held_minor") + AMOUNT,
)
_PAY = CompiledUpdate(
    lambda: Refund.objects.filter(
        key=Param("key"),
        state=RefundState.HELD,
        amount_minor=AMOUNT,
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
    held_minor=F("held_minor") - AMOUNT,
    refunded_minor=F("refunded_minor") + AMOUNT,
)
_GIVE_BACK = CompiledUpdate(
    lambda: Charge.objects.filter(pk=Param("pk")), held_minor=F("held_minor") - AMOUNT
)
