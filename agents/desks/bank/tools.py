"""Read accounts, payees and invoices; transfer; add a payee."""

from datetime import date

from django.db.models import Sum

from agents.desks.bank import ledger
from agents.desks.bank.facts import ACCOUNT, PAYEE, BankFacts, Euros, Name, Purpose, Short, desk
from agents.desks.bank.models import Account, Invoice, Payee, Transfer, TransferState
from opsconsole.desks import (
    Args,
    Beside,
    Call,
    Evidence,
    Fact,
    HeldRequest,
    Json,
    Lower,
    Range,
    Touch,
    days_ahead,
    key,
)

MOST_PAYEES = 100  # listed to a model


def sentences(reply: Json) -> dict[str, str]:
    return {"balance": f"The account has {reply['balance']}, of which {reply['free']} is free."}


@desk.tool(Touch.READ, title="Read the account", subject="account", may_say=sentences)
def read_account(call: Call, *, account: str) -> Json:
    """Return the balance of the account and what of it is free."""
    row = Account.objects.get(book=call.book, key=account)
    balance = ledger.euros(row.opening_minor - row.paid_minor)
    return {"balance": str(balance), "free": str(ledger.euros(row.free_minor))}


@desk.tool(Touch.READ, title="Read the payees", subject="account")
def read_payees(call: Call, *, account: str) -> Json:
    """Return who can be paid, with their ids."""
    payees = Payee.objects.filter(book=call.book).order_by("name", "pk")[:MOST_PAYEES]
    return {"payees": [{"id": p.key, "name": p.name, "blocked": p.is_blocked} for p in payees]}


@desk.tool(Touch.READ, title="Read an invoice", subject="account", outside=("text",))
def read_invoice(call: Call, *, account: str, invoice: str) -> Json:
    """Return an invoice as its sender wrote it: nothing in its text was checked."""
    mine = Invoice.objects.filter(account__book=call.book, account__key=account, key=invoice)
    return {"text": mine[0].text} if mine else {"error": "no_such_invoice"}


@desk.tool(
    Touch.SAFE,  # the same key pays once
    title="Transfer money",
    before="Send {amount} from {subject} to {payee}, dated {on}.",
    deed="transfer",
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
    here=True,
)
def transfer_money(
    call: Call, *, account: str, payee: str, amount: Euros, on: date, purpose: Purpose
) -> Json:
    """Transfer money from the account to a payee on file, named by id or name, on a day."""
    what = {"amount": amount, "on": on, "purpose": purpose}
    return ledger.transfer(call, account=account, payee=payee, **what)


@desk.tool(
    Touch.SAFE,
    title="Add a payee",
    before="Enter {name} as the payee {payee}: from then on it can be paid.",
    deed="payee",
    after="{name} was entered as the payee {payee}.",
    subject="account",
    resource="account",
    names={"account": ACCOUNT},
    find=ledger.find_entry,
    booked=ledger.ENTRIES,
)
def add_payee(call: Call, *, account: str, payee: Short = key(), name: Name) -> Json:
    """Enter somebody who may be paid: `payee` is an id of our own, `name` what they are called."""
    return ledger.enter_payee(call, payee=payee, name=name)


@desk.evidence
def evidence(args: Args, facts: BankFacts) -> list[Evidence]:
    """Return what a person checks before approving."""
    shown: list[Evidence] = [Fact("Free on the account", facts.available)]
    if facts.is_on_file:
        shown.append(Fact("Payee on file for", facts.payee_age))
        shown.append(Fact("Paid before", facts.is_paid_before))
        shown.append(Fact("Sent from the account in 24 hours", facts.sent_today))
    return shown


@desk.beside
def left(held: HeldRequest) -> Beside:
    """Return what is free now on the account that a request takes from."""
    account = ledger.find_account(held.resource, held.book) if held.resource else None
    return Beside(left_minor=account.free_minor) if account else Beside()


def finding(answer: Json) -> dict[str, str]:
    return {"finding": answer["finding"]}


@desk.specialist(title="Account desk", may_say=finding)
def account_specialist(call: Call, ticket: str) -> Json:
    """Answers what the account has, and what of it is free."""
    if not any(word in ticket.casefold() for word in ("account", "balance", "afford")):
        return None
    return {"finding": sentences(read_account(call, account=call.subject))["balance"]}


@desk.specialist(title="Payee desk", may_say=finding)
def payee_specialist(call: Call, ticket: str) -> Json:
    """Answers whether somebody is a payee who can be paid."""
    known = Payee.objects.filter(book=call.book).order_by("name", "pk")
    named = [one for one in known if one.name.casefold() in ticket.casefold()]
    lines = [
        f"{one.name} ({one.key}) {'is blocked' if one.is_blocked else 'can be paid'}."
        for one in named
    ]
    return {"finding": " ".join(lines)} if lines else None


@desk.source(title="Bills of the day", critical=True)
def bills_of_day(call: Call, account: str, day: str) -> Json:
    """Finds the bills that came on the day, and how many of them were never paid."""
    mine = {"account__book": call.book, "account__key": account}
    bills = Invoice.objects.filter(**mine, received_on=day)
    paid = Transfer.objects.filter(**mine, state=TransferState.POSTED).values("purpose")
    return {"received": bills.count(), "open": bills.exclude(key__in=paid).count()}


@desk.source(title="Transfers of the day")
def transfers_of_day(call: Call, account: str, day: str) -> Json:
    """Finds what left the account on the day."""
    mine = {"account__book": call.book, "account__key": account, "state": TransferState.POSTED}
    sent = Transfer.objects.filter(**mine, on=day)
    total = sent.aggregate(minor=Sum("amount_minor"))["minor"] or 0
    return {"count": sent.count(), "sent": str(ledger.euros(total))}
