"""How pages write money, times and states; loaded into every template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Protocol

from django import template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from agents.core.former import CURRENCY
from agents.core.money import PRICED_IN, format_money, format_sums
from agents.core.units import is_currency, unit_of, with_unit
from agents.models import Escalation, KillSwitch, Scope, SwitchStage
from agents.policies import RULES
from agents.policies.rule_words import words_of
from agents.sdk.desk import DESKS

register = template.Library()


class StopRow(Protocol):
    """A switch in force, as the page of the kill switches makes it."""

    switch: KillSwitch


# State is always icon, word and colour: the role gives icon and colour, the word says it.
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
RULING_ROLES = {
    "approve": ("approve", "Allowed"),
    "revise": ("revise", "Revised"),
    "escalate": ("escalate", "Escalated"),
    "block": ("block", "Blocked"),
}


@register.simple_tag
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


@register.simple_tag
def run_chip(state: str) -> SafeString:
    return _chip(*RUN_ROLES[state])


@register.simple_tag
def escalation_chip(state: str) -> SafeString:
    return _chip(*ESCALATION_ROLES[state])


@register.simple_tag
def stop_chip(stops: Sequence[StopRow]) -> SafeString:
    """Say whether kill switches stop all that agents do, or a part of it."""
    stopped = {row.switch.scope for row in stops if row.switch.stage is SwitchStage.ON}
    if Scope.WORKSPACE in stopped:
        return _chip("block", "Agents stopped")
    return _chip("waiting", "Agents partly stopped")


@register.simple_tag
def compare_measure(ruling: dict[str, Any]) -> str:
    """Write what a rule saw against what it allows: EUR 1,200.00 vs EUR 1,000.00."""
    observed, limit = ruling.get("observed"), ruling.get("limit")
    if observed is None:
        return ""
    if isinstance(limit, list):
        limit = ", ".join(map(str, limit)) or "nothing"
    if str(ruling.get("rule")).endswith(".bound") and limit is not None:
        return f"proposed {observed}, allowed {limit}"
    unit = unit_of(ruling)
    if limit == 0 and not is_currency(unit):
        return f"{with_unit(observed, unit)}, 0 allowed"
    if limit is None:
        return with_unit(observed, unit)
    saw = with_unit(observed, unit if is_currency(unit) else "")  # 60 vs 7 days: the unit once
    return f"{saw} vs {with_unit(limit, unit)}"


@register.filter
def role_of(verdict: str) -> str:
    return RULING_ROLES[verdict][0]


@register.filter
def rule_title(rule: str) -> str:
    """Return what people call a rule: Automatic approval limit."""
    return words_of(rule)[0]


@register.filter
def spell_out(name: str) -> str:
    """Return a pattern's name as people write it: Two readers."""
    return name.replace("_", " ").capitalize()


@register.filter
def money(minor: int | None, currency: str = CURRENCY) -> str:
    """Write minor units as EUR 1,200.00; "none" where there is no amount."""
    return "none" if minor is None else format_money(minor, currency)


def up_to(own: Mapping[str, int] | None) -> str:
    """Say what a person may approve at a desk, by their own limits in each currency."""
    if not own:
        return "any amount"
    return f"up to {format_sums(own.items())}"


def desk_title(name: str) -> str:
    """Return what people call a desk, also one that this process has not."""
    return DESKS[name].title if name in DESKS else name.capitalize()


def rule_of_desk(rule: str, desk: str) -> str:
    """Return what people call a rule of one desk, which stands behind it in brackets."""
    return f"{rule_title(rule)} ({desk_title(desk)})"


@register.filter
def rule_in_full(rule: str) -> str:
    """Return what people call a rule; where another desk has one of that title, with its desk."""
    title = rule_title(rule)
    others = _count_titles(frozenset(RULES))[title] - (rule in RULES)
    return rule_of_desk(rule, rule.partition(".")[0]) if others else title


@lru_cache(maxsize=1)
def _count_titles(rules: frozenset[str]) -> Counter[str]:
    return Counter(map(rule_title, rules))


def tool_title(name: str) -> str:
    """Return what people call a tool: the title that its desk declares, else its name in words."""
    declared = (desk.tools[name].title for desk in DESKS.values() if name in desk.tools)
    return next(declared, "") or spell_out(name)


@register.filter
def with_article(noun: str) -> str:
    return f"{'an' if noun[:1] in 'AEIOUaeiou' else 'a'} {noun}"


@register.filter
def within_sentence(title: str) -> str:
    """Return a title as it stands within a sentence: bank transfers, SIM swaps."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


@register.filter
def thousands(number: int) -> str:
    """Write a count as 15,362."""
    return f"{number:,}"


@register.filter
def cost(micro_usd: int) -> str:
    """Write a model's cost, in dollars, which is small."""
    return f"{PRICED_IN} {micro_usd / 1_000_000:.3f}"


@register.filter
def time_left(at: datetime) -> str:
    """Write how long it is until `at`: 5:48 under an hour, 1 h 12 beyond it."""
    return _clock(at - timezone.now())


@register.filter
def left_when_frozen(escalation: Escalation) -> str:
    """Write how long a person has to decide, once the clock runs again."""
    return _clock(escalation.expires_at - (escalation.frozen_at or timezone.now()))


def _clock(rest: timedelta) -> str:
    rest = max(rest, timedelta())
    minutes, seconds = divmod(int(rest.total_seconds()), 60)
    if minutes < 60:
        return f"{minutes}:{seconds:02d}"
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
    """Write a time of day, with the date where it is not today's and the exact time in the markup.

    It is in the zone that the page names; `localise` in opsconsole.js writes the same.
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
    """Write a whole time in UTC for everybody, as the audit log has it."""
    # Without `datetime` in the markup, which pages would write in the viewer's zone.
    return format_html("<time>{}</time>", f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}")


PAST = {"approve": "approved", "revise": "revised", "escalate": "escalated", "block": "blocked"}


@register.filter
def past(verdict: str) -> str:
    return PAST[verdict]


@register.filter
def duration(seconds: float) -> str:
    """Write a length of time: 8 s, 26 min, 2 h, 2 h 14."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d}".removesuffix(" 00")
