"""How an action changed on its way: proposed, revised, approved, executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from agents.core.money import format_money
from agents.core.requests import Json
from agents.core.states import EffectState, EscalationState
from agents.models import Effect, Escalation, Step
from agents.web.formats import rule_title

NAMES = ("Proposed", "Revised", "Approved", "Executed")


@dataclass(frozen=True)
class AmountStage:
    """The amount at one moment, and whose word it was."""

    name: str
    role: str
    icon: str
    amount: str
    by: str
    at: datetime | None
    is_now: bool = False
    is_ahead: bool = False


@dataclass(frozen=True)
class Cell:
    """A value at one stage; `by` is who changed it, "" where it is the same."""

    text: str
    role: str = ""
    by: str = ""
    is_same: bool = False


@dataclass(frozen=True)
class Change:
    """One argument through the four stages."""

    name: str
    cells: Sequence[Cell]


def stages(
    reviews: Sequence[Step],
    escalation: Escalation | None,
    effect: Effect | None,
    *,
    is_over: bool,
) -> list[AmountStage]:
    """Return the amount at its four moments; [] where the action is about no amount.

    `is_over` of the run: then nothing is executed any more.
    """
    if not reviews:
        return []
    proposed = _amount(reviews[0].asked["action"])
    if proposed is None:
        return []
    revised = _amount(reply_of(reviews[0])["action"])
    rules = _changing_rules(reviews[0])
    deciding = rule_title(reply_of(reviews[0])["deciding"]["rule"])
    by = f"policy changed it: {rules}" if rules else f"policy: {deciding}"
    verdict = reply_of(reviews[0])["decision"]
    return [
        AmountStage(
            "Proposed", "", "bot", format_money(proposed), "the agent", reviews[0].begun_at
        ),
        AmountStage(
            "Reviewed", verdict, verdict, format_money(revised or proposed), by, reviews[0].ended_at
        ),
        _approved(verdict, revised or proposed, escalation),
        _executed(escalation, effect, is_over=is_over),
    ]


def _approved(verdict: str, amount: int, escalation: Escalation | None) -> AmountStage:
    if escalation is None:
        if verdict in ("approve", "revise"):
            return AmountStage(
                "Approved", "approve", "approve", format_money(amount), "the policy", None
            )
        by = "blocked by the policy"
        return AmountStage("Approved", "block", "block", "nothing", by, None, is_ahead=True)
    if escalation.state == EscalationState.OPEN:
        # Where a kill switch holds it, its end moves on with every minute that it stands still.
        held = escalation.frozen_at is not None
        by, due = ("deadline paused", None) if held else ("due", escalation.expires_at)
        return AmountStage("Awaiting approval", "human", "human", "not yet", by, due, is_now=True)
    who = escalation.decided_by.get_username() if escalation.decided_by else "nobody"
    if escalation.granted_minor is None:
        word = escalation.state.capitalize()
        return AmountStage(word, "block", "block", "nothing", who, escalation.decided_at)
    granted = format_money(escalation.granted_minor)
    return AmountStage("Approved", "human", "human", granted, who, escalation.decided_at)


def _executed(
    escalation: Escalation | None, effect: Effect | None, *, is_over: bool
) -> AmountStage:
    if effect is None:
        is_decided = escalation is not None and escalation.state != EscalationState.OPEN
        is_refused = is_decided and escalation is not None and escalation.granted_minor is None
        is_closed = escalation is not None and escalation.not_carried_out != ""
        text = "never" if is_refused or is_closed or is_over else "not yet"
        return AmountStage("Executed", "", "dot", text, "no money moved", None, is_ahead=True)
    if effect.state == EffectState.DONE:
        amount = format_money(effect.amount_minor or 0)
        return AmountStage("Executed", "approve", "approve", amount, "once", effect.settled_at)
    word = {EffectState.REFUSED: "refused", EffectState.UNKNOWN: "outcome unknown"}
    text = word.get(EffectState(effect.state), "under way")
    return AmountStage("Executed", "waiting", "waiting", text, effect.tool, effect.settled_at)


def changes(
    reviews: Sequence[Step],
    escalation: Escalation | None,
    uses: Sequence[Step],
    *,
    is_over: bool = False,
) -> list[Change]:
    """Return every argument at its stages, where any changed or a person decided; else [].

    `is_over` of the run: what did not happen never will.
    """
    if not reviews or reviews[0].asked["action"].get("kind") == "final":
        return []
    rows = [_args(reviews[0].asked["action"]), _args(reply_of(reviews[0])["action"])]
    if len(reviews) > 1:
        rows.append(_args(reviews[-1].asked["action"]))
    elif escalation and escalation.state != EscalationState.OPEN:
        rows.append({} if escalation.granted_minor is None else rows[1])
    else:
        rows.append(rows[1] if reply_of(reviews[0])["allows"] else {})
    rows.append(uses[-1].asked["args"] if uses else {})
    if rows[0] == rows[1] and escalation is None:
        return []
    who = _who(reviews[0], escalation)
    names = list(dict.fromkeys(name for row in rows for name in row))
    missing = "never" if is_over else "not yet"
    return [Change(_word(name), _cells(name, rows, who, missing)) for name in names]


def _who(review: Step, escalation: Escalation | None) -> list[tuple[str, str]]:
    """Return role and name of whoever could change something at each stage."""
    rules = _changing_rules(review)
    person = escalation.decided_by if escalation else None
    decided = ("human", person.get_username()) if person else ("approve", "the policy")
    return [("", ""), ("revise", rules or "the policy"), decided, ("block", "the gateway")]


def _changing_rules(review: Step) -> str:
    return ", ".join(rule_title(r["rule"]) for r in reply_of(review)["revisions"])


def _cells(
    name: str, rows: Sequence[Mapping[str, Json]], who: Sequence[tuple[str, str]], missing: str
) -> list[Cell]:
    found: list[Cell] = []
    for number, row in enumerate(rows):
        if name not in row:
            found.append(Cell(missing if number > 1 else "none"))
            continue
        before = next((r[name] for r in reversed(rows[:number]) if name in r), None)
        text = _told(name, row[name])
        if number == 0 or (before is not None and before != row[name]):
            role, by = who[number]
            found.append(Cell(text, role, by))
        elif before is None:
            found.append(Cell(text, *who[number]))
        else:
            found.append(Cell(text, is_same=True))
    return found


def reply_of(step: Step) -> Json:
    """Return the reply of a step that has one."""
    return step.reply


def _args(action: Json) -> Mapping[str, Json]:
    return action.get("args") or {}


def _amount(action: Json) -> int | None:
    amount = _args(action).get("amount_minor")
    return amount if isinstance(amount, int) else None


def _word(name: str) -> str:
    return name.removesuffix("_minor").replace("_", " ")


def _told(name: str, value: Json) -> str:
    if name.endswith("_minor") and isinstance(value, int):
        return format_money(value)
    return str(value)
