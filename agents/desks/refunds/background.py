"""The customer's account, shown on a card beside a request."""

from __future__ import annotations

from agents.core.money import format_money, format_sums
from agents.core.names import plan_in_words
from agents.desks.refunds import billing, mail, refunds
from agents.desks.refunds.declared import desk
from agents.desks.refunds.facts import in_words
from agents.desks.refunds.meant import kept_charge
from agents.sdk.values import show
from opsconsole.desks import Beside, Evidence, Fact, HeldRequest, Section, Table

FIND_IT = (
    "Search the mail server’s log, or the mailbox that keeps copies, for the Message-ID. If it is "
    "there, the email left. It is never sent again automatically."
)


@desk.beside
def background(held: HeldRequest) -> Beside:
    """Return who a request's customer is, their newest charge and their earlier refunds."""
    letter = _letter(held)
    if not held.subject:
        return Beside(sections=letter)
    account, paid_back = refunds.account_with_refunds(
        book_id=held.book, customer_number=int(held.subject), at=held.at
    )
    name, charges = (account.name, account.charges) if account else ("", ())
    charge = account.charge if account else None
    if len(charges) > 1 and held.asked_at:
        facts = {**held.facts, **({"resource": held.resource} if held.resource else {})}
        charge = kept_charge(charges, facts, held.asked_at)
    paid = [one for one in paid_back if one.key != held.key]
    rows = [
        (
            format_money(one.amount_minor, one.currency),
            one.paid_at and one.paid_at.date(),
            one.reason or "no reason given",
            one.reference,
        )
        for one in paid
    ]
    alone = " In the demo, each run has its own books." if held.is_demo else ""
    earlier: Evidence = Table("", ("Amount", "Paid", "Reason", "Reference"), rows)
    sections = (
        *letter,
        Section("Money on this charge", _charge(charge))
        if charge or not charges
        else Section("The charges", [Fact(one.name, in_words(one)) for one in charges]),
        *([Section("The customer", _customer(account))] if name and account else ()),
        Section(
            f"Earlier refunds to {name or held.label}",
            [earlier] if rows else [],
            "" if rows else f"None.{alone}",
        ),
    )
    if charge is None:
        most = max((one.refundable_minor for one in charges), default=0)
        return Beside(name, sections=sections, left_minor=most)
    amount = format_money(charge.amount_minor, charge.currency)
    of = f"{charge.name}: " if len(charges) > 1 else ""
    note = f"{of}{_plan(charge)}, {amount} paid {charge.age_days} days ago"
    return Beside(name, note, sections, str(charge.charge_id), charge.refundable_minor)


def _plan(charge: billing.ChargeFacts) -> str:
    return plan_in_words(charge.plan) or charge.plan


def _customer(account: billing.CustomerAccount) -> list[Evidence]:
    charges = account.charges
    facts = [Fact("Country", account.country), Fact("Tier", account.tier)]
    if charges:
        paid = format_sums((one.currency, one.amount_minor) for one in charges)
        count = f"{len(charges):,} charge{'s' if len(charges) > 1 else ''}"
        since = show(min(one.paid_at for one in charges).date())
        facts.append(Fact("Paid in all", f"{paid} in {count} since {since}"))
    return [fact for fact in facts if fact.value]


def _charge(charge: billing.ChargeFacts | None) -> list[Evidence]:
    if charge is None:
        return [Fact("Charge", "none in the system of record")]

    def money(minor: int) -> str:
        return format_money(minor, charge.currency)

    return [
        Fact("Paid", f"{money(charge.amount_minor)}, {_plan(charge)}"),
        Fact("When", f"{show(charge.paid_at.date())}, {charge.age_days} days ago"),
        Fact("Refunded", money(charge.refunded_minor)),
        Fact("Reserved", money(charge.held_minor)),
        Fact("Remaining", money(charge.refundable_minor)),
    ]


def _letter(held: HeldRequest) -> tuple[Section, ...]:
    """Return what is known of an email that may have left, for who has to say whether it did."""
    known = mail.find(key=held.key) if held.is_lost and held.key else None
    if known is None:
        return ()
    answer = known.fault or "none was noted: the worker ended before one came"
    if known.sent_at:
        answer = f"accepted, {known.sent_at:%Y-%m-%d %H:%M:%S} UTC"
    facts = [
        Fact("To", known.to or "erased"),
        Fact(
            "Handed over",
            f"{known.started_at:%Y-%m-%d %H:%M:%S} UTC, on attempt {held.attempts} of this step",
        ),
        Fact("Server’s answer", answer),
        Fact("Message-ID", mail.message_id(known.key)),
        Fact("Reference", known.reference),
    ]
    advice = FIND_IT if held.is_open else ""
    return (Section("What is known about this email", facts, advice),)
