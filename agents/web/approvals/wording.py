"""The sentences of the table of kinds, filled in for one request, as text and as markup.

In markup every name and amount is isolated: its letters cannot reorder the text around it, and it
may break over lines instead of pushing a button aside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe

from agents.core.money import format_money
from agents.core.request_kinds import (
    ADJUST,
    ANSWER,
    APPROVE,
    INSTRUCTIONS,
    REJECT,
    SEND_BACK,
    TEXT,
    Answer,
    RequestKind,
)
from agents.core.requests import Json
from agents.models import Approval, Escalation
from agents.sdk.desk_tools import PLACE, SUBJECT, arguments_in, places_of, with_subject
from agents.tools import TOOLS, ask_in_words, before_of, call_in_words, names_in, request_of
from agents.web.approvals.entitlement import Entitlement
from agents.web.approvals.fields import FormField

CLASSES = {ADJUST: "if-adjust", APPROVE: "if-as-is", SEND_BACK: "if-back", REJECT: "if-reject"}
KEYS = {ADJUST: "e", APPROVE: "a", SEND_BACK: "b", REJECT: "r"}
# Of a change: what is asked, until somebody has changed something.
_EITHER = '<span class="if-unchanged">{}</span><span class="if-changed">{}</span>'
_KEYED = re.compile(r"(.+) (\([^\s()]{1,20}\))")


def kind_of_request(escalation: Escalation) -> RequestKind:
    """Return the kind of an escalation, in the words of its tool."""
    return request_of(escalation.kind, escalation.action)


def act(escalation: Escalation, name: str = "") -> str:
    """Return the request in a line of text. `name` is the subject's, or ""."""
    return ask_in_words(
        escalation.kind,
        escalation.action,
        asked=escalation.asked,
        subject=name or escalation.run.subject_label or escalation.subject_key,
        review=escalation.review,
    )


def fill_sentence(
    sentence: str,
    escalation: Escalation,
    name: str,
    *,
    amount: int | None = None,
    ran: Json = None,
    places: Mapping[str, SafeString] | None = None,
) -> SafeString:
    """Return a sentence of the table as markup.

    `amount` is in minor units; `ran` are the arguments carried out instead of the requested ones;
    `places` are markup for arguments that are still open.
    """
    by = escalation.decided_by
    asked = escalation.amount_minor
    action = escalation.action if ran is None else {**escalation.action, "args": ran}
    tool = str(action.get("name", ""))
    values = {key: island(text) for key, text in call_in_words(action, escalation.review).items()}
    open_still, args = places or {}, action.get("args") or {}
    called = ((n, names.get(str(args.get(n)))) for n, names in names_in(escalation.review).items())
    brief = {**values, **{n: island(label) for n, label in called if label}}
    brief = with_subject({**brief, **open_still}, island(name))
    values = with_subject({**values, **open_still}, island(name))
    thing, granted = island(tool), open_still.get("amount_minor")
    return format_html(
        sentence,
        tool=thing,
        step=thing,
        subject=island(name),
        by=island(by.get_username() if by else "Nobody"),
        asked=_money(asked, escalation.currency),
        amount=granted or _money(asked if amount is None else amount, escalation.currency),
        before=_with_islands(before_of(tool), values),
        brief=_with_islands(TOOLS[tool].brief if tool in TOOLS else "", brief),
        after=_with_islands(TOOLS[tool].after if tool in TOOLS else "", values),
    )


def _with_islands(sentence: str, values: Mapping[str, SafeString]) -> SafeString:
    """Return a tool's sentence with its places filled; everything else is escaped."""
    parts = PLACE.split(sentence)
    texts = (values.get(p, f"{{{p}}}") if n % 2 else p for n, p in enumerate(parts))
    return mark_safe("".join(conditional_escape(text) for text in texts))  # noqa: S308 - each is escaped


def island(text: str) -> SafeString:
    """Return a name as markup, isolated from the direction of the text around it.

    A key behind it is never broken: Papier Hansen (P-102).
    """
    if keyed := _KEYED.fullmatch(text):
        return format_html('<bdi>{}</bdi> <bdi class="nowrap">{}</bdi>', *keyed.groups())
    return format_html("<bdi>{}</bdi>", text)


def _money(minor: int | None, currency: str) -> SafeString:
    shown = "" if minor is None else format_money(minor, currency)
    return format_html('<b class="amount-of">{}</b>', shown)


@dataclass(frozen=True)
class Choice:
    """An answer that a person may give here and now."""

    verdict: str
    label: str
    consequence: SafeString
    button: SafeString
    key: str  # that selects it

    @property
    def shown_if(self) -> str:
        return CLASSES[self.verdict]


def choices(
    escalation: Escalation,
    name: str,
    fields: Sequence[FormField],
    *,
    may_grant_all: bool,
    may_say_yes: bool,
    may_send_back: bool,
    entitled: Entitlement,
) -> list[Choice]:
    """Return the answers open to a person, in the order of the form.

    `fields` are the arguments they may change. If two people must approve, every approval is a
    first one except that of what the first person approved.
    """
    kind, first = kind_of_request(escalation), entitled.first
    may_say_yes = may_say_yes and entitled.may_say_yes
    open_to = {
        ADJUST: may_say_yes and (bool(fields) or kind.change in (TEXT, INSTRUCTIONS, ANSWER)),
        APPROVE: may_say_yes and may_grant_all,
        SEND_BACK: may_send_back,
        REJECT: True,
    }
    found = []
    for answer in kind.answers:
        if escalation.run.agent_id and (kind.runs_tool or kind.settles_call):
            # Its agent is told, and goes on.
            words = (answer.consequence, answer.button)
            told = (text.replace("end the run", "tell the agent") for text in words)
            answer = Answer(answer.verdict, answer.label, *told)
        if open_to[answer.verdict]:
            is_other = answer.verdict == ADJUST
            places = {f.argument: f.place for f in fields if not f.open.words} if is_other else None
            consequence = fill_sentence(answer.consequence, escalation, name, places=places)
            button = fill_sentence(answer.button, escalation, name, places=places)
            if first and answer.verdict == APPROVE:
                found.append(_second(escalation, name, first))
                continue
            if entitled.takes_two and answer.verdict not in (REJECT, SEND_BACK):
                consequence = _as_first(consequence, first)
                button = format_html("Approve as first of two: {}", button)
            if places:
                asks = what_awaits(escalation, name, first)
                consequence = format_html(_EITHER, asks, consequence)
            sends_back = is_other and kind.change == INSTRUCTIONS
            key = KEYS[SEND_BACK if sends_back else answer.verdict]
            found.append(Choice(answer.verdict, answer.label, consequence, button, key))
    return found


def _as_first(consequence: SafeString, before: Approval | None) -> SafeString:
    """Return the consequence of a first approval, which may replace an earlier one."""
    later = format_html("{}, once a second person has approved the same", consequence)
    if before is None:
        return later
    who = island(before.by.get_username())
    return format_html("{}. {}’s approval then counts no more", later, who)


def _second(escalation: Escalation, name: str, first: Approval) -> Choice:
    """Return the answer that carries out what the first person approved."""
    kind = kind_of_request(escalation)
    said = _answer_of(kind, first)
    return Choice(
        APPROVE,
        f"As {first.by.get_username()} approved",
        _as_approved(said.consequence, escalation, name, first),
        _as_approved(said.button, escalation, name, first),
        KEYS[APPROVE],
    )


def what_awaits(escalation: Escalation, name: str, first: Approval | None) -> SafeString:
    """Return what waits for approval: the request, or what the first person approved of it."""
    kind = kind_of_request(escalation)
    if first is None or not first.patch:
        return fill_sentence(kind.asks, escalation, name)
    return _as_approved(_answer_of(kind, first).consequence, escalation, name, first)


def _answer_of(kind: RequestKind, first: Approval) -> Answer:
    return kind.answer(ADJUST if first.patch else APPROVE) or kind.answers[0]


def _as_approved(sentence: str, escalation: Escalation, name: str, first: Approval) -> SafeString:
    """Return a sentence of the table with the terms that the first person approved."""
    args = {**escalation.action["args"], **(first.patch or {})}
    return fill_sentence(sentence, escalation, name, amount=first.granted_minor, ran=args)


def told_apart_by(escalation: Escalation) -> str:
    """Return what tells requests about one subject apart, such as a payee; "" if the subject does.

    It is the first thing that the call's button names beside its amount.
    """
    action, review = escalation.action, escalation.review
    tool, args = TOOLS.get(str(action.get("name", ""))), action.get("args") or {}
    if tool and SUBJECT in places_of(tool.brief):
        return ""
    named = (
        one for one in arguments_in(tool.brief if tool else "") if isinstance(args.get(one), str)
    )
    key = next(named, "")
    return names_in(review).get(key, {}).get(str(args.get(key))) or call_in_words(action).get(
        key, ""
    )
