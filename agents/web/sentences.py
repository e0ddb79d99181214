"""Events as sentences, for the audit log, the run's page and exports."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils.html import escape
from django.utils.safestring import mark_safe

from agents.audit.unreadable import UNREADABLE
from agents.core.limits import EXTERNAL
from agents.core.money import format_money
from agents.core.old_names import currency_of
from agents.core.request_kinds import ACTION
from agents.engine.people.approvals import turn_of
from agents.models import AgentCall, Event, Run
from agents.models.event import facts_of
from agents.sdk.desk import DESKS
from agents.sdk.values import Money
from agents.tools import TOOLS
from agents.web.event_words import EVENTS, EventContext, EventFacts, EventSentence, sentence_of
from agents.web.step_words import is_key_of_call, key_of_call


@dataclass(frozen=True)
class EventLine:
    """An event in words, with the numbers for its links."""

    pk: int
    event: Event | None  # None: the row cannot be read
    sentence: str
    request: int | None = None  # an escalation's number
    policy: int | None = None  # a version's number
    desk: str = ""
    money: Money | None = None  # requested, or moved by a call


def tell_events(
    events: Iterable[Event | int], *, whom_of: Callable[[Run], str] | None = None
) -> list[EventLine]:
    """Return the lines of events, in order; an int is the key of an unreadable event.

    `whom_of` names a run's subject; without it, as the log does. Two queries at most read what is
    related in the same runs. No content of a row makes this raise.
    """
    rows = list(events)
    context = _context([row for row in rows if isinstance(row, Event)])
    return [_line(row, context, whom_of or subject_of) for row in rows]


def read_events(found: Any, most: int) -> list[Event | int]:
    """Return the first rows of a query, or the keys of unreadable ones.

    A row may have been written elsewhere: a time beyond the calendar, facts of another shape.
    """
    try:
        return list(found[:most])
    except UNREADABLE:
        return [_row(found, pk) for pk in found.values_list("pk", flat=True)[:most]]


def _row(found: Any, pk: int) -> Event | int:
    try:
        return next(iter(found.filter(pk=pk)), pk)
    except UNREADABLE:
        return pk


_UNREADABLE = "This entry cannot be read. Verify the log to find what is wrong."


def stopped_by_hand(run: Run) -> str:
    """Return who stopped a run, and why: "omar stopped the run. “A mistake”"; "" if nobody did."""
    if run.stop_reason != "cancelled":
        return ""
    found = Event.objects.filter(run=run, kind="run.stopped").prefetch_related("texts")
    said = ((line.event, line.sentence) for line in tell_events(read_events(found, 1)))
    return "".join(f"{one.actor} {told[:1].lower()}{told[1:]}" for one, told in said if one)


def _line(row: Event | int, context: EventContext, whom_of: Callable[[Run], str]) -> EventLine:
    if isinstance(row, int):
        return EventLine(row, None, _UNREADABLE)
    at: datetime | None = row.at
    if at is None:  # SQLite gives this for an invalid time
        return EventLine(row.pk, None, _UNREADABLE)
    try:
        return _readable(row, context, whom_of)
    except UNREADABLE:
        return EventLine(row.pk, row, f"{_label(row.kind)}: its details cannot be read.")


def _readable(event: Event, context: EventContext, whom_of: Callable[[Run], str]) -> EventLine:
    facts = _with_call(facts_of(event), event.run, context)
    whom = whom_of(event.run) if event.run else ""
    told = EventSentence(event.kind, facts, event.actor, whom, context)
    is_known = event.kind in EVENTS
    sentence = sentence_of(told) if is_known else f"{_label(event.kind)}: {_list_facts(facts)}"
    if event.actor and "account" in facts:
        sentence += f" By command, from the account {facts['account'].removeprefix('command:')}."
    policy = facts.get("policy" if event.kind == "run.queued" else "number")
    return EventLine(
        event.pk,
        event,
        sentence,
        request=_number(facts.get("escalation")),
        policy=_number(policy),
        desk=event.run.desk if event.run else "",
        money=_money(event.kind, facts, context),
    )


def _with_call(facts: EventFacts, run: Run | None, context: EventContext) -> EventFacts:
    """Return facts whose step is named by the number of the agent's call that it is of."""
    key = facts.get("key")
    if run is None or run.pattern != EXTERNAL or not isinstance(key, str):
        return facts
    return {**facts, "key": key_of_call(key, context.calls.get((run.pk, turn_of(key))))}


def _money(kind: str, facts: EventFacts, context: EventContext) -> Money | None:
    """Return the money of a request or a call; letters move none."""
    is_call = kind.startswith("effect.")
    told = context.actions.get(str(facts.get("key")), facts) if is_call else facts
    minor = told.get("amount_minor", told.get("requested_minor"))
    tool = TOOLS.get(str(told.get("tool", "")))
    is_asked = kind == "escalation.opened" and facts.get("kind") == ACTION.stored
    if not isinstance(minor, int) or not (is_call or is_asked) or (tool and tool.letter):
        return None
    return Money(minor, currency_of(told))


def subject_of(run: Run) -> str:
    """Return the recorded name of a run's subject; "" without one."""
    if not run.subject_key or run.desk not in DESKS:
        return run.subject_label
    # Of a desk with plain numbers, the log has always used them instead of names.
    name = "" if DESKS[run.desk].numbers else run.subject_label
    return name or DESKS[run.desk].subject.nobody(run.subject_key)


def name_of(run: Run) -> str:
    """Return a run's subject by its name where one is known: "Anna", else "account 42"."""
    return run.subject_label.removesuffix(f" #{run.subject_key}") or subject_of(run)


def with_name(text: str, run: Run) -> str:
    """Write a run's subject by name where a text has the words of the log: "account 42"."""
    logged, name = subject_of(run), name_of(run)
    if name == logged or logged == run.subject_label:
        return text
    return text.replace(logged, name).replace(f"{logged[:1].upper()}{logged[1:]}", name)


# As `engine.desk.step_facts` words an approval; without a reason it ends behind the name.
_APPROVAL = re.compile("(Approved by )([^:.“”]+)(?:(: “)([^”]*))?")


def with_islands(text: str) -> str:
    """Set an approver's name and reason apart in a text, so that neither reorders the rest."""

    def part(found: re.Match[str]) -> str:
        by, name, why, reason = found.groups(default="")
        return f"{by}<bdi>{name}</bdi>{why}{why and f'<bdi>{reason}</bdi>'}"

    marked, count = _APPROVAL.subn(part, escape(text))
    return mark_safe(marked) if count else text  # noqa: S308 - it was escaped first


def _number(value: object) -> int | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63
    return value if isinstance(value, int) and fits else None


def _context(events: Sequence[Event]) -> EventContext:
    """Read the requests, intended effects and agents' calls in the events' runs."""
    about = ("effect.", "escalation.", "approval.")
    wanted = {event.run_id for event in events if event.run_id and event.kind.startswith(about)}
    kinds = ("effect.intended", "escalation.opened")
    rows = Event.objects.filter(run__in=wanted, kind__in=kinds).values_list("kind", "facts")
    actions: dict[str, EventFacts] = {}
    requests: dict[int, EventFacts] = {}
    try:
        for kind, facts in rows.order_by("pk") if wanted else ():
            if isinstance(facts, dict):
                part: dict[Any, EventFacts] = actions if kind == "effect.intended" else requests
                part[facts.get("key" if kind == "effect.intended" else "escalation")] = facts
    except UNREADABLE:
        pass  # then sentences lack amounts; verification names the row
    return EventContext(actions, requests, _numbers_of_calls(events))


def _numbers_of_calls(events: Sequence[Event]) -> dict[tuple[UUID, str], int]:
    """Read the numbers of the agents' calls that these events are about."""
    told = [(event.run_id, event.facts.get("key")) for event in events if _has_facts(event)]
    turns = {(run, turn_of(key)) for run, key in told if is_key_of_call(key)}
    if not turns:
        return {}
    of_runs = AgentCall.objects.filter(run__in={run for run, _ in turns})
    found = of_runs.filter(step__in={f"{turn}call" for _, turn in turns})
    return {(run, turn_of(step)): pk for run, step, pk in found.values_list("run", "step", "pk")}


def _has_facts(event: Event) -> bool:
    return isinstance(event.facts, dict) and event.run_id is not None


def _list_facts(facts: EventFacts) -> str:
    """Return the facts of an event whose kind has no words."""
    parts = []
    for key, value in facts.items():
        if value in (None, "", False):
            continue
        if key.endswith("_minor") and isinstance(value, int):
            key, value = key.removesuffix("_minor"), format_money(value, currency_of(facts))
        parts.append(f"{key.replace('_', ' ')} {value}")
    return ", ".join(parts) or "no details"


def known_kinds() -> Collection[str]:
    """Return every kind with a sentence of its own."""
    return EVENTS.keys()


def _label(kind: str) -> str:
    if kind in EVENTS:
        return EVENTS[kind][0]
    return kind.replace(".", " ").replace("_", " ").capitalize()  # of another program


def kind_labels(kinds: Collection[str]) -> list[tuple[str, str]]:
    """Return each of these kinds with its label, those of decisions and money first."""
    others = sorted(kinds - EVENTS.keys())
    return [(kind, _label(kind)) for kind in (*EVENTS, *others) if kind in kinds]
