"""The field's usual controls. Of those that ask a person, the first is the card's headline."""

from __future__ import annotations

from agents.desks.bank.facts import BankFacts, BankLimits, desk
from agents.desks.bank.tools import add_payee, transfer_money
from opsconsole.desks import (
    Args,
    Calls,
    Case,
    Origin,
    Ruling,
    block,
    days_until,
    escalate,
    within,
)

BY_PEOPLE = (Origin.GOAL, Origin.PERSON)


@desk.rule(transfer_money)
def payee_on_file(facts: BankFacts) -> Ruling | None:
    """Only payees on file are paid, and none that is blocked."""
    if not facts.is_on_file:
        return block("unknown_payee", "There is no payee {payee} on file.")
    return (
        block("payee_blocked", "The payee {payee} is blocked.", risk=95)
        if facts.is_blocked
        else None
    )


@desk.rule(transfer_money)
def balance(args: Args, facts: BankFacts) -> Ruling | None:
    """No account is overdrawn: what other transfers hold is not free."""
    if args.amount <= facts.available:
        return None
    return block("insufficient_funds", f"Only {facts.available} of the account is free.", risk=70)


@desk.rule(transfer_money)
def dated(args: Args, limits: BankLimits, case: Case) -> Ruling | None:
    """A transfer is dated today or soon."""
    ahead = days_until(args.on, case.today)
    if 0 <= ahead <= limits.ahead:
        return None
    return block("bad_date", f"A transfer is dated today or up to {limits.ahead} ahead.", risk=60)


@desk.rule(transfer_money)
def named(facts: BankFacts) -> Ruling | None:
    """Whom and how much to pay comes from people, never from a text that was sent to us."""
    origins = {"payee": facts.payee_named_by, "amount": facts.amount_named_by}
    bad = {what: origin for what, origin in origins.items() if origin not in BY_PEOPLE}
    if not bad:
        return None
    told = " and ".join(f"the {what} by {origin.words}" for what, origin in bad.items())
    reason = "named_by_outsider" if Origin.OUTSIDE in bad.values() else "named_by_nobody"
    return escalate(reason, f"It was named: {told}.", risk=90)


@desk.rule(transfer_money)
def amount(args: Args, limits: BankLimits) -> Ruling:
    """Small transfers need nobody."""
    return within(args.amount, limits.unattended, reason="large_transfer", what="The transfer is")


@desk.rule(transfer_money)
def first_payment(facts: BankFacts, limits: BankLimits) -> Ruling | None:
    """Whoever was never paid, or entered lately, is paid with a person's yes."""
    if facts.is_paid_before and facts.payee_age >= limits.settled:
        return None
    first = "was never paid before" if not facts.is_paid_before else "is new"
    sentence = f"{{payee}} {first}, on file for {facts.payee_age}."
    # Whoever says yes means who it is now, not who may be under this id later.
    return escalate("first_payment", sentence, risk=75, shown=facts.payee_name)


@desk.rule(transfer_money)
def duplicate(facts: BankFacts, limits: BankLimits, case: Case) -> Ruling | None:
    """The same amount to the same payee again is asked about."""
    if facts.same_on is None or days_until(case.today, facts.same_on) > limits.repeats:
        return None
    sentence = f"{{payee}} was sent {{amount}} before, on {facts.same_on}."
    return escalate("possible_duplicate", sentence, risk=80, shown=facts.same_before)


@desk.rule(transfer_money)
def velocity(facts: BankFacts, limits: BankLimits) -> Ruling:
    """Many transfers in a day are asked about."""
    count = Calls(facts.transfers_today + 1)
    return within(count, limits.transfers, reason="many_transfers", what="With this one it is")


@desk.rule(transfer_money)
def exposure(args: Args, facts: BankFacts, limits: BankLimits) -> Ruling:
    """What leaves an account in a day adds up."""
    total = facts.sent_today + args.amount
    return within(total, limits.daily, reason="daily_exposure", what="With this one the day makes")


@desk.rule(add_payee)
def new_payee(facts: BankFacts) -> Ruling:
    """Nobody is entered without a person, who can only say yes or no."""
    if facts.is_on_file:
        return block("payee_on_file", "The payee {payee} is on file already.", risk=50)
    sentence = f"{{name}} would be entered, a name given by {facts.payee_named_by.words}."
    return escalate("new_payee", sentence, risk=80)
