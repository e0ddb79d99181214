"""What the approval pages show, read in as few queries as there are kinds of thing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.utils import timezone

from agents.core.effects import Json
from agents.core.kinds import LETTER, kind_of
from agents.core.lookalikes import lookalikes
from agents.core.money import plain_amount, spoken
from agents.core.states import ENDED, EscalationState
from agents.desk import billing, mail, refunds
from agents.engine.approvals import ASKED_AGAIN, turn_of
from agents.models import Effect, Escalation, KillSwitch, Membership, Role
from agents.operations.claiming import OWN, is_own
from agents.operations.granting import own_bounds
from agents.tools import request_of
from agents.web import access
from agents.web.changes import Stage, stages
from agents.web.outcomes import came_to_nothing
from agents.web.provenance import Source, sources
from agents.web.ruler import Ruler, ruler
from agents.web.times import read_time

INBOX = 100  # escalations on one page
DECIDED_PAGE = 50
LOOKALIKES = 5  # sentences
EARLIER = 5  # decisions about the same customer
SOON = timedelta(minutes=30)


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


@dataclass(frozen=True)
class Inbox:
    """A page of what waits, and where the next one begins."""

    rows: Sequence[Row]
    after: str  # where this page begins; "" for the first
    next: str  # "" for the last


def inbox(workspaces: Iterable[int], after: str = "") -> Inbox:
    """Return a page of what waits in some workspaces, soonest to expire first.

    What is frozen comes last: its time stands still.
    """
    waiting = open_in(workspaces)
    mark = _read_mark(after)
    found = waiting.filter(_beyond(*mark)) if mark else waiting
    found = found.annotate(is_frozen=ExpressionWrapper(_FROZEN, BooleanField()))
    soonest = found.select_related("run", "claimed_by").order_by("is_frozen", "expires_at", "pk")
    rows = _rows(soonest[: INBOX + 1], at=timezone.now())
    is_cut = len(rows) > INBOX
    following = _mark(rows[INBOX - 1].escalation) if is_cut else ""
    return Inbox(rows[:INBOX], after if mark else "", following)


def open_in(workspaces: Iterable[int]) -> QuerySet[Escalation]:
    """Return what waits for a person in some workspaces."""
    return Escalation.objects.filter(state=EscalationState.OPEN, workspace__in=list(workspaces))


_FROZEN = Q(frozen_at__isnull=False)


def _mark(last: Escalation) -> str:
    """Return where the page after this request begins."""
    return f"{int(last.frozen_at is not None)}_{last.expires_at.isoformat()}_{last.pk}"


def _read_mark(text: str) -> tuple[bool, datetime, int] | None:
    """Return what `_mark` wrote; None for anything else: that is the first page."""
    frozen, at, pk = (*text.split("_"), "", "")[:3]
    when = read_time(at)
    if when is None or frozen not in ("0", "1") or not (pk.isascii() and pk.isdigit()):
        return None
    return (frozen == "1", when, int(pk)) if len(pk) < 19 else None


def _beyond(frozen: bool, at: datetime, pk: int) -> Q:
    """Return what comes after a request, in the order of the inbox."""
    later = Q(expires_at__gt=at) | Q(expires_at=at, pk__gt=pk)
    return _FROZEN & later if frozen else _FROZEN | (~_FROZEN & later)


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
            kind=request_of(e.kind, e.action).tag,
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
    name, asked = escalation.action.get("name", ""), escalation.requested_minor
    return request_of(escalation.kind, escalation.action).asks.format(
        tool=name,
        step=name,
        customer=f"customer {escalation.customer}",
        asked="" if asked is None else spoken(asked),
    )


def is_letter(escalation: Escalation) -> bool:
    """Tell whether a text waits to be sent to a customer, rather than to stand as an output."""
    return kind_of(escalation.kind, escalation.action) is LETTER


def settles_call(escalation: Escalation) -> bool:
    """Tell whether a person is asked what became of a call."""
    return kind_of(escalation.kind, escalation.action).settles_call


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
    mail: mail.MailReceipt | None  # what is known of a mail that may have left
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
    switch: KillSwitch | None  # stands in the way of an approval
    why_not: str  # why what was allowed was not done, or ""
    asked_again: int | None  # the request that took its place


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
    most = _most(escalation, charge, part, at=at)
    effect, refusal = _effect(escalation), _refusal(escalation, user, part.role)
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
        refusal=refusal,
        effect=effect,
        mail=mail.find(key=effect.key) if effect and settles_call(escalation) else None,
        limit_minor=part.refund_limit_minor,
        claimed_by=claimed_by,
        is_mine=is_mine,
        may_release=is_mine or (bool(claimed_by) and part.role == Role.ADMIN),
        decisions=_decisions(escalation),
        stages=_stages(escalation, effect),
        sources=[] if run.erased_at else sources(escalation, charge),
        ruler=ruler(escalation.review["deciding"], None if refusal else most),
        published=_published(escalation),
        letter=_letter(escalation),
        lookalikes=_lookalikes(escalation, name),
        switch=_switch(escalation),
        why_not=came_to_nothing(escalation, effect),
        asked_again=_asked_again(escalation),
    )


def _switch(escalation: Escalation) -> KillSwitch | None:
    """Return what stands in the way of approving it, while it waits."""
    if escalation.state != EscalationState.OPEN or settles_call(escalation):
        return None
    standing = KillSwitch.objects.standing().filter(workspace=escalation.workspace_id)
    tool = escalation.action.get("name", "")
    return next((switch for switch in standing if switch.stops(escalation.run, tool)), None)


def _asked_again(escalation: Escalation) -> int | None:
    """Return the request by which the same action was asked about anew."""
    if escalation.not_carried_out != ASKED_AGAIN:
        return None
    later = Escalation.objects.filter(run=escalation.run_id, pk__gt=escalation.pk)
    same = later.filter(step__key__startswith=turn_of(escalation.step.key)).order_by("pk")
    return same.values_list("pk", flat=True).first()


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


def _most(
    escalation: Escalation, charge: billing.ChargeFacts | None, person: Membership, *, at: datetime
) -> int | None:
    """Return the least of what was asked for, what is left and what the person may grant."""
    asked = escalation.requested_minor
    if asked is None:
        return None
    limits = escalation.run.policy.limits().of(escalation.run.pattern)
    on = charge.charge_id if charge else None
    own = own_bounds(escalation, person, limits, on, at=at, wanted_minor=asked)
    left = charge.refundable_minor if charge else 0
    return max(min([asked, left, *(bound.most_minor for bound in own)]), 0)


def _refusal(escalation: Escalation, user: User, role: str) -> str:
    if role not in access.DECIDES:
        return f"Your role here is {role}. Deciding takes the role reviewer or admin."
    return OWN if is_own(escalation.run, user.pk) else ""


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


def _stages(escalation: Escalation, effect: Effect | None) -> list[Stage]:
    """Return the amount at its four moments, from the steps of the same turn."""
    turn = escalation.step.key.rpartition("/")[0]
    steps = list(escalation.run.steps.filter(key__startswith=f"{turn}/").order_by("position"))
    reviews = [step for step in steps if step.kind == "review" and step.reply]
    is_over = escalation.run.state in ENDED
    return stages(reviews, escalation, effect, is_over=is_over)


def _effect(escalation: Escalation) -> Effect | None:
    if settles_call(escalation):
        return Effect.objects.filter(step_id=escalation.step_id).first()
    return Effect.objects.filter(escalation=escalation).first()
