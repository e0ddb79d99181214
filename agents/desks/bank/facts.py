"""What the desk for bank transfers is about, and what its rules may know."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated

from agents.desks.bank import demo, ledger
from agents.desks.bank.models import CURRENCY
from opsconsole.desks import Asked, Calls, Days, Desk, In, Money, Origin, Subject, limit

Euros = Annotated[Money, In(CURRENCY)]
NO_CALLS, NO_DAYS = Calls(0), Days(0)
LONGEST_MEMORY = 366  # days in which a duplicate is looked for, whatever the policy says


@dataclass(frozen=True)
class BankLimits:
    """What an admin can set, per policy version."""

    unattended: Euros = limit(
        Money(100_000, CURRENCY),
        "Automatic approval limit",
        "A larger transfer waits for a reviewer.",
    )
    daily: Euros = limit(
        Money(250_000, CURRENCY),
        "Total of an account in 24 hours without approval",
        "Above it, a transfer waits for a reviewer.",
    )
    transfers: Calls = limit(
        Calls(5),
        "Transfers of an account in 24 hours without approval",
        "The next waits for a reviewer.",
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
    """What a rule may know: from the bank's books and the ledger, never from a model's words."""

    available: Euros
    is_on_file: bool = False  # the payee that a call names
    is_blocked: bool = False
    is_paid_before: bool = False
    payee_name: str = ""
    payee_age: Days = NO_DAYS
    payee_named_by: Origin = Origin.NOBODY
    amount_named_by: Origin = Origin.NOBODY
    sent_today: Euros = Money(0, CURRENCY)  # from the account in 24 hours, or maybe sent
    transfers_today: Calls = NO_CALLS
    same_on: date | None = None  # the last day on which the payee was sent the same amount
    same_before: Calls = NO_CALLS  # how often, in the longest memory
    invoice: str = ""  # the newest text of an outsider that the run has read


desk = Desk(
    name="bank",
    title="Bank transfers",
    subject=Subject(
        "account", find=ledger.find_account, label="{name}", forget=ledger.forget_account
    ),
    limits=BankLimits,
    brief="You prepare bank transfers for one account, one step at a time.",
    fill_demo=demo.fill_demo,
    caps={CURRENCY: {"launcher_daily_minor": 1_000_000, "workspace_daily_minor": 5_000_000}},
)


@desk.facts
def gather(subject: str, asked: Asked) -> BankFacts:
    account = ledger.find_account(subject, asked.book)
    held = ledger.euros(account.free_minor if account else 0)
    if asked.tool not in ("transfer_money", "add_payee"):
        return BankFacts(held)
    payee = ledger.find_payee(asked.args.payee, asked.book)
    known = BankFacts(
        held,
        is_on_file=payee is not None,
        is_blocked=bool(payee and payee.is_blocked),
        is_paid_before=bool(payee and ledger.has_been_paid(payee)),
        payee_name=payee.name if payee else "",
        payee_age=Days((asked.today - payee.entered_on).days if payee else 0),
        payee_named_by=asked.origin("name" if asked.tool == "add_payee" else "payee"),
        invoice="".join(asked.outside()[-1:]),
    )
    return known if asked.tool == "add_payee" else _with_history(known, asked)


def _with_history(known: BankFacts, asked: Asked) -> BankFacts:
    tool, args = "transfer_money", asked.args
    same = {"by": "resource", "days": LONGEST_MEMORY, "payee": args.payee, "amount": args.amount}
    return replace(
        known,
        amount_named_by=asked.origin("amount"),
        sent_today=asked.sum(tool, currency=CURRENCY, by="resource", days=1),
        transfers_today=Calls(asked.count(tool, by="resource", days=1)),
        same_on=asked.last(tool, **same),
        same_before=Calls(asked.count(tool, **same)),
    )
