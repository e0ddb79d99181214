"""The bank's own books: what is read of an account, and the one way in which it pays.

Whoever holds or pays locks the account first: of two that want its last cents one finds no room.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from typing import Any

from django.db import IntegrityError, transaction

from agents.desks.bank.models import (
    CURRENCY,
    HELD,
    POSTED,
    RELEASED,
    Account,
    Invoice,
    Payee,
    Transfer,
)
from opsconsole.desks import Booked, Call, Json, Money


class TransferRefused(Exception):
    """The bank does not do it; the message is a code that says why."""


def find_account(key: str, book: int) -> Account | None:
    return Account.objects.filter(book=book, key=key).first()


def find_payee(key: str, book: int) -> Payee | None:
    return Payee.objects.filter(book=book, key=key).first()


def payee_name(key: str, book: int) -> str:
    payee = find_payee(key, book)
    return payee.name if payee else ""


def forget_account(key: str, book: int) -> bool:
    """Empty what an account is called, its bills, and what its transfers say they are for."""
    mine = Account.objects.filter(book=book, key=key)
    Invoice.objects.filter(account__in=mine).update(text="")
    Transfer.objects.filter(account__in=mine).update(purpose="")
    return bool(mine.update(name=""))


def euros(minor: int) -> Money:
    return Money(minor, CURRENCY)


def has_been_paid(payee: Payee) -> bool:
    return payee.transfers.filter(state=POSTED).exists()


def hold(call: Call, *, account: str, payee: str, amount: Money, **on_what: Any) -> Transfer:
    """Hold what a transfer takes, once for a key. Call in a transaction. Raises TransferRefused."""
    payer = Account.objects.select_for_update().filter(book=call.book, key=account).first()
    paid = find_payee(payee, call.book)
    if payer is None or paid is None:
        raise TransferRefused("no_such_account" if payer is None else "no_such_payee")
    asked = {"account": payer, "payee": paid, "amount_minor": amount.minor, **on_what}
    if known := Transfer.objects.filter(key=call.key).first():
        if any(getattr(known, name) != value for name, value in asked.items()):
            raise TransferRefused("key_of_another_transfer")
        return known
    if paid.is_blocked or payer.free_minor < amount.minor:
        raise TransferRefused("payee_blocked" if paid.is_blocked else "insufficient_funds")
    payer.held_minor += amount.minor
    payer.save(update_fields=["held_minor"])
    return Transfer.objects.create(key=call.key, held_at=call.at, **asked)


def reserve(call: Call, **asked: Any) -> None:
    """Hold what a transfer will take; what cannot be held, the transfer itself will refuse."""
    with suppress(TransferRefused):
        hold(call, **asked)


def transfer(call: Call, **asked: Any) -> Json:
    """Post a transfer, once for a key; hold it first if nobody did."""
    try:
        with transaction.atomic():
            held = hold(call, **asked)
            if held.state == RELEASED:
                return {"status": "error", "error": "given_up_before"}
            _settle(held, POSTED)
    except TransferRefused as no:
        return {"status": "error", "error": str(no)}
    return receipt(held)


def release(key: str, at: datetime) -> None:
    """Give back what a transfer held that was never posted; from now on nothing posts it."""
    with transaction.atomic():
        of_key = Account.objects.filter(transfers__key=key).values("pk")
        locked = Account.objects.select_for_update().filter(pk__in=of_key)
        if list(locked):  # the account first, as a transfer locks it
            _settle(Transfer.objects.get(key=key), RELEASED)


def _settle(held: Transfer, state: str) -> None:
    """Take a transfer out of what its account holds, if it is held. The account is locked."""
    if held.state != HELD:
        return
    account = Account.objects.get(pk=held.account_id)
    account.held_minor -= held.amount_minor
    account.paid_minor += held.amount_minor if state == POSTED else 0
    account.save(update_fields=["held_minor", "paid_minor"])
    held.state = state
    held.save(update_fields=["state"])


def receipt(transfer: Transfer) -> Json:
    """Return what a posted transfer is answered with."""
    reference = f"tr_{sha256(transfer.key.encode()).hexdigest()[:12]}"
    told = {"reference": reference, "amount": str(euros(transfer.amount_minor))}
    return {"status": "ok", "transfer": told}


def find_transfer(key: str) -> Json:
    """Return the receipt of a key, or None where nothing was posted under it."""
    posted = Transfer.objects.filter(key=key, state=POSTED).first()
    return receipt(posted) if posted else None


def booked_transfers(keys: Collection[str] | None) -> Iterator[Booked]:
    """Yield what transfers left in the books: those of these keys, or all."""
    for one in _of_keys(Transfer.objects.select_related("account", "payee"), key=keys):
        args = {"account": one.account.key, "payee": one.payee.key, "purpose": one.purpose}
        args |= {"amount": euros(one.amount_minor), "on": one.on}
        yield Booked(one.key, args, one.account.book, is_done=one.state == POSTED)


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


def booked_entries(keys: Collection[str] | None) -> Iterator[Booked]:
    """Yield the payees that calls entered: those of these keys, or all."""
    for one in _of_keys(Payee.objects.exclude(entry=None), entry=keys):
        yield Booked(str(one.entry), {"payee": one.key, "name": one.name}, one.book)


def _of_keys(rows: Any, **keys: Collection[str] | None) -> Any:
    """Return the rows of these keys, in their order; of None, all."""
    chosen = {f"{column}__in": some for column, some in keys.items() if some is not None}
    return rows.filter(**chosen).order_by("pk").iterator(500)
