"""Events as sentences, for the audit log, the run's page and exports."""

import re
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from django.utils.dateparse import parse_datetime
from django.utils.html import escape
from django.utils.safestring import mark_safe
from django.utils.text import capfirst

from agents.core import decisions as request_kinds
from agents.core.compat_0_2 import currency_of, erased_subject, own_limits
from agents.core.limits import EXTERNAL
from agents.core.money import format_money, with_unit
from agents.core.requests import EscalationState
from agents.engine.commit import WITHDRAWN, turn_of
from agents.models import DECIDES, AgentCall, Event, Run
from agents.models.outside import stopped_by
from agents.models.record import UNREADABLE, ErasedText, facts_of
from agents.policies.words import ASKS, end_sentence, why_not
from agents.record.event_kinds import EVENTS
from agents.sdk.adjustments import in_words, label_of
from agents.sdk.desk import DESKS, tools_at
from agents.sdk.values import Money
from agents.shell.formats import (
    WORDS,
    desk_title,
    duration,
    rule_title,
    spell_out,
    up_to,
    with_article,
    within_sentence,
)
from agents.tools import argument_in_words, request_of


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

    `whom_of` names a run's subject; by default as the log does. At most two queries read related
    rows. Broken rows never raise.
    """
    rows = list(events)
    context = _context([row for row in rows if isinstance(row, Event)])
    return [_line(row, context, whom_of or subject_of) for row in rows]


def read_events(events: Any, most: int) -> list[Event | int]:
    """Return the first rows of a query, or the keys of unreadable ones.

    A row may have been written elsewhere: a time beyond the calendar, facts of another shape.
    """
    try:
        return list(events[:most])
    except UNREADABLE:
        return [_row(events, pk) for pk in events.values_list("pk", flat=True)[:most]]


def _row(events: Any, pk: int) -> Event | int:
    try:
        return next(iter(events.filter(pk=pk)), pk)
    except UNREADABLE:
        return pk


_UNREADABLE = "This entry cannot be read. Verify the log to find what is wrong."


def stopped_by_hand(run: Run) -> str:
    """Return who stopped a run, and why: "omar stopped the run. “A mistake”"; "" if nobody did."""
    if run.stop_reason != "cancelled":
        return ""
    events = run.events.filter(kind="run.stopped").prefetch_related("texts")
    lines = ((line.event, line.sentence) for line in tell_events(read_events(events, 1)))
    return "".join(
        f"{event.actor} {words[:1].lower()}{words[1:]}" for event, words in lines if event
    )


def _line(row: Event | int, context: "EventContext", whom_of: Callable[[Run], str]) -> EventLine:
    if isinstance(row, int):
        return EventLine(row, None, _UNREADABLE)
    at: datetime | None = row.at
    if at is None:  # SQLite gives this for an invalid time
        return EventLine(row.pk, None, _UNREADABLE)
    try:
        return _readable(row, context, whom_of)
    except UNREADABLE:
        return EventLine(row.pk, row, f"{_label(row.kind)}: its details cannot be read.")


def _readable(event: Event, context: "EventContext", whom_of: Callable[[Run], str]) -> EventLine:
    facts = _with_call(facts_of(event), event.run, context)
    whom = whom_of(event.run) if event.run else ""
    desk = event.run.desk if event.run else ""
    wanted = EventSentence(event.kind, facts, event.actor, whom, desk, context)
    is_known = event.kind in EVENTS
    sentence = sentence_of(wanted) if is_known else f"{_label(event.kind)}: {_list_facts(facts)}"
    if event.actor and "account" in facts:
        sentence += f" By command, from the account {facts['account'].removeprefix('command:')}."
    policy = facts.get("policy" if event.kind == "run.queued" else "number")
    return EventLine(
        event.pk,
        event,
        sentence,
        request=_number(facts.get("escalation")),
        policy=_number(policy),
        desk=desk,
        money=_money(desk, event.kind, facts, context),
    )


def _with_call(facts: "EventFacts", run: Run | None, context: "EventContext") -> "EventFacts":
    """Return facts whose step is named by the number of its agent's call."""
    key = facts.get("key")
    if run is None or run.pattern != EXTERNAL or not isinstance(key, str):
        return facts
    return {**facts, "key": key_of_call(key, context.calls.get((run.pk, turn_of(key))))}


def _money(desk: str, kind: str, facts: "EventFacts", context: "EventContext") -> Money | None:
    """Return the money of a request or a call; letters move none."""
    is_call = kind.startswith("effect.")
    call = context.actions.get(str(facts.get("key")), facts) if is_call else facts
    minor = call.get("amount_minor", call.get("requested_minor"))
    tool = tools_at(desk).get(str(call.get("tool", "")))
    is_asked = kind == "escalation.opened" and facts.get("kind") == request_kinds.ACTION.stored
    if not isinstance(minor, int) or not (is_call or is_asked) or (tool and tool.letter):
        return None
    return Money(minor, currency_of(call))


def subject_of(run: Run) -> str:
    """Return the recorded name of a run's subject; "" without one."""
    if not run.subject_key or run.desk not in DESKS:
        return run.subject_label
    # At a desk with plain numbers, the log uses them instead of names.
    name = "" if DESKS[run.desk].numbers else run.subject_label
    return name or DESKS[run.desk].subject.nobody(run.subject_key)


def name_of(run: Run) -> str:
    """Return a run's subject by its name where one is known: "Anna", else "account 42"."""
    return run.subject_label.removesuffix(f" #{run.subject_key}") or subject_of(run)


def with_name(text: str, run: Run) -> str:
    """Return a text of the log with the run's subject by name: "account 42" becomes "Anna"."""
    logged, name = subject_of(run), name_of(run)
    if name == logged or logged == run.subject_label:
        return text
    return text.replace(logged, name).replace(f"{logged[:1].upper()}{logged[1:]}", name)


# As `engine.desk.facts` words an approval; without a reason it ends after the name.
_APPROVAL = re.compile("(Approved by )([^:.“”]+)(?:(: “)([^”]*))?")


def with_islands(text: str) -> str:
    """Isolate an approver's name and reason in a text, so that neither reorders the rest."""

    def part(match: re.Match[str]) -> str:
        by, name, why, reason = match.groups(default="")
        return f"{by}<bdi>{name}</bdi>{why}{why and f'<bdi>{reason}</bdi>'}"

    marked, count = _APPROVAL.subn(part, escape(text))
    return mark_safe(marked) if count else text  # noqa: S308 - it was escaped first


def _number(value: object) -> int | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63
    return value if isinstance(value, int) and fits else None


def _context(events: Sequence[Event]) -> "EventContext":
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
    whole = [event for event in events if event.run_id and isinstance(event.facts, dict)]
    keys = [(event.run_id, event.facts.get("key")) for event in whole]
    turns = {(run, turn_of(key)) for run, key in keys if is_key_of_call(key)}
    if not turns:
        return {}
    of_runs = AgentCall.objects.filter(run__in={run for run, _ in turns})
    calls = of_runs.filter(step__in={f"{turn}call" for _, turn in turns})
    return {(run, turn_of(step)): pk for run, step, pk in calls.values_list("run", "step", "pk")}


def _list_facts(facts: "EventFacts") -> str:
    """Return the facts of an event whose kind has no words."""
    parts = []
    for key, value in facts.items():
        if value in (None, "", False):
            continue
        if key.endswith("_minor") and isinstance(value, int):
            key, value = key.removesuffix("_minor"), format_money(value, currency_of(facts))
        parts.append(f"{key.replace('_', ' ')} {value}")
    return ", ".join(parts) or "no details"


def _label(kind: str) -> str:
    if kind in EVENTS:
        return EVENTS[kind].label
    return kind.replace(".", " ").replace("_", " ").capitalize()  # a kind of another program


def kind_labels(kinds: Collection[str]) -> list[tuple[str, str]]:
    """Return each of these kinds with its label, those of decisions and money first."""
    others = sorted(kinds - EVENTS.keys())
    return [(kind, _label(kind)) for kind in (*EVENTS, *others) if kind in kinds]


# The words for a step's key, such as `memo/agents/against/task/execute`.


_OF_CALL = re.compile(r"slot/[0-9]{1,4}/[0-9]{1,6}/[a-z]{1,20}(#[0-9]{1,6})?")
_PHASES = WORDS["phases"]
_VERDICTS = WORDS["verdicts"]
_HALTS = WORDS["halts"]


def answer_in_words(decision: str, by: str, what: str) -> str:
    """Return what a person did with a step's result, as a sentence."""
    if decision == EscalationState.EXPIRED:
        return f"Nobody decided on {what} in time."
    return f"{by} {request_kinds.OUTPUT.what_was_done(decision, what)}."


def is_answer_of_run(name: str) -> bool:
    """Tell whether a turn's final words are the run's answer, not a workflow step's output."""
    return name.isdigit() or name == "finalize"


def is_key_of_call(key: object) -> bool:
    """Tell whether a key belongs to a step of an agent's call. Keys may come from anywhere."""
    return isinstance(key, str) and bool(_OF_CALL.fullmatch(key))


def key_of_call(key: str, number: int | None) -> str:
    """Return the key of a step in an agent's run by the number of its call or end."""
    if key.startswith("end/"):
        return f"slot/{key}"
    return f"slot/#{number}/{key.rpartition('/')[2]}" if number else key


def is_of_agent(name: str) -> bool:
    """Tell whether a step is a call, or the end, of an external agent."""
    return name.startswith("slot/")


def _of_agent(which: str) -> str:
    if which == "end":
        return "the agent's last words"
    return f"call {which[1:]}" if which.startswith("#") else "a call of the agent"


def step_in_words(name: str) -> str:
    """Return a step's name: "step 2", "step “memo”, agent “against”", "task 1"."""
    first, *rest = name.split("/")
    if first == "dispatch" and rest:
        return f"task {rest[0].removeprefix('t')}"  # plans number them t1, t2
    if first == "slot" and rest:
        return _of_agent(rest[0])
    if first in ("plan", "finalize"):
        return _PHASES[first]
    words = f"step {first}" if first.isdigit() else f"step “{first}”"
    if len(rest) > 1 and (part := rest[0].partition("#"))[0] == "agents":
        again = f", round {part[2]}" if part[2] else ""
        return f"{words}, agent “{rest[1]}”{again}"
    if rest:
        words += f", action {rest[0]}" if rest[0].isdigit() else f", {rest[0].replace('_', ' ')}"
    return words


def phase_in_words(key: str) -> str:
    """Return a key's phase and step as an object: "the execution of step 2 (no. 2)"."""
    name, _, last = key.rpartition("/")
    phase, _, nth = last.partition("#")
    words = _PHASES.get(phase, "{}").format(step_in_words(name or phase))
    return f"{words} (no. {nth})" if nth else words


# The words in the sentences of `record.event_kinds`.


EventFacts: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class EventContext:
    """Facts from other events that a sentence needs, by effect key and by request."""

    actions: Mapping[str, EventFacts] = field(default_factory=dict)
    requests: Mapping[int, EventFacts] = field(default_factory=dict)
    # The number of an agent's call, by its run and the turn of its steps.
    calls: Mapping[tuple[UUID, str], int] = field(default_factory=dict)


@dataclass(frozen=True)
class EventSentence:
    kind: str
    facts: EventFacts
    actor: str
    whom: str  # the run's subject; "" for none
    desk: str  # of the run; "" for none
    context: EventContext

    @property
    def to_whom(self) -> str:
        return f" to {self.whom}" if self.whom else ""

    @property
    def action(self) -> EventFacts:
        return self.context.actions.get(self.facts["key"], self.facts)

    @property
    def request(self) -> EventFacts:
        return self.context.requests.get(self.facts["escalation"], {})


_ANSWERS = WORDS["answers"]


def quotation(text: object) -> str:
    """Return a person's text as a quotation after a sentence, or that it was erased."""
    if isinstance(text, ErasedText):
        return f" {text.sentence}"
    return f" “{text}”" if text else ""


def _run_queued(event: EventSentence) -> str:
    facts = event.facts
    if "pattern" in facts:
        whom = f" for {event.whom}" if event.whom else ""
        again = " again" if facts.get("again_of") else ""
        again = " that goes on from an earlier one" if facts.get("before_sha256") else again
        other = f", not the published v{facts['published']}" if facts.get("published") else ""
        run = f"{with_article(spell_out(str(facts['pattern'])))} run"
        if agent := facts.get("agent"):
            return f"The agent {agent} opened a run{whom} under policy v{facts['policy']}."
        return f"Launched {run}{again}{whom} under policy v{facts['policy']}{other}."
    until = parse_datetime(str(facts.get("until", "")))
    if until is None:
        return "The run is ready to continue."
    why = facts.get("why")
    reason = f" {end_sentence(why)}" if why and why != "model_server_rests" else ""
    rests = (
        " The model's server failed repeatedly and is left alone for a while."
        if why == "model_server_rests"
        else reason
    )
    return f"The run waits until {until:%H:%M:%S} UTC.{rests}"


def _run_stopped(event: EventSentence) -> str:
    reason = quotation(event.facts.get("why"))
    if event.actor:
        return f"Stopped the run.{reason}"
    return f"The run stopped. {end_sentence(event.facts.get('stop_reason', ''))}".strip()


def _step_done(event: EventSentence) -> str:
    facts, step = event.facts, str(event.facts["key"])
    if "decision" not in facts:
        return f"Finished {phase_in_words(step)}."
    past = {"approve": "allowed", "revise": "changed", "escalate": "requires approval of"}
    word, rule = past.get(facts["decision"], "blocked"), rule_title(str(facts.get("rule", "")))
    turn, _, nth = step.partition("/review")
    again = ", when it was checked again" if nth else ""
    proposed = step_in_words(turn)
    is_kept = facts["decision"] == "revise" and facts.get("reason") == "answer_from_ledger"
    if is_kept and not is_answer_of_run(turn) and not is_of_agent(turn):
        return f"The policy kept what {proposed} wrote, as a note beside the facts. Rule: {rule}."
    is_named = turn in ("plan", "finalize") or is_of_agent(turn)
    what = proposed if is_named else f"what {proposed} proposed"
    return f"The policy {word} {what}{again}. Rule: {rule}."


def _step(facts: EventFacts) -> str:
    return step_in_words(str(facts.get("step") or facts["key"]))


def _human_answered(event: EventSentence) -> str:
    what = f"the result of {_step(event.facts)}"
    return answer_in_words(event.facts["decision"], event.facts["by"], what)


def _effect(event: EventSentence) -> str:
    """Return a call's outcome in the words of its tool, or else by its title or name."""
    action, state = event.action, str(event.kind.rpartition(".")[2])
    tool = str(action.get("tool", ""))
    known = tools_at(event.desk).get(tool)
    kind = known.request if known else request_kinds.ACTION
    name = (tool or "the tool") if kind.tag == request_kinds.ACTION.tag else f"“{kind.tag}”"
    amount = _amount(action, "amount_minor")
    answered = ""
    if "took_effect" in event.facts:
        answer = request_kinds.answer_of(event.facts["took_effect"])
        answered = capfirst(request_kinds.EFFECT_UNKNOWN.what_was_done(answer))
        answered = f"{answered}.{quotation(event.facts.get('comment'))} "
    return answered + kind.events[state].format(
        tool=f"{name} of {amount}" if amount else name,
        amount=amount or "nothing",
        about=f" about {amount}" if amount else "",
        to=f" to {event.whom}" if event.whom else "",
        whom=event.whom or "somebody",
        of=f" for {event.whom}" if event.whom else "",
    )


def _amount(facts: EventFacts, name: str) -> str:
    minor = facts.get(name)
    return format_money(minor, currency_of(facts)) if isinstance(minor, int) else ""


# Why a person is asked, by the ruling's code.
_OWN_REASONS = WORDS["asked"]
ASK_REASONS = ChainMap(_OWN_REASONS, ASKS)  # desks add theirs once they are found


def _kind(desk: str, facts: EventFacts) -> request_kinds.RequestKind:
    """Return the kind of a request; ACTION if its event is missing or of another release."""
    # Events of former releases do not name the tool.
    is_call = "tool" in facts or str(facts.get("reason", "")).startswith("letter_")
    action = {"kind": "tool" if is_call else "", "name": facts.get("tool")}
    try:
        return request_of(desk, str(facts.get("kind")), action)
    except KeyError:
        return request_kinds.ACTION


def _reason(words: Mapping[str, str], code: object) -> str:
    """Return the words for a code; an unknown code without underlines."""
    return words.get(str(code), str(code).replace("_", " "))


def _escalation_opened(event: EventSentence) -> str:
    facts, amount = event.facts, _amount(event.facts, "requested_minor")
    return _kind(event.desk, facts).opened.format(
        what=f" of {amount}" if amount else "" if event.whom else " to go on",
        to=event.to_whom,
        of=f" of {event.whom}" if event.whom else "",
        case=f" for {event.whom}" if event.whom else "",
        reason=_reason(ASK_REASONS, facts.get("reason", "")),
    )


def _escalation_decided(event: EventSentence) -> str:
    facts, request = event.facts, event.request
    granted, requested = _amount(facts, "granted_minor"), _amount(request, "requested_minor")
    is_listed = len(facts.get("patch") or ()) > 1 or granted == requested
    changes = _changes(event.desk, facts, request) if is_listed else ""
    amounts = (granted or requested, "" if is_listed else requested)
    what = _kind(event.desk, request).what_was_done(facts["decision"], *amounts)
    by = " (a simulated person)" if facts.get("simulated") else ""
    by += " with others of its kind" if facts.get("bulk") else ""
    whom = f" for {event.whom}" if event.whom and not changes else ""
    # An email's text is shown with what was sent; instructions and answers are shown nowhere else.
    is_text = _kind(event.desk, request).change in (
        request_kinds.INSTRUCTIONS,
        request_kinds.ANSWER,
    )
    quoted = quotation(facts.get("correction")) if is_text else ""
    quoted += quotation(facts.get("comment"))
    return f"{what[:1].upper()}{what[1:]}{whom}{by}{changes}.{quoted}"


def _escalation_commented(event: EventSentence) -> str:
    comment = event.facts["comment"]
    end = "." if isinstance(comment, ErasedText) else ":"
    return f"Commented{end}{quotation(comment)}"


def _escalation_assigned(event: EventSentence) -> str:
    facts = event.facts
    to = facts.get("to") or (f"the team {facts['team_name']}" if "team" in facts else "")
    if to == event.actor:
        what = "Took over the request"
    elif to:
        what = f"Handed the request over to {to}"
        if minutes := facts.get("silent_minutes"):
            what += f", because nobody decided within {duration(minutes * 60)}"
    elif minutes := facts.get("silent_minutes"):  # a tier of everybody, or of a team that is gone
        what = f"Asked the next tier, because nobody decided within {duration(minutes * 60)}"
    else:
        what = "Returned the request to everybody"
    if left := facts.get("left"):
        what += f", because {left} no longer decides here"
    return f"{what}.{quotation(facts.get('note'))}"


def _time(text: str) -> str:
    return f"{parse_datetime(text):%d %B %Y, %H:%M} UTC"


def _changes(desk: str, facts: EventFacts, request: EventFacts) -> str:
    """Return what a person changed, such as "until 6 December 2026"; "" if it was erased."""
    patch, tool = facts.get("patch"), str(request.get("tool", ""))
    changed = [
        f"{label_of(name).lower()} {_value(desk, tool, name, value)}"
        for name, value in (patch.items() if isinstance(patch, dict) else ())
    ]
    return f": {', '.join(changed)}" if changed else ""


def _value(desk: str, tool: str, name: str, value: Any) -> str:
    """Return an argument in its tool's words, or by its JSON type if the tool is unknown."""
    if tool in tools_at(desk):
        return argument_in_words(desk, tool, name, value)
    return in_words(value, {"format": "date"})


REFUSALS = WORDS["refusals"]


def _approval_given(event: EventSentence) -> str:
    """Return what the first of two people approved; the card has their reason."""
    facts, request = event.facts, event.request
    granted, requested = _amount(facts, "granted_minor"), _amount(request, "requested_minor")
    is_of_amount = granted and len(facts.get("patch") or ()) < 2 and granted != requested
    whom, changes = f" for {event.whom}" if event.whom else "", _changes(event.desk, facts, request)
    if changes and not is_of_amount:
        return f"Approved{whom} as the first of two people, with changes{changes}."
    instead = f" instead of {requested}" if changes and requested else ""
    return f"Approved{f' {granted}' if granted else ''}{instead}{whom} as the first of two people."


_LAPSES = request_kinds.LAPSES | WORDS["lapses"]


def _limits_of_member(event: EventSentence) -> str:
    limits = sorted(own_limits(event.facts).items())  # PostgreSQL keeps no order of keys
    at = [f"{up_to(most or None)} for {within_sentence(desk_title(desk))}" for desk, most in limits]
    grants = event.facts.get("grants", "any")
    at = [] if grants == "none" else at
    may = [up_to(None if grants == "any" else {})] if event.facts["role"] in DECIDES else []
    granted = ", ".join(at or may)
    return f", approving {granted}" if granted else ""


def _group_gives(event: EventSentence) -> str:
    if not event.facts["role"]:
        return "nothing any more"
    teams = "".join(f", the team {slug}" for slug in event.facts["teams"])
    return f"the role of {event.facts['role']}{_limits_of_member(event)}{teams}"


def _deadlines(word: str, facts: EventFacts) -> str:
    count = facts.get("deadlines") or 0
    return f" Deadlines {word}: {count}." if count else ""


def _export_text(event: EventSentence) -> str:
    facts = event.facts
    if "bundle" in facts:
        proof = f"proof of run {facts['run'][:8]}" if "run" in facts else "verifiable log"
        return f"Downloaded the {proof}."
    cut = ", cut at the newest" if facts.get("cut") else ""
    chosen = ", ".join(f"{key} {value}" for key, value in (facts.get("filter") or {}).items())
    return f"Exported {facts['rows']} entries{cut}{f' ({chosen})' if chosen else ''}."


def _verification_text(event: EventSentence) -> str:
    faults = event.facts.get("faults") or []
    if faults:
        count = len(faults) + event.facts.get("more", 0)
        return f"Verified the log: {count} faults, the first: {faults[0]}."
    chains, unread = event.facts["chains"], event.facts.get("unread", 0)
    rest = f" Unchanged since seal {event.facts['since']} and not read: {unread}." if unread else ""
    return f"Verified the log: {chains} of {chains + unread} chains intact.{rest}"


def _erasure_text(event: EventSentence) -> str:
    if "runs" in event.facts:
        runs, why = event.facts["runs"], event.facts.get("reason", "")
        desk, key = erased_subject(event.facts)
        whom = f"{DESKS[desk].subject.kind} {key}" if desk in DESKS else f"{key} ({desk})"
        return f"Erased {whom} from {with_unit(runs, 'runs')}.{quotation(why)}"
    return "Erased the texts of this run."


def _quoted(name: str) -> Callable[[EventSentence], str]:
    return lambda event: quotation(event.facts.get(name))


# The braces of sentences whose values are not plain facts.
_IN_WORDS: Mapping[str, Callable[[EventSentence], str]] = {
    "answered": lambda event: _reason(_ANSWERS, event.facts["status"]),
    "approved_first": _approval_given,
    "approving": _limits_of_member,
    "group_gives": _group_gives,
    "or_provider": lambda event: ", or the provider's" if event.facts.get("of_provider") else "",
    "of_name": lambda event: f" that came as {name}" if (name := event.facts["name"]) else "",
    "asked": _escalation_opened,
    "assigned": _escalation_assigned,
    "commented": _escalation_commented,
    "decided": _escalation_decided,
    "desk": lambda event: desk_title(event.facts["desk"]),
    "effect": _effect,
    "erased": _erasure_text,
    "expiry": lambda event: _kind(event.desk, event.request).expiry_words,
    "exported": _export_text,
    "failed": lambda event: end_sentence(event.facts["failed"]),
    "given_back": lambda event: (
        f" Given back: {with_unit(count, 'requests')}."
        if (count := event.facts["requests"])
        else ""
    ),
    "halted": lambda event: _HALTS.get(event.facts.get("why") or "") or _quoted("why")(event),
    "home": lambda event: (
        f"the agent {agent}"
        if (agent := event.facts["agent"])
        else "the workspace, to read all of it"
    ),
    "is_paused": lambda event: ", paused" if event.facts["is_paused"] else "",
    "lapsed": lambda event: _reason(_LAPSES, event.facts.get("reason", "")),
    "late": lambda event: ", after a person was asked" if event.facts["is_late"] else "",
    "led": lambda event: f", led by {event.facts['lead']}" if event.facts.get("lead") else "",
    "members": lambda event: "they are" if event.facts["of"] else "members who chose nothing are",
    "met": lambda event: "as planned" if event.facts.get("met_commitment") else "not as planned",
    "paused": lambda event: _deadlines("paused", event.facts),
    "people": lambda event: ", ".join(event.facts["members"]) or "nobody",
    "person_answered": _human_answered,
    "phase": lambda event: phase_in_words(str(event.facts["key"])),
    "alone": lambda event: (
        f" Without a second admin.{quotation(why)}" if (why := event.facts.get("alone")) else ""
    ),
    "second": lambda event: (
        f", for which {by} asked" if (by := event.facts.get("asked_by")) else ""
    ),
    "refused": lambda event: _reason(REFUSALS, event.facts.get("why", "")),
    "resumed": lambda event: _deadlines("resumed", event.facts),
    "roles": lambda event: ", ".join(event.facts["roles"]) or "nobody",
    "run_queued": _run_queued,
    "run_stopped": _run_stopped,
    "runs": lambda event: with_unit(event.facts.get("runs"), "runs"),
    "step": lambda event: _step(event.facts),
    "step_done": _step_done,
    "stopped": lambda event: stopped_by(event.facts["scope"], event.facts["target"]),
    "to_team": lambda event: f" to the team {event.facts['team']}" if event.facts["team"] else "",
    "took": lambda event: "took" if event.facts["executed"] else "did not take",
    "until": lambda event: _time(event.facts["until"]),
    "verdict": lambda event: _VERDICTS.get(event.facts["verdict"]) or event.facts["verdict"],
    "verified": _verification_text,
    "waits": lambda event: (
        "listens for its agent" if event.facts.get("listens") else "waits for a person"
    ),
    "why_not": lambda event: why_not(event.facts["reason"]),
    **{name: _quoted(name) for name in ("correction", "question", "reason", "why")},
    "withdrawn": lambda event: WORDS["withdrawals"][event.facts.get("why", WITHDRAWN)],
}


def sentence_of(event: EventSentence) -> str:
    """Return the sentence of an event whose kind is in EVENTS."""
    form = EVENTS[event.kind].sentence
    if callable(form):
        return form(dict(event.facts))
    words = {name: of(event) for name, of in _IN_WORDS.items() if f"{{{name}}}" in form}
    return form.format(**{**event.facts, **words})
