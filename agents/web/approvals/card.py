"""The card: an escalation with its evidence, for one person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User
from django.db.models import Q
from django.utils.safestring import SafeString

from agents.core.homoglyphs import homoglyph_warnings
from agents.core.kinds import ARGUMENTS, TEXT, Kind
from agents.core.requests import Json
from agents.core.states import ENDED, EscalationState
from agents.desks.refunds import billing, mail, refunds
from agents.engine.approvals import ASKED_AGAIN, turn_of
from agents.engine.kill_switch import standing_against
from agents.models import Effect, Escalation, KillSwitch, Membership, Role, Step
from agents.operations import fields_of
from agents.operations.claiming import OWN, is_own
from agents.operations.granting import own_bounds
from agents.operations.own_limits import above_own_limits
from agents.web import access
from agents.web.approvals.fields import FormField, form_field
from agents.web.approvals.inbox import claimant
from agents.web.approvals.outcomes import came_to_nothing, outcome
from agents.web.approvals.provenance import Source, sources
from agents.web.approvals.ruler import Ruler, ruler
from agents.web.approvals.wording import Choice, act, choices, filled, kind_of_request
from agents.web.changes import Stage, stages

LOOKALIKES = 5  # sentences
EARLIER = 5  # decisions about the same customer
OTHERS = 3  # names of people who may grant it all


@dataclass(frozen=True)
class Card:
    """An escalation with its evidence, for one person."""

    escalation: Escalation
    kind: Kind
    act: str
    asks: SafeString  # the act as markup
    outcome: SafeString  # what became of it; "" while it waits
    choices: Sequence[Choice]  # what this person may answer here and now
    fields: Sequence[FormField]  # what they may change of the call
    withheld: str  # why there is no full form: ended, claim, role, switch; "" where there is one
    customer_name: str
    charge: billing.ChargeFacts | None
    earlier: Sequence[refunds.Receipt]
    rulings: Sequence[Json]
    most_minor: int | None  # what this person may grant at most; None: there is no amount
    may_grant_all: bool
    others: Sequence[str]  # who may grant what this person may not
    above: str  # why the whole amount is above this person's own limits, of a declared desk; or ""
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
    shown: Sequence[Json]  # evidence that a desk gave with the review, as data
    ruler: Ruler | None
    published: int | None  # the number of the policy now, where the run keeps an older one
    letter: str | None  # the text that a customer would read; None: it is about something else
    lookalikes: Sequence[str]  # what to look at twice, a sentence each
    switch: KillSwitch | None  # stands in the way of an approval
    asked_again: int | None  # the request that took its place


def card(escalation: Escalation, user: User, *, at: datetime) -> Card:
    """Gather what a person needs to decide, and what became of it once it is decided."""
    run, number, kind = escalation.run, escalation.customer, kind_of_request(escalation)
    charge, name, earlier = None, "", []
    if number is not None:
        charge = billing.latest_charge(book_id=run.book_id, customer_number=number, at=at)
        name = billing.customer_name(book_id=run.book_id, customer_number=number)
        earlier = refunds.paid_refunds(book_id=run.book_id, customer_number=number)
    part = access.membership(user, escalation.workspace_id)
    most = _most(escalation, kind, charge, part, at=at)
    above = above_own_limits(escalation, part, at=at)
    may_grant_all = not above and (most is None or most == escalation.requested_minor)
    effect, refusal = _effect(escalation, kind), _refusal(escalation, user, part.role)
    steps = _steps_of_turn(escalation)
    reviews = [step for step in steps if step.kind == "review" and step.reply]
    unnamed = "the customer" if number is None else f"customer {number}"
    called = name or run.subject_label or unnamed
    fields = [] if most == 0 else _fields(escalation, kind, called, most, at=at)
    claimed_by, switch = claimant(escalation, at=at), _switch(escalation, kind)
    is_mine = bool(claimed_by) and escalation.claimed_by_id == user.pk
    withheld = _withheld(escalation, refusal, is_free=not claimed_by or is_mine, switch=switch)
    is_open = escalation.state == EscalationState.OPEN
    why = came_to_nothing(escalation, effect)
    return Card(
        escalation=escalation,
        kind=kind,
        act=act(escalation, name or run.subject_label),
        asks=filled(kind.asks, escalation, called),
        outcome=SafeString("") if is_open else outcome(escalation, effect, called, why=why),
        choices=()
        if withheld in ("ended", "claim", "role")
        else choices(
            escalation,
            called,
            fields,
            may_grant_all=may_grant_all,
            may_say_yes=switch is None,
        ),
        fields=fields,
        withheld=withheld,
        customer_name=called,
        charge=charge,
        earlier=[one for one in earlier if effect is None or one.key != effect.key],
        rulings=escalation.review.get("rulings") or [escalation.review["deciding"]],
        most_minor=most,
        may_grant_all=may_grant_all,
        others=[] if may_grant_all or above or not is_open else _others(escalation),
        above=above,
        refusal=refusal,
        effect=effect,
        mail=mail.find(key=effect.key) if effect and kind.settles_call else None,
        limit_minor=part.refund_limit_minor,
        claimed_by=claimed_by,
        is_mine=is_mine,
        may_release=is_mine or (bool(claimed_by) and part.role == Role.ADMIN),
        decisions=_decisions(escalation),
        stages=stages(reviews, escalation, effect, is_over=run.state in ENDED),
        sources=[] if run.erased_at else sources(escalation, charge, reviews),
        shown=(escalation.review.get("facts") or {}).get("evidence") or [],
        ruler=ruler(escalation.review["deciding"], most if is_open and not refusal else None),
        published=_published(escalation),
        letter=_letter(escalation, kind),
        lookalikes=_lookalikes(escalation, name),
        switch=switch,
        asked_again=_asked_again(escalation),
    )


def _withheld(
    escalation: Escalation, refusal: str, *, is_free: bool, switch: KillSwitch | None
) -> str:
    """Return why this person gets no form, or under a kill switch only a part of it."""
    if escalation.state != EscalationState.OPEN:
        return "ended"
    if not is_free:
        return "claim"
    if refusal:
        return "role"
    return "switch" if switch else ""


def _others(escalation: Escalation) -> list[str]:
    """Return who may grant what is asked for, by their own limit."""
    enough = Q(refund_limit_minor=None) | Q(refund_limit_minor__gte=escalation.requested_minor)
    able = Membership.objects.filter(
        enough,
        workspace=escalation.workspace_id,
        role__in=access.DECIDES,
        is_simulated=False,
    )
    if is_own(escalation.run, escalation.run.launched_by_id):
        able = able.exclude(user=escalation.run.launched_by_id)
    names = able.order_by("refund_limit_minor", "user__username")
    return list(names.values_list("user__username", flat=True)[:OTHERS])


def _switch(escalation: Escalation, kind: Kind) -> KillSwitch | None:
    """Return what stands in the way of approving it, while it waits."""
    if escalation.state != EscalationState.OPEN or kind.settles_call:
        return None
    return standing_against(escalation.run, escalation.action.get("name", ""))


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


def _letter(escalation: Escalation, kind: Kind) -> str | None:
    if kind.change != TEXT:
        return None
    # Of a run that was erased the arguments are gone.
    name = escalation.review.get("facts", {}).get("letter")
    return str(escalation.action.get("args", {}).get(name, ""))


def _lookalikes(escalation: Escalation, name: str) -> list[str]:
    args = escalation.action.get("args") or {}
    texts = [name, escalation.run.goal, *(v for v in args.values() if isinstance(v, str))]
    found = dict.fromkeys(sentence for text in texts for sentence in homoglyph_warnings(text))
    return list(found)[:LOOKALIKES]


def _most(
    escalation: Escalation,
    kind: Kind,
    charge: billing.ChargeFacts | None,
    person: Membership,
    *,
    at: datetime,
) -> int | None:
    """Return the least of what was asked for, what is left and what the person may grant."""
    asked = escalation.requested_minor
    if asked is None or kind.change != ARGUMENTS:
        return None
    limits = escalation.run.limits
    on = str(charge.charge_id) if charge else ""
    own = own_bounds(escalation, person, limits, on, at=at, wanted_minor=asked)
    left = charge.refundable_minor if charge else 0
    return max(min([asked, left, *(bound.most_minor for bound in own)]), 0)


def _fields(
    escalation: Escalation, kind: Kind, called: str, most: int | None, *, at: datetime
) -> list[FormField]:
    """Return the fields of the form; none for a request that waits no longer."""
    if escalation.state != EscalationState.OPEN:
        return []
    return [
        form_field(
            field,
            label=filled(kind.labels[field.name], escalation, called)
            if field.name in kind.labels
            else field.label,
            most_minor=most if field.currency else None,
        )
        for field in fields_of(escalation, at=at)
    ]


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


def _steps_of_turn(escalation: Escalation) -> list[Step]:
    """Return the steps of the proposal that it is about, in their order."""
    turn = turn_of(escalation.step.key)
    return list(escalation.run.steps.filter(key__startswith=turn).order_by("position"))


def _effect(escalation: Escalation, kind: Kind) -> Effect | None:
    if kind.settles_call:
        return Effect.objects.filter(step_id=escalation.step_id).first()
    return Effect.objects.filter(escalation=escalation).first()
