"""What the rules of refunds may know, and how it is gathered: from the ledger and the books.

One file, as queries and facts are read side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar

from agents.core.money import format_money
from agents.core.names import plan_in_words
from agents.core.old_names import CURRENCY
from agents.core.requests import Json
from agents.core.reviews import Facts
from agents.core.statements import NO_MONEY
from agents.core.states import MAYBE_DONE
from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import Pending
from agents.desks.refunds import billing, mail
from agents.desks.refunds.declared import CHARGE, CUSTOMER, desk
from agents.desks.refunds.limits import in_usd
from agents.desks.refunds.meant import kept_charge, meant_charge
from agents.models import Effect
from agents.sdk.facts import MadeCall
from agents.sdk.values import show
from opsconsole.desks import Asked, Touch

UNTOLD = "The customer has not been told."


@dataclass(frozen=True)
class RefundFact:
    """One refund that was or may have been executed, by this run or one that it repeats.

    Amounts are in minor units.
    """

    customer: int
    amount_minor: int
    reference: str  # "" while its outcome is unknown
    by_person: bool
    mailed: bool
    settled: bool  # confirmed by the system of record
    earlier: bool = False  # by an ended run that this one repeats
    charge: str = ""  # the key of the one that it was taken from


@dataclass(frozen=True)
class ChargeFact:
    """The charge that an action is about: of a refund the one that is meant, else the newest."""

    amount_minor: int
    refundable_minor: int  # the charge less refunded and held amounts
    currency: str
    age_days: int


@dataclass(frozen=True)
class MailFact:
    """The next mail due by the ledger: for the newest refund not yet mailed."""

    customer: int
    amount_minor: int
    message: str


@dataclass(frozen=True)
class RefundFacts(Facts):
    """All facts for the rules of refunds."""

    FOR_STAFF: ClassVar[frozenset[str]] = frozenset({NO_MONEY, UNTOLD})
    COURTESY: ClassVar[tuple[str, ...]] = (
        "dear customer",
        "(?:your|the|our) customer (?:support|service)(?: team)?",
    )

    subject: int | None = None  # the customer the run may act on; None: not bound
    context_of: tuple[int, ...] = ()  # customers whose context this run has read
    refunds: tuple[RefundFact, ...] = ()
    # Of the customer whom a call that writes names:
    country: str = ""  # such as US; "": unknown
    charge: ChargeFact | None = None  # None: there is none, or nobody can tell which is meant
    unattended_minor: int = 0  # refunded on this charge without a person, over the rolling window
    unattended_today_minor: int = 0  # refunded without a person today, in the whole workspace
    unattended_by_launcher_minor: int = 0  # of that, by runs of the same launcher
    mail: MailFact | None = None
    replies: int = 0  # to the customer that this run sent or may have sent

    @property
    def unattended(self) -> Mapping[str, int]:
        launcher, workspace = self.unattended_by_launcher_minor, self.unattended_today_minor
        return {"launcher": launcher, "workspace": workspace}

    @property
    def own_texts(self) -> list[str]:
        return [*super().own_texts, *([self.mail.message] if self.mail else [])]

    @property
    def refunded_minor(self) -> int:
        """Return the sum that this run has or may have refunded."""
        return sum(refund.amount_minor for refund in self.refunds)

    def is_of_charge(self, refund: RefundFact) -> bool:
        """Tell whether a refund was taken from the charge of the action, as far as both are known.

        While a person has to choose it, none of those refunded before is meant.
        """
        return not self.choices and refund.charge in ("", self.resource)

    def as_json(self) -> Json:
        # Not asdict, whose deep copy is slow: the facts of every review are stored.
        return {
            **super().as_json(),
            "refunds": [{**vars(refund)} for refund in self.refunds],
            "charge": {**vars(self.charge)} if self.charge else None,
            "mail": {**vars(self.mail)} if self.mail else None,
        }


@dataclass(frozen=True)
class AskedBooks:
    """What was asked of the database about the customer whom an action names."""

    customer: int | None
    account: billing.CustomerAccount | None
    charge: billing.ChargeFacts | None  # that the action is about
    is_open: bool  # which of several is meant has to be chosen
    refunded: Sequence[tuple[Any, ...]]  # to them without a person, within the window

    @property
    def resource(self) -> str:
        return str(self.charge.charge_id) if self.charge else ""

    @property
    def recorded(self) -> list[int]:
        of = self.charge
        return [of.amount_minor, of.refundable_minor] if of else []

    @property
    def unattended_minor(self) -> int:
        """Return the sum of these refunds on the charge."""
        return sum(
            amount
            for _, escalation, resource, amount in self.refunded
            if resource == self.resource and escalation is None and amount
        )


# Not filtered by escalation: SQLite would then choose the index of unattended effects.
_UNATTENDED = CompiledSelect(
    lambda: Effect.objects.filter(
        run__book=Param("book"),
        tool="issue_refund",
        subject_key=Param("subject"),
        state__in=MAYBE_DONE,
        intended_at__gte=Param("since"),
    ).only("resource", "escalation", "amount_minor")
)


@desk.fetch
def fetch(subject: str, asked: Asked) -> Pending[AskedBooks]:
    """Send for the account of the customer named, and for what was refunded to them unattended."""
    book, own = asked.book, int(subject) if subject else None
    customer: int | None = asked.given.get(CUSTOMER, own)
    tool = desk.tools.get(asked.tool)
    if tool is None or tool.touch is Touch.READ:  # no rule on a look-up or an answer needs it
        return Pending(lambda: AskedBooks(customer, None, None, False, ()))
    named = billing.fetch_account(
        book_id=book, customer_number=customer, at=asked.at, lock=asked.locks
    )
    refunded: Pending[list[tuple[Any, ...]]] = Pending(list)
    if asked.tool == "issue_refund" and billing.could_be(customer):
        # After the account: once its charge is locked, no other refund is added to it.
        since = asked.at - timedelta(days=int(asked.limits.rolling_days))
        refunded = _UNATTENDED.fetch_tuples(book=book, subject=str(customer), since=since)

    def answer() -> AskedBooks:
        account = named.get()
        charge = account.charge if account else None
        is_open = False
        if account and asked.tool == "issue_refund":
            charge, is_open = _meant(account.charges, asked)
        return AskedBooks(customer, account, charge, is_open, refunded.get())

    return Pending(answer)


def _meant(
    charges: Sequence[billing.ChargeFacts], asked: Asked
) -> tuple[billing.ChargeFacts | None, bool]:
    """Return the charge that a refund is to be taken from, and whether a person has to choose it.

    A person's choice counts, then what an earlier review of this refund was about, then whom the
    words of people mean. What the agent alone names is nobody's.
    """
    given = str(asked.given.get(CHARGE) or "").strip().upper()
    named = {one.name: one for one in charges}
    if given and given not in named:
        return None, False
    before = asked.before
    if before and CHARGE in (before.patch or {}):
        return named[given], False
    found = before and kept_charge(charges, before.facts, before.at)
    found = found or meant_charge(
        charges,
        asked.goals,
        asked.advice,
        amount_minor=asked.given.get("amount_minor"),
        today=asked.today,
    )
    if found and given in ("", found.name):
        return found, False
    return None, bool(charges)


@desk.facts
def gather(subject: str, asked: Asked) -> RefundFacts:
    books: AskedBooks = asked.fetched
    account, charge = books.account, books.charge
    letters = asked.made("send_refund_email")
    refunds = refunds_of(asked.made("issue_refund"), letters)
    due = _mail(asked, refunds)
    today = asked.unattended_today(CURRENCY) if asked.tool == "issue_refund" else {}
    return RefundFacts(
        subject=int(subject) if subject else None,
        context_of=tuple(sorted(_customers_read(asked))),
        refunds=refunds,
        country=account.country if account else "",
        charge=_charge(charge) if charge else None,
        resource=books.resource if asked.tool == "issue_refund" else "",
        choices={CHARGE: {one.name: in_words(one) for one in account.charges}}
        if account and books.is_open
        else {},
        unattended_minor=books.unattended_minor,
        unattended_today_minor=today.get("workspace", 0),
        unattended_by_launcher_minor=today.get("launcher", 0),
        mail=due,
        accepted=asked.accepted if asked.tool == "send_reply" else (),
        replies=len(asked.made("send_reply")),
        ledger=untold(refunds, any_told=bool(letters)) if not _is_letter(asked.tool) else (),
    )


def _charge(of: billing.ChargeFacts) -> ChargeFact:
    return ChargeFact(of.amount_minor, of.refundable_minor, of.currency, of.age_days)


def in_words(of: billing.ChargeFacts) -> str:
    """Return a charge in a line, for a person who chooses."""
    amount, left = (format_money(n, of.currency) for n in (of.amount_minor, of.refundable_minor))
    plan = plan_in_words(of.plan) or of.plan
    called = f" ({of.reference})" if of.reference else ""
    return f"{plan}{called}, {amount} paid {show(of.day)}, {left} left"


def _customers_read(asked: Asked) -> set[int]:
    """Return the customers whose context was read, as named in the desk's answer."""
    found = (reply.get("user") for reply in asked.read("get_refund_context"))
    named = (user.get("id") for user in found if isinstance(user, dict))
    return {number for number in named if isinstance(number, int)}


def refunds_of(made: Sequence[MadeCall], letters: Sequence[MadeCall]) -> tuple[RefundFact, ...]:
    """Return the refunds made, and of which a letter tells: by its reference, else by its amount.

    One letter tells of one refund.
    """
    found = [
        RefundFact(
            customer=int(call.subject or 0),
            amount_minor=call.amount.minor if call.amount else 0,
            reference=str((call.result.get("refund") or {}).get("transaction_id", "")),
            by_person=call.is_by_person,
            mailed=False,
            settled=call.is_settled,
            earlier=call.is_earlier,
            charge=call.resource,
        )
        for call in made
    ]
    for letter in letters:
        text, amount = letter.args["message"], letter.amount.minor if letter.amount else 0
        paid = [n for n, one in enumerate(found) if one.reference]
        named = [n for n in paid if found[n].reference in text]
        alike = [n for n in paid if found[n].amount_minor == amount and not found[n].mailed]
        for n in named or alike[:1]:
            found[n] = replace(found[n], mailed=True)
    return tuple(found)


def untold(refunds: Sequence[RefundFact], *, any_told: bool) -> tuple[str, ...]:
    """Return of which refunds the customer has not been told, in sentences.

    `any_told` says whether an email was sent: then, or of several, each says its amount.
    """
    paid = [one for one in refunds if one.reference]
    due = [one.amount_minor for one in paid if not one.mailed]
    if len(paid) == len(due) == 1 and not any_told:
        return (UNTOLD,)
    count = Counter(one.amount_minor for one in paid)
    return tuple(
        UNTOLD.replace(".", f" of {_how_many(due.count(minor), count[minor])}{in_usd(minor)}.")
        for minor in dict.fromkeys(due)
    )


def _how_many(due: int, made: int) -> str:
    return "" if made == 1 else f"{due} of {made} refunds of "


def _is_letter(tool: str) -> bool:
    return tool in desk.tools and bool(desk.tools[tool].letter)


def _mail(asked: Asked, refunds: Sequence[RefundFact]) -> MailFact | None:
    """Return the mail that is due: for the newest refund of the run not yet written about."""
    due = [one for one in refunds if one.reference and not one.mailed]
    if not due:
        return None
    customer, amount, books = due[-1].customer, due[-1].amount_minor, asked.fetched
    if books.account and customer == books.customer:
        name = books.account.name
    else:
        name = billing.customer_name(book_id=asked.book, customer_number=customer)
    text = mail.refund_message(
        name=name, amount_minor=amount, currency=CURRENCY, reference=due[-1].reference
    )
    return MailFact(customer, amount, text)
