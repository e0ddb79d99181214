"""How pages write money, times and states; loaded into every template.

One file, as each function is a filter or tag of the same library.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache, lru_cache, reduce, wraps
from math import ceil, floor
from operator import or_
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar
from zoneinfo import ZoneInfo, available_timezones

from django import template
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.templatetags.static import static
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.html import conditional_escape, escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from agents.core.compat_0_2 import currency_of, unit_of
from agents.core.decisions import kind_of
from agents.core.json_forms import BadJson, is_hidden, parse
from agents.core.money import (
    MAX_MINOR,
    PRICED_IN,
    BadAmount,
    currencies_with,
    exponent,
    format_money,
    format_sums,
    is_currency,
    minor_of_text,
    with_unit,
)
from agents.core.redact import ANY_MASK, PSEUDONYM
from agents.core.requests import EscalationState, Json
from agents.core.tables import read_table
from agents.models import Escalation, KillSwitch, Scope, SwitchStage
from agents.policies import words as desk_words
from agents.policies.words import words_of
from agents.sdk.adjustments import in_words, label_of
from agents.sdk.desk import DESKS, offered, tool_title
from agents.tools import request_of

register = template.Library()
register.filter(tool_title)
register.filter(with_unit)
TIMES = ("seconds", "minutes", "hours", "days", "weeks", "months", "years")  # units alone
_WHOLE = re.compile(r"\b(?:[A-Z]{3} \d(?:[\d,.]{0,14}\d)?|[A-Z]{1,8}-\d{1,9})\b(?![^<>]*>)")
MASKED = re.compile(f"{PSEUDONYM.pattern}|{ANY_MASK.pattern}")


class StopRow(Protocol):
    """A kill switch in force, as built by the kill page."""

    switch: KillSwitch


CHIPS = read_table(dict[str, dict[str, tuple[str, str]]], __file__, "chips.toml")
RUN_ROLES, ESCALATION_ROLES = CHIPS["run"], CHIPS["escalation"]
CALL_ROLES, RULING_ROLES = CHIPS["call"], CHIPS["ruling"]
WORDS = read_table(dict[str, dict[str, str]], __file__, "words.toml")
HELD = ("waiting", "Held by a switch")  # a call that its agent may not take now


@register.simple_tag
@lru_cache(512)  # a page has dozens
def icon(name: str, classes: str = "") -> SafeString:
    """Return an icon of the sprite, hidden from screen readers: a word is next to it."""
    return format_html(
        '<svg class="icon {}" aria-hidden="true"><use href="{}#i-{}"/></svg>',
        classes,
        static("icons.svg"),
        name,
    )


@register.simple_tag(name="state_chip")
def _chip(role: str, word: str, kind: str = "chip") -> SafeString:
    return format_html('<span class="{}" data-role="{}">{}{}</span>', kind, role, icon(role), word)


@register.simple_tag
def ruling_chip(decision: str, kind: str = "chip") -> SafeString:
    return _chip(*RULING_ROLES[decision], kind)


@register.filter
def call_chip(outcome: Mapping[str, str]) -> SafeString:
    """Return a call's status as its agent got it; an executed question was answered."""
    role, word = CALL_ROLES[outcome["status"]]
    if outcome["status"] == "allowed" and outcome["waiting_for"]:
        return _chip(*HELD)
    is_answer = outcome["kind"] == "question" and outcome["status"] == "executed"
    return _chip(role, "Answered" if is_answer else word)


@register.simple_tag
def escalation_chip(escalation: Escalation) -> SafeString:
    return _chip(*standing_of(escalation))


def standing_of(escalation: Escalation) -> tuple[str, str]:
    """Return role and word of a request's state, in the words of its kind."""
    role, word = ESCALATION_ROLES[escalation.state]
    kind = kind_of(escalation.kind, escalation.action)
    return role, kind.words.get(EscalationState(escalation.state), word)


@register.filter
def outcome_in_words(escalation: Escalation) -> str:
    """Return a request's outcome: "rejected, EUR 1,100.00", "case taken over"."""
    word = standing_of(escalation)[1].lower()
    tag = request_of(escalation.run.desk, escalation.kind, escalation.action).tag
    return f"{word}, {escalation.asked}" if escalation.asked else f"{tag} {word}"


@register.simple_tag
def stop_chip(stops: Sequence[StopRow]) -> SafeString:
    """Return whether kill switches stop agents altogether or in part, as a chip."""
    stopped = {row.switch.scope for row in stops if row.switch.stage is SwitchStage.ON}
    if Scope.WORKSPACE in stopped:
        return _chip("block", "Agents stopped")
    return _chip("waiting", "Agents partly stopped")


@register.simple_tag
def compare_measure(ruling: dict[str, Any]) -> str:
    """Return a rule's measured value and limit: EUR 1,200.00; limit EUR 1,000.00, 1 of 5 calls."""
    observed, limit = ruling.get("observed"), ruling.get("limit")
    if observed is None:
        return ""
    is_list = isinstance(observed, list)
    observed, limit = _without_brackets(observed), _without_brackets(limit)
    if is_list and limit is not None:
        return f"found {observed}, needed {limit}"
    if str(ruling.get("rule")).endswith(".bound") and limit is not None:
        return f"proposed {observed}, allowed {limit}"
    unit = unit_of(ruling)
    if limit == 0 and not is_currency(unit):
        return f"{with_unit(observed, unit)}, none allowed"
    if limit is None:
        return with_unit(observed, unit)
    if isinstance(ruling["limit"], list):
        return f"{observed}; allowed {limit}"
    is_count = isinstance(observed, int) and unit and not is_currency(unit) and unit not in TIMES
    if is_count and 0 <= observed <= limit:
        return f"{observed:,} of {with_unit(limit, unit)}"
    return f"{with_unit(observed, unit)}; limit {with_unit(limit, unit)}"


def _without_brackets(value: Any) -> Any:
    return ", ".join(map(str, value)) or "nothing" if isinstance(value, list) else value


@register.filter
def role_of(verdict: str) -> str:
    return RULING_ROLES[verdict][0]


@register.filter
def rule_title(rule: str) -> str:
    """Return the title of a rule: Automatic approval limit."""
    return words_of(rule)[0]


@register.filter
def spell_out(name: str) -> str:
    """Return a pattern's name in words: Two readers."""
    return name.replace("_", " ").capitalize()


@register.filter
def money(minor: int | None, currency: str) -> str:
    """Write minor units as EUR 1,200.00; "none" without an amount."""
    return "none" if minor is None else format_money(minor, currency)


def up_to(own: Mapping[str, int] | None) -> str:
    """Return what a person may approve at a desk, by their own limit in each currency."""
    if own is None:
        return "any amount"
    return f"up to {format_sums(own.items())}" if own else "no amount"


@register.filter
def desk_title(name: str) -> str:
    """Return the title of a desk, even one that this process lacks."""
    return DESKS[name].title if name in DESKS else name.capitalize()


def rule_of_desk(rule: str, desk: str) -> str:
    """Return the title of a desk's rule, followed by the desk in brackets."""
    return f"{rule_title(rule)} ({desk_title(desk)})"


@register.filter
def rule_in_full(rule: str) -> str:
    """Return the title of a rule, with its desk if another desk has the same title."""
    title = rule_title(rule)
    known = frozenset(name for desk in offered().values() for name in desk.checks)
    others = _count_titles(known)[title] - (rule in known)
    return rule_of_desk(rule, rule.partition(".")[0]) if others else title


@lru_cache(maxsize=1)
def _count_titles(rules: frozenset[str]) -> Counter[str]:
    return Counter(map(rule_title, rules))


@register.filter
def with_article(noun: str) -> str:
    return f"{'an' if noun[:1] in 'AEIOUaeiou' else 'a'} {noun}"


@register.filter
def within_sentence(title: str) -> str:
    """Return a title for use within a sentence: access grants, SIM swaps, Harbor Hotels."""
    is_name = title[1:2].isupper() or (" " in title and title.istitle())
    return title if is_name else title[:1].lower() + title[1:]


@register.filter
def mark(text: str, words: Sequence[str]) -> SafeString:
    """Return a text as markup, with each mention of these words marked."""
    ways = sorted(filter(None, words), key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, ways))})", text) if ways else [text]
    marked = [
        format_html("<mark>{}</mark>" if n % 2 else "{}", part) for n, part in enumerate(parts)
    ]
    return format_html_join("", "{}", ((part,) for part in marked))


@register.filter
def unbroken(text: str) -> SafeString:
    """Keep each amount with its currency, and each key like P-102, on one line."""
    return mark_safe(_WHOLE.sub(r'<span class="nowrap">\g<0></span>', conditional_escape(text)))  # noqa: S308


@register.filter
def mark_masked(text: str) -> SafeString:
    """Mark what was masked; people who may see values get them there."""
    return mark_safe(MASKED.sub(r"<mark>\g<0></mark>", conditional_escape(text)))  # noqa: S308


@register.filter
def thousands(number: int) -> str:
    """Write a count as 15,362."""
    return f"{number:,}"


@register.filter
def counted(number: int, topic: str, **about: str) -> str:
    """Return a topic's words about a number, in the grammar of none, one or more."""
    words = WORDS[topic]
    return words.get(str(number), words["more"]).format(n=thousands(number), **about)


@register.filter
def cost(micro_usd: int) -> str:
    """Write a model's cost, a small amount of dollars."""
    return f"{PRICED_IN} {micro_usd / 1_000_000:.3f}"


@register.filter
def time_left(at: datetime, words: str) -> str:
    """Write how long it is until `at`, in words that have `{}` for 5:48 min, 29 min or 1 h 12.

    `tick` in opsconsole.js writes the same.
    """
    rest = at - timezone.now()
    return words.replace("{}", _clock(rest)) if rest > timedelta() else "Time is over"


@register.filter
def left_when_frozen(escalation: Escalation) -> str:
    """Write how long a person will have to decide once the deadline runs again."""
    return _clock(escalation.expires_at - (escalation.frozen_at or timezone.now()))


def _clock(rest: timedelta) -> str:
    rest = max(rest, timedelta())
    minutes, seconds = divmod(int(rest.total_seconds()), 60)
    if minutes < 10:
        return f"{minutes}:{seconds:02d} min"
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d}"


@register.filter
def urgency(at: datetime) -> str:
    """Return how a countdown looks: "now" in the last five minutes, "soon" in the last ten."""
    rest = at - timezone.now()
    if rest < timedelta(minutes=5):
        return "now"
    return "soon" if rest < timedelta(minutes=10) else ""


@register.simple_tag
def moment(at: datetime | None) -> SafeString:
    """Write a time of day, with the date unless it is today, and the exact time in the markup.

    It is in the page's zone; `localise` in opsconsole.js writes the same.
    """
    if at is None:
        return format_html("<span>{}</span>", "not yet")
    here = timezone.localtime(at)
    is_today = here.date() == timezone.localdate()
    words = here.strftime("%H:%M:%S") if is_today else here.strftime("%-d %b %H:%M")
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        *(at.isoformat(timespec="milliseconds"),) * 2,
        words,
    )


@register.simple_tag
def moment_utc(at: datetime) -> SafeString:
    """Write date and time in UTC for every viewer, as in the audit log."""
    # Without `datetime` in the markup, which the script would convert to the viewer's zone.
    return format_html("<time>{}</time>", f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}")


@register.simple_tag
def since(at: datetime) -> SafeString:
    """Write how long ago a time is; `tick` in opsconsole.js writes on."""
    words = duration((timezone.now() - at).total_seconds())
    return format_html('<span data-since="{}">{}</span>', at.isoformat(), words)


@register.filter
def past(verdict: str) -> str:
    return WORDS["past"][verdict]


@register.filter
def duration(seconds: float) -> str:
    """Write a duration: 8 s, 26 min, 2 h, 2 h 14."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d}".removesuffix(" 00")


# The zone in which a person reads and types times: their own, from a cookie; UTC in the record.


COOKIE = "zone"  # the name of a zone, such as Europe/Berlin, set by opsconsole.js
P = ParamSpec("P")
GetResponse: TypeAlias = Callable[[HttpRequest], HttpResponse]
R = TypeVar("R", bound=HttpResponseBase)
View: TypeAlias = Callable[Concatenate[HttpRequest, P], R]


def viewer_zone(get_response: GetResponse) -> GetResponse:
    """Answer each request in the viewer's zone, or UTC if it is unknown."""

    def answer(request: HttpRequest) -> HttpResponse:
        name = request.COOKIES.get(COOKIE, "")
        with timezone.override(ZoneInfo(name) if name in _zones() else UTC):
            return get_response(request)

    return answer


def day_begun(at: datetime) -> datetime:
    """Return the beginning of a time's day in the viewer's zone."""
    return timezone.localtime(at).replace(hour=0, minute=0, second=0, microsecond=0)


def in_utc(view: View[P, R]) -> View[P, R]:
    """Show and read a page's times in UTC for every viewer: they are evidence."""

    @wraps(view)
    def answer(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> R:
        request.META["opsconsole.in_utc"] = True
        with timezone.override(UTC):
            return view(request, *args, **kwargs)

    return answer


def is_in_utc(request: HttpRequest) -> bool:
    """Tell whether a page's times are in UTC for every viewer."""
    return "opsconsole.in_utc" in request.META


def read_time(text: str) -> datetime | None:
    """Return a time in UTC, for a date its beginning; None if invalid or beyond the calendar.

    Without an offset it is read in the viewer's zone.
    """
    try:
        instant = parse_datetime(text)
        if instant is None and (day := parse_date(text)) is not None:
            instant = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - made aware below
        if instant is None:
            return None
        aware = instant if timezone.is_aware(instant) else timezone.make_aware(instant)
        return aware.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


@cache
def _zones() -> frozenset[str]:
    """Return the names that may be looked up, so that a cookie's text is never used as a path."""
    return frozenset(available_timezones())


# Amounts in the address of a filter: as people write them, in one currency or any.


_ENDS = {"amount_from": "0", "amount_to": str(MAX_MINOR)}
AMOUNTS = (*_ENDS, "currency")
_UNUSUAL = (0, 3, 4)  # numbers of minor digits; nearly every currency has two
_MOST_DIGITS = "CLF"  # the currency with the most minor digits: it can read any amount


def of_amount(given: Mapping[str, str]) -> Q:
    """Return the filter by amount: in one currency, or the same amount in any."""

    def within(digits: int) -> Q:
        least, most = (Decimal(given.get(name, end)) for name, end in _ENDS.items())
        bounds = (ceil(least.scaleb(digits)), min(floor(most.scaleb(digits)), MAX_MINOR))
        return Q(amount_minor__range=bounds)

    if known := given.get("currency", "").upper():
        return Q(currency=known) & within(exponent(known))
    unusual = [(Q(currency__in=currencies_with(digits)), within(digits)) for digits in _UNUSUAL]
    usual = ~reduce(or_, (those for those, _ in unusual)) & within(2)
    return reduce(or_, (those & amounts for those, amounts in unusual), usual)


def read_amount(text: str) -> int | None:
    """Return an amount in minor units of _MOST_DIGITS, or None if it cannot be read."""
    try:
        return minor_of_text(text, _MOST_DIGITS)
    except BadAmount:
        return None


def read_currency(text: str) -> int | None:
    """Return a currency's number of minor digits; None if it is not a currency."""
    try:
        return exponent(text.upper())
    except BadAmount:
        return None


# An agent's output for people: its words, then the fields of JSON.


_CODE = re.compile("[a-z]+(_[a-z]+)+")
_STATUSES = {"done": "", "ok": "", "error": "", "needs_reroute": "Declined"}


class Output(NamedTuple):
    """Its words, and the fields that later steps read, by label."""

    words: str
    fields: dict[str, str]


def split_output(text: str) -> Output:
    """Split an output that ends with a JSON object into two parts; other text is words."""
    begin = 0 if text.startswith("{") else text.rfind("\n{") + 1
    if not text.startswith("{", begin):
        return Output(text, {})
    try:
        reply = parse(text[begin:].rstrip().removesuffix("```"))
    except BadJson:
        return Output(text, {})
    if reply.get("kind") == "tool" and isinstance(reply.get("args"), dict):
        reply = {"Proposes": tool_title(str(reply.get("name"))), **reply["args"]}
    currency = currency_of(reply)
    fields = {label_of(name): field_in_words(name, reply[name], currency) for name in reply}
    if type(reply.get("amount")) in (int, float) and "currency" not in reply:
        told = f"{fields[label_of('amount')]} (no currency stated)" if reply["amount"] else "none"
        fields[label_of("amount")] = told
    return Output(text[:begin].rstrip().removesuffix("json").removesuffix("```").rstrip(), fields)


def field_in_words(name: str, value: Json, currency: str) -> str:
    """Return a field of a reply in words: amounts, shares, counts, codes."""
    if name.endswith("_minor") and type(value) is int:
        return format_money(value, currency)
    unit = name.rpartition("_")[2].upper()
    if type(value) in (int, float) and any(unit == desk.numbers for desk in DESKS.values()):
        return f"{unit} {value:,.2f}"
    if name.endswith("_rate") and type(value) is float:
        return f"{value:.1%}"
    if type(value) is int and not name.endswith("id"):
        return f"{value:,}"
    words = in_words(value)
    return words.replace("_", " ") if _CODE.fullmatch(words) else words


def fields_in_words(reply: Mapping[str, Json]) -> str:
    """Return the fields of a tool's reply in a line."""
    currency, status = currency_of(reply), str(reply.get("status", ""))
    texts = [
        f"{label} {field_in_words(name, value, currency)}"
        for name, value in reply.items()
        if name != "status" and (label := desk_words.FIELDS.get(name, label_of(name)))
    ]
    return " · ".join(filter(None, (_STATUSES.get(status, status.capitalize()), *texts)))


def in_prose(text: str) -> str:
    """Return the output as one text, with the fields as sentences at its end."""
    words, fields = split_output(text)
    return "\n\n".join(filter(None, (words, "; ".join(f"{k}: {v}" for k, v in fields.items()))))


# Why a letter about an amount in the ledger is missing.


EMAIL_FAILED = "email_failed"
_WHY = {EMAIL_FAILED: "its email failed", "success": "the agent sent no email"}


def why_untold(code: str, letters: Sequence[tuple[str, int | None]]) -> str:
    """Return the reason as the end of a sentence.

    `code` is EMAIL_FAILED or the run's stop reason; `letters` is from `letters_sent`.
    """
    if not letters:
        return f"nobody was told, because {_WHY.get(code, 'the run ended first')}"
    amounts = sorted({(currency, minor) for currency, minor in letters if minor is not None})
    named = ", ".join(format_money(minor, currency) for currency, minor in amounts)
    return "no email states this amount" + (f" (told of {named})" if named else "")


# An agent's answer as HTML: paragraphs, lists, tables, emphasis and code, and nothing else.
#
# A model may have copied from an outsider, so the HTML has no link, picture or script. Links and
# pictures are shown as text with the address.


_DEEPEST = 30  # of nested lists: the parser leaves out deeper text
_PARSER = MarkdownIt("zero", {"maxNesting": _DEEPEST}).enable(
    [
        *("list", "table", "fence", "code", "heading", "lheading", "newline", "escape"),
        *("backticks", "emphasis", "link", "image", "entity"),
    ]
)
_TAGS = {"p", "ul", "ol", "li", "thead", "tbody", "tr", "th", "td", "em", "strong"}
_REPLACED = "\N{REPLACEMENT CHARACTER}"


def as_html(text: str) -> SafeString:
    """Return a text as HTML; one nested too deeply stays plain."""
    tokens = _PARSER.parse(text)
    if any(token.level >= _DEEPEST - 1 for token in tokens):
        return mark_safe(f'<p class="said">{_escaped(text)}</p>')  # noqa: S308 - escaped
    return mark_safe("".join(_html(tokens)))  # noqa: S308 - each text is escaped


def as_line(text: str, most: int) -> str:
    """Return the beginning of a text without its marks, on one line."""
    shown = _texts(_PARSER.parse(text[: 2 * most]))
    return _shown(" ".join(" ".join(shown).split()))


def _html(tokens: Iterable[Token]) -> Iterator[str]:
    addresses: list[str] = []
    tables = 0
    for token in tokens:
        end = "/" if token.nesting < 0 else ""
        if token.hidden:  # of a list without blank lines
            continue
        if token.type == "inline":
            yield from _html(token.children or ())
        elif token.type in ("softbreak", "hardbreak"):
            yield "<br>"
        elif token.type == "code_inline":
            yield f"<code>{_escaped(token.content)}</code>"
        elif token.type in ("fence", "code_block"):
            yield f"<pre><code>{_escaped(token.content)}</code></pre>"
        elif token.type == "image":
            yield _escaped(token.content) + _address(str(token.attrs.get("src", "")))
        elif token.type == "link_open":
            addresses.append(str(token.attrs.get("href", "")))
        elif token.type == "link_close":
            yield _address(addresses.pop())
        elif token.type.startswith("heading_"):
            yield "</strong></p>" if end else "<p><strong>"
        elif token.tag == "table":
            tables += not end
            place = f'<div class="scroll-x" tabindex="0" role="region" aria-label="Table {tables}">'
            yield "</table></div>" if end else f'{place}<table class="table">'
        elif token.tag in _TAGS:
            first = token.attrs.get("start")  # of a numbered list
            yield f"<{end}{token.tag}{f' start={int(first)}' if first else ''}>"
        else:
            yield _escaped(token.content)


def _texts(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "inline":
            yield "".join(_texts(token.children or ()))
        else:
            yield " " if token.type.endswith("break") else token.content


def _address(given: str) -> str:
    """Return a link's address in brackets; "" for one without a host."""
    return f" ({_escaped(given)})" if "//" in given or given.startswith("mailto:") else ""


def _escaped(text: str) -> str:
    return str(escape(_shown(text)))


def _shown(text: str) -> str:
    """Return a text without control characters; an entity may stand for one."""
    return "".join(_REPLACED if is_hidden(char) else char for char in text)
