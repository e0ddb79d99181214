"""The customer's account, shown on a card beside a request."""

from __future__ import annotations

from datetime import datetime

from agents.core.kinds import EFFECT_UNKNOWN
from agents.core.money import format_money, format_sums
from agents.core.names import plan_in_words
from agents.core.states import EscalationState
from agents.desks.refunds import billing, mail, refunds
from agents.models import Escalation
from agents.sdk.evidence import Evidence, Fact, Table, write_evidence
from agents.sdk.values import show
from agents.systems import Background, Section

FIND_IT = (
    "Search the mail server’s log, or the mailbox that keeps copies, for the Message-ID. If it is "
    "there, the email left. It is never sent again automatically."
)


def background(held: Escalation, *, at: datetime, effect: str) -> Background:
    """Return who a request's customer is, their newest charge and their earlier refunds."""
    letter = _letter(held, effect)
    if not held.subject_key:
        return Background(sections=letter)
    book, number = held.run.book_id, int(held.subject_key)
    account, paid_back = refunds.account_with_refunds(book_id=book, customer_number=number, at=at)
    name, charge = (account.name, account.charge) if account else ("", None)
    paid = [one for one in paid_back if one.key != effect]
    rows = [
        (
            format_money(one.amount_minor, one.currency),
            one.paid_at and one.paid_at.date(),
            one.reason or "no reason given",
            one.reference,
        )
        for one in paid
    ]
    alone = " In the demo, each run has its own books." if held.run.book.is_isolated else ""
    earlier: Evidence = Table("", ("Amount", "Paid", "Reason", "Reference"), rows)
    sections = (
        *letter,
        Section("Money on this charge", write_evidence(_charge(charge))),
        *(
            [Section("The customer", write_evidence(_customer(account)))]
            if name and account
            else ()
        ),
        Section(
            f"Earlier refunds to {name or held.run.subject_label}",
            write_evidence([earlier] if rows else []),
            "" if rows else f"None.{alone}",
        ),
    )
    if charge is None:
        return Background(name, sections=sections, left_minor=0)
    amount = format_money(charge.amount_minor, charge.currency)
    note = f"{_plan(charge)}, {amount} paid {charge.age_days} days ago"
    return Background(name, note, sections, str(charge.charge_id), charge.refundable_minor)


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


def _letter(held: Escalation, effect: str) -> tuple[Section, ...]:
    """Return what is known of an email that may have left, for who has to say whether it did."""
    known = mail.find(key=effect) if held.kind == EFFECT_UNKNOWN.stored and effect else None
    if known is None:
        return ()
    answer = known.fault or "none was noted: the worker ended before one came"
    if known.sent_at:
        answer = f"accepted, {known.sent_at:%Y-%m-%d %H:%M:%S} UTC"
    facts = [
        Fact("To", known.to or "erased"),
        Fact(
            "Handed over",
            f"{known.started_at:%Y-%m-%d %H:%M:%S} UTC, on attempt "
            f"{held.step.attempts} of this step",
        ),
        Fact("Server’s answer", answer),
        Fact("Message-ID", mail.message_id(known.key)),
        Fact("Reference", known.reference),
    ]
    advice = FIND_IT if held.state == EscalationState.OPEN else ""
    return (Section("What is known about this email", write_evidence(facts), advice),)
