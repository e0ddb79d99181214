"""The facts of the desk for bank transfers."""

from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Annotated

from agents.desks.bank import ledger
from agents.desks.bank.ledger import REPORT
from agents.desks.bank.models import CURRENCY, TransferState
from opsconsole.desks import Asked, Count, Days, Desk, In, Money, Origin, Subject, limit, longest

Euros = Annotated[Money, In(CURRENCY)]
Short = Annotated[str, longest(40)]
Name = Annotated[str, longest(80)]
Purpose = Annotated[str, longest(140)]
TRANSFER = "transfer_money"
LONGEST_MEMORY = 366  # days in which duplicates are looked for, regardless of the policy


class Transfers(Count):
    unit = "transfers"


NONE, NO_DAYS = Transfers(0), Days(0)
ABOVE = "Above it, a transfer waits for a reviewer."


@dataclass(frozen=True)
class BankLimits:
    """The limits that an admin can set, per policy version."""

    unattended: Euros = limit(
        ledger.euros(100_000),
        "Automatic approval limit",
        "A larger transfer waits for a reviewer.",
        below="daily",
        says="Transfers up to {} are made without asking.",
    )
    daily: Euros = limit(
        ledger.euros(250_000),
        "Total per account in 24 hours without approval",
        ABOVE,
        most=ledger.euros(10**9),
        says="Up to {} leave an account in 24 hours without asking.",
    )
    transfers: Transfers = limit(
        Transfers(5),
        "Transfers per account in 24 hours without approval",
        ABOVE,
        most=Transfers(1000),
        says="Up to {} leave an account in 24 hours without asking.",
    )
    settled: Days = limit(
        Days(7), "A payee counts as new for", "Payments to new payees wait for a reviewer."
    )
    repeats: Days = limit(
        Days(30), "Same payee and amount is a duplicate within", "A duplicate waits for a reviewer."
    )
    ahead: Days = limit(
        Days(60), "Furthest ahead a transfer may be dated", "One dated later is blocked."
    )


@dataclass(frozen=True)
class BankFacts:
    """The facts of a review, from the bank's books and the ledger, never from a model's words."""

    available: Euros
    is_on_file: bool = False  # whether the call's payee is known
    is_blocked: bool = False
    is_paid_before: bool = False
    payee_name: str = ""
    payee_age: Days = NO_DAYS
    payee_named_by: Origin = Origin.NOBODY
    amount_named_by: Origin = Origin.NOBODY
    purpose_named_by: Origin = Origin.NOBODY  # the purpose that the payee reads
    sent_today: Euros = Money(0, CURRENCY)  # from the account in 24 hours, or maybe sent
    transfers_today: Transfers = NONE
    same_on: date | None = None  # the last day on which the payee was sent the same amount
    same_before: Transfers = NONE  # how often, in the longest memory
    outsiders_accounts: tuple[str, ...] = ()  # in an answer: those that only an outsider wrote


PAYEE = Subject(
    "payee",
    ledger.find_payee,
    label="{name}",
    named_in=ledger.payees_named_in,
    named=ledger.payees_named,
    listed_by="read_payees",
)
ACCOUNT = Subject(
    "account",
    ledger.find_account,
    label="{name}",
    named=ledger.accounts_named,
    forget=ledger.forget_account,
)
desk = Desk(
    name="bank",
    title="Bank transfers",
    subject=ACCOUNT,
    limits=BankLimits,
    brief="You prepare bank transfers for one account, one step at a time. The purpose of a "
    "transfer is copied from the goal: the number of its invoice or, without one, its own words.",
    fill_demo=ledger.fill_demo,
    report=REPORT,
    workflows=Path(__file__).parent / "workflows",
    caps={CURRENCY: {"launcher_daily_minor": 1_000_000, "workspace_daily_minor": 5_000_000}},
)


@desk.facts
def gather(subject: str, asked: Asked) -> BankFacts:
    account = ledger.find_account(subject, asked.book)
    held = ledger.euros(account.free_minor if account else 0)
    if not asked.tool and asked.args:
        named = [one for one in asked.parts("words") if one.kind == "account"]
        by_outsiders = tuple(one.text for one in named if one.origin is Origin.OUTSIDE)
        return BankFacts(held, outsiders_accounts=by_outsiders)
    if asked.tool not in (TRANSFER, "add_payee"):
        return BankFacts(held)
    is_transfer, payee = asked.tool == TRANSFER, ledger.find_payee(asked.args.payee, asked.book)
    known = BankFacts(
        held,
        is_on_file=payee is not None,
        payee_named_by=asked.origin("payee" if is_transfer else "name"),
        amount_named_by=asked.origin("amount") if is_transfer else Origin.NOBODY,
        purpose_named_by=asked.origin("purpose") if is_transfer else Origin.NOBODY,
    )
    if payee is None or not is_transfer:
        return known
    same = {"payee": payee.key, "amount": asked.args.amount, "days": LONGEST_MEMORY}
    return replace(
        known,
        is_blocked=payee.is_blocked,
        is_paid_before=payee.transfers.filter(state=TransferState.POSTED).exists(),
        payee_name=payee.name,
        payee_age=Days((asked.today - payee.entered_on).days),
        sent_today=asked.sum(TRANSFER, currency=CURRENCY, by="resource", days=1),
        transfers_today=Transfers(asked.count(TRANSFER, by="resource", days=1)),
        same_on=asked.last(TRANSFER, by="resource", **same),
        same_before=Transfers(asked.count(TRANSFER, by="resource", **same)),
    )
