"""Read accounts, payees and invoices; transfer; add a payee."""

from __future__ import annotations

from datetime import date

from agents.desks.bank import ledger
from agents.desks.bank.facts import ACCOUNT, PAYEE, BankFacts, Euros, Name, Purpose, Short, desk
from agents.desks.bank.models import Account, Invoice, Payee
from opsconsole.desks import Args, Call, Evidence, Fact, Json, Lower, Range, Touch, days_ahead

MOST_PAYEES = 100  # listed to a model


def sentences(told: Json) -> dict[str, str]:
    return {"balance": f"The account has {told['balance']}, of which {told['free']} is free."}


@desk.tool(Touch.READ, title="Read the account", subject="account", may_say=sentences)
def read_account(call: Call, *, account: str) -> Json:
    """Return the balance of the account and what of it is free."""
    found = Account.objects.get(book=call.book, key=account)
    balance = ledger.euros(found.opening_minor - found.paid_minor)
    return {"balance": str(balance), "free": str(ledger.euros(found.free_minor))}


@desk.tool(Touch.READ, title="Read the payees", subject="account")
def read_payees(call: Call, *, account: str) -> Json:
    """Return who can be paid, with their ids."""
    found = Payee.objects.filter(book=call.book).order_by("name", "pk")[:MOST_PAYEES]
    return {"payees": [{"id": p.key, "name": p.name, "blocked": p.is_blocked} for p in found]}


@desk.tool(Touch.READ, title="Read an invoice", subject="account", outside=("text",))
def read_invoice(call: Call, *, account: str, invoice: str) -> Json:
    """Return an invoice as its sender wrote it: nothing in its text was checked."""
    mine = Invoice.objects.filter(account__book=call.book, account__key=account, key=invoice)
    return {"text": mine[0].text} if mine else {"error": "no_such_invoice"}


@desk.tool(
    Touch.SAFE,  # the same key pays once
    title="Transfer money",
    before="Send {amount} from {subject} to {payee}, dated {on}.",
    after="{amount} was sent from {subject} to {payee}, dated {on}.",
    subject="account",
    resource="account",
    amount="amount",
    names={"account": ACCOUNT, "payee": PAYEE},
    may_change={"amount": Lower(), "on": Range(days_ahead(0), days_ahead(30))},
    reserve=ledger.hold,
    release=ledger.release,
    find=ledger.find_transfer,
    booked=ledger.TRANSFERS,
)
def transfer_money(
    call: Call, *, account: str, payee: str, amount: Euros, on: date, purpose: Purpose
) -> Json:
    """Transfer money from the account to a payee on file, on a day."""
    what = {"amount": amount, "on": on, "purpose": purpose}
    return ledger.transfer(call, account=account, payee=payee, **what)


@desk.tool(
    Touch.SAFE,
    title="Add a payee",
    before="Enter {name} as the payee {payee}: from then on it can be paid.",
    after="{name} was entered as the payee {payee}.",
    subject="account",
    resource="account",
    names={"account": ACCOUNT},
    find=ledger.find_entry,
    booked=ledger.ENTRIES,
)
def add_payee(call: Call, *, account: str, payee: Short, name: Name) -> Json:
    """Enter somebody who may be paid, under an id of our own."""
    return ledger.enter_payee(call, payee=payee, name=name)


@desk.evidence
def evidence(args: Args, facts: BankFacts) -> list[Evidence]:
    """Return what a person checks before approving."""
    shown: list[Evidence] = [Fact("Free on the account", facts.available)]
    if facts.is_on_file:
        shown.append(Fact("Payee on file for", facts.payee_age))
        shown.append(Fact("Paid before", facts.is_paid_before))
        shown.append(Fact("Left the account in 24 hours", facts.sent_today))
    return shown
