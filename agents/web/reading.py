"""What the approval pages show, read in as few queries as there are kinds of thing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db.models import F, Q
from django.utils import timezone

from agents.core.effects import Json
from agents.core.lookalikes import lookalikes
from agents.core.money import plain_amount, spoken
from agents.core.states import EscalationState
from agents.desk import billing, refunds
from agents.models import Effect, Escalation, Role
from agents.web import access
from agents.web.changes import Stage, stages
from agents.web.provenance import Source, sources
from agents.web.ruler import Ruler, ruler
from agents.web.times import read_time

INBOX = 100  # escalations on one page
DECIDED_PAGE = 50
LOOKALIKES = 5  # sentences
EARLIER = 5  # decisions about the same customer
SOON = timedelta(minutes=30)
KINDS = {
    "effect_unknown": "unknown",
    "hand_over": "case",
    "output": "output",
    "question": "question",
}


@dataclass(frozen=True)
class Row:
    """One line of the inbox, or of what was decided."""

    escalation: Escalation
    act: str
    kind: str
    why: str
    customer: str
    group: str
    claimed_by: str


def inbox(workspaces: Iterable[int]) -> list[Row]:
    """Return what waits in some workspaces, soonest to expire first."""
    waiting = Escalation.objects.filter(
        state=EscalationState.OPEN, workspace__in=list(workspaces)
    ).select_related("run", "claimed_by")
    now = timezone.now()
    # What is frozen comes last: its time stands still.
    soonest = waiting.order_by(F("frozen_at").asc(nulls_first=True), "expires_at", "pk")
    return _rows(soonest[:INBOX], at=now)


def decided(user: User, before: str) -> tuple[list[Row], str]:
    """Return a page of what was decided, newest first, and where the next one begins."""
    found = access.escalations_of(user).filter(decided_at__isnull=False)
    at, _, pk = before.partition("_")
    when = read_time(at)
    if when and pk.isascii() and pk.isdigit() and len(pk) < 19:
        found = found.filter(Q(decided_at__lt=when) | Q(decided_at=when, pk__lt=int(pk)))
    newest = found.select_related("run", "decided_by", "claimed_by").order_by("-decided_at", "-pk")
    rows = _rows(newest[: DECIDED_PAGE + 1], at=timezone.now())
    if len(rows) <= DECIDED_PAGE:
        return rows, ""
    last = rows[DECIDED_PAGE - 1].escalation
    mark = f"{last.decided_at.isoformat()}_{last.pk}" if last.decided_at else ""
    return rows[:DECIDED_PAGE], mark


def _rows(found: Iterable[Escalation], *, at: datetime) -> list[Row]:
    held = list(found)
    names = billing.customer_names(
        {(e.run.book_id, e.customer) for e in held if e.customer is not None}
    )
    return [
        Row(
            escalation=e,
            act=act(e),
            kind=KINDS.get(e.kind, e.kind),
            why=e.review["deciding"]["sentence"],
            customer=names.get((e.run.book_id, e.customer or 0), "No customer"),
            group=_group(e, at=at),
            claimed_by=claimant(e, at=at),
        )
        for e in held
    ]


def _group(escalation: Escalation, *, at: datetime) -> str:
    if escalation.frozen_at:
        return "Frozen by a kill switch"
    return "Expires within 30 min" if escalation.expires_at - at < SOON else "Later"


def claimant(escalation: Escalation, *, at: datetime) -> str:
    """Return who keeps an escalation now; "" where nobody does."""
    until, who = escalation.claimed_until, escalation.claimed_by
    return who.get_username() if who and until and until > at else ""


def act(escalation: Escalation) -> str:
    """Say in a line what the held action would do."""
    action = escalation.action
    if escalation.kind == "effect_unknown":
        return f"Did {action['name']} take effect?"
    if is_letter(escalation):
        return f"Send a reply to customer {escalation.customer}"
    if escalation.kind in ("output", "question"):
        return f"Let the output of the step {action['name']} stand"
    if escalation.kind == "hand_over":
        return f"Take over the case of customer {escalation.customer}"
    if escalation.requested_minor is not None and action["name"] == "issue_refund":
        return f"Refund {spoken(escalation.requested_minor)} to customer {escalation.customer}"
    return f"{action.get('name', 'Answer')} for customer {escalation.customer}"


def is_letter(escalation: Escalation) -> bool:
    """Tell whether a text waits to be sent to a customer, rather than to stand as an output."""
    return escalation.kind == "output" and escalation.action["kind"] == "tool"


@dataclass(frozen=True)
class Card:
    """An escalation with its evidence, for one person."""

    escalation: Escalation
    act: str
    customer_name: str
    charge: billing.ChargeFacts | None
    earlier: Sequence[refunds.Receipt]
    rulings: Sequence[Json]
    most_minor: int | None  # what this person may grant at most; None: there is no amount
    may_grant_all: bool
    prefilled: str
    refusal: str  # why this person cannot decide, or ""
    effect: Effect | None  # what really happened afterwards
    limit_minor: int | None
    claimed_by: str
    is_mine: bool
    may_release: bool
    decisions: Sequence[Escalation]  # about the same customer, newest first
    stages: Sequence[Stage]
    sources: Sequence[Source]
    ruler: Ruler | None
    published: int | None  # the number of the policy now, where the run keeps an older one
    letter: str | None  # the text that a customer would read; None: it is about something else
    lookalikes: Sequence[str]  # what to look at twice, a sentence each


def card(escalation: Escalation, user: User, *, at: datetime) -> Card:
    """Gather what a person needs to decide, and what became of it once it is decided."""
    run, number = escalation.run, escalation.customer
    charge, name, earlier = None, "", []
    if number is not None:
        charge = billing.latest_charge(book_id=run.book_id, customer_number=number, at=at)
        name = billing.customer_name(book_id=run.book_id, customer_number=number)
        earlier = refunds.paid_refunds(book_id=run.book_id, customer_number=number)
    part = access.membership(user, escalation.workspace_id)
    claimed_by = claimant(escalation, at=at)
    is_mine = bool(claimed_by) and escalation.claimed_by_id == user.pk
    asked = escalation.requested_minor
    most = _most(asked, charge, part.refund_limit_minor)
    return Card(
        escalation=escalation,
        act=act(escalation),
        customer_name=name or "the customer",
        charge=charge,
        earlier=earlier,
        rulings=escalation.review.get("rulings") or [escalation.review["deciding"]],
        most_minor=most,
        may_grant_all=most is None or most == asked,
        prefilled=plain_amount(most) if most else "",
        refusal=_refusal(escalation, user, part.role),
        effect=_effect(escalation),
        limit_minor=part.refund_limit_minor,
        claimed_by=claimed_by,
        is_mine=is_mine,
        may_release=is_mine or (bool(claimed_by) and part.role == Role.ADMIN),
        decisions=_decisions(escalation),
        stages=_stages(escalation),
        sources=[] if run.erased_at else sources(escalation, charge),
        ruler=ruler(escalation.review["deciding"], most),
        published=_published(escalation),
        letter=_letter(escalation),
        lookalikes=_lookalikes(escalation, name),
    )


def _published(escalation: Escalation) -> int | None:
    now, pinned = escalation.workspace.policy, escalation.run.policy
    if now is None or pinned.is_replay or now.number <= pinned.number:
        return None
    return now.number


def _letter(escalation: Escalation) -> str | None:
    if not is_letter(escalation):
        return None
    # Of a run that was erased the arguments are gone.
    name = escalation.review.get("facts", {}).get("letter")
    return str(escalation.action.get("args", {}).get(name, ""))


def _lookalikes(escalation: Escalation, name: str) -> list[str]:
    args = escalation.action.get("args") or {}
    texts = [name, escalation.run.goal, *(v for v in args.values() if isinstance(v, str))]
    found = dict.fromkeys(sentence for text in texts for sentence in lookalikes(text))
    return list(found)[:LOOKALIKES]


def _most(asked: int | None, charge: billing.ChargeFacts | None, limit: int | None) -> int | None:
    """Return the least of what was asked for, what is left and what the person may grant."""
    if asked is None:
        return None
    bounds = [asked, charge.refundable_minor if charge else 0]
    return max(min([*bounds, *([limit] if limit is not None else [])]), 0)


def _refusal(escalation: Escalation, user: User, role: str) -> str:
    if role not in access.DECIDES:
        return f"Your role here is {role}. Deciding takes the role reviewer or admin."
    limits = escalation.run.policy.limits().of(escalation.run.pattern)
    if limits.four_eyes and escalation.run.launched_by_id == user.pk:
        return "You launched this run, so somebody else has to decide about it."
    return ""


def _decisions(escalation: Escalation) -> list[Escalation]:
    """Return what people decided about the same customer before, newest first."""
    if escalation.customer is None:
        return []
    same = Escalation.objects.filter(
        workspace_id=escalation.workspace_id,
        customer=escalation.customer,
        decided_at__isnull=False,
    ).exclude(pk=escalation.pk)
    return list(same.select_related("decided_by").order_by("-decided_at", "-pk")[:EARLIER])


def _stages(escalation: Escalation) -> list[Stage]:
    """Return the amount at its four moments, from the steps of the same turn."""
    turn = escalation.step.key.rpartition("/")[0]
    steps = list(escalation.run.steps.filter(key__startswith=f"{turn}/").order_by("position"))
    reviews = [step for step in steps if step.kind == "review" and step.reply]
    uses = [step for step in steps if step.kind == "use"]
    return stages(reviews, escalation, uses, _effect(escalation))


def _effect(escalation: Escalation) -> Effect | None:
    if escalation.kind == "effect_unknown":
        return Effect.objects.filter(step_id=escalation.step_id).first()
    return Effect.objects.filter(escalation=escalation).first()
