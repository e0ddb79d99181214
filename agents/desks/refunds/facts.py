"""The facts of a refund for rules and people, gathered from the ledger and the books.

It has the facts of a review, the charge that people mean, and the account next to a request.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from agents.core.compat_0_2 import CURRENCY
from agents.core.money import format_money, format_sums
from agents.core.names import plan_in_words
from agents.core.requests import MAYBE_DONE, Json
from agents.core.tables import read_table
from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import Pending
from agents.desks.refunds import billing, mail
from agents.desks.refunds.billing import ChargeFacts
from agents.desks.refunds.declared import CHARGE, CUSTOMER, desk
from agents.models import Effect
from agents.sdk.amounts import MONTH, amounts_in
from agents.sdk.rules import MadeCall, is_named, names_used
from agents.sdk.values import show
from opsconsole.desks import (
    Asked,
    Beside,
    Evidence,
    Fact,
    HeldRequest,
    Money,
    Origin,
    Section,
    Touch,
)


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
    """The charge of an action: the one meant by a refund, else the newest."""

    amount_minor: int
    refundable_minor: int  # the charge less refunded and held amounts
    currency: str
    age_days: int
    key: str = ""


@dataclass(frozen=True)
class MailFact:
    """The next mail due by the ledger: for the newest refund not yet mailed."""

    customer: int
    amount_minor: int
    message: str


@dataclass(frozen=True)
class RefundFacts:
    """What a review at this desk knows besides what every review knows."""

    subject: int | None = None  # the customer the run may act on; None: any
    context_of: tuple[int, ...] = ()  # customers whose context this run has read
    refunds: tuple[RefundFact, ...] = ()
    # On the customer of a call that writes:
    country: str = ""  # such as US; "": unknown
    charge: ChargeFact | None = None  # None: there is none, or it is unclear which is meant
    to_choose: tuple[str, ...] = ()  # the charges of which a person has to choose one
    unattended_minor: int = 0  # refunded on this charge without a person, over the rolling window
    amount_named_by: Origin = Origin.NOBODY
    is_other_named: bool = False  # whether the request names another amount
    mail: MailFact | None = None
    replies: int = 0  # to the customer that this run sent or may have sent
    accepted: tuple[str, ...] = ()  # SHA-256 of each output that its supervision accepted

    @property
    def sentences(self) -> dict[str, str]:
        """Return what the desk itself vouches for: a letter may say it."""
        return {"confirmation": self.mail.message} if self.mail else {}

    @property
    def refunded_minor(self) -> int:
        """Return the sum that this run has or may have refunded."""
        return sum(refund.amount_minor for refund in self.refunds)

    def is_of_charge(self, refund: RefundFact) -> bool:
        """Tell whether a refund was taken from the action's charge, as far as both are known.

        While a person has to choose it, no earlier refund is of it.
        """
        key = self.charge.key if self.charge else ""
        return not self.to_choose and refund.charge in ("", key)


@dataclass(frozen=True)
class AskedBooks:
    """The database's data on the customer of an action."""

    customer: int | None
    account: billing.CustomerAccount | None
    charge: billing.ChargeFacts | None  # the action's
    is_open: bool  # one of several has to be chosen
    refunded: Sequence[tuple[Any, ...]]  # refunded without a person, within the window

    @property
    def resource(self) -> str:
        return str(self.charge.charge_id) if self.charge else ""

    @property
    def choices(self) -> dict[str, dict[str, str]]:
        """Return the charges of which a person has to choose one, in words."""
        charges = self.account.charges if self.account and self.is_open else ()
        return {CHARGE: {one.name: _in_words(one) for one in charges}} if charges else {}

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
    """Send for the account of the customer, and for their unattended refunds."""
    book, own = asked.book, int(subject) if subject else None
    customer: int | None = asked.given.get(CUSTOMER, own)
    tool = desk.tools.get(asked.tool)
    if tool is None or tool.touch is Touch.READ:  # no rule on a read or an answer needs it
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
    """Return a refund's charge, and whether a person has to choose it.

    A person's choice counts first, then an earlier review of this refund, then the words of people.
    A charge named by the agent alone does not count.
    """
    given = str(asked.given.get(CHARGE) or "").strip().upper()
    named = {one.name: one for one in charges}
    if given and given not in named:
        return None, False
    before = asked.before
    if before and CHARGE in (before.patch or {}):
        return named[given], False
    charge = before and kept_charge(charges, before.facts, before.at)
    charge = charge or meant_charge(
        charges,
        asked.goals,
        asked.advice,
        amount_minor=asked.given.get("amount_minor"),
        today=asked.today,
    )
    if charge and given in ("", charge.name):
        return charge, False
    return None, bool(charges)


@desk.facts
def gather(subject: str, asked: Asked) -> RefundFacts:
    books: AskedBooks = asked.fetched
    account, charge = books.account, books.charge
    refunds = refunds_of(asked.made("issue_refund"), asked.made("send_refund_email"))
    known = RefundFacts(
        subject=int(subject) if subject else None,
        context_of=tuple(sorted(_customers_read(asked))),
        refunds=refunds,
        country=account.country if account else "",
        charge=_charge(charge) if charge else None,
        unattended_minor=books.unattended_minor,
        mail=_mail(asked, refunds),
        replies=len(asked.made("send_reply")),
        accepted=asked.accepted if asked.tool == "send_reply" else (),
    )
    if asked.tool != "issue_refund":
        return known
    is_named = isinstance(asked.given.get("amount_minor"), int)
    origin = asked.origin("amount_minor") if is_named else Origin.NOBODY
    return replace(
        known,
        to_choose=tuple(books.choices.get(CHARGE, ())),
        amount_named_by=origin,
        is_other_named=not origin.is_of_people
        and bool(amounts_in("\n".join(asked.goals), CURRENCY)),
    )


def _charge(of: billing.ChargeFacts) -> ChargeFact:
    key = str(of.charge_id)
    return ChargeFact(of.amount_minor, of.refundable_minor, of.currency, of.age_days, key)


def _in_words(of: billing.ChargeFacts) -> str:
    """Return a charge in a line, for a person who chooses."""
    amount, left = (format_money(n, of.currency) for n in (of.amount_minor, of.refundable_minor))
    called = f" ({of.reference})" if of.reference else ""
    return f"{_plan(of)}{called}, {amount} paid {show(of.day)}, {left} left"


def _customers_read(asked: Asked) -> set[int]:
    """Return the customers whose context was read, as named in the desk's answer."""
    users = (reply.get("user") for reply in asked.read("get_refund_context"))
    named = (user.get("id") for user in users if isinstance(user, dict))
    return {number for number in named if isinstance(number, int)}


def refunds_of(made: Sequence[MadeCall], letters: Sequence[MadeCall]) -> tuple[RefundFact, ...]:
    """Return the refunds made, and the letters about them: by reference, else by amount.

    One letter is about one refund.
    """
    refunds = [
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
        paid = [n for n, one in enumerate(refunds) if one.reference]
        named = [n for n in paid if refunds[n].reference in text]
        alike = [n for n in paid if refunds[n].amount_minor == amount and not refunds[n].mailed]
        for n in named or alike[:1]:
            refunds[n] = replace(refunds[n], mailed=True)
    return tuple(refunds)


def _mail(asked: Asked, refunds: Sequence[RefundFact]) -> MailFact | None:
    """Return the mail that is due: for the newest refund of the run without one."""
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


# The customer's charge that people mean: a pure function of their words and the charges. They mean
# a charge if they write its name, or if it alone fits their words. Otherwise none is meant: a
# person is asked once too often, not too seldom.

_LISTS = read_table(dict[str, list[str]], __file__, "charges.toml")
_WORDS = {name: "|".join(patterns) for name, patterns in _LISTS.items()}
_NOUNS = r"(?:charges?|plans?|subscriptions?|payments?|purchases?|invoices?|fees?|licen[cs]es?)\b"
_PAID = r"\b(?:charged?|payment|paid|billed|bought|purchased?|invoiced?|debited)\b"
_FILLED = r"(?:\s+(?:of|on|from|at|made|dated|the|back|USD|US\$|\$|[\d.,]*\d))*\s*"
_MONTH = rf"(?:{_WORDS['month']})\b\.?"
_NTH = r"\d{1,2}(?:st|nd|rd|th|\.)?"
_DAYS = re.compile(
    r"\b(?P<ago>\w+) days? ago\b|\b(?P<near>today|yesterday)\b"
    r"|\b(?P<iso>\d{4}-\d\d-\d\d)\b|\b(?P<parts>\d{1,2}[./]\d{1,2}[./]\d{4})\b"
    rf"|\b(?:{_NTH}(?: of)? )?{_MONTH}(?: {_NTH}\b)?(?:,? \d{{4}}\b)?"
    # Forms and languages that name no charge.
    r"|\b(?P<other>\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b|\d{1,2}/\d{1,2}\b|\d{1,2}\.\d{1,2}\.(?!\d)"
    rf"|\d{{1,2}}(?:st|nd|rd|th)\b|\d{{1,2}}\.? (?:de )?{MONTH})",
    re.IGNORECASE,
)
_MAY = re.compile("may", re.IGNORECASE)  # by itself it is no month
_NAME = re.compile(r"(?<![\w.-])CH-\d{1,18}(?![\w-])", re.IGNORECASE)
# Names a charge by its position, number or sum, or names several.
_PLACED = re.compile(
    rf"\b(?:{_WORDS['placed']})\b|\b(?:week|month|year)s?\s+ago\b|\bCH\d"
    r"|\b(?:INV|RE|TX|TXN|PAY|ORD)[-_]?\d"
    rf"|\b(?:{_NOUNS}|orders?\b|CH\b)[\s:#]*(?:(?:no|nr|number|id)\b[.:\s#]*)?"
    r"(?:(?=[^\W\d_]*-?\d)[^\W_]+(?:-\w+)*\b(?!\s*(?:days?|USD|\$|[.,]\d))|(?:one|two|three)\b)"
    rf"|(?<![\d.,/-])(?!20\d\d\s)\d[\d,]*(?:\.\d\d)?\s+(?:(?:USD|dollars?)\s+)?{_NOUNS}",
    re.IGNORECASE,
)
_NOT = rf"(?:n[’']t|\b(?:{_WORDS['excepting']}))\b"
_DONE = r"\b(?:already|alone|untouched|stays?|(?:is|was) (?:fine|ok|right|correct|refunded))\b"
_KINDS = ("annual", "yearly", "monthly", "quarterly", "weekly", "trial", "setup", "addon", "seat")
_CALLED = re.compile(rf"\b([^\W\d_]+)[\s-]+{_NOUNS}", re.IGNORECASE)
_PLAIN = re.compile(_WORDS["plain"])
_NO_PLAN = re.compile(rf"{_WORDS['plain']}|{_MONTH}", re.IGNORECASE)


class _WrittenDay(NamedTuple):
    """A day as people write it; None for the missing parts."""

    year: int | None
    month: int | None
    day: int | None
    is_of_charge: bool  # it says when something was paid

    def is_of(self, other: date) -> bool:
        parts = zip(self[:3], (other.year, other.month, other.day), strict=True)
        return all(own in (None, part) for own, part in parts)


def meant_charge(
    charges: Sequence[ChargeFacts],
    goals: Sequence[str],
    advice: Sequence[str],
    *,
    amount_minor: Json,
    today: date,
) -> ChargeFacts | None:
    """Return the charge that goals or a person's advice mean; None if that is unclear.

    An amount counts only if they name it. The only charge of a customer is always meant.
    """
    if len(charges) < 2:
        return next(iter(charges), None)
    texts = [*goals, *advice]
    if named := _names_in(advice, charges) or _names_in(goals, charges):
        own = [one for one in charges if {one.name} == named]
        called = [re.escape(one) for of in own for one in (of.name, of.reference) if one]
        return own[0] if own and not _excludes(texts, called) else None
    amount = _named_amount(amount_minor, texts)
    charge = _only_fit(charges, texts, amount, today)
    if charge is None:
        return None
    rest = "\n".join(texts)
    for whole in names_used([Money(charge.amount_minor, charge.currency)], rest):
        rest = rest.replace(whole, "")  # it names no other
    if _PLACED.search(rest):
        return None
    words = [re.escape(word) for one in charges for word in _words(one.plan)]
    known = [0, amount, charge.amount_minor, charge.refundable_minor]
    other = {n for one in charges for n in (one.amount_minor, one.refundable_minor)}.difference(
        known
    )
    is_other = _names_another(charge, charges, texts, today) or _excludes(texts, [*words, _NOUNS])
    return None if is_other or any(_named_amount(n, texts) for n in other) else charge


def kept_charge(charges: Sequence[ChargeFacts], facts: Json, at: datetime) -> ChargeFacts | None:
    """Return the charge of an earlier review, by its facts.

    Reviews from before 0.3.0 name it by amount, currency and age at that time.
    """
    if resource := facts.get("resource"):
        return next((one for one in charges if str(one.charge_id) == resource), None)
    shown = facts.get("charge") or {}
    alike = [
        one
        for one in charges
        if (one.amount_minor, one.currency) == (shown.get("amount_minor"), shown.get("currency"))
        and (at - one.paid_at).days == shown.get("age_days")
    ]
    return alike[0] if len(alike) == 1 else None


def _names_in(texts: Sequence[str], charges: Sequence[ChargeFacts]) -> set[str]:
    """Return the names of charges in texts, also where these have the billing system's."""
    named = {name.upper() for text in texts for name in _NAME.findall(text)}
    return named | {one.name for one in charges if _has_reference(one.reference, texts)}


def _has_reference(reference: str, texts: Sequence[str]) -> bool:
    """Tell whether texts have a reference; one without letters needs its kind next to it."""
    if not any(map(str.isdigit, reference)):
        return False
    is_number = not any(map(str.isalpha, reference))
    beside = rf"(?:{_NOUNS}|\breference|\bno\.?|\bnumber|#)[\s:#]*" if is_number else ""
    whole = rf"(?<![\w.-]){re.escape(reference)}(?![\w-]|[.,]\d)"
    pattern = re.compile(beside + whole, re.IGNORECASE)
    return any(map(pattern.search, texts))


def _named_amount(minor: Json, texts: Sequence[str]) -> int:
    """Return an amount that people name, or 0: the agent's own amount restricts nothing."""
    is_amount = isinstance(minor, int) and minor > 0
    return minor if is_amount and is_named(Money(minor, CURRENCY), texts) else 0


def _only_fit(
    charges: Sequence[ChargeFacts], texts: Sequence[str], amount: int, today: date
) -> ChargeFacts | None:
    fits = [c for c in charges if c.currency == CURRENCY and c.refundable_minor >= amount]
    plans = {one.plan for one in charges if _names_plan(one.plan, texts)}
    days = [day for day in _days_in(texts, today) if day.is_of_charge]
    fits = [one for one in fits if not plans or one.plan in plans]
    fits = [one for one in fits if not days or any(day.is_of(one.day) for day in days)]
    return fits[0] if len(fits) == 1 else None


def _names_another(
    charge: ChargeFacts, charges: Sequence[ChargeFacts], texts: Sequence[str], today: date
) -> bool:
    """Tell whether people write of a day, or of words of a plan, that this charge does not have."""
    own = _words(charge.plan)
    others = {*_KINDS, *(word for one in charges for word in _words(one.plan))} - set(own)
    called = {word.casefold() for text in texts for word in _CALLED.findall(text)}
    return (
        any(not day.is_of(charge.day) for day in _days_in(texts, today))
        or any(_has_word(word, texts) for word in others)
        or any(word not in own and not _NO_PLAN.fullmatch(word) for word in called)
    )


def _names_plan(plan: str, texts: Sequence[str]) -> bool:
    """Tell whether a plan is named: in full, or by a part such as "the annual charge"."""
    words = [re.escape(word) for word in re.split(r"[\s_-]+", plan) if word]
    either = "|".join(re.escape(word) for word in _words(plan))
    full = r"[\s_-]+".join(words)
    alone = rf"\b(?:for|of|plan)\s+{full}\b(?!\s+rata)" if len(words) == 1 else rf"\b{full}\b"
    part = rf"|\b(?:{either})[\s-]+{_NOUNS}" if either else ""
    return any(re.search(alone + part, text, re.IGNORECASE) for text in texts)


def _words(plan: str) -> list[str]:
    """Return the words of a plan that mean something alone."""
    words = re.split(r"[\s_-]+", plan.casefold())
    return [word for word in words if len(word) > 1 and not _PLAIN.fullmatch(word)]


def _has_word(word: str, texts: Sequence[str]) -> bool:
    pattern = re.compile(rf"\b{re.escape(word)}s?\b", re.IGNORECASE)
    return any(map(pattern.search, texts))


def _excludes(texts: Sequence[str], names: Iterable[str]) -> bool:
    """Tell whether people exclude a charge; `names` are patterns."""
    own, within = rf"\b(?:{'|'.join(names)})", r"[^.;!?\n]{0,60}?"
    pattern = re.compile(rf"{_NOT}{within}{own}|{own}\b{within}{_DONE}", re.IGNORECASE)
    return any(map(pattern.search, texts))


def _days_in(texts: Sequence[str], today: date) -> Iterator[_WrittenDay]:
    for text in texts:
        for match in _DAYS.finditer(text):
            if _MAY.fullmatch(match[0]):
                continue
            before = text[max(match.start() - 80, 0) : match.start()]  # all takes too long
            after = text[match.end() : match.end() + 80]
            is_of_charge = bool(
                re.search(rf"{_PAID}{_FILLED}$", before, re.IGNORECASE)
                or re.match(rf"\s+{_NOUNS}", after, re.IGNORECASE)
            )
            yield _WrittenDay(*_read_day(match, today), is_of_charge)


def _read_day(match: re.Match[str], today: date) -> tuple[int | None, int | None, int | None]:
    """Return a written day; an ambiguous or unreadable one matches no charge."""
    given, text = match.groupdict(), match[0]
    with suppress(ValueError, OverflowError):
        if given["other"]:
            return _UNREADABLE
        if given["iso"]:
            return _parts(date.fromisoformat(text))
        if given["near"]:
            return _parts(today - timedelta(days=text.casefold() == "yesterday"))
        if ago := given["ago"]:
            return _parts(today - timedelta(days=int(ago)))
        if given["parts"]:
            day, month, year = map(int, re.split(r"[./]", text))
            is_clear = "." in text or day > 12 or day == month
            return _parts(date(year, month, day)) if is_clear else _UNREADABLE
        day_of, year_of = re.search(r"\b\d{1,2}(?!\d)", text), re.search(r"\d{4}", text)
        month = next(
            n for n, one in enumerate(_LISTS["month"], 1) if re.search(rf"\b{one}\b", text, re.I)
        )
        return year_of and int(year_of[0]), month, day_of and int(day_of[0])
    return _UNREADABLE


_UNREADABLE = (0, 0, 0)


def _parts(day: date) -> tuple[int, int, int]:
    return day.year, day.month, day.day


# Next to a request: the customer's account.

_FIND_IT = (
    "Search the mail server’s log, or the mailbox that keeps copies, for the Message-ID. If it is "
    "there, the email left. It is never sent again automatically."
)


@desk.beside
def background(held: HeldRequest) -> Beside:
    """Return a request's customer, their newest charge and their refunds."""
    letter = _letter(held)
    if not held.subject:
        return Beside(sections=letter)
    account, paid_back = billing.account_with_refunds(
        book_id=held.book, customer_number=int(held.subject), at=held.at
    )
    name, charges = (account.name, account.charges) if account else ("", ())
    charge = account.charge if account else None
    if len(charges) > 1 and held.asked_at:
        facts = {**held.facts, **({"resource": held.resource} if held.resource else {})}
        charge = kept_charge(charges, facts, held.asked_at)
    refunds = [
        Fact(
            show(one.paid_at.date()) if one.paid_at else "Not yet paid",
            ", ".join(
                (
                    format_money(one.amount_minor, one.currency),
                    one.reason or "no reason given",
                    one.reference,
                )
            ),
        )
        for one in paid_back
    ]
    sections = (
        *letter,
        Section("Money on this charge", _charge_beside(charge))
        if charge or not charges
        else Section("The charges", [Fact(one.name, _in_words(one)) for one in charges]),
        *([Section("The customer", _customer(account))] if name and account else ()),
        Section(f"Refunds to {name or held.label}", refunds, "" if refunds else "None."),
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


def _charge_beside(charge: billing.ChargeFacts | None) -> list[Evidence]:
    if charge is None:
        return [Fact("Charge", "none in the system of record")]

    def money(minor: int) -> str:
        return format_money(minor, charge.currency)

    return [
        Fact("Paid", f"{money(charge.amount_minor)}, {_plan(charge)}, {charge.age_days} days ago"),
        Fact("Refunded", money(charge.refunded_minor)),
        Fact("Reserved", money(charge.held_minor)),
        Fact("Remaining", money(charge.refundable_minor)),
    ]


def _letter(held: HeldRequest) -> tuple[Section, ...]:
    """Return the facts on an email that may have left, for the person who has to say."""
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
    advice = _FIND_IT if held.is_open else ""
    return (Section("What is known about this email", facts, advice),)
