"""Which of a customer's charges people mean. Pure: their words, and the charges.

A charge is theirs if they write its name, or if it alone fits all that they write. What cannot
be told apart is nobody's: a person is asked once too often, not too seldom.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import NamedTuple

from agents.core.old_names import CURRENCY
from agents.core.requests import Json
from agents.desks.refunds.billing import ChargeFacts
from agents.sdk.amounts import MONTH
from agents.sdk.facts import is_named, names_used
from opsconsole.desks import Money

_NOUNS = r"(?:charges?|plans?|subscriptions?|payments?|purchases?|invoices?|fees?|licen[cs]es?)\b"
_PAID = r"\b(?:charged?|payment|paid|billed|bought|purchased?|invoiced?|debited)\b"
_FILLED = r"(?:\s+(?:of|on|from|at|made|dated|the|back|USD|US\$|\$|[\d.,]*\d))*\s*"
_MONTHS = (
    *("jan(?:uary)?", "feb(?:ruary)?", "mar(?:ch)?", "apr(?:il)?", "may", "june?", "july?"),
    *("aug(?:ust)?", "sept?(?:ember)?", "oct(?:ober)?", "nov(?:ember)?", "dec(?:ember)?"),
)
_MONTH = rf"(?:{'|'.join(_MONTHS)})\b\.?"
_NTH = r"\d{1,2}(?:st|nd|rd|th|\.)?"
_DAYS = re.compile(
    r"\b(?P<ago>\w+) days? ago\b|\b(?P<near>today|yesterday)\b"
    r"|\b(?P<iso>\d{4}-\d\d-\d\d)\b|\b(?P<parts>\d{1,2}[./]\d{1,2}[./]\d{4})\b"
    rf"|\b(?:{_NTH}(?: of)? )?{_MONTH}(?: {_NTH}\b)?(?:,? \d{{4}}\b)?"
    # In other forms and languages: of no charge.
    r"|\b(?P<other>\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b|\d{1,2}/\d{1,2}\b|\d{1,2}\.\d{1,2}\.(?!\d)"
    rf"|\d{{1,2}}(?:st|nd|rd|th)\b|\d{{1,2}}\.? (?:de )?{MONTH})",
    re.IGNORECASE,
)
_MAY = re.compile("may", re.IGNORECASE)  # by itself it is no month
_NAME = re.compile(r"(?<![\w.-])CH-\d{1,18}(?![\w-])", re.IGNORECASE)
# Tells of a charge by its place among the others, a number of its own or its sum, or of several.
_PLACED = re.compile(
    r"\b(?:first|second|third|last|latest|newe?r?(?:est)?|recent|previous|earli(?:er|est)"
    r"|old(?:er|est)?|former|next|other|another|both|each|every|\w+day(?<!today)(?<!yesterday)"
    r"|charges|payments|purchases|invoices|fees|hier|aujourd|ayer|hoy|ieri|oggi|heute|(?:vor)?gestern"
    r"|\w*letzt\w*|\w+sten?|zweite\w*|vorig\w*|ander\w*|beide\w*|jede\w*|alte\w*|neue\w*|derni[eè]re?s?"
    r"|premi[eè]re?s?|récent\w*|pr[eé]c[eé]d\w*|ancien\w*|autres?|deux|toute?s?|tous|chaque|[uú]ltim\w*"
    r"|primer\w*|recien\w*|anterior\w*|otr[ao]s?|amb[aeio]s?|tod[ao]s?|cada|prim[ao]|altr[aeio]|ogni"
    r"|entramb\w*|tutt[aeio])\b|\b(?:week|month|year)s?\s+ago\b|\bCH\d"
    r"|\b(?:INV|RE|TX|TXN|PAY|ORD)[-_]?\d"
    rf"|\b(?:{_NOUNS}|orders?\b|CH\b)[\s:#]*(?:(?:no|nr|number|id)\b[.:\s#]*)?"
    r"(?:(?=[^\W\d_]*-?\d)[^\W_]+(?:-\w+)*\b(?!\s*(?:days?|USD|\$|[.,]\d))|(?:one|two|three)\b)"
    rf"|(?<![\d.,/-])(?!20\d\d\s)\d[\d,]*(?:\.\d\d)?\s+(?:(?:USD|dollars?)\s+)?{_NOUNS}",
    re.IGNORECASE,
)
_NOT = (
    r"(?:n[’']t|\b(?:not|never|except|without|instead of|rather than|other than|no|keep|leave|skip"
    r"|spare|ignore|besides|nicht|keine?\w?|ohne|außer|statt|pas|sauf|sans|non|sin|excepto|salvo"
    r"|tranne|senza))\b"
)
_DONE = r"\b(?:already|alone|untouched|stays?|(?:is|was) (?:fine|ok|right|correct|refunded))\b"
_KINDS = ("annual", "yearly", "monthly", "quarterly", "weekly", "trial", "setup", "addon", "seat")
_CALLED = re.compile(rf"\b([^\W\d_]+)[\s-]+{_NOUNS}", re.IGNORECASE)
_PLAIN = re.compile(  # says nothing of which one
    r"an?|the|th(?:is|at|ese|ose)|her|his|their|its|our|your|my|of|for|in|on|one|usd|dollars"
    r"|full|whole|entire|refund|said|such|and|or"
)
_NO_PLAN = re.compile(rf"{_PLAIN.pattern}|{_MONTH}", re.IGNORECASE)


class _Day(NamedTuple):
    """A day as people write it; None where they leave that part out."""

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
    """Return the charge that goals or a person's advice mean; None if that cannot be told.

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
    found = _only_fit(charges, texts, amount, today)
    if found is None:
        return None
    rest = "\n".join(texts)
    for whole in names_used([Money(found.amount_minor, found.currency)], rest):
        rest = rest.replace(whole, "")  # it tells of no other
    if _PLACED.search(rest):
        return None
    words = [re.escape(word) for one in charges for word in _words(one.plan)]
    known = [0, amount, found.amount_minor, found.refundable_minor]
    other = {n for one in charges for n in (one.amount_minor, one.refundable_minor)}.difference(
        known
    )
    is_other = _names_another(found, charges, texts, today) or _excludes(texts, [*words, _NOUNS])
    return None if is_other or any(_named_amount(n, texts) for n in other) else found


def kept_charge(charges: Sequence[ChargeFacts], facts: Json, at: datetime) -> ChargeFacts | None:
    """Return the charge that an earlier review, with these facts, was about.

    Reviews of before 0.3.0 tell it by amount, currency and age at that time.
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
    named = {found.upper() for text in texts for found in _NAME.findall(text)}
    return named | {one.name for one in charges if _has_reference(one.reference, texts)}


def _has_reference(reference: str, texts: Sequence[str]) -> bool:
    """Tell whether texts hold a reference; one without letters only beside what it is."""
    if not any(map(str.isdigit, reference)):
        return False
    is_number = not any(map(str.isalpha, reference))
    beside = rf"(?:{_NOUNS}|\breference|\bno\.?|\bnumber|#)[\s:#]*" if is_number else ""
    whole = rf"(?<![\w.-]){re.escape(reference)}(?![\w-]|[.,]\d)"
    pattern = re.compile(beside + whole, re.IGNORECASE)
    return any(map(pattern.search, texts))


def _named_amount(minor: Json, texts: Sequence[str]) -> int:
    """Return an amount that people name, or 0: one of the agent's own restricts nothing."""
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
    found: ChargeFacts, charges: Sequence[ChargeFacts], texts: Sequence[str], today: date
) -> bool:
    """Tell whether people write of a day, or of words of a plan, that are not this charge's."""
    own = _words(found.plan)
    others = {*_KINDS, *(word for one in charges for word in _words(one.plan))} - set(own)
    called = {word.casefold() for text in texts for word in _CALLED.findall(text)}
    return (
        any(not day.is_of(found.day) for day in _days_in(texts, today))
        or any(_has_word(word, texts) for word in others)
        or any(word not in own and not _NO_PLAN.fullmatch(word) for word in called)
    )


def _names_plan(plan: str, texts: Sequence[str]) -> bool:
    """Tell whether a plan is named: in full, or a part of it as the annual charge."""
    words = [re.escape(word) for word in re.split(r"[\s_-]+", plan) if word]
    either = "|".join(re.escape(word) for word in _words(plan))
    full = r"[\s_-]+".join(words)
    alone = rf"\b(?:for|of|plan)\s+{full}\b(?!\s+rata)" if len(words) == 1 else rf"\b{full}\b"
    part = rf"|\b(?:{either})[\s-]+{_NOUNS}" if either else ""
    return any(re.search(alone + part, text, re.IGNORECASE) for text in texts)


def _words(plan: str) -> list[str]:
    """Return the words of a plan that mean something by themselves."""
    words = re.split(r"[\s_-]+", plan.casefold())
    return [word for word in words if len(word) > 1 and not _PLAIN.fullmatch(word)]


def _has_word(word: str, texts: Sequence[str]) -> bool:
    pattern = re.compile(rf"\b{re.escape(word)}s?\b", re.IGNORECASE)
    return any(map(pattern.search, texts))


def _excludes(texts: Sequence[str], names: Iterable[str]) -> bool:
    """Tell whether people write that a charge is not meant; `names` are patterns."""
    own, within = rf"\b(?:{'|'.join(names)})", r"[^.;!?\n]{0,60}?"
    pattern = re.compile(rf"{_NOT}{within}{own}|{own}\b{within}{_DONE}", re.IGNORECASE)
    return any(map(pattern.search, texts))


def _days_in(texts: Sequence[str], today: date) -> Iterator[_Day]:
    for text in texts:
        for found in _DAYS.finditer(text):
            if _MAY.fullmatch(found[0]):
                continue
            before = text[max(found.start() - 80, 0) : found.start()]  # all takes too long
            after = text[found.end() : found.end() + 80]
            is_of_charge = bool(
                re.search(rf"{_PAID}{_FILLED}$", before, re.IGNORECASE)
                or re.match(rf"\s+{_NOUNS}", after, re.IGNORECASE)
            )
            yield _Day(*_read_day(found, today), is_of_charge)


def _read_day(found: re.Match[str], today: date) -> tuple[int | None, int | None, int | None]:
    """Return a written day; one that can be read in two ways, or in none, is of no charge."""
    given, text = found.groupdict(), found[0]
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
        month = next(n for n, one in enumerate(_MONTHS, 1) if re.search(rf"\b{one}\b", text, re.I))
        return year_of and int(year_of[0]), month, day_of and int(day_of[0])
    return _UNREADABLE


_UNREADABLE = (0, 0, 0)


def _parts(day: date) -> tuple[int, int, int]:
    return day.year, day.month, day.day
