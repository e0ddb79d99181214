"""The field's usual controls. The first that asks a person is the card's headline."""

from agents.desks.bank.facts import BankFacts, BankLimits, Transfers, desk
from agents.desks.bank.tools import add_payee, transfer_money
from opsconsole.desks import ANSWER, Args, Case, Origin, Ruling, block, days_until, escalate, within


@desk.rule(transfer_money)
def payee_on_file(facts: BankFacts) -> Ruling | None:
    """A transfer to a payee who is not on file, or who is blocked, is blocked."""
    if facts.is_blocked:
        return block("payee_blocked", "The payee {payee} is blocked.", risk=95)
    unknown = block("unknown_payee", "There is no payee {payee} on file.")
    return None if facts.is_on_file else unknown


@desk.rule(transfer_money, title="Free balance")
def balance(args: Args, facts: BankFacts) -> Ruling | None:
    """A transfer of more than the free balance is blocked. Reserved money is not free."""
    if args.amount <= facts.available:
        return None
    return block("insufficient_funds", f"Only {facts.available} of the account is free.", risk=70)


@desk.rule(transfer_money, title="Date")
def dated(args: Args, limits: BankLimits, case: Case) -> Ruling | None:
    """A transfer dated in the past, or further ahead than the limit, is blocked."""
    ahead = days_until(args.on, case.today)
    sentence = f"A transfer is dated today or up to {limits.ahead} ahead."
    return None if 0 <= ahead <= limits.ahead else block("bad_date", sentence, risk=60)


@desk.rule(transfer_money, title="Who named payee, amount and purpose")
def named(facts: BankFacts) -> Ruling | None:
    """A transfer whose payee, amount or purpose none of our people named waits for a reviewer."""
    origins = {
        "payee": facts.payee_named_by,
        "amount": facts.amount_named_by,
        "purpose": facts.purpose_named_by,
    }
    bad = {what: origin for what, origin in origins.items() if not origin.is_of_people}
    if not bad:
        return None
    words = " and ".join(f"the {what} was named by {origin.words}" for what, origin in bad.items())
    reason = "named_by_outsider" if Origin.OUTSIDE in bad.values() else "named_by_nobody"
    return escalate(reason, f"{words[0].upper()}{words[1:]}.", risk=90)


@desk.rule(transfer_money, title="Automatic approval limit")
def amount(args: Args, limits: BankLimits) -> Ruling:
    """A transfer up to the limit goes out without approval. A larger one waits for a reviewer."""
    return within(args.amount, limits.unattended, reason="large_transfer", what="The transfer is")


@desk.rule(transfer_money, asks={"first_payment": "a payee who is new or was never paid"})
def first_payment(facts: BankFacts, limits: BankLimits) -> Ruling | None:
    """The first payment to a payee, or one to a new payee, waits for a reviewer."""
    if facts.is_paid_before and facts.payee_age >= limits.settled:
        return None
    first = "has never been paid before" if not facts.is_paid_before else "is new"
    sentence = f"{{payee}} {first}, on file for {facts.payee_age}."
    # An approval covers the payee's present name, not a later one under this id.
    return escalate("first_payment", sentence, risk=75, shown=facts.payee_name)


@desk.rule(
    transfer_money,
    title="Possible duplicate",
    asks={"possible_duplicate": "the same was sent before"},
)
def duplicate(facts: BankFacts, limits: BankLimits, case: Case) -> Ruling | None:
    """The same amount to the same payee again waits for a reviewer."""
    if facts.same_on is None or days_until(case.today, facts.same_on) > limits.repeats:
        return None
    sentence = f"{{payee}} was sent {{amount}} before, on {facts.same_on}."
    return escalate("possible_duplicate", sentence, risk=80, shown=facts.same_before)


@desk.rule(transfer_money, title="Transfers in 24 hours")
def velocity(facts: BankFacts, limits: BankLimits) -> Ruling:
    """Beyond the limit of transfers per account in 24 hours, each waits for a reviewer."""
    count, what = Transfers(facts.transfers_today + 1), "Including this one, the last 24 hours have"
    return within(count, limits.transfers, reason="many_transfers", what=what)


@desk.rule(transfer_money, title="Total in 24 hours")
def exposure(args: Args, facts: BankFacts, limits: BankLimits) -> Ruling:
    """A transfer that would take the 24-hour total over the limit waits for a reviewer."""
    total, what = facts.sent_today + args.amount, "Including this one, the last 24 hours total"
    return within(total, limits.daily, reason="daily_exposure", what=what)


@desk.rule(add_payee, asks={"new_payee": "it can be paid from then on"})
def new_payee(facts: BankFacts) -> Ruling:
    """Every new payee waits for a reviewer, who can only accept or refuse it."""
    if facts.is_on_file:
        return block("payee_on_file", "The payee {payee} is on file already.", risk=50)
    sentence = f"{{name}} would become a payee; its name was given by {facts.payee_named_by.words}."
    return escalate("new_payee", sentence, risk=80)


@desk.rule(
    ANSWER,
    title="Account numbers in an answer",
    asks={"account_of_outsider": "an account number from an outsider only"},
)
def accounts_answered(facts: BankFacts) -> Ruling | None:
    """An answer with an account number that only an outsider wrote waits for a reviewer."""
    if not facts.outsiders_accounts:
        return None
    accounts = ", ".join(facts.outsiders_accounts)
    return escalate("account_of_outsider", f"Only an outsider's text has {accounts}.", risk=80)
