"""The sentences of the table of kinds, filled in for one request, as text and as markup.

In markup every name and amount is an island of its own: whatever letters it holds, it reorders
nothing around it, and it breaks where it must instead of pushing a button aside.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from agents.core.kinds import ADJUST, AMOUNT, APPROVE, REJECT, Answer, Kind
from agents.core.money import format_money
from agents.models import Escalation
from agents.tools import ask_in_words, request_of

CLASSES = {ADJUST: "if-adjust", APPROVE: "if-as-is", REJECT: "if-reject"}
KEYS = {ADJUST: "e", APPROVE: "a", REJECT: "r"}
# Until the script repeats the amount that is typed; without one this is what stands there.
_BELOW = mark_safe("<b data-amount-out>the amount below</b>")
_ABOVE = mark_safe("<span data-amount-out>the amount above</span>")


def kind_of_request(escalation: Escalation) -> Kind:
    """Return the kind of an escalation, in the words of its tool."""
    return request_of(escalation.kind, escalation.action)


def act(escalation: Escalation, name: str = "") -> str:
    """Say in a line of text what is asked. `name` is the customer's, or ""."""
    return ask_in_words(
        escalation.kind,
        escalation.action,
        asked_minor=escalation.requested_minor,
        customer=name or f"customer {escalation.customer}",
    )


def filled(
    sentence: str, escalation: Escalation, name: str, *, amount: SafeString | int | None = None
) -> SafeString:
    """Return a sentence of the table as markup. `amount` is minor units, or what stands for it."""
    by = escalation.decided_by
    asked = escalation.requested_minor
    thing = island(str(escalation.action.get("name", "")))
    return format_html(
        sentence,
        tool=thing,
        step=thing,
        customer=island(name),
        by=island(by.get_username() if by else "Nobody"),
        asked=_money(asked),
        amount=amount
        if isinstance(amount, SafeString)
        else _money(asked if amount is None else amount),
    )


def island(text: str) -> SafeString:
    """Return a name as markup that reorders nothing beside it."""
    return format_html("<bdi>{}</bdi>", text)


def _money(minor: int | None) -> SafeString:
    return format_html('<b class="amount-of">{}</b>', "" if minor is None else format_money(minor))


@dataclass(frozen=True)
class Choice:
    """An answer that somebody may give here and now."""

    verdict: str
    label: str
    consequence: SafeString
    button: SafeString

    @property
    def shown_if(self) -> str:
        return CLASSES[self.verdict]

    @property
    def key(self) -> str:
        return KEYS[self.verdict]


def choices(
    escalation: Escalation,
    name: str,
    *,
    most_minor: int | None,
    may_grant_all: bool,
    may_say_yes: bool,
) -> list[Choice]:
    """Return the answers that are open to a person, in the order of the form.

    `most_minor` is what they may grant at most, None where it is about no amount.
    """
    kind = kind_of_request(escalation)
    is_amount = kind.change == AMOUNT
    open_to = {
        ADJUST: may_say_yes and (bool(most_minor) if is_amount else bool(kind.change)),
        APPROVE: may_say_yes and may_grant_all,
        REJECT: True,
    }
    return [
        Choice(
            verdict=answer.verdict,
            label=answer.label,
            consequence=filled(answer.consequence, escalation, name, amount=_typed(answer, _BELOW)),
            button=filled(answer.button, escalation, name, amount=_typed(answer, _ABOVE)),
        )
        for answer in kind.answers
        if open_to[answer.verdict]
    ]


def _typed(answer: Answer, place: SafeString) -> SafeString | None:
    """Return where an amount that is typed is repeated; None for an answer that has none."""
    return place if answer.verdict == ADJUST else None
