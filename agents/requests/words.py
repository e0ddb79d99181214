"""A request in words: its question, answers, outcome, deciders and sources.

In markup every name and amount is isolated: its letters cannot reorder the text around it, and it
may break over lines instead of pushing a button aside.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import capfirst

from agents.core.compat_0_2 import ORIGINS as ORIGINS_NOW
from agents.core.compat_0_2 import unit_of
from agents.core.decisions import (
    ADJUST,
    ANSWER,
    APPROVE,
    INSTRUCTIONS,
    MOST_PEOPLE,
    REJECT,
    SEND_BACK,
    TEXT,
    Answer,
    Demand,
    RequestKind,
)
from agents.core.json_forms import MAX_TEXT
from agents.core.money import format_money, is_currency, with_unit
from agents.core.requests import ENDED, GRANTED, EffectState, EscalationState, Json
from agents.core.workflows import Supervision, read_workflow
from agents.engine.commit import CARRIED_OUT, OWN_ENDS
from agents.engine.deciders import OPEN_TO_ALL, Roster, demand_for, people_who_may
from agents.engine.desk.review_context import doubts_of
from agents.engine.tools.gateway import SETTLED
from agents.models import Approval, Effect, Escalation, Step
from agents.policies.words import why_not
from agents.requests.deciding import SAW_NONE, lapse_in_words, membership_of
from agents.requests.form import FormField
from agents.requests.granting import above_tier
from agents.runs.changes import closed_by, patch_of
from agents.sdk.adjustments import label_of
from agents.sdk.amounts import read_amounts
from agents.sdk.desk import tool_title, tools_at
from agents.sdk.desk_tools import PLACE, SUBJECT, arguments_in, places_of, with_subject
from agents.sdk.rules import Origin
from agents.shell.event_words import ASK_REASONS
from agents.shell.formats import CHIPS, WORDS, mark
from agents.shell.refusal import Refused
from agents.tools import argument_in_words, before_of, call_in_words, names_in, request_of

PASSES_ON = "pass"  # to somebody who may decide it: no decision, so no answer of the table
_CLASSES = {
    PASSES_ON: "if-pass",
    ADJUST: "if-adjust",
    APPROVE: "if-as-is",
    SEND_BACK: "if-back",
    REJECT: "if-reject",
}
_KEYS = {ADJUST: "e", APPROVE: "a", SEND_BACK: "b", REJECT: "r"}
# The question about a change, until somebody has changed something.
_EITHER = '<span class="if-unchanged">{}</span><span class="if-changed">{}</span>'
_KEYED = re.compile(r"(.+) (\([^\s()]{1,20}\))")


def kind_of_request(escalation: Escalation) -> RequestKind:
    return request_of(escalation.run.desk, escalation.kind, escalation.action)


def told_apart_by(escalation: Escalation) -> str:
    """Return what differs between requests about one subject, such as a payee; "" if nothing does.

    It is the first thing that the call's button names besides its amount.
    """
    action, review = escalation.action, escalation.review
    desk, args = escalation.run.desk, action.get("args") or {}
    tool = tools_at(desk).get(str(action.get("name", "")))
    if tool and SUBJECT in places_of(tool.brief):
        return ""
    named = (
        one for one in arguments_in(tool.brief if tool else "") if isinstance(args.get(one), str)
    )
    key = next(named, "")
    return names_in(review).get(key, {}).get(str(args.get(key))) or call_in_words(desk, action).get(
        key, ""
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

    `amount` is in minor units; `ran` are the executed arguments instead of the requested ones;
    `places` are markup for arguments that are still open.
    """
    by = escalation.decided_by
    minor = escalation.amount_minor
    action = escalation.action if ran is None else {**escalation.action, "args": ran}
    desk, tool = escalation.run.desk, str(action.get("name", ""))
    in_words, known = call_in_words(desk, action, escalation.review), tools_at(desk).get(tool)
    values = {key: _island(text) for key, text in in_words.items()}
    open_still, args = places or {}, action.get("args") or {}
    called = ((n, names.get(str(args.get(n)))) for n, names in names_in(escalation.review).items())
    brief = {**values, **{n: _island(label) for n, label in called if label}}
    brief = with_subject({**brief, **open_still}, _island(name))
    values = with_subject({**values, **open_still}, _island(name))
    thing, granted = _island(tool), open_still.get("amount_minor")
    return format_html(
        sentence,
        tool=thing,
        step=thing,
        subject=_island(name),
        by=_island(by.get_username() if by else "Nobody"),
        asked=_money(minor, escalation.currency),
        amount=granted or _money(minor if amount is None else amount, escalation.currency),
        before=_with_islands(before_of(desk, tool), values),
        brief=_with_islands(known.brief if known else "", brief),
        after=_with_islands(known.after if known else "", values),
    )


def _with_islands(sentence: str, values: Mapping[str, SafeString]) -> SafeString:
    """Return a tool's sentence with its places filled; everything else is escaped."""
    parts = PLACE.split(sentence)
    texts = (values.get(p, f"{{{p}}}") if n % 2 else p for n, p in enumerate(parts))
    return mark_safe("".join(conditional_escape(text) for text in texts))  # noqa: S308 - each is escaped


def _island(text: str) -> SafeString:
    """Return a name as markup, isolated from the direction of the text around it.

    A key after it is never broken: Papier Hansen (P-102).
    """
    if keyed := _KEYED.fullmatch(text):
        return format_html('<bdi>{}</bdi> <bdi class="nowrap">{}</bdi>', *keyed.groups())
    return format_html("<bdi>{}</bdi>", text)


def _money(minor: int | None, currency: str) -> SafeString:
    shown = "" if minor is None else format_money(minor, currency)
    return format_html('<b class="amount-of">{}</b>', shown)


# The answers that a person may give here and now.


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
        return _CLASSES[self.verdict]


def choices(
    escalation: Escalation,
    name: str,
    fields: Sequence[FormField],
    *,
    may_grant_all: bool,
    may_say_yes: bool,
    may_send_back: bool,
    entitled: "Entitlement",
    passes_to: str,
) -> list[Choice]:
    """Return the answers open to a person, in the order of the form.

    `fields` are the arguments they may change. If two people must approve, every approval is a
    first one except that of what the first person approved.
    """
    kind, first = kind_of_request(escalation), entitled.first
    open_to = {
        ADJUST: may_say_yes and (bool(fields) or kind.change in (TEXT, INSTRUCTIONS, ANSWER)),
        APPROVE: may_say_yes and may_grant_all,
        SEND_BACK: may_send_back,
        REJECT: True,
    }
    offered, follows = [], following_of(escalation)
    if passes_to:
        asks = what_awaits(escalation, name, first)
        button = format_html("Hand over to <bdi>{}</bdi>", passes_to)
        offered.append(Choice(PASSES_ON, "Hand over", asks, button, "p"))
    for answer in kind.answers:
        answer = follows[1] if follows and answer.verdict == APPROVE else answer
        if escalation.run.agent_id and (kind.runs_tool or kind.settles_call):
            # Its agent is told, and goes on.
            words = (answer.consequence, answer.button)
            texts = (text.replace("end the run", "tell the agent") for text in words)
            answer = Answer(answer.verdict, answer.label, *texts)
        if open_to[answer.verdict]:
            is_other = answer.verdict == ADJUST
            places = {f.argument: f.place for f in fields if not f.open.words} if is_other else None
            consequence = fill_sentence(answer.consequence, escalation, name, places=places)
            button = fill_sentence(answer.button, escalation, name, places=places)
            if first and answer.verdict == APPROVE:
                offered.append(_second(escalation, name, first))
                continue
            if entitled.takes_two and answer.verdict not in (REJECT, SEND_BACK):
                consequence = _as_first(consequence, first)
                button = format_html("Approve as first of two: {}", button)
            if places:
                asks = what_awaits(escalation, name, first)
                consequence = format_html(_EITHER, asks, consequence)
            sends_back = is_other and kind.change == INSTRUCTIONS
            key = _KEYS[SEND_BACK if sends_back else answer.verdict]
            most = next((f.most_minor for f in fields if f.open.currency and is_other), None)
            label = answer.label
            if most is not None and not may_grant_all:
                up_to = format_money(most, escalation.currency)
                label = format_html('{}<span class="hide-s"> up to {}</span>', label, up_to)
            offered.append(Choice(answer.verdict, label, consequence, button, key))
    return offered


def draft_of(escalation: Escalation) -> str:
    """Return the agent's result that waits for approval."""
    return str(escalation.action.get("post", {}).get("actual_output", ""))


def following_of(escalation: Escalation) -> tuple[str, Answer] | None:
    """Return what follows the approval of a draft, and that answer; None if it is not declared."""
    kind, document = kind_of_request(escalation), escalation.run.workflow.get("document")
    if kind.change != INSTRUCTIONS or not document:
        return None
    steps = list(read_workflow(document).steps)
    here = next((n for n, (one, _) in enumerate(steps) if one.name == escalation.action["name"]), 0)
    later, tools = steps[here + 1 :], tools_at(escalation.run.desk)
    acts = [tools[name] for one, _ in later for name in one.tools if name in tools]
    acts = [tool for tool in acts if tool.writes]
    use, button = "Use this draft", "Use it and continue"
    sends = any(tool.letter for tool in acts)
    if sends and len(draft_of(escalation)) > MAX_TEXT:
        use = "Use this draft: it is too long to be emailed, and the run stops"
    elif sends:
        use = "Use this draft: it will be emailed to {subject} unless the policy objects"
        button = "Use it and email {subject}"
    elif acts:
        title = _no_braces(acts[0].title)
        use = f"Use this draft: next is “{title}” unless the policy objects"
    names = " and ".join(f"“{one.name}”" for one, _ in later)
    follows = f"The step{'s' * (len(later) > 1)} {names} follow{'s' * (len(later) == 1)}."
    if not later:
        use = "Use this draft as the result: nothing is paid or sent"
        note, button = f"{escalation.run.opener} gets the result.", "Use it as the result"
    elif not acts:
        note = f"{follows} Nothing is paid or sent there."
    elif any(mode is Supervision.BY_PERSON for _, mode in later):
        note = f"{follows} A person is asked again. The policy can still stop it."
    else:
        note = f"{follows} No person is asked again unless a check finds a problem."
    return note, Answer(APPROVE, "Use it", use, button)


def what_awaits(escalation: Escalation, name: str, first: Approval | None) -> SafeString:
    """Return what waits for approval: the request, or the first person's version of it."""
    kind = kind_of_request(escalation)
    if first is None or not first.patch:
        return fill_sentence(kind.asks, escalation, name)
    return _as_approved(_answer_of(kind, first).consequence, escalation, name, first)


def _as_first(consequence: SafeString, before: Approval | None) -> SafeString:
    """Return the consequence of a first approval, which may replace an earlier one."""
    later = format_html("{}, once a second person has approved the same", consequence)
    if before is None:
        return later
    who = _island(before.by.get_username())
    return format_html("{}. {}’s approval then counts no more", later, who)


def _second(escalation: Escalation, name: str, first: Approval) -> Choice:
    """Return the answer that executes what the first person approved."""
    kind = kind_of_request(escalation)
    answer = _answer_of(kind, first)
    return Choice(
        APPROVE,
        f"Approve as {first.by.get_username()} did",
        _as_approved(answer.consequence, escalation, name, first),
        _as_approved(answer.button, escalation, name, first),
        _KEYS[APPROVE],
    )


def _answer_of(kind: RequestKind, first: Approval) -> Answer:
    return kind.answer(ADJUST if first.patch else APPROVE) or kind.answers[0]


def _as_approved(sentence: str, escalation: Escalation, name: str, first: Approval) -> SafeString:
    """Return a sentence of the table with the first person's terms."""
    args = {**escalation.action["args"], **(first.patch or {})}
    return fill_sentence(sentence, escalation, name, amount=first.granted_minor, ran=args)


# The outcome of a request that was decided or no longer waits.


def _why_undone(escalation: Escalation, effect: Effect | None) -> str:
    """Return why an approved action was not executed; "" if it was or still may be.

    A run that is over will pay nothing, even without a recorded reason.
    """
    if escalation.state not in GRANTED or escalation.kind not in CARRIED_OUT:
        return ""
    if escalation.not_carried_out:
        return why_not(escalation.not_carried_out)
    is_call, reason = escalation.action.get("kind") == "tool", escalation.run.stop_reason
    is_approved = escalation.state == EscalationState.APPROVED
    is_undone = effect is None if is_call else is_approved and reason not in OWN_ENDS
    if escalation.run.state in ENDED and is_undone:
        return why_not(reason or "unknown")
    return ""


def outcome(
    escalation: Escalation, effect: Effect | None, name: str, *, at: datetime, is_held: bool = False
) -> SafeString:
    """Return the outcome of a request that no longer waits, by the ledger.

    `effect` is what was carried out. `is_held`: a kill switch keeps its agent from taking it.
    """
    why, effect = _why_undone(escalation, effect), effect or _sent_since(escalation)
    kind, state = kind_of_request(escalation), escalation.state
    granted = escalation.granted_minor
    if effect and effect.amount_minor is not None:
        granted = effect.amount_minor

    def say(sentence: str) -> SafeString:
        return fill_sentence(sentence, escalation, name, amount=granted, ran=effect and effect.args)

    is_known = kind.settles_call and effect is not None and effect.state in SETTLED
    undone = "What happened was found out later: see its run." if is_known else kind.undone
    if state == EscalationState.EXPIRED:
        return say(f"{kind.expiry_words}. {undone}")
    if state == EscalationState.CANCELLED:
        return say(f"{capfirst(closed_by(escalation))} before a decision. {undone}")
    is_yes, answer = state in GRANTED, f"{{by}} {kind.what_was_done(state)}."
    if kind.settles_call:
        return say(_settle(answer, effect, is_yes=is_yes))
    if not is_yes:
        return say(answer if kind.ends_run else kind.undone)
    if why:
        approved = "{amount} approved, not" if granted else "Not"
        return say(f"{approved} carried out: {_no_braces(why)}.")
    done = kind.changed if state == EscalationState.ADJUSTED and kind.changed else kind.done
    if not kind.runs_tool:
        is_sent = effect and kind.change == INSTRUCTIONS
        sent = WORDS["sent"].get(EffectState(effect.state), "") if effect and is_sent else ""
        return say(f"{done or answer}{sent}")
    if effect is None:
        return say(
            f"{kind.pending} It cannot while a kill switch is on." if is_held else kind.pending
        )
    if effect.state == EffectState.DONE:
        return say(done)
    if effect.state == EffectState.REFUSED:
        return say(f"The system of record refused it. {kind.undone}")
    return say(kind.doing if _is_running(effect, escalation, at) and kind.doing else kind.under_way)


def _is_running(effect: Effect, escalation: Escalation, at: datetime) -> bool:
    """Tell whether a call still has time, and a worker that lives."""
    tool, lease = tools_at(escalation.run.desk).get(effect.tool), escalation.run.lease_ends_at
    is_begun = effect.state == EffectState.INTENDED and lease is not None and lease > at
    return bool(is_begun and tool and at < effect.intended_at + timedelta(seconds=tool.timeout))


def _sent_since(escalation: Escalation) -> Effect | None:
    """Return the newest email that left, or may have, after a draft was approved; or None."""
    if kind_of_request(escalation).change != INSTRUCTIONS or escalation.decided_at is None:
        return None
    letters = [one.name for one in tools_at(escalation.run.desk).values() if one.letter]
    later = escalation.run.effects.filter(tool__in=letters, intended_at__gt=escalation.decided_at)
    return later.order_by("-intended_at").first()


def _settle(answer: str, effect: Effect | None, *, is_yes: bool) -> str:
    """Return a person's answer about a call, and the ledger's if that differs."""
    if effect and is_yes and effect.state == EffectState.REFUSED:
        return f"{answer} The record shows that it did not."
    if effect and not is_yes and effect.state == EffectState.DONE:
        return f"{answer} The record shows that it did."
    return answer


def _no_braces(text: str) -> str:
    """Return a text for use in a sentence, with its braces escaped."""
    return text.replace("{", "{{").replace("}", "}}")


# The meaning of tiers and two-person approval on one person's card, if they apply.


@dataclass(frozen=True)
class Entitlement:
    """What a person may do about a waiting request."""

    demand: Demand
    first: Approval | None = None  # the first approval, if it counts
    lapsed: str = ""  # why it no longer counts
    is_first: bool = False  # the person gave it
    is_party: bool = False  # the person is a party to a run that takes two approvals
    below: str = ""  # why the person may not approve
    lacks_second: bool = False  # nobody is left to give the second approval

    @property
    def takes_two(self) -> bool:
        return self.demand.people > 1

    @property
    def shown(self) -> int:
        """Return the form value for the first approval that its reader saw."""
        return self.first.pk if self.first else SAW_NONE

    @property
    def may_say_yes(self) -> bool:
        return not (self.is_first or self.is_party or self.below)


def entitlement_of(escalation: Escalation, user: User, roster: Callable[[], Roster]) -> Entitlement:
    """Return what a person may do about an open request."""
    demand = demand_for(escalation)
    if demand == OPEN_TO_ALL:
        return Entitlement(demand)
    people, first, lapsed = roster(), escalation.approval, ""
    if first and not _still_may(first, escalation, demand, people):
        try:
            membership_of(first, escalation)
        except Refused as no:
            lapsed = lapse_in_words(first, no)
            first = None
    able = people_who_may(escalation, people)
    others = any(one.user_id != user.pk for _, one in able)
    return Entitlement(
        demand,
        first=first,
        lapsed=lapsed,
        is_first=first is not None and first.by_id == user.pk,
        is_party=demand.people > 1 and user.pk in people.parties,
        below=""
        if demand.admits(people.slugs(user.pk))
        else above_tier(escalation, demand, others, people),
        lacks_second=demand.people > 1 and len(able) + bool(first) < MOST_PEOPLE,
    )


def _still_may(first: Approval, escalation: Escalation, demand: Demand, people: Roster) -> bool:
    """Tell whether a first approval certainly counts; if not, `membership_of` says why."""
    by = first.by_id
    is_able = any(one.user_id == by for one in people.reviewers) and by not in people.parties
    is_same = first.action_sha256 == escalation.action_sha256
    return is_able and is_same and demand.admits(people.slugs(by))


# A picture of how far a measured value is from its limit.
_ROOM = 1.25  # the scale ends this much beyond the request


def ruling_to_draw(review: Json, amount_minor: int | None) -> Json:
    """Return the ruling that the ruler of a request shows, or None.

    It is the deciding one. For money it is the tightest that measured the amount itself: a day's
    sum is not what was requested, nor is its cap what runs without a person.
    """
    deciding = review["deciding"]
    unit = unit_of(deciding)
    if not is_currency(unit):
        return deciding
    of_amount = [
        one
        for one in review.get("rulings") or [deciding]
        if one.get("verdict") == "escalate"
        and (one.get("observed"), unit_of(one)) == (amount_minor, unit)
        and type(one.get("limit")) is int
    ]
    return min(of_amount, key=lambda one: one["limit"], default=None)


def ruler(deciding: Json, yours_minor: int | None) -> dict[str, Json] | None:
    """Return the marks of a measurement in a unit on a scale of 0 to 100 percent, or None."""
    if deciding is None:
        return None
    observed, limit, unit = deciding.get("observed"), deciding.get("limit"), unit_of(deciding)
    if not unit or type(observed) is not int or type(limit) is not int or limit < 1:
        return None
    full = round(max(observed, limit) * _ROOM)

    def place(value: int) -> float:
        return round(100 * value / full, 2)

    asked, alone = with_unit(observed, unit), with_unit(limit, unit)
    yours = yours_minor if yours_minor and is_currency(unit) and yours_minor < observed else None
    granted = "" if yours is None else with_unit(yours, unit)
    return {
        "observed": place(observed),
        "limit": place(limit),
        "rest": round(100 - place(limit), 2),
        "yours": None if yours is None else place(yours),  # the reviewer's most, if it is less
        "alone": alone,  # so much asks nobody
        "asked": asked,
        "granted": granted,
    }


# The origin of each argument of an action, by its review, and what to compare.
_OF_REVIEW = {
    Origin.GOAL.value: "request",
    Origin.PERSON.value: "human",
    Origin.LOOKED_UP.value: "record",
    Origin.OUTSIDE.value: "text",
    Origin.NOBODY.value: "agent",
}


def sources(escalation: Escalation, reviews: Sequence[Step]) -> list[dict[str, Json]]:
    """Return the arguments of a held action with key, icon and word of each origin.

    `reviews` are those of its turn, beginning with the agent's proposal.
    """
    args: Mapping[str, Json] = escalation.action.get("args") or {}
    proposed = (reviews[0].asked["action"].get("args") or {}) if reviews else args
    facts = escalation.review.get("facts") or {}
    named_by, worst = facts.get("origins") or {}, facts.get("worst") or {}
    called = names_in(escalation.review)
    desk, shown = escalation.run.desk, list[dict[str, Json]]()
    tool = str(escalation.action.get("name", ""))
    for name, value in args.items():
        if name == facts.get("letter"):
            continue  # the card shows it once, by itself
        if proposed.get(name) != value:
            origin: str | None = "policy"
        else:
            by = named_by.get(name, "")
            origin = _OF_REVIEW.get(ORIGINS_NOW.get(by, by))
            if origin == "request" and str(value) == escalation.subject_key:
                origin = "subject"
        text = argument_in_words(desk, tool, name, value, called)
        read_in = (facts.get("read_in") or {}).get(name, "")
        shown.append(
            {
                "name": label_of(name),
                "value": text,
                "marks": [(origin, *CHIPS["origin"][origin])] if origin else [],
                # The part of a list that nobody named, or only an outsider.
                "worst": worst.get(name, ""),
                # The tool whose result has it, where nobody named it.
                "read_in": tool_title(read_in) if read_in and origin == "agent" else "",
            }
        )
    for name, value in patch_of(escalation).items():
        if value != args.get(name):
            text = argument_in_words(desk, tool, name, value)
            marks = [("human", *CHIPS["origin"]["human"])]
            shown.append({"name": f"{label_of(name)} granted", "value": text, "marks": marks})
    return shown


def comparisons(escalation: Escalation) -> list[dict[str, str]]:
    """Return what a person has to compare before they approve; an outsider's text is shown once.

    Each is an argument that none of our people named, next to the request, in words.
    """
    doubts, found, marks = doubts_of(escalation), [], dict[str, list[Json]]()
    for one in doubts:
        marks.setdefault(one.get("text", ""), []).extend(one.get("marks") or [])
    for one in doubts:
        here = marks.pop(text := one.get("text", ""), None)
        told = _comparison({**one, "marks": sorted(here or [])}, escalation)
        found.append(told if here is not None or not text else told | {"origin": "", "quote": ""})
    return found


def why_of(escalation: Escalation) -> str:
    """Return why a person is asked, in words that fit a line of a list."""
    if escalation.approval_id:
        return "1 of 2 approved"
    deciding, amount = escalation.review["deciding"], escalation.amount_minor
    limit, is_amount = deciding["limit"], deciding["observed"] == amount
    if amount and limit and is_amount and deciding.get("unit") == escalation.currency:
        return f"{format_money(amount - limit, escalation.currency)} over the limit"
    return capfirst(ASK_REASONS.get(deciding["reason"], "")) or str(deciding["sentence"])


def mark_of(escalation: Escalation) -> str:
    """Return the same for a row of a list: "Payee and amount not as asked"; "" for nothing."""
    by_short: dict[str, list[str]] = {}
    for one in comparisons(escalation):
        by_short.setdefault(one["short"], []).append(one["label"])
    sentence = "; ".join(f"{' and '.join(labels)} {short}" for short, labels in by_short.items())
    return sentence[:1].upper() + sentence[1:]


_ONE = ("is not the one that was asked for", "comes", "was", "appears", "it")
_SEVERAL = ("are not those that were asked for", "come", "were", "appear", "them")


def _comparison(doubt: Json, escalation: Escalation) -> dict[str, str]:
    name, names = doubt["name"], " or ".join(doubt["asked"])
    origin = ORIGINS_NOW.get(doubt["origin"], doubt["origin"])
    what, tool = label_of(name).lower(), str(escalation.action.get("name", ""))
    differs, comes, was, appears, it = _SEVERAL if isinstance(doubt["value"], list) else _ONE
    by = f"{comes} from an outside text only"
    if origin != Origin.OUTSIDE:
        by = f"{was} chosen by the agent"
    where = {
        Origin.OUTSIDE: f"The proposed {what} {appears} only in an outsider’s text, which the "
        f"agent read with “{tool_title(doubt.get('tool', ''))}”:",
        Origin.LOOKED_UP: f"The {what} is in the system of record. The request names another.",
    }
    nobody = f"No person and no outside text named {it}."
    if escalation.run.agent_id:
        nobody = "The goal is the agent’s claim, and no text that the console saw names it."
    as_asked = "not as asked"
    read = [one.money for text in doubt["asked"] for one in read_amounts(text)]
    if read and not any(read):  # the request may mean exactly the proposed amount
        differs, as_asked = "may not be the one that was asked for", "perhaps not as asked"
        where[Origin.LOOKED_UP] = nobody = "The console cannot tell which amount the request means."
    short = "from an outsider" if origin == Origin.OUTSIDE else "chosen by the agent"
    called = names_in(escalation.review)
    return {
        "title": f"The {what} {differs if names else by}",
        "asked": names,  # "" if the request has nothing of the kind
        "proposed": argument_in_words(escalation.run.desk, tool, name, doubt["value"], called),
        "origin": where.get(origin, nobody),
        "quote": mark(doubt.get("text", ""), doubt.get("marks") or []),  # of the outsider's text
        "label": what,
        "short": as_asked if names else short,  # the same in a row of a list
    }
