"""The card: a request with its evidence, for one person. One page, so one read model."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from django.contrib.auth.models import User
from django.db.models import F, Q, QuerySet

from agents.core.compat_0_2 import unit_of
from agents.core.decisions import FINAL, INSTRUCTIONS, TEXT, Demand, RequestKind
from agents.core.json_forms import MAX_TEXT
from agents.core.ledger_sentences import in_other_words
from agents.core.money import format_money, with_unit
from agents.core.names import homoglyph_warnings
from agents.core.redact import texts_in
from agents.core.requests import ENDED, EscalationState, Json
from agents.core.reviews import CallTarget
from agents.db.compiled import CompiledSelect, Param
from agents.engine.commit import ASKED_AGAIN, turn_of
from agents.engine.deciders import Roster, deciders, is_own, key_viewers, people_who_may, roster_of
from agents.engine.desk.review_context import doubts_of
from agents.engine.desk.subjects import beside
from agents.engine.redaction import RunBorder
from agents.engine.turns.answering import is_untaken
from agents.models import (
    AgentCall,
    Effect,
    Escalation,
    Event,
    EventText,
    KillSwitch,
    Membership,
    Role,
    Step,
)
from agents.models.record import ErasedText, facts_of
from agents.models.runs import ValuesLocked
from agents.requests.deciding import check_send_back, sent_back_in
from agents.requests.form import FormField, form_field
from agents.requests.granting import fields_of, obstacle, own_bounds
from agents.requests.queue import claimant
from agents.requests.sharing import COMMENTED, deadline_of, own_words
from agents.requests.words import (
    Entitlement,
    choices,
    comparisons,
    draft_of,
    entitlement_of,
    fill_sentence,
    following_of,
    kind_of_request,
    mark_of,
    outcome,
    ruler,
    ruling_to_draw,
    sources,
    told_apart_by,
    what_awaits,
)
from agents.runs import kill_switch
from agents.runs.changes import reply_of, stages
from agents.sdk.adjustments import OpenField, label_of
from agents.sdk.amounts import read_amounts
from agents.sdk.rules import Beside, Section
from agents.shell import access
from agents.shell.access import SEE_VALUES
from agents.shell.event_words import stopped_by_hand
from agents.shell.formats import as_html, split_output
from agents.shell.refusal import Refused
from agents.tools import argument_in_words

_LOOKALIKES = 5  # sentences
_FACTS = 5
_EARLIER = 5  # decisions about the same subject
OPEN = 20  # requests about the same subject that are compared
_NONE = Entitlement(Demand())
OTHERS = 3  # names of people who may grant it all
_OVERDUE = "The time to decide is over. The request is closed as soon as a worker runs."


@dataclass(frozen=True)
class Card:
    """One request before one person: what the parts of the card share, each read once."""

    escalation: Escalation
    user: User
    at: datetime

    @cached_property
    def roster(self) -> Roster:
        return roster_of(self.escalation, self.user.pk)

    @cached_property
    def stops(self) -> Sequence[kill_switch.SwitchInForce]:
        """Return the kill switches in force in the person's workspaces."""
        return kill_switch.standing(*access.stopped_workspaces(self.user))

    @cached_property
    def is_open(self) -> bool:
        return self.escalation.state == EscalationState.OPEN

    @cached_property
    def kind(self) -> RequestKind:
        return kind_of_request(self.escalation)

    @cached_property
    def part(self) -> Membership:
        return access.membership(self.user, self.escalation.workspace_id)

    @cached_property
    def steps(self) -> list[Step]:
        """Return the steps of the request's turn and its executed call, each with its effect."""
        of_turn = Q(key__startswith=turn_of(self.escalation.step.key))
        found = self.escalation.run.steps.filter(of_turn | Q(effect__escalation=self.escalation.pk))
        return list(found.select_related("effect").order_by("position"))

    @cached_property
    def turn(self) -> list[Step]:
        turn = turn_of(self.escalation.step.key)
        return [step for step in self.steps if step.key.startswith(turn)]

    @cached_property
    def reviews(self) -> list[Step]:
        return [step for step in self.turn if step.kind == "review" and step.reply]

    @cached_property
    def effect(self) -> Effect | None:
        """Return the call that it asks about, or that followed from it."""
        mine = self.escalation
        for effect in (step.effect for step in self.steps if hasattr(step, "effect")):
            is_about = effect.step_id == mine.step_id
            if is_about if self.kind.settles_call else effect.escalation_id == mine.pk:
                effect.run = mine.run  # or its desk takes a query
                return effect
        return None

    @cached_property
    def known(self) -> Beside:
        """Return the background that its desk describes."""
        key = self.effect.key if self.effect else ""
        return beside(self.escalation, at=self.at, effect=key)

    @property
    def called(self) -> str:
        return self.known.name or self.escalation.run.subject_label or "nobody in particular"

    @cached_property
    def entitled(self) -> Entitlement:
        """Return what the person may do as to tiers and the first of two approvals."""
        if not self.is_open:
            return _NONE
        return entitlement_of(self.escalation, self.user, lambda: self.roster)

    @cached_property
    def most(self) -> int | None:
        """Return the most that they can grant: requested, available and within their limits."""
        one, kind, left = self.escalation, self.kind, self.known.left_minor
        asked, resource = one.amount_minor, self.known.resource or one.resource
        if asked is None or not kind.runs_tool or kind.change == TEXT:
            return None
        target = CallTarget(one.subject_key, resource, asked, one.currency)
        own = [bound.most_minor for bound in own_bounds(one, self.part, target, at=self.at)]
        return max(min([asked, *own, *([] if left is None else [left])]), 0)

    @cached_property
    def earlier(self) -> list[dict[str, Any]]:
        """Return the requests of the run that were sent back before, newest first."""
        may_have = getattr(self.escalation, "has_sent_back", True)
        return _sent_back_before(self.escalation) if may_have else []

    @cached_property
    def claimed_by(self) -> str:
        return claimant(self.escalation, at=self.at)

    @property
    def is_mine(self) -> bool:
        return bool(self.claimed_by) and self.escalation.claimed_by_id == self.user.pk

    @cached_property
    def refusal(self) -> str:
        """Return why this person cannot decide it at all."""
        escalation, run, role = self.escalation, self.escalation.run, self.part.role
        if self.is_open and escalation.frozen_at is None and escalation.expires_at <= self.at:
            return _OVERDUE
        if role not in access.DECIDES:
            return f"Your role here is {role}. Deciding needs the role reviewer or admin."
        return own_words(run) if is_own(run, self.user.pk) or self.entitled.is_party else ""


def card_of(card: Card) -> dict[str, Any]:
    """Gather what a person needs to decide and, after the decision, what followed."""
    answers = _what_they_may_answer(card)
    return {
        **_what_is_asked(card),
        **answers,
        **_what_followed(card, is_held=answers["switch"] is not None),
        **_what_to_compare(card, answers["fields"]),
        **_what_went_before(card),
        **_why_a_person_is_asked(card),
        **_what_is_known(card),
        **_of_agent(card.escalation, card.steps),
    }


def _what_is_asked(card: Card) -> dict[str, Any]:
    escalation, kind = card.escalation, card.kind
    return {
        "kind": kind,
        "act": escalation.in_words(card.known.name),
        "asks": what_awaits(escalation, card.called, card.entitled.first),  # the action, as markup
        "subject": card.called,
        "number": f"#{escalation.subject_key}" if card.known.name else "",  # if their name has none
        "note": card.known.note,  # the desk's, on the subject
        # What follows an approval, as a sentence; "": the kind's own says it.
        "follows": follows[0] if (follows := following_of(escalation)) else "",
        # A step's output, a letter for an outsider, an agent's answer: each if the request has it.
        "produced": split_output(draft_of(escalation)) if kind.change == INSTRUCTIONS else None,
        "letter": _letter(escalation, kind),
        "words": as_html(str(escalation.action.get("note", ""))) if kind is FINAL else "",
        "correction": _correction_of(escalation),  # the person's own text instead
    }


def _what_they_may_answer(card: Card) -> dict[str, Any]:
    """Return the answers open to this person here and now, and what keeps them from others."""
    escalation, entitled, most = card.escalation, card.entitled, card.most
    wanted = entitled.first.granted_minor if entitled.first else escalation.amount_minor
    may_grant_all = most is None or most >= (wanted or 0)
    fields = _fields(card) if most != 0 and entitled.may_say_yes else []
    if not may_grant_all and not any(field.open.currency for field in fields):
        fields = []  # changing other arguments leaves the amount above their limit
    switch = _switch(card)
    hindered = obstacle(escalation) if card.is_open else None
    may_say_yes = switch is None and hindered is None and entitled.may_say_yes
    withheld = "" if may_say_yes else "yes"
    if not card.is_open:
        withheld = "ended"
    elif card.claimed_by and not card.is_mine:
        withheld = "claim"
    elif card.refusal:
        withheld = "role"
    is_above = not may_grant_all and not withheld
    left = card.known.left_minor
    is_short = left is not None and left < (wanted or 0)
    is_lost = switch or hindered or is_short  # for everybody
    may_pass = withheld in ("", "yes") and not is_lost
    able = _able(card) if may_pass and (is_above or entitled.below) else []
    passes_to = next((name for name in able if name != str(escalation.assigned_to)), "")
    kept = _why_kept(escalation, len(card.earlier)) if card.is_open else None
    limit = card.part.limit_minor(escalation.run.desk, escalation.currency)
    return {
        "choices": ()
        if withheld in ("ended", "claim", "role")
        else choices(
            escalation,
            card.called,
            fields,
            may_grant_all=may_grant_all,
            may_say_yes=not withheld,
            may_send_back=not hindered and kept is None,
            entitled=entitled,
            passes_to=passes_to,
        ),
        "fields": fields,  # arguments that they may change
        "withheld": withheld,  # why there is no full form: ended, claim, role, yes; ""
        "most_minor": most,
        # Why this person cannot grant it all, and who can.
        "above": _above(card, limit, able) if is_above else "",
        "passes_to": passes_to,  # who gets it if this person passes it on; "": nobody
        "entitled": entitled,
        "refusal": card.refusal,  # why this person cannot decide
        "limit_minor": limit,
        "claimed_by": card.claimed_by,
        "is_mine": card.is_mine,
        "may_release": bool(card.claimed_by) and (card.is_mine or card.part.role == Role.ADMIN),
        "switch": switch,  # prevents an approval
        "obstacle": str(hindered or ""),  # also prevents it, as a sentence
        "kept": str(kept or "") if card.earlier else "",  # why it cannot be sent back again
    }


def _what_followed(card: Card, *, is_held: bool) -> dict[str, Any]:
    escalation, run, effect = card.escalation, card.escalation.run, card.effect
    is_again = escalation.not_carried_out == ASKED_AGAIN
    is_back = escalation.state == EscalationState.SENT_BACK
    return {
        "outcome": ""
        if card.is_open
        else outcome(escalation, effect, card.called, at=card.at, is_held=is_held),
        # Who stopped its run before a decision, and why.
        "stopped": stopped_by_hand(run) if escalation.state == EscalationState.CANCELLED else "",
        # The later request about the same action, and the one after a request that was sent back.
        "asked_again": _next(escalation, turn=turn_of(escalation.step.key)) if is_again else None,
        "followed_by": _next(escalation) if is_back else None,
        "stages": stages(run.desk, card.reviews, escalation, effect, is_over=run.state in ENDED),
    }


def _what_to_compare(card: Card, fields: Sequence[FormField]) -> dict[str, Any]:
    """Return what to compare with the request before approving it: doubts, and its twins."""
    escalation, doubts = card.escalation, comparisons(card.escalation)
    facts = escalation.review.get("facts") or {}
    recorded = _known(facts)
    record = [sentence for _, sentence in recorded]
    free = [one for one in facts.get("own_words") or () if not in_other_words(one, record)]
    decisions, same = _about_the_same(escalation)
    together = _together(escalation, same, card.known) if card.is_open else ""
    has_odd_twin = bool(together) or any(other["mark"] for other in same)
    chooses, names = any(field.open.words for field in fields), {f.open.name for f in fields}
    rejected = rejected_before(escalation)
    too_long, lookalikes = _too_long(escalation, card.kind), _lookalikes(card)
    is_odd = bool(doubts or free or lookalikes or too_long)
    return {
        "doubts": doubts,
        "fixed": [  # of them, what no field changes
            shown
            for doubt, shown in zip(doubts_of(escalation), doubts, strict=True)
            if doubt["name"] not in names
        ],
        "own_words": free,  # passages of it that no record has, not even in other words
        "known": recorded,  # sentences of ledger and record, to compare it with
        "too_long": too_long,
        "lookalikes": lookalikes,
        "rejected_before": rejected,  # the same, whoever proposed it
        "decisions": decisions,  # about the same subject, newest first
        "same": same,  # open requests on the same money, for whatever amount
        "together": together,
        "has_odd_twin": has_odd_twin,  # another one has to be compared first
        "chooses": chooses,  # whether a person has to choose what nobody named
        # Whether a person has to compare something before they choose an answer.
        "compares_first": is_odd or chooses or has_odd_twin or rejected is not None,
    }


def _what_went_before(card: Card) -> dict[str, Any]:
    before = approved_before(card.escalation, card.reviews)
    return {
        "approved_before": before,  # the approval that it replaced
        "changed_by": _changed_by(card.reviews, before),
        "sent_back": card.earlier or _corrected_before(card.escalation),
        "proposed_before": proposed_before(card.escalation),
    }


def _why_a_person_is_asked(card: Card) -> dict[str, Any]:
    escalation, review = card.escalation, card.escalation.review
    rulings = review.get("rulings") or [review["deciding"]]
    is_usual = rulings[0]["reason"] == "output_review" and not escalation.action.get("triggers")
    # The reason of a usual request is the rule's title; of a closed case it says what to do.
    if is_usual or (card.kind.ends_run and not card.is_open):
        rulings = [{**one, "sentence": ""} for one in rulings]
    rulings = sorted(rulings, key=lambda one: -(one.get("risk") or 0))
    is_theirs = card.is_open and not card.refusal and card.entitled.may_say_yes
    drawn = ruling_to_draw(review, escalation.amount_minor)
    return {
        # Those that asked for a person, the weightiest first, and the others.
        "rulings": [one for one in rulings if one["verdict"] != "approve"],
        "passed": [one for one in rulings if one["verdict"] == "approve"],
        "ruler": ruler(drawn, card.most if is_theirs else None),
        # The published policy version, if the run keeps an older one.
        "published": _published_version(escalation),
        "sources": [] if escalation.run.is_emptied else sources(escalation, card.reviews),
    }


def _what_is_known(card: Card) -> dict[str, Any]:
    """Return the few facts that stand in the middle, of what was noted first, and the side.

    What the banner quotes stands there and not at the side.
    """
    evidence = (card.escalation.review.get("facts") or {}).get("evidence")
    at_review = [Section("Facts at review", evidence)] if evidence else []
    first, *others = [*at_review, *card.known.sections] or [Section("", ())]
    middle = [one for one in first.items if one["kind"] == "fact"][:_FACTS]
    quoted = {one.get("text") for one in doubts_of(card.escalation)}
    rest = [
        one
        for one in first.items
        if one not in middle and not (one["kind"] == "quote" and one["text"] in quoted)
    ]
    aside = [replace(first, items=rest)] if rest or first.note else []
    return {"facts": middle, "facts_title": first.title, "beside": [*aside, *others]}


def _fields(card: Card) -> list[FormField]:
    """Return the fields of the form; none if the request no longer waits."""
    escalation, labels = card.escalation, card.kind.labels
    if not card.is_open:
        return []
    return [
        form_field(
            field,
            label=fill_sentence(labels[field.name], escalation, card.called)
            if field.name in labels
            else field.label,
            most_minor=card.most if field.currency else None,
            limit=_limit_of(escalation) if field.currency else None,
            instead=_named_instead(escalation, field),
        )
        for field in fields_of(escalation, at=card.at)
    ]


def _named_instead(escalation: Escalation, field: OpenField) -> Sequence[int] | None:
    """Return the amounts that the request names instead of a doubtful one; None: it is in order."""
    asked = [one["asked"] for one in doubts_of(escalation) if one["name"] == field.name]
    read = [one.money for texts in asked for text in texts for one in read_amounts(text)]
    named = [money.minor for money in read if money and money.currency == field.currency]
    return named if asked else None


def _limit_of(escalation: Escalation) -> int | None:
    """Return the amount up to which the policy asks nobody; None if it is no amount."""
    ruling = ruling_to_draw(escalation.review, escalation.amount_minor) or {}
    limit = ruling.get("limit")
    return limit if unit_of(ruling) == escalation.currency and type(limit) is int else None


def _switch(card: Card) -> KillSwitch | None:
    """Return the kill switch that prevents its approval or, if it is left to its agent, its use."""
    run, tool = card.escalation.run, card.escalation.action.get("name", "")
    is_left = any(map(is_untaken, card.turn)) and run.state not in ENDED
    if not (is_left or card.is_open) or card.kind.starts_nothing:
        return None
    standing = (one.switch for one in card.stops)
    here = (switch for switch in standing if switch.workspace_id == run.workspace_id)
    return next((switch for switch in here if switch.stops(run, tool)), None)


def _about_the_same(escalation: Escalation) -> tuple[list[Escalation], list[dict[str, Any]]]:
    """Return earlier decisions about the same subject, newest first, and similar open requests.

    Those are of the same kind, about the same resource and, if it names one, for the same other
    party, such as a payee. In a demo each launch has its own book.
    """
    if not escalation.subject_key:
        return [], []
    newest = _SAME.all(
        pk=escalation.pk,
        kind=escalation.kind,
        book=escalation.run.book_id,
        resource=escalation.resource,
        workspace=escalation.workspace_id,
        desk=escalation.run.desk,
        subject=escalation.subject_key,
    )
    decisions = [other for other in newest if other.decided_at]
    if escalation.state != EscalationState.OPEN:
        return decisions, []
    party = told_apart_by(escalation)
    waiting = [
        # Its mark has to be compared with its request.
        {"request": other, "mark": mark_of(other)}
        for other in newest
        if not other.decided_at and told_apart_by(other) == party
    ]
    return decisions, waiting


def _together(escalation: Escalation, same: Sequence[Json], known: Beside) -> str:
    """Say by how much open requests on the same money exceed what is left of it, or return ""."""
    left, currency = known.left_minor, escalation.currency
    requests = (escalation, *(one["request"] for one in same))
    asked = [one.amount_minor or 0 for one in requests if one.currency == currency]
    if left is None or len(asked) < 2 or sum(asked) <= left:
        return ""
    least = "At least " if len(same) == OPEN else ""
    return (
        f"{least}{len(asked)} open requests on the same money, "
        f"{least.lower()}{format_money(sum(asked), currency)} together. "
        f"{format_money(left, currency)} is left."
    )


def _same_query() -> QuerySet[Escalation]:
    # Of the subject's runs, by their index. Only the reference profile lets other runs act on it.
    others = Escalation.objects.filter(
        workspace_id=Param("workspace"),
        run__workspace=Param("workspace"),
        run__desk=Param("desk"),
        run__subject_key=Param("subject"),
        run__book=Param("book"),  # each launch of a demo has one of its own
        subject_key=Param("subject"),
    ).exclude(pk=Param("pk"))
    same = others.filter(resource=Param("resource"), kind=Param("kind"))
    money = same.filter(amount_minor__isnull=False)
    waits = money.filter(state=EscalationState.OPEN).order_by("-pk").values("pk")[:OPEN]
    decided = others.filter(decided_at__isnull=False).order_by("-decided_at", "-pk")
    found = others.filter(Q(pk__in=waits) | Q(pk__in=decided.values("pk")[:_EARLIER]))
    newest = F("decided_at").desc(nulls_first=True)
    return found.select_related("decided_by", "run").order_by(newest, "-pk")


_SAME = CompiledSelect(_same_query)


def _able(card: Card) -> list[str]:
    """Return others who may grant the request, lowest own limit first."""
    able = (one.user for _, one in people_who_may(card.escalation, card.roster))
    return [user.get_username() for user in able if user.pk != card.user.pk]


def _above(card: Card, limit: int | None, able: list[str]) -> str:
    """Say why this person cannot grant all of it, and who can."""
    escalation, most, left = card.escalation, card.most, card.known.left_minor
    asked, currency = escalation.asked, escalation.currency
    if left is not None and left < (escalation.amount_minor or 0):
        return f"{format_money(left, currency)} is left, less than {asked}."
    why = f"You may still approve {format_money(most or 0, currency)} of {asked}."
    if limit == most:
        why = f"{asked} is above your limit of {format_money(limit or 0, currency)}."
    if able:
        return f"{why} {' or '.join(able[:OTHERS])} may approve it."
    admins = Membership.objects.filter(
        workspace=escalation.workspace_id, role=Role.ADMIN, user__is_active=True
    )
    names = admins.order_by("user__username").values_list("user__username", flat=True)[:OTHERS]
    ask = f" Ask an admin to raise a limit: {' or '.join(names)}." if names else ""
    return f"{why} Nobody else may approve it.{ask}"


def _published_version(escalation: Escalation) -> int | None:
    now, pinned = escalation.workspace.policy, escalation.run.policy
    if now is None or pinned.is_replay or now.number <= pinned.number:
        return None
    return now.number


def _known(facts: Json) -> list[tuple[str, str]]:
    """Return what ledger and record have, each after its place; 0.2.0 kept both apart."""
    record: Json = facts.get("record") or facts.get("seen", {}).get("record", {})
    done = [("Ledger", text) for text in facts.get("ledger") or facts.get("done", ())]
    return [*done, *(("Record", text) for name, text in record.items() if name != "greeting")]


def _letter(escalation: Escalation, kind: RequestKind) -> str | None:
    if kind.change != TEXT:
        return None
    # The arguments of an erased run are gone.
    name = escalation.review.get("facts", {}).get("letter")
    return str(escalation.action.get("args", {}).get(name, ""))


def _too_long(escalation: Escalation, kind: RequestKind) -> str:
    length = len(draft_of(escalation))
    if kind.change != INSTRUCTIONS or length <= MAX_TEXT:
        return ""
    return (
        f"It has {length:,} characters; an email has at most {MAX_TEXT:,}. If a later step is to "
        "email it, approving lets the run stop there with nothing sent. Send it back to have it "
        "shortened."
    )


def _lookalikes(card: Card) -> list[str]:
    """Return warnings of deceptive letters, also within values for those who see them."""
    run, action = card.escalation.run, card.escalation.action
    texts = [text for _, text in texts_in([card.known.name, run.goal, action])]
    if card.part.role in SEE_VALUES:
        with suppress(ValuesLocked):
            texts = RunBorder(run).resolve(texts)
    found = dict.fromkeys(sentence for text in texts for sentence in homoglyph_warnings(text))
    return list(found)[:_LOOKALIKES]


def _changed_by(reviews: Sequence[Step], before: Json) -> str:
    """Return who changed the proposed arguments before this request was made."""
    who = ["the policy"] if any(reply_of(one)["revisions"] for one in reviews) else []
    if before and before["escalation"].state == EscalationState.ADJUSTED:
        who.append(str(before["escalation"].decided_by))
    return " and ".join(who)


def _of_agent(escalation: Escalation, steps: Sequence[Step]) -> dict[str, Json]:
    """Return the facts and claims about an external agent's call."""
    agent = escalation.run.agent
    if agent is None:
        return {"keys": (), "claimed": (), "reported": None}
    key = f"{turn_of(escalation.step.key)}call"
    row = AgentCall.objects.filter(run=escalation.run_id, step=key).first()
    prefixes = [row.key_prefix] if row and row.key_prefix else []
    asked = next((step.reply for step in steps if step.key == key), None) or {}
    return {
        "keys": list(key_viewers(agent, prefixes).items()),
        "claimed": list((asked.get("sources") or {}).items()),
        "reported": row.reported and {**row.reported, "parts": list(row.reported["result"].items())}
        if row
        else None,
    }


def _why_kept(escalation: Escalation, before: int) -> Refused | None:
    """Return why a request cannot be sent back; None if it can."""
    try:
        check_send_back(escalation, before)
    except Refused as no:
        return no
    return None


# Earlier requests with an effect on this one: sent back, repeated by an agent, approved and asked
# again.


def approved_before(escalation: Escalation, reviews: Sequence[Step]) -> dict[str, Any] | None:
    """Return the approval that a request replaced and the policy's new sentences, or None.

    `reviews` are its turn's. A change by the policy says more than the rules that ask for a person
    because of it.
    """
    if "#" not in escalation.step.key:  # the first request of its turn
        return None
    asked = Escalation.objects.filter(
        run=escalation.run_id, pk__lt=escalation.pk, not_carried_out=ASKED_AGAIN
    )
    same = asked.filter(step__key__startswith=turn_of(escalation.step.key)).order_by("-pk")
    before = same.select_related("decided_by", "step").first()
    if before is None:
        return None
    later = [one for one in reviews if one.position > before.step.position]
    revised = [ruling["sentence"] for one in later for ruling in reply_of(one)["revisions"]]
    known = {ruling["sentence"] for ruling in before.review["rulings"]}
    ruled = [r["sentence"] for r in escalation.review["rulings"] if r["verdict"] == "escalate"]
    changes = dict.fromkeys(revised or (one for one in ruled if one not in known))
    return {"escalation": before, "changes": list(changes)}


def proposed_before(escalation: Escalation) -> list[dict[str, Any]]:
    """Return the calls that an external agent's call repeats, each with the request about it."""
    own = str(escalation.run_id)
    facts = escalation.review.get("facts") or {}
    found = [(one.get("run", own), one["turn"]) for one in facts.get("repeats") or ()]
    if not found:
        return []
    asked = Escalation.objects.filter(run__in={run for run, _ in found}, pk__lt=escalation.pk)
    keys = asked.order_by("pk").values_list("run", "step__key", "pk")
    requests = {(str(run), turn_of(key)): pk for run, key, pk in keys}
    return [
        {"run": run, "is_here": run == own, "request": requests.get((run, turn))}
        for run, turn in found
    ]


def rejected_before(escalation: Escalation) -> Escalation | None:
    """Return the rejected request that binds this one, as of the review; or None."""
    no = (escalation.review.get("facts") or {}).get("rejected")
    here = Escalation.objects.filter(workspace=escalation.workspace_id)
    return here.select_related("decided_by").filter(pk=no["request"]).first() if no else None


def _sent_back_before(escalation: Escalation) -> list[dict[str, Any]]:
    """Return the requests of the run sent back before this one, newest first."""
    earlier = sent_back_in(escalation.run).filter(pk__lt=escalation.pk)
    found = earlier.select_related("decided_by", "run").order_by("-pk")
    return [_since(one, escalation) for one in found]


def _since(before: Escalation, now: Escalation) -> dict[str, Any]:
    """Return an earlier request and, if the tool is the same, the arguments changed since."""
    old, new = before.action.get("args") or {}, now.action.get("args") or {}
    desk, tool = now.run.desk, str(now.action.get("name", ""))
    is_other = before.action.get("name") != now.action.get("name")
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]

    def words(args: dict[str, Json], name: str) -> str:
        return argument_in_words(desk, tool, name, args[name]) if name in args else ""

    changes = [
        {"label": label_of(name), "before": words(old, name), "after": words(new, name)}
        for name in names
    ]
    return {
        "escalation": before,
        "words": before.comment,
        "is_other": is_other,
        "changes": [] if is_other else changes,
    }


def _corrected_before(escalation: Escalation) -> list[dict[str, Any]]:
    """Return the earlier rounds of a draft that a person sent back, newest first."""
    if escalation.action.get("round", 1) == 1:
        return []
    earlier = Escalation.objects.filter(
        run=escalation.run_id, pk__lt=escalation.pk, state=EscalationState.ADJUSTED
    )
    found = earlier.select_related("decided_by", "step", "run").order_by("-pk")
    same = (one for one in found if one.action.get("step") == escalation.action["step"])
    return [{"escalation": one, "words": _correction_of(one)} for one in same]


def _correction_of(escalation: Escalation) -> str:
    """Return a person's text instead of an email, or their instructions for a draft; or ""."""
    return str((escalation.step.reply or {}).get("correction", ""))


def _next(escalation: Escalation, *, turn: str = "") -> int | None:
    """Return the run's next request after this one, perhaps of its turn; None without one."""
    later = Escalation.objects.filter(run=escalation.run_id, pk__gt=escalation.pk).order_by("pk")
    same = later.filter(step__key__startswith=turn) if turn else later
    return same.values_list("pk", flat=True).first()


# A request's holder and comments, and the people to whom this person may hand it.
_SAID = 30  # entries that a card shows, the newest
PERIODS = (5, 10, 30, 60, 4 * 60, 24 * 60)  # minutes that a snooze may take


def receivers(found: Iterable[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """Return teams and people, given as kind, key and name, as values of a form and words."""
    ordered = sorted(set(found), key=lambda one: (one[0] != "team", one[2], one[1]))
    return [
        (f"{kind}:{key}", f"{name} (team)" if kind == "team" else name)
        for kind, key, name in ordered
    ]


def handover_of(card: Card) -> dict[str, Json]:
    """Read a request's holder and comments, and what this person may do about it."""
    escalation, user, at, role = card.escalation, card.user, card.at, card.part.role
    waits = card.is_open and deadline_of(escalation, at=at) > at
    acts = waits and role in access.DECIDES
    is_kept = bool(card.claimed_by) and not card.is_mine and role != Role.ADMIN
    able = deciders(escalation, card.roster) if acts and not is_kept else ()
    names = [one.user.get_username() for one in able]
    teams = [team for one in able for team in card.roster.teams[one.user_id]]
    until = getattr(escalation, "snoozed_until", None)
    said, name = _comments(escalation), user.get_username()
    return {
        "holder": _holder(card),
        "said": said[-_SAID:],
        "is_cut": len(said) > _SAID,
        "entry": max((one["event"].seq for one in said if one["event"].actor == name), default=0),
        "may_comment": acts,
        "receivers": receivers(  # none if this person may not hand it over
            [("person", name, name) for name in names]
            + [("team", team.slug, team.name) for team in teams]
        ),
        "snoozed_until": until if until and until > at and waits else None,
        "periods": periods(deadline_of(escalation, at=at) - at) if acts else [],
    }


def _holder(card: Card) -> dict[str, object]:
    """Return who has a waiting request, and whether the assigned may still decide it."""
    to, team = card.escalation.assigned_to, card.escalation.assigned_team
    held: dict[str, object] = {"claimed_by": card.claimed_by, "to": "", "is_able": True}
    able = [one.user_id for one in deciders(card.escalation, card.roster)] if to or team else []
    if team:
        teams = card.roster.teams
        is_able, is_reader = any(team in teams[pk] for pk in able), team in teams[card.user.pk]
        return held | {"to": team.name, "is_team": True, "is_reader": is_reader, "is_able": is_able}
    if to:
        is_able, is_reader = to.pk in able, to == card.user
        return held | {"to": to.get_username(), "is_reader": is_reader, "is_able": is_able}
    return held


def _comments(escalation: Escalation) -> list[dict[str, Any]]:
    """Return comments and hand-overs with a note, oldest first, at most one more than is shown."""
    kinds = (COMMENTED, "escalation.assigned")
    found = Event.objects.filter(run=escalation.run_id, kind__in=kinds)
    mine = found.filter(facts__escalation=escalation.pk).annotate(
        name=F("texts__name"), text=F("texts__text"), erased_at=F("texts__erased_at")
    )  # each has one text at most
    return [_entry(event) for event in reversed(mine.order_by("-seq")[: _SAID + 1])]


def _entry(event: Any) -> dict[str, Any]:
    text = EventText(name=event.name, text=event.text, erased_at=event.erased_at)
    facts = facts_of(event, [text] if text.name else [])
    is_handed, is_team = event.kind != COMMENTED, "team" in facts
    to = facts.get("team_name", "") if is_team else facts.get("to", "")
    said = facts.get("comment") or facts.get("note", "")
    said = said.sentence if isinstance(said, ErasedText) else said
    return {"event": event, "is_handed": is_handed, "to": to, "is_team": is_team, "text": said}


def periods(left: timedelta = timedelta.max) -> list[tuple[int, str]]:
    return [
        (minutes, f"{minutes} minutes" if minutes < 60 else with_unit(minutes // 60, "hours"))
        for minutes in PERIODS
        if timedelta(minutes=minutes) < left
    ]
