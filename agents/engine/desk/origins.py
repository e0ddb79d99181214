"""Who named each argument of a call, and which of them a person has to compare.

Both are kept with the review, so that card, list and decision agree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agents.core.redact import without_masks
from agents.core.request_kinds import kind_of
from agents.core.requests import Json
from agents.core.states import EscalationState
from agents.models import Escalation, Run, Step
from agents.sdk.desk import DESKS
from agents.sdk.fact_sources import Origin, amounts_in, is_named, names_used, passage
from agents.sdk.values import Money

RECORD = "record"  # a field of what a tool returned: at a desk without declarations
_LONGEST = 20_000  # characters of a tool's texts that are searched


class ReadText(NamedTuple):
    """A text that a tool returned."""

    tool: str
    text: str


def doubt(
    name: str,
    value: Json,
    origin: str,
    *,
    named: Sequence[Any],
    asked: Collection[str],
    read: Iterable[ReadText],
) -> Json:
    """Return an argument that a person has to compare with the request, as it is kept.

    `named` are the value and its other names, `asked` what the goal has of its kind, in words.
    """
    kept: dict[str, Json] = {"name": name, "value": value, "origin": origin, "asked": list(asked)}
    for one in read if origin == Origin.OUTSIDE else ():
        if marks := names_used(named, one.text):
            return {**kept, "tool": one.tool, "marks": marks, "text": passage(one.text, marks[0])}
    return kept


def doubts_of(escalation: Escalation) -> list[Json]:
    """Return what has to be compared before a call is approved. What the policy changed is its."""
    if not kind_of(escalation.kind, escalation.action).runs_tool:
        return []
    args = escalation.action.get("args") or {}
    kept = (escalation.review.get("facts") or {}).get("doubts") or []
    return [one for one in kept if args.get(one["name"]) == one["value"]]


def advice_in(steps: Iterable[Step]) -> list[str]:
    """Return what people wrote when they sent a proposal back: they name what they want instead."""
    replies = (step.reply for step in steps if step.kind == "escalate")
    given = (reply for reply in replies if isinstance(reply, dict))
    return [one["comment"] for one in given if one.get("decision") == EscalationState.SENT_BACK]


def patch_of(step: Step, given: Json) -> dict[str, Json]:
    """Return the arguments that a person set at a step, if the result is exactly this call."""
    reply = step.reply if step.kind == "escalate" and isinstance(step.reply, dict) else {}
    patch: dict[str, Json] = reply.get("patch") or {}
    left = {**step.asked["action"]["args"], **patch} if patch else None
    return patch if left == given else {}


def _before_revision(steps: Iterable[Step], args: Mapping[str, Json]) -> Mapping[str, str]:
    """Return who named the arguments that the policy made these of, if it changed any."""
    for step in steps:
        reply = step.reply if step.kind == "review" and isinstance(step.reply, dict) else {}
        if reply.get("revisions") and reply["action"].get("args") == args:
            found: Mapping[str, str] = reply["facts"].get("origins") or {}
            return found
    return {}


def origins_of(
    run: Run, args: Mapping[str, Json], steps: Sequence[Step], recorded: Collection[int]
) -> tuple[dict[str, str], tuple[Json, ...]]:
    """Return who named each argument of a tool without a declared desk, and the doubts.

    A field of a tool's reply is on record; words within a longer text may be anybody's. An amount
    that the policy lowered is named by who named the higher one.
    """
    if not args:
        return {}, ()
    goal, origins, doubts = without_masks(run.asked_goal), {}, []
    currency, (fields, texts) = DESKS[run.desk].numbers, _read(steps)
    before, advice = _before_revision(steps, args), advice_in(steps)
    by_person = {name for step in steps for name in patch_of(step, dict(args))}
    for name, kept in args.items():
        is_money = name.endswith("_minor") and isinstance(kept, int)
        value = Money(kept, currency) if is_money else kept
        if is_named(value, [goal]):
            origins[name] = Origin.GOAL.value
            continue
        asked = amounts_in(goal, currency) if is_money else []
        if name in by_person or (is_money and is_named(value, advice)):
            origin = Origin.PERSON.value
        elif is_money and name in before:
            origin = before[name]
        elif kept in fields or (is_money and kept in recorded) or str(kept) == run.subject_key:
            origin = RECORD
        else:
            is_told = is_named(value, (one.text for one in texts))
            origin = (Origin.OUTSIDE if is_told else Origin.NOBODY).value
        origins[name] = origin
        of_people = (Origin.GOAL, Origin.PERSON)
        if is_money and (asked or origin != RECORD) and origin not in of_people:
            doubts.append(doubt(name, kept, origin, named=[value], asked=asked, read=texts))
    return origins, tuple(doubts)


def _read(steps: Iterable[Step]) -> tuple[list[Json], list[ReadText]]:
    """Return what tools answered: the values of fields, and the longer texts."""
    fields: list[Json] = []
    texts: list[ReadText] = []
    for step in steps:
        for value in _leaves(step.reply) if step.kind == "use" and not step.failed else ():
            if isinstance(value, str) and " " in value:
                texts.append(ReadText(step.asked["tool"], value[:_LONGEST]))
            elif value not in (None, ""):
                fields.append(value)
    return fields, texts


def _leaves(reply: Json) -> Iterator[Json]:
    if not isinstance(reply, dict | list):
        yield reply
        return
    for value in reply.values() if isinstance(reply, dict) else reply:
        if isinstance(value, dict | list):
            yield from _leaves(value)
        else:
            yield value
