"""The bank's own books: what is read of an account, and the one way in which it pays.

Sums are guarded by conditional updates, never by reading first: of two that want the last
cents of an account, one finds no room.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime
from hashlib import sha256

from django.db import IntegrityError, transaction
from django.db.models import F

from agents.desks.bank.models import (
    CURRENCY,
    Account,
    Invoice,
    Payee,
    Transfer,
    TransferState,
)
from opsconsole.desks import Call, Json, Money

MOST_PAYEES = 100  # that a model is told of


class TransferRefused(Exception):
    """The bank does not do it; the message is a code that says why."""


def find_account(key: str, book: int) -> Account | None:
    return Account.objects.filter(book=book, key=key).first()


def find_payee(key: str, book: int) -> Payee | None:
    return Payee.objects.filter(book=book, key=key).first()


def euros(minor: int) -> Money:
    return Money(minor, CURRENCY)


def statement(account: str, book: int) -> Json:
    """Return what stands on an account and what of it is free."""
    found = find_account(account, book)
    if found is None:
        return {"error": "no_such_account"}
    balance = found.opening_minor - found.paid_minor
    told = {"balance": str(euros(balance)), "free": str(euros(found.free_minor))}
    return {"account": found.key, "name": found.name, **told}


def sentences(told: Json) -> dict[str, str]:
    """Return what may be said of a statement."""
    return {"balance": f"The account has {told['balance']}, of which {told['free']} is free."}


def list_payees(book: int) -> Json:
    """Return who is on file."""
    found = Payee.objects.filter(book=book).order_by("name", "pk")[:MOST_PAYEES]
    listed = [{"id": p.key, "name": p.name, "blocked": p.is_blocked} for p in found]
    return {"payees": listed, "more": len(listed) == MOST_PAYEES}


def read_invoice(account: str, key: str, book: int) -> Json:
    """Return the text of an invoice, as its sender wrote it."""
    mine = Invoice.objects.filter(account__book=book, account__key=account, key=key).first()
    return {"invoice": key, "text": mine.text} if mine else {"error": "no_such_invoice"}


def has_been_paid(payee: Payee) -> bool:
    return payee.transfers.filter(state=TransferState.POSTED).exists()


def hold(
    call: Call, *, account: str, payee: str, amount: Money, on: date, purpose: str
) -> Transfer:
    """Hold what a transfer will take, once for a key. Raises TransferRefused."""
    payer, paid = find_account(account, call.book), find_payee(payee, call.book)
    if payer is None or paid is None or paid.is_blocked:
        raise TransferRefused("no_such_account" if payer is None else "payee_cannot_be_paid")
    with transaction.atomic():
        known = Transfer.objects.filter(key=call.key).first()
        if known:
            return known
        then = F("held_minor") + amount.minor
        room = Account.objects.filter(pk=payer.pk, opening_minor__gte=F("paid_minor") + then)
        if not room.update(held_minor=then):
            raise TransferRefused("insufficient_funds")
        return Transfer.objects.create(
            account=payer,
            payee=paid,
            key=call.key,
            amount_minor=amount.minor,
            on=on,
            purpose=purpose,
            held_at=call.at,
        )


def reserve(call: Call, **asked: Json) -> None:
    """Hold what a transfer will take; what cannot be held, the transfer itself will refuse."""
    with suppress(TransferRefused):
        hold(call, **asked)


def transfer(call: Call, **asked: Json) -> Json:
    """Post a transfer, once for a key; hold it first if nobody did."""
    try:
        return receipt(_post(call, asked))
    except TransferRefused as no:
        return {"status": "error", "error": str(no)}


def _post(call: Call, asked: Json) -> Transfer:
    with transaction.atomic():
        transfer = hold(call, **asked)
        held = Transfer.objects.filter(pk=transfer.pk, state=TransferState.HELD)
        if held.update(state=TransferState.POSTED):
            Account.objects.filter(pk=transfer.account_id).update(
                held_minor=F("held_minor") - transfer.amount_minor,
                paid_minor=F("paid_minor") + transfer.amount_minor,
            )
        transfer.refresh_from_db()
    if transfer.state != TransferState.POSTED:
        raise TransferRefused("given_up_before")
    return transfer


def release(key: str, at: datetime) -> bool:
    """Give back what a transfer held that was never posted; from now on nothing posts it."""
    with transaction.atomic():
        held = Transfer.objects.filter(key=key, state=TransferState.HELD)
        if not held.update(state=TransferState.RELEASED):
            return False
        transfer = Transfer.objects.get(key=key)
        Account.objects.filter(pk=transfer.account_id).update(
            held_minor=F("held_minor") - transfer.amount_minor
        )
    return True


def receipt(transfer: Transfer) -> Json:
    """Return what a posted transfer is answered with."""
    reference = f"tr_{sha256(transfer.key.encode()).hexdigest()[:12]}"
    told = {"reference": reference, "payee": transfer.payee.key, "on": transfer.on.isoformat()}
    return {"status": "ok", "transfer": {**told, "amount": str(euros(transfer.amount_minor))}}


def find_transfer(key: str) -> Json:
    """Return the receipt of a key, or None where nothing was posted under it."""
    posted = Transfer.objects.filter(key=key, state=TransferState.POSTED)
    found = posted.select_related("payee").first()
    return receipt(found) if found else None


def enter_payee(call: Call, *, payee: str, name: str) -> Json:
    """Enter a payee, once for a key."""
    entered = {"name": name, "entered_on": call.at.date(), "entry": call.key}
    try:
        with transaction.atomic():
            Payee.objects.create(book=call.book, key=payee, **entered)
    except IntegrityError:
        if not Payee.objects.filter(entry=call.key).exists():
            return {"status": "error", "error": "payee_is_entered"}
    return {"status": "ok", "payee": payee}


def find_entry(key: str) -> Json:
    """Return what entering a payee under a key was answered with, or None."""
    entered = Payee.objects.filter(entry=key).first()
    return {"status": "ok", "payee": entered.key} if entered else None
