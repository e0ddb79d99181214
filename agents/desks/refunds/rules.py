"""What may be paid back and written, and who must agree. One file: they are read side by side."""

from typing import Any

from agents.core.compat_0_2 import CURRENCY
from agents.core.json_forms import sha256
from agents.desks.refunds.declared import CUSTOMER, desk
from agents.desks.refunds.facts import RefundFacts
from agents.desks.refunds.limits import RefundLimits, in_usd
from agents.desks.refunds.tools import (
    get_refund_context,
    issue_refund,
    send_refund_email,
    send_reply,
)
from opsconsole.desks import ANSWER, Args, Json, Ruling, Touch, approve, block, escalate, revise

_READ_FIRST = (
    "Call get_refund_context first: "
    "once the record has been read, the {} is reviewed on its merits."
)


@desk.rule(
    every=Touch.READ,
    title="Only the run's own customer",
    floor="The promise that nothing runs that was not allowed depends on it.",
)
def own_customer(given: Json, facts: RefundFacts) -> Ruling | None:
    """An action on any customer but the one the run is about is blocked."""
    named = given.get(CUSTOMER)
    if named is None or (facts.subject is not None and named == facts.subject):
        return None
    about = "nobody" if facts.subject is None else f"customer {facts.subject}"
    sentence = f"The action names customer {named}, but the run is about {about}."
    return block("subject_mismatch", sentence, risk=95, observed=named, limit=facts.subject)


@desk.rule(
    issue_refund,
    send_refund_email,
    title="Read before paying",
    stops={"context_required": "the customer's record was not read before money was to move"},
)
def context_before_money(given: Json, facts: RefundFacts) -> Ruling | None:
    """Money and email are blocked until the customer's record was read in the run."""
    customer, read = given[CUSTOMER], list(facts.context_of)
    if customer in read:
        return None
    text = f"The record of customer {customer} has not been read in this run, so no money moves."
    flip = _READ_FIRST.format("action")
    return block("context_required", text, risk=80, flip=flip, observed=read, limit=customer)


@desk.rule(get_refund_context, title="Reading is allowed")
def context() -> Ruling:
    """Looking up a customer's record changes nothing."""
    return approve("read_only_context", "Reading the customer's record changes nothing.", risk=5)


@desk.rule(
    ANSWER,
    title="No answer without reading",
    stops={"final_requires_context": "the agent answered without reading the customer's record"},
)
def after_context(facts: RefundFacts) -> Ruling:
    """An answer is blocked if the customer's record was not read."""
    if facts.context_of:
        sentence = "The customer's record was read, so the run may answer."
        return approve("final_with_context", sentence, risk=5)
    sentence = "The run answers without having read the customer's record."
    flip = _READ_FIRST.format("answer")
    return block("final_requires_context", sentence, risk=40, flip=flip)


@desk.rule(
    issue_refund,
    title="Amount above zero",
    stops={"invalid_refund_amount": "the refund was not above zero"},
)
def positive(given: Json) -> Ruling | None:
    """A refund of nothing, or of less, is blocked."""
    amount = given.get("amount_minor")
    if isinstance(amount, int) and amount > 0:
        return None
    return block(
        "invalid_refund_amount",
        "The amount is not above zero, so there is nothing to refund.",
        risk=60,
        flip=f"The least that can be refunded is {in_usd(1)}.",
        observed=given.get("amount_usd"),
        limit=1,
        unit=CURRENCY,
    )


@desk.rule(
    issue_refund,
    title="Limit per run",
    stops={"refund_budget_exhausted": "the run had refunded all that one run may"},
)
def run_limit(args: Args, facts: RefundFacts, limits: RefundLimits) -> Ruling | None:
    """A refund is lowered to what the run may still pay. With nothing left it is blocked."""
    most, amount = limits.run_limit_minor, args.amount_minor
    left = most - facts.refunded_minor
    if amount <= left:
        return None
    if left <= 0:
        sentence = f"This run has refunded all of its {in_usd(most)}."
        return block("refund_budget_exhausted", sentence, risk=70, **_usd(amount, 0))
    sentence = f"{in_usd(amount)} is more than the {in_usd(left)} this run may still refund."
    return _cut("cap_to_remaining_run_budget", sentence, amount, left)


@desk.rule(
    issue_refund,
    title="Automatic approval limit",
    asks={"high_refund_requires_human": "above the automatic approval limit"},
    floor="Without it nothing is paid. Change its limit instead.",
)
def auto_limit(args: Args, limits: RefundLimits) -> Ruling:
    """A refund up to the limit is allowed. A larger one waits for a reviewer."""
    amount, limit = args.amount_minor, int(limits.auto_limit_minor)
    if amount <= limit:
        sentence = f"{in_usd(amount)} is within the automatic limit of {in_usd(limit)}."
        return approve("refund_within_auto_limit", sentence, risk=15, **_usd(amount, limit))
    return escalate(
        "high_refund_requires_human",
        f"{in_usd(amount - limit)} over the automatic limit of {in_usd(limit)}.",
        risk=min(90, 40 + 30 * (amount - limit) // max(limit, 1)),
        flip=f"{in_usd(limit)} or less would have been approved automatically.",
        **_usd(amount, limit),
    )


@desk.rule(
    issue_refund,
    title="Who named the amount",
    asks={"amount_named_by_nobody": "nobody named the amount"},
)
def amount_named(args: Args, facts: RefundFacts) -> Ruling | None:
    """A refund of an amount that neither the request nor a person named waits for a reviewer,
    unless it is all of the charge or all that is left of it and the request names no other.
    """
    amount, charge = args.amount_minor, facts.charge
    is_whole = charge and amount in (charge.amount_minor, charge.refundable_minor)
    if facts.amount_named_by.is_of_people or (is_whole and not facts.is_other_named):
        return None
    form = "in a form that the console can read"
    sentence = f"Neither the request nor a person names {in_usd(amount)} {form}."
    flip = "An amount that the request names clearly would not wait."
    return escalate(
        "amount_named_by_nobody", sentence, risk=85, flip=flip, observed=amount, unit=CURRENCY
    )


@desk.rule(
    issue_refund,
    title="Which charge, and what is left of it",
    stops={
        "charge_fully_refunded": "the charge has already been refunded in full",
        "no_charge_to_refund": "the customer has no charge that could be refunded",
        "no_such_charge": "the agent named a charge that the customer does not have",
    },
    asks={"charge_named_by_nobody": "nobody named the charge"},
)
def charge_left(args: Args, facts: RefundFacts) -> Ruling | None:
    """A refund is lowered to what is left of the charge. With nothing left it is blocked. Where
    nobody named which of several charges is meant, a reviewer chooses.
    """
    amount, charge = args.amount_minor, facts.charge
    if facts.to_choose:
        agents = f"The agent chose {args.charge}; neither" if args.charge else "Neither"
        sentence = f"{agents} the request nor a person named one of the customer's charges."
        flip = f"A request that names one, such as {min(facts.to_choose)}, does not wait for this."
        return escalate("charge_named_by_nobody", sentence, risk=90, flip=flip)
    if charge is None and args.charge:
        sentence = f"Customer {args.user_id} has no charge {args.charge}."
        return block("no_such_charge", sentence, risk=95, observed=args.charge)
    if charge is None or charge.currency != CURRENCY:
        sentence = f"The customer has no charge in {CURRENCY} that could be refunded."
        return block("no_charge_to_refund", sentence, risk=80, observed=amount, limit=0)
    left = charge.refundable_minor
    if amount <= left:
        return None
    if left <= 0:
        sentence = "The charge has been refunded in full."
        return block("charge_fully_refunded", sentence, risk=80, **_usd(amount, 0))
    sentence = f"{in_usd(amount)} is more than the {in_usd(left)} that is left of the charge."
    return _cut("cap_to_refundable", sentence, amount, left)


@desk.rule(
    issue_refund,
    title="Refund window",
    stops={"outside_refund_window": "the charge is older than the refund window"},
)
def window(args: Args, facts: RefundFacts, limits: RefundLimits) -> Ruling | None:
    """A charge older than the refund window is not refunded."""
    age, days = facts.charge.age_days if facts.charge else 0, int(limits.window_days)
    if facts.charge is None or age <= days:
        return None
    return block(
        "outside_refund_window",
        f"The charge was paid {age} days ago; refunds are possible for {days} days.",
        risk=70,
        flip=f"A charge paid at most {days} days ago could have been refunded.",
        observed=age,
        limit=days,
        unit="days",
    )


@desk.rule(
    issue_refund,
    title="Small refunds add up",
    asks={"refunds_add_up": "small refunds on the charge add up"},
    floor="The promise that limits hold in total depends on it.",
)
def unattended_total(args: Args, facts: RefundFacts, limits: RefundLimits) -> Ruling | None:
    """Refunds on one charge that no reviewer approved are added up. Once the sum would pass the
    automatic approval limit, the refund waits for a reviewer.
    """
    before, amount, limit = facts.unattended_minor, args.amount_minor, int(limits.auto_limit_minor)
    total, left = before + amount, max(limit - before, 0)
    if before == 0 or total <= limit:
        return None
    sentence = (
        f"With {in_usd(before)} refunded on this charge without a person in "
        f"{limits.rolling_days:d} days, {in_usd(amount)} more makes {in_usd(total)}."
    )
    flip = f"{in_usd(left)} or less would not have needed a person." if left else ""
    return escalate("refunds_add_up", sentence, risk=75, flip=flip, **_usd(total, limit))


@desk.rule(issue_refund, title="After a reviewer's decision")
def after_person(args: Args, facts: RefundFacts) -> Ruling | None:
    """Once a reviewer has set an amount in a run, any further refund in it waits for one too."""
    granted = sum(refund.amount_minor for refund in facts.refunds if refund.by_person)
    if not granted:
        return None
    sentence = (
        f"In this run a person has allowed {in_usd(granted)}; more than that is theirs to decide."
    )
    return escalate("person_decided_before", sentence, risk=70, **_usd(args.amount_minor, 0))


@desk.rule(
    issue_refund,
    title="No duplicate refunds",
    stops={"duplicate_refund": "the same amount was already refunded, or may have been"},
    asks={"refunded_by_earlier_run": "an earlier run of this request has paid"},
)
def same_again(args: Args, facts: RefundFacts) -> Ruling | None:
    """Within one run and the earlier runs of its request, refunding the same amount of a charge
    twice is blocked. Where an earlier run has paid, a different amount waits for a reviewer.
    """
    amount, customer = args.amount_minor, args.user_id
    mine = [refund for refund in facts.refunds if refund.customer == customer]
    alike = [refund for refund in mine if refund.amount_minor == amount]
    if same := [one for one in alike if facts.is_of_charge(one)]:
        who = "An earlier run of this request" if same[0].earlier else "This run"
        did = "has already refunded" if same[0].settled else "may have refunded"
        sentence = f"{who} {did} {in_usd(amount)} to customer {customer}."
        return block("duplicate_refund", sentence, risk=85, observed=amount, unit=CURRENCY)
    before = sum(refund.amount_minor for refund in mine if refund.earlier)
    if not before:
        return None
    did = "has" if all(refund.settled for refund in mine if refund.earlier) else "may have"
    sentence = (
        f"An earlier run of this request {did} refunded {in_usd(before)} to customer "
        f"{customer}; {in_usd(amount)} more is for a person to decide."
    )
    return escalate("refunded_by_earlier_run", sentence, risk=75, **_usd(amount, 0))


@desk.rule(
    send_refund_email,
    title="No confirmation without a refund",
    stops={"email_before_refund": "there was no refund to write to the customer about"},
)
def after_refund(facts: RefundFacts) -> Ruling:
    """An email about a refund that was not paid is blocked."""
    if any(refund.settled for refund in facts.refunds):
        sentence = "A refund was made in this run, so the customer may be told."
        return approve("email_after_refund", sentence, risk=10)
    sentence = "No refund was made in this run, so there is nothing to write about."
    flip = "After a refund of this run the customer may be told."
    return block("email_before_refund", sentence, risk=50, flip=flip)


@desk.rule(
    send_refund_email,
    title="Email says what was paid",
    stops={"nothing_to_mail": "no booked refund was left to write to the customer about"},
    floor="The promise that no false statement is sent without a person depends on it.",
)
def from_ledger(given: Json, facts: RefundFacts) -> Ruling | None:
    """Amount and text of a confirmation are taken from the ledger. Each refund gets one email."""
    mail, amount = facts.mail, given.get("amount_minor")
    if mail is None or mail.customer != given[CUSTOMER]:
        sentence = "This run has no booked refund to this customer that is not written about."
        return block("nothing_to_mail", sentence, risk=60)
    if amount == mail.amount_minor and given.get("message") == mail.message:
        return None
    return revise(
        "mail_from_ledger",
        f"The email says what the ledger says: {in_usd(mail.amount_minor)} was refunded.",
        to={"amount_minor": mail.amount_minor, "message": mail.message},
        observed=amount if amount != mail.amount_minor else None,
        limit=mail.amount_minor,
        unit=CURRENCY,
    )


@desk.rule(ANSWER, title="Drafting is allowed")
def output() -> Ruling:
    """Writing a draft is allowed: nothing is sent or changed by it."""
    sentence = "The result of a step changes nothing by itself."
    return approve("output_changes_nothing", sentence, risk=5)


@desk.rule(send_reply, title="Only accepted text is sent")
def as_accepted(given: Json, facts: RefundFacts) -> Ruling:
    """A reply that differs in any word from the accepted draft is blocked."""
    if sha256(given["message"]) in facts.accepted:
        sentence = "This text was accepted in an earlier step of the run."
        return approve("reply_accepted", sentence, risk=20)
    sentence = "This text differs from what was accepted earlier in the run, so it is not sent."
    flip = "A text that was accepted in an earlier step may be sent unchanged."
    return block("reply_not_accepted", sentence, flip=flip)


@desk.rule(send_reply, title="One reply per run")
def one_reply(facts: RefundFacts) -> Ruling | None:
    """A second reply to the customer is blocked."""
    if not facts.replies:
        return None
    sentence, sent = "This run has written to the customer already.", facts.replies
    return block("reply_sent_already", sentence, risk=70, observed=sent, limit=1, unit="letters")


def _usd(amount: int, limit: int) -> dict[str, Any]:
    return {"observed": amount, "limit": limit, "unit": CURRENCY}


def _cut(code: str, sentence: str, amount: int, left: int) -> Ruling:
    """Lower a refund to what is left."""
    flip, to = f"{in_usd(left)} or less would not have been cut.", {"amount_minor": left}
    return revise(code, sentence, to=to, risk=60, flip=flip, **_usd(amount, left))
