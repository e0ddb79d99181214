"""How pages write money, times and states; loaded into every template.

One file, as each function is a filter or tag of the same library.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Protocol

from django import template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from agents.core.money import PRICED_IN, format_money, format_sums
from agents.core.old_names import unit_of
from agents.core.pseudonyms import NAME
from agents.core.redact import ANY_MASK
from agents.core.request_kinds import kind_of
from agents.core.states import EscalationState
from agents.core.units import is_currency, with_unit
from agents.models import Escalation, KillSwitch, Scope, SwitchStage
from agents.policies import RULES
from agents.policies.rule_words import words_of
from agents.sdk.desk import DESKS, tool_title
from agents.tools import request_of

register = template.Library()
register.filter(tool_title)
TIMES = ("seconds", "minutes", "hours", "days", "weeks", "months", "years")  # 3 of 14 days is none
_AMOUNT = re.compile(r"\b([A-Z]{3}) (?=[0-9])")
MASKED = re.compile(f"{NAME.pattern}|{ANY_MASK.pattern}")


class StopRow(Protocol):
    """A kill switch in force, as built by the kill page."""

    switch: KillSwitch


# A state is always shown by icon, word and colour; its role gives icon and colour.
RUN_ROLES = {
    "queued": ("waiting", "Queued"),
    "running": ("running", "Running"),
    "waiting": ("waiting", "Waiting"),
    "done": ("approve", "Done"),
    "stopped": ("block", "Stopped"),
    "failed": ("failed", "Failed"),
}
ESCALATION_ROLES = {
    "open": ("escalate", "Escalated"),
    "approved": ("human", "Approved"),
    "adjusted": ("human", "Adjusted"),
    "rejected": ("block", "Rejected"),
    "sent_back": ("revise", "Sent back"),
    "expired": ("block", "Expired"),
    "cancelled": ("block", "Cancelled"),
}
CALL_ROLES = {
    "executed": ("approve", "Executed"),
    "not_executed": ("block", "Not executed"),
    "waiting": ("escalate", "Waiting"),
    "unknown": ("failed", "Outcome unknown"),
    "allowed": ("approve", "Allowed"),  # these two of calls that their agent executes
    "taken": ("running", "Taken"),
}
HELD = ("waiting", "Held by a switch")  # a call that its agent may not take meanwhile
RULING_ROLES = {
    "approve": ("approve", "Allowed"),
    "revise": ("revise", "Revised"),
    "escalate": ("escalate", "Escalated"),
    "block": ("block", "Blocked"),
}


@register.simple_tag
@lru_cache(512)  # a page has dozens
def icon(name: str, classes: str = "") -> SafeString:
    """Return an icon of the sprite, hidden from screen readers: a word stands beside it."""
    return format_html(
        '<svg class="icon {}" aria-hidden="true"><use href="{}#i-{}"/></svg>',
        classes,
        static("icons.svg"),
        name,
    )


def _chip(role: str, word: str) -> SafeString:
    return format_html('<span class="chip" data-role="{}">{}{}</span>', role, icon(role), word)


@register.simple_tag
def state_chip(role: str, word: str) -> SafeString:
    return _chip(role, word)


@register.filter
def call_chip(told: Mapping[str, str]) -> SafeString:
    """Return what an agent was told of a call; an executed question was answered."""
    role, word = CALL_ROLES[told["status"]]
    if told["status"] == "allowed" and told["waiting_for"]:
        return _chip(*HELD)
    is_answer = told["kind"] == "question" and told["status"] == "executed"
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
    """Return what became of a request: "rejected, EUR 1,100.00", "case taken over"."""
    word = standing_of(escalation)[1].lower()
    tag = request_of(escalation.kind, escalation.action).tag
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
    """Return what a rule saw and what it allows: EUR 1,200.00; limit EUR 1,000.00, 1 of 5 calls."""
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
        return f"{with_unit(observed, unit)}, 0 allowed"
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
    if not own:
        return "any amount"
    return f"up to {format_sums(own.items())}"


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
    others = _count_titles(frozenset(RULES))[title] - (rule in RULES)
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
    told = [format_html("<mark>{}</mark>" if n % 2 else "{}", part) for n, part in enumerate(parts)]
    return format_html_join("", "{}", ((part,) for part in told))


@register.filter(is_safe=True)
def unbroken(text: str) -> str:
    """Keep each amount of a text on one line, with its currency."""
    return _AMOUNT.sub("\\1\N{NO-BREAK SPACE}", text)


@register.filter
def mark_masked(text: str) -> SafeString:
    """Mark what was masked; people who may see values get them there."""
    return mark_safe(MASKED.sub(r"<mark>\g<0></mark>", conditional_escape(text)))  # noqa: S308


@register.filter
def thousands(number: int) -> str:
    """Write a count as 15,362."""
    return f"{number:,}"


@register.filter
def cost(micro_usd: int) -> str:
    """Write a model's cost, a small amount of dollars."""
    return f"{PRICED_IN} {micro_usd / 1_000_000:.3f}"


@register.filter
def time_left(at: datetime, words: str) -> str:
    """Write how long it is until `at`, in words that have `{}` for 5:48, 29 min or 1 h 12.

    `tick` in opsconsole.js writes the same.
    """
    rest = at - timezone.now()
    return words.replace("{}", _clock(rest)) if rest > timedelta() else "Time is over"


@register.filter
def left_when_frozen(escalation: Escalation) -> str:
    """Write how long a person will have to decide once the clock runs again."""
    return _clock(escalation.expires_at - (escalation.frozen_at or timezone.now()))


def _clock(rest: timedelta) -> str:
    rest = max(rest, timedelta())
    minutes, seconds = divmod(int(rest.total_seconds()), 60)
    if minutes < 10:
        return f"{minutes}:{seconds:02d}"
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


PAST = {"approve": "approved", "revise": "revised", "escalate": "escalated", "block": "blocked"}


@register.filter
def past(verdict: str) -> str:
    return PAST[verdict]


@register.filter
def duration(seconds: float) -> str:
    """Write a duration: 8 s, 26 min, 2 h, 2 h 14."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d}".removesuffix(" 00")
