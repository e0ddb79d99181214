"""What the pages show, read in as few queries as there are kinds of thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User

from agents import queries
from agents.core.effects import Json
from agents.core.money import plain_amount, spoken, told
from agents.core.states import EscalationState
from agents.desk import billing, refunds
from agents.models import Effect, Escalation, Run, Step
from agents.web import access

INBOX = 100  # escalations on one page


@dataclass(frozen=True)
class Row:
    """One line of the inbox."""

    escalation: Escalation
    act: str
    why: str


def inbox(user: User) -> list[Row]:
    """Return what waits in the person's workspaces, soonest to expire first."""
    waiting = access.escalations_of(user).filter(state=EscalationState.OPEN)
    found = waiting.select_related("workspace", "run").order_by("expires_at", "pk")[:INBOX]
    return [Row(e, act(e), e.review["deciding"]["sentence"]) for e in found]


def act(escalation: Escalation) -> str:
    """Say in a line what the held action would do."""
    action = escalation.action
    if escalation.kind == "effect_unknown":
        return f"Did {action['name']} take effect?"
    if escalation.kind == "hand_over":
        return f"Take over the case of customer {escalation.customer}"
    if escalation.requested_minor is not None and action["name"] == "issue_refund":
        return f"Refund {spoken(escalation.requested_minor)} to customer {escalation.customer}"
    return f"{action.get('name', 'Answer')} for customer {escalation.customer}"


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


def card(escalation: Escalation, user: User, *, at: datetime) -> Card:
    """Gather what a person needs to decide, and what became of it once it is decided."""
    run, number = escalation.run, escalation.customer
    charge, name, earlier = None, "", []
    if number is not None:
        charge = billing.latest_charge(book_id=run.book_id, customer_number=number, at=at)
        name = billing.customer_name(book_id=run.book_id, customer_number=number)
        earlier = refunds.paid_refunds(book_id=run.book_id, customer_number=number)
    part = access.membership(user, escalation.workspace_id)
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
    )


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


def _effect(escalation: Escalation) -> Effect | None:
    if escalation.kind == "effect_unknown":
        return Effect.objects.filter(step_id=escalation.step_id).first()
    return Effect.objects.filter(escalation=escalation).first()


@dataclass(frozen=True)
class Line:
    """One step of a run, for the trace."""

    step: Step
    title: str
    ruling: Json  # of a review, else None
    detail: str
    escalation: Escalation | None


@dataclass(frozen=True)
class RunPage:
    """A run with everything it wrote down."""

    run: Run
    lines: Sequence[Line]
    result: Json
    waiting: Escalation | None
    tokens: int
    cost: str
    seconds: float


def run_page(run: Run) -> RunPage:
    """Return a run, its steps in order, and the result as the reference prints it."""
    steps = list(run.steps.order_by("position"))
    held = {e.step_id: e for e in run.escalations.select_related("decided_by")}
    open_ones = [e for e in held.values() if e.state == EscalationState.OPEN]
    costs = [step.cost_micro_usd for step in steps if step.kind == "ask" and step.ended_at]
    known = None not in costs
    return RunPage(
        run=run,
        lines=[_line(step, held.get(step.pk)) for step in steps],
        result=queries.result(run),
        waiting=open_ones[0] if open_ones else None,
        tokens=sum(s.tokens_in + s.tokens_out + s.tokens_lost for s in steps),
        cost=f"USD {sum(c or 0 for c in costs) / 1_000_000:.4f}" if known else "unknown",
        seconds=round(sum(step.seconds for step in steps), 1),
    )


def _line(step: Step, escalation: Escalation | None) -> Line:
    reply = step.reply if isinstance(step.reply, dict) else {}
    ruling = reply.get("deciding") if step.kind == "review" else None
    titles = {
        "ask": f"The {step.asked.get('role', 'model')} was asked",
        "review": f"Policy on {_named(step.asked.get('action'))}",
        "escalate": f"Put to a person: {_named(step.asked.get('action'))}",
        "use": f"Called {step.asked.get('tool')}",
    }
    detail = ""
    if step.kind == "ask":
        detail = str(reply.get("text", ""))
    elif step.kind == "use":
        detail = _fields({**told(step.asked["args"]), **_outcome(told(reply))})
    return Line(step, titles[step.kind], ruling, step.failed or detail, escalation)


def _named(action: Json) -> str:
    if not action or action.get("kind") == "final":
        return "the answer"
    if action.get("kind") == "hand_over":
        return "a case that no specialist takes"
    amount = (action.get("args") or {}).get("amount_minor")
    return f"{action['name']} {spoken(amount)}" if amount else str(action["name"])


def _outcome(reply: Json) -> dict[str, Json]:
    """Return what a tool said in one level: its status, or what it answered with."""
    flat = {key: value for key, value in reply.items() if not isinstance(value, dict)}
    for part in reply.values():
        flat |= part if isinstance(part, dict) else {}
    return flat


def _fields(values: dict[str, Json]) -> str:
    return " · ".join(f"{key}: {value}" for key, value in values.items())
