"""Pay part of a charge back. Everything is idempotent by key: one key pays once.

Sums are guarded by conditional updates, never by reading first: of two that want the last
cents of a charge, one finds no room.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from django.db import IntegrityError, transaction
from django.db.models import F

from agents.desk import billing
from agents.desk.models import Charge, Refund
from agents.desk.models.refund import RefundState


class RefundRefused(Exception):
    """The refund cannot be made; `code` says why, `max_minor` what could be, where it matters."""

    def __init__(self, code: str, max_minor: int | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.max_minor = max_minor


class KeyReused(Exception):
    """The key was used before, with other arguments."""


@dataclass(frozen=True)
class Receipt:
    """What became of a key."""

    key: str
    reference: str
    customer_number: int
    amount_minor: int
    currency: str
    reason: str
    state: str  # held, paid, released
    paid_at: datetime | None


@dataclass(frozen=True)
class _Order:
    """What is asked for by a key. The same key must always ask for the same."""

    book_id: int
    customer_number: int
    amount_minor: int
    currency: str
    reason: str
    key: str


def reserve(
    *,
    book_id: int,
    customer_number: int,
    amount_minor: int,
    currency: str,
    reason: str,
    key: str,
    at: datetime,
) -> Receipt:
    """Hold an amount on the customer's latest charge. Raises RefundRefused, KeyReused.

    A key that is known returns its receipt, whatever became of it since.
    """
    order = _Order(book_id, customer_number, amount_minor, currency, reason.strip(), key)
    return _receipt(_reserved(order, at))


def pay(
    *,
    book_id: int,
    customer_number: int,
    amount_minor: int,
    currency: str,
    reason: str,
    key: str,
    at: datetime,
) -> Receipt:
    """Pay a refund, held before or not. Raises RefundRefused, KeyReused.

    A key that has paid returns its receipt again. A key that was released pays no more: who
    released it was told that nothing will happen, and a call that comes late must not undo that.
    """
    order = _Order(book_id, customer_number, amount_minor, currency, reason.strip(), key)
    with transaction.atomic():
        refund = _reserved(order, at)
        if _move(refund, RefundState.PAID, at=at):
            Charge.objects.filter(pk=refund.charge_id).update(
                held_minor=F("held_minor") - amount_minor,
                refunded_minor=F("refunded_minor") + amount_minor,
            )
        # Somebody may have paid or released it since we read it; then there was nothing to move.
        refund.refresh_from_db(fields=["state", "paid_at"])
        if refund.state == RefundState.RELEASED:
            raise RefundRefused("refund_released")
        return _receipt(refund)


def release(*, key: str, at: datetime) -> bool:
    """Give a held amount back to its charge. Return False where nothing is held."""
    with transaction.atomic():
        refund = Refund.objects.filter(key=key, state=RefundState.HELD).first()
        if refund is None or not _move(refund, RefundState.RELEASED, at=at):
            return False
        Charge.objects.filter(pk=refund.charge_id).update(
            held_minor=F("held_minor") - refund.amount_minor
        )
        return True


def find(*, key: str) -> Receipt | None:
    """Return what became of a key, or None where it is not known."""
    known = _known(key)
    return _receipt(known) if known else None


def paid_refunds(*, book_id: int, customer_number: int) -> list[Receipt]:
    """Return what was paid back to a customer, newest first."""
    paid = Refund.objects.select_related("charge__customer").filter(
        charge__customer__book_id=book_id,
        charge__customer__number=customer_number,
        state=RefundState.PAID,
    )
    return [_receipt(refund) for refund in paid.order_by("-paid_at", "-pk")]


def _known(key: str) -> Refund | None:
    return Refund.objects.select_related("charge__customer").filter(key=key).first()


def _reserved(order: _Order, at: datetime) -> Refund:
    """Return the refund of a key, held now if the key is new. Raises RefundRefused, KeyReused."""
    known = _known(order.key)
    if known is None:
        try:
            with transaction.atomic():
                known = _held(order, at)
        except (IntegrityError, RefundRefused):
            # Somebody may have used the key since we looked, and taken the last cents with it.
            # What we held ourselves went back with the savepoint.
            known = _known(order.key)
            if known is None:
                raise
    if _order(known) != order:
        raise KeyReused(order.key)
    return known


def _held(order: _Order, at: datetime) -> Refund:
    """Hold an amount under a new key. Raises RefundRefused; IntegrityError if the key is used."""
    charge = billing.latest_charge(
        book_id=order.book_id, customer_number=order.customer_number, at=at
    )
    if charge is None:
        raise RefundRefused(f"refund_user_not_found:{order.customer_number}")
    if order.amount_minor < 1:
        raise RefundRefused("refund_amount_must_be_positive")
    if order.currency != charge.currency:
        raise RefundRefused("currency_mismatch")
    _take_room(charge, order.amount_minor)
    refund = Refund.objects.create(
        charge_id=charge.charge_id,
        key=order.key,
        amount_minor=order.amount_minor,
        currency=order.currency,
        reason=order.reason,
        reference=f"rf_{order.customer_number}_{sha256(order.key.encode()).hexdigest()[:12]}",
        held_at=at,
    )
    return Refund.objects.select_related("charge__customer").get(pk=refund.pk)


def _take_room(charge: billing.ChargeFacts, amount_minor: int) -> None:
    """Take room on a charge, if there is enough: the UPDATE decides. Raises RefundRefused."""
    # More than was ever paid is refused without arithmetic: the sum might leave the column.
    is_possible = amount_minor <= charge.amount_minor
    room = Charge.objects.filter(
        pk=charge.charge_id,
        amount_minor__gte=F("refunded_minor") + F("held_minor") + amount_minor,
    )
    if not is_possible or not room.update(held_minor=F("held_minor") + amount_minor):
        left = Charge.objects.get(pk=charge.charge_id)
        most = left.amount_minor - left.refunded_minor - left.held_minor
        raise RefundRefused("refund_exceeds_last_charge", most)


def _move(refund: Refund, to: RefundState, *, at: datetime) -> bool:
    """Move a held refund to `to`. Return False if it is held no more."""
    held = Refund.objects.filter(pk=refund.pk, state=RefundState.HELD)
    return bool(held.update(**{"state": to, f"{to.value}_at": at}))


def _order(refund: Refund) -> _Order:
    customer = refund.charge.customer
    return _Order(
        customer.book_id,
        customer.number,
        refund.amount_minor,
        refund.currency,
        refund.reason,
        refund.key,
    )


def _receipt(refund: Refund) -> Receipt:
    return Receipt(
        key=refund.key,
        reference=refund.reference,
        customer_number=refund.charge.customer.number,
        amount_minor=refund.amount_minor,
        currency=refund.currency,
        reason=refund.reason,
        state=str(refund.state),
        paid_at=refund.paid_at,
    )
