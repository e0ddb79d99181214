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
    """Hold an amount on the customer's latest charge. Raises RefundRefused, KeyReused."""
    known = _known(key)
    if known is None:
        try:
            with transaction.atomic():
                charge = _charge(book_id, customer_number, amount_minor, currency, at)
                _hold(charge, amount_minor)
                known = Refund.objects.create(
                    charge_id=charge.charge_id,
                    key=key,
                    amount_minor=amount_minor,
                    currency=currency,
                    reason=reason.strip(),
                    reference=f"rf_{customer_number}_{sha256(key.encode()).hexdigest()[:12]}",
                    held_at=at,
                )
        except IntegrityError:
            # Somebody used the key in between; what we held for it went back with the savepoint.
            known = Refund.objects.select_related("charge__customer").get(key=key)
    _check_same(known, book_id, customer_number, amount_minor, currency)
    return _receipt(known)


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

    A key that has paid returns its receipt again; one that was released holds anew first.
    """
    with transaction.atomic():
        reserve(
            book_id=book_id,
            customer_number=customer_number,
            amount_minor=amount_minor,
            currency=currency,
            reason=reason,
            key=key,
            at=at,
        )
        refund = Refund.objects.select_related("charge__customer").get(key=key)
        if refund.state == RefundState.RELEASED and _move(refund, RefundState.HELD, at=None):
            charge = _charge(book_id, customer_number, amount_minor, currency, at)
            _hold(charge, amount_minor)
        if _move(refund, RefundState.PAID, at=at):
            Charge.objects.filter(pk=refund.charge_id).update(
                held_minor=F("held_minor") - amount_minor,
                refunded_minor=F("refunded_minor") + amount_minor,
            )
        refund.refresh_from_db()
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


def _check_same(
    known: Refund, book_id: int, customer_number: int, amount_minor: int, currency: str
) -> None:
    customer = known.charge.customer
    before = (customer.book_id, customer.number, known.amount_minor, known.currency)
    if before != (book_id, customer_number, amount_minor, currency):
        raise KeyReused(known.key)


def _charge(
    book_id: int, customer_number: int, amount_minor: int, currency: str, at: datetime
) -> billing.ChargeFacts:
    """Return the charge that an amount can be refunded on. Raises RefundRefused."""
    charge = billing.latest_charge(book_id=book_id, customer_number=customer_number, at=at)
    if charge is None:
        raise RefundRefused(f"refund_user_not_found:{customer_number}")
    if amount_minor < 1:
        raise RefundRefused("refund_amount_must_be_positive")
    if currency != charge.currency:
        raise RefundRefused("currency_mismatch")
    return charge


def _hold(charge: billing.ChargeFacts, amount_minor: int) -> None:
    """Take room on a charge, if there is enough: the UPDATE decides. Raises RefundRefused."""
    room = Charge.objects.filter(
        pk=charge.charge_id,
        amount_minor__gte=F("refunded_minor") + F("held_minor") + amount_minor,
    )
    if not room.update(held_minor=F("held_minor") + amount_minor):
        left = Charge.objects.get(pk=charge.charge_id)
        most = left.amount_minor - left.refunded_minor - left.held_minor
        raise RefundRefused("refund_exceeds_last_charge", most)


_FROM = {
    RefundState.HELD: RefundState.RELEASED,
    RefundState.PAID: RefundState.HELD,
    RefundState.RELEASED: RefundState.HELD,
}


def _move(refund: Refund, to: RefundState, *, at: datetime | None) -> bool:
    """Move a refund to `to`, if it still is where that may be done from."""
    columns: dict[str, object] = {"state": to}
    if at:
        columns[f"{to.value}_at"] = at
    moved = Refund.objects.filter(pk=refund.pk, state=_FROM[to]).update(**columns)
    if moved:
        refund.state = to
    return bool(moved)


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
