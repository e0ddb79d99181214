"""The card: a request with its evidence, for one person. One page, so one read model."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
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
from agents.engine.deciders import Roster, deciders, is_own, key_viewers, people_who_may
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
    act,
    came_to_nothing,
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
    sent_since,
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
class Around:
    """What a card and the rest of its page share, read once."""

    roster: Callable[[], Roster]
    stops: Callable[[], Sequence[kill_switch.SwitchInForce]]  # in the person's workspaces


def card_of(escalation: Escalation, user: User, around: Around, *, at: datetime) -> dict[str, Any]:
    """Gather what a person needs to decide and, after the decision, what followed."""
    run, kind = escalation.run, kind_of_request(escalation)
    steps = _steps(escalation)
    effect = _effect(escalation, kind, steps)
    if effect:
        effect.run = run  # or its desk takes a query
    known = beside(escalation, at=at, effect=effect.key if effect else "")
    part = access.membership(user, escalation.workspace_id)
    most = _most(escalation, kind, known, part, at=at)
    is_open = escalation.state == EscalationState.OPEN
    entitled = entitlement_of(escalation, user, around.roster) if is_open else _NONE
    wanted = entitled.first.granted_minor if entitled.first else escalation.amount_minor
    may_grant_all = most is None or most >= (wanted or 0)
    refusal = _refusal(escalation, user, part.role)
    if not refusal and entitled.is_party:
        refusal = own_words(run)
    if is_open and escalation.frozen_at is None and escalation.expires_at <= at:
        refusal = _OVERDUE
    turn = turn_of(escalation.step.key)
    reviews = [
        step for step in steps if step.kind == "review" and step.reply and step.key.startswith(turn)
    ]
    name = known.name
    called = name or run.subject_label or "nobody in particular"
    is_mine_to_grant = most != 0 and entitled.may_say_yes
    fields = _fields(escalation, kind, called, most, at=at) if is_mine_to_grant else []
    if not may_grant_all and not any(field.open.currency for field in fields):
        fields = []  # changing other arguments leaves the amount above their limit
    is_left = any(is_untaken(step) for step in steps if step.key.startswith(turn))
    claimed_by = claimant(escalation, at=at)
    switch = _switch(escalation, kind, around, is_left=is_left and run.state not in ENDED)
    is_mine = bool(claimed_by) and escalation.claimed_by_id == user.pk
    hindered = obstacle(escalation) if is_open else None
    withheld = _withheld(
        escalation,
        refusal,
        is_free=not claimed_by or is_mine,
        is_possible=switch is None and hindered is None and entitled.may_say_yes,
    )
    limit = part.limit_minor(run.desk, escalation.currency)
    is_above = not may_grant_all and not withheld
    able = _able(escalation, user, around.roster()) if is_above or entitled.below else []
    if switch or hindered or withheld not in ("", "yes") or _is_short(known.left_minor, wanted):
        able = []  # nobody can approve it
    passes_to = next((name for name in able if name != str(escalation.assigned_to)), "")
    decisions, same = _about_the_same(escalation)
    facts = escalation.review.get("facts") or {}
    recorded = _known(facts)
    record = [sentence for _, sentence in recorded]
    free = [one for one in facts.get("own_words") or () if not in_other_words(one, record)]
    why = came_to_nothing(escalation, effect)
    rulings = escalation.review.get("rulings") or [escalation.review["deciding"]]
    is_usual = rulings[0]["reason"] == "output_review" and not escalation.action.get("triggers")
    # The reason of a usual request is the rule's title; of a closed case it says what to do.
    if is_usual or (kind.ends_run and not is_open):
        rulings = [{**one, "sentence": ""} for one in rulings]
    earlier = _sent_back_before(escalation) if getattr(escalation, "has_sent_back", True) else []
    kept = _why_kept(escalation, len(earlier)) if is_open else None
    before = approved_before(escalation, reviews)
    doubts, evidence = comparisons(escalation), facts.get("evidence") or []
    middle, aside = _facts_and_rest(escalation, evidence, known.sections)
    together = _together(escalation, same, known) if is_open else ""
    has_odd_twin = bool(together) or any(other["mark"] for other in same)
    chooses = any(field.open.words for field in fields)
    names = {field.open.name for field in fields}
    rejected = rejected_before(escalation)
    too_long, lookalikes = _too_long(escalation, kind), _lookalikes(escalation, name, part)
    is_odd = bool(doubts or free or lookalikes or too_long)
    return {
        "kind": kind,
        "act": act(escalation, name),
        "asks": what_awaits(escalation, called, entitled.first),  # the action, as markup
        "outcome": ""
        if is_open
        else outcome(
            escalation,
            effect or sent_since(escalation),
            called,
            why=why,
            at=at,
            is_held=switch is not None,
        ),
        # Who stopped its run before a decision, and why.
        "stopped": stopped_by_hand(run) if escalation.state == EscalationState.CANCELLED else "",
        # What this person may answer here and now.
        "choices": ()
        if withheld in ("ended", "claim", "role")
        else choices(
            escalation,
            called,
            fields,
            may_grant_all=may_grant_all,
            may_say_yes=not withheld,
            may_send_back=not hindered and kept is None,
            entitled=entitled,
            passes_to=passes_to,
        ),
        "fields": fields,  # arguments that they may change
        "withheld": withheld,  # why there is no full form: ended, claim, role, yes; ""
        "subject": called,
        "number": f"#{escalation.subject_key}" if name else "",  # if their name has none
        "note": known.note,  # the desk's, on the subject
        # What follows an approval, as a sentence; "": the kind's own says it.
        "follows": follows[0] if (follows := following_of(escalation)) else "",
        "facts": middle,
        "beside": aside,
        # What to compare with the request before approving it; of that, what no field changes.
        "doubts": doubts,
        "fixed": [
            shown
            for doubt, shown in zip(doubts_of(escalation), doubts, strict=True)
            if doubt["name"] not in names
        ],
        # Those that asked for a person, the weightiest first, and the others.
        "rulings": sorted(filter(_is_hit, rulings), key=lambda one: -(one.get("risk") or 0)),
        "passed": [one for one in rulings if not _is_hit(one)],
        "most_minor": most,  # that this person may grant; None: there is no amount
        # Why this person cannot grant it all, and who can.
        "above": _above(escalation, limit, most, known.left_minor, able) if is_above else "",
        "passes_to": passes_to,  # who gets it if this person passes it on; "": nobody
        "entitled": entitled,  # as to tiers and the first of two approvals
        "refusal": refusal,  # why this person cannot decide
        "limit_minor": limit,
        "claimed_by": claimed_by,
        "is_mine": is_mine,
        "may_release": is_mine or (bool(claimed_by) and part.role == Role.ADMIN),
        "decisions": decisions,  # about the same subject, newest first
        "stages": stages(run.desk, reviews, escalation, effect, is_over=run.state in ENDED),
        "sources": [] if run.is_emptied else sources(escalation, reviews),
        "ruler": ruler(
            ruling_to_draw(escalation.review, escalation.amount_minor),
            most if is_open and not refusal and entitled.may_say_yes else None,
        ),
        # The published policy version, if the run keeps an older one.
        "published": _published_version(escalation),
        # A step's output, a letter for an outsider, an agent's answer: each if the request has it.
        "produced": split_output(draft_of(escalation)) if kind.change == INSTRUCTIONS else None,
        "letter": _letter(escalation, kind),
        "words": as_html(str(escalation.action.get("note", ""))) if kind is FINAL else "",
        "own_words": free,  # passages of it that no record has, not even in other words
        "known": recorded,  # sentences of ledger and record, to compare it with
        "correction": _correction_of(escalation),  # the person's own text instead
        "too_long": too_long,
        "lookalikes": lookalikes,
        "switch": switch,  # prevents an approval
        "obstacle": str(hindered or ""),  # also prevents it, as a sentence
        "asked_again": _asked_again(escalation),
        "approved_before": before,  # the approval that it replaced
        "changed_by": _changed_by(reviews, before),
        "sent_back": earlier or _corrected_before(escalation),
        "kept": str(kept or "") if earlier else "",  # why it cannot be sent back again
        "proposed_before": proposed_before(escalation),
        "rejected_before": rejected,  # the same, whoever proposed it
        "same": same,  # open requests on the same money, for whatever amount
        "together": together,
        "has_odd_twin": has_odd_twin,  # another one has to be compared first
        "chooses": chooses,  # whether a person has to choose what nobody named
        # Whether a person has to compare something before they choose an answer.
        "compares_first": is_odd or chooses or has_odd_twin or rejected is not None,
        # The request that followed one that was sent back.
        "followed_by": following(escalation)
        if escalation.state == EscalationState.SENT_BACK
        else None,
        **_of_agent(escalation, steps),
    }


def _facts_and_rest(
    escalation: Escalation, evidence: Sequence[Json], sections: Sequence[Section]
) -> tuple[list[Json], list[Section]]:
    """Return the few facts that stand in the middle, of what was noted first, and the side.

    What the banner quotes stands there and not at the side.
    """
    at_review = [Section("Facts at review", evidence)] if evidence else []
    first, *others = [*at_review, *sections] or [Section("", ())]
    middle = [one for one in first.items if one["kind"] == "fact"][:_FACTS]
    quoted = {one.get("text") for one in doubts_of(escalation)}
    rest = [
        one
        for one in first.items
        if one not in middle and not (one["kind"] == "quote" and one["text"] in quoted)
    ]
    return middle, [*([replace(first, items=rest)] if rest or first.note else []), *others]


def _steps(escalation: Escalation) -> list[Step]:
    """Return the steps of the request's turn and its executed call.

    In order, each with its effect.
    """
    of_turn = Q(key__startswith=turn_of(escalation.step.key))
    shown = of_turn | Q(effect__escalation=escalation.pk)
    return list(escalation.run.steps.filter(shown).select_related("effect").order_by("position"))


def _effect(escalation: Escalation, kind: RequestKind, steps: Sequence[Step]) -> Effect | None:
    effects = [effect for step in steps if (effect := getattr(step, "effect", None))]
    if kind.settles_call:
        return next((one for one in effects if one.step_id == escalation.step_id), None)
    return next((one for one in effects if one.escalation_id == escalation.pk), None)


def _most(
    escalation: Escalation, kind: RequestKind, known: Beside, person: Membership, *, at: datetime
) -> int | None:
    """Return the most that the person can grant: requested, available and within their limits."""
    asked = escalation.amount_minor
    if asked is None or not kind.runs_tool or kind.change == TEXT:
        return None
    resource, left = known.resource or escalation.resource, known.left_minor
    target = CallTarget(escalation.subject_key, resource, asked, escalation.currency)
    own = [bound.most_minor for bound in own_bounds(escalation, person, target, at=at)]
    return max(min([asked, *own, *([] if left is None else [left])]), 0)


def _refusal(escalation: Escalation, user: User, role: str) -> str:
    if role not in access.DECIDES:
        return f"Your role here is {role}. Deciding needs the role reviewer or admin."
    return own_words(escalation.run) if is_own(escalation.run, user.pk) else ""


def _fields(
    escalation: Escalation, kind: RequestKind, called: str, most: int | None, *, at: datetime
) -> list[FormField]:
    """Return the fields of the form; none if the request no longer waits."""
    if escalation.state != EscalationState.OPEN:
        return []
    return [
        form_field(
            field,
            label=fill_sentence(kind.labels[field.name], escalation, called)
            if field.name in kind.labels
            else field.label,
            most_minor=most if field.currency else None,
            limit=_limit_of(escalation) if field.currency else None,
            instead=_named_instead(escalation, field),
        )
        for field in fields_of(escalation, at=at)
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


def _switch(
    escalation: Escalation, kind: RequestKind, around: Around, *, is_left: bool
) -> KillSwitch | None:
    """Return the kill switch that prevents its approval or, if it is left to its agent, its use."""
    is_open = escalation.state == EscalationState.OPEN
    if not (is_left or is_open) or kind.starts_nothing:
        return None
    run, tool = escalation.run, escalation.action.get("name", "")
    standing = (one.switch for one in around.stops())
    here = (switch for switch in standing if switch.workspace_id == run.workspace_id)
    return next((switch for switch in here if switch.stops(run, tool)), None)


def _withheld(escalation: Escalation, refusal: str, *, is_free: bool, is_possible: bool) -> str:
    """Return why this person gets no form; "yes" if they may only reject."""
    if escalation.state != EscalationState.OPEN:
        return "ended"
    if not is_free:
        return "claim"
    if refusal:
        return "role"
    return "" if is_possible else "yes"


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
        {"request": other, "act": act(other), "mark": mark_of(other)}
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


def _is_hit(ruling: Json) -> bool:
    return bool(ruling["verdict"] != "approve")


def _able(escalation: Escalation, user: User, roster: Roster) -> list[str]:
    """Return others who may grant the request, lowest own limit first."""
    able = [one.user for _, one in people_who_may(escalation, roster) if one.user_id != user.pk]
    return [one.get_username() for one in able]


def _is_short(left: int | None, wanted: int | None) -> bool:
    return left is not None and left < (wanted or 0)


def _above(
    escalation: Escalation, limit: int | None, most: int | None, left: int | None, able: list[str]
) -> str:
    """Say why this person cannot grant all of it, and who can."""
    asked, currency = escalation.asked, escalation.currency
    if left is not None and _is_short(left, escalation.amount_minor):
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


def _lookalikes(escalation: Escalation, name: str, part: Membership) -> list[str]:
    """Return warnings of deceptive letters, also within values for those who see them."""
    texts = [text for _, text in texts_in([name, escalation.run.goal, escalation.action])]
    if part.role in SEE_VALUES:
        with suppress(ValuesLocked):
            texts = RunBorder(escalation.run).resolve(texts)
    found = dict.fromkeys(sentence for text in texts for sentence in homoglyph_warnings(text))
    return list(found)[:_LOOKALIKES]


def _asked_again(escalation: Escalation) -> int | None:
    """Return the later request about the same action."""
    if escalation.not_carried_out != ASKED_AGAIN:
        return None
    later = Escalation.objects.filter(run=escalation.run_id, pk__gt=escalation.pk)
    same = later.filter(step__key__startswith=turn_of(escalation.step.key)).order_by("pk")
    return same.values_list("pk", flat=True).first()


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
        "act": act(before),
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
    return [{"escalation": one, "act": act(one), "words": _correction_of(one)} for one in same]


def _correction_of(escalation: Escalation) -> str:
    """Return a person's text instead of an email, or their instructions for a draft; or ""."""
    return str((escalation.step.reply or {}).get("correction", ""))


def following(escalation: Escalation) -> int | None:
    """Return the run's next request after this one, or None."""
    later = Escalation.objects.filter(run=escalation.run_id, pk__gt=escalation.pk).order_by("pk")
    return later.values_list("pk", flat=True).first()


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


def handover_of(
    escalation: Escalation, user: User, roster: Callable[[], Roster], *, at: datetime
) -> dict[str, Json]:
    """Read a request's holder and comments, and what this person may do about it."""
    part = access.membership(user, escalation.workspace_id)
    waits = escalation.state == EscalationState.OPEN and deadline_of(escalation, at=at) > at
    acts = waits and part.role in access.DECIDES
    claimed_by = claimant(escalation, at=at)
    is_kept = bool(claimed_by) and escalation.claimed_by_id != user.pk and part.role != Role.ADMIN
    able = deciders(escalation, roster()) if acts and not is_kept else ()
    names = [one.user.get_username() for one in able]
    teams = [team for one in able for team in roster().teams[one.user_id]]
    until = getattr(escalation, "snoozed_until", None)
    said, name = _comments(escalation), user.get_username()
    return {
        "holder": _holder(escalation, user, claimed_by, roster),
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


def _holder(
    escalation: Escalation, user: User, claimed_by: str, roster: Callable[[], Roster]
) -> dict[str, object]:
    """Return who has a waiting request, and whether the assigned may still decide it."""
    to, team = escalation.assigned_to, escalation.assigned_team
    held: dict[str, object] = {"claimed_by": claimed_by, "to": "", "is_able": True}
    if team:
        teams = roster().teams
        is_able = any(team in teams[one.user_id] for one in deciders(escalation, roster()))
        is_reader = team in teams[user.pk]
        return held | {"to": team.name, "is_team": True, "is_reader": is_reader, "is_able": is_able}
    if to:
        is_able = any(one.user_id == to.pk for one in deciders(escalation, roster()))
        return held | {"to": to.get_username(), "is_reader": to == user, "is_able": is_able}
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
