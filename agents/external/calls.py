"""What an external agent reads: its sessions, and the outcome of each call it proposed."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q, QuerySet

from agents.core.decisions import EFFECT_UNKNOWN, INQUIRY
from agents.core.json_forms import args_schema, fit
from agents.core.money import to_model_units
from agents.core.redact import Pseudonyms
from agents.core.requests import ENDED, EffectState, EscalationState, Json
from agents.engine.commit import turn_of
from agents.engine.deciders import demand_for
from agents.engine.journal import AWAIT, USE
from agents.models import AgentCall, Effect, Escalation, Event, ExternalAgent, KillSwitch, Run, Step
from agents.models.runs import ValuesLocked, naming, pseudonyms_of
from agents.patterns.external import ANSWERED, CONTINUED, EXECUTED, NOT_EXECUTED, UNKNOWN
from agents.patterns.steps import reports_error
from agents.policies.words import end_sentence
from agents.sdk.desk import tells_plain_numbers, tools_at
from agents.sdk.desk_tools import DeskTool
from agents.shell.formats import WORDS
from agents.tools import is_by_agent

WAITING = "waiting"
_ALLOWED, TAKEN = "allowed", "taken"  # of calls that their agent executes itself
_NOT_OVER = (WAITING, _ALLOWED, TAKEN)
_LEFT_OPEN = (*_NOT_OVER, UNKNOWN)  # of a run that has ended, by its ledger
MOST_ROWS = 100  # calls or events in one answer
_OF_FIRST = ("status", "reason", "arguments", "result", "answered_at")  # of a repeated call
_UNKNOWN_YET = "Nobody knows yet whether it took effect. A person is asked."
_HELD = "It is allowed, but a kill switch is on: taken now, it would be refused."
_UNSETTLED = (EffectState.INTENDED, EffectState.UNKNOWN)
# Names of a session's events for its agent.
_EVENTS = {
    "escalation.opened": "call.waiting",
    "escalation.decided": "call.decided",
    ANSWERED: "call.answered",
    **dict.fromkeys(("run.done", "run.stopped", "run.failed"), "session.ended"),
}
_MOST, _LONGEST = 10, 60  # unknown arguments that are named, and characters of each


class ProposedCall(NamedTuple):
    """A recorded call with its run."""

    row: AgentCall
    run: Run
    is_new: bool = False  # recorded by this very request


def run_of(agent: ExternalAgent, run_id: UUID) -> Run:
    """Return a run that this agent opened. Raises Run.DoesNotExist."""
    return Run.objects.select_related("policy", "workspace", "agent").get(
        pk=run_id, agent=agent, workspace=agent.workspace_id
    )


def call_of(agent: ExternalAgent, call_id: int) -> ProposedCall:
    """Return a call that this agent proposed, by its number. Raises DoesNotExist."""
    row = AgentCall.objects.get(agent=agent, pk=call_id, is_end=False)
    return ProposedCall(row, run_of(agent, row.run_id))


def calls_of(
    agent: ExternalAgent,
    *,
    run: Run | None = None,
    key: str = "",
    after: int = 0,
    most: int = MOST_ROWS,
) -> list[ProposedCall]:
    """Return an agent's calls in the order of proposal, of all its sessions or of one.

    A session is all its runs; `run` is any of them. `key` is a prefix of the calls' keys.
    """
    rows = AgentCall.objects.filter(agent=agent, is_end=False, pk__gt=after).order_by("pk")
    rows = rows.filter(reference=run.reference or "") if run else rows
    rows = rows.filter(key__startswith=key) if key else rows
    return with_runs(rows[:most])


def with_runs(rows: Iterable[AgentCall]) -> list[ProposedCall]:
    """Return calls with their runs, which are read before their steps."""
    calls = list(rows)
    whole = Run.objects.select_related("policy", "workspace", "agent")
    runs = whole.in_bulk({row.run_id for row in calls})
    return [ProposedCall(row, runs[row.run_id]) for row in calls]


def events_of(run: Run, *, after: int) -> list[dict[str, Json]]:
    """Return the events of a run after a number, as its agent may see them.

    A number beyond the run's newest event comes from another run: all events are returned.
    """
    after = after if after <= run.event_count else 0
    seen = Event.objects.filter(run=run, kind__in=_EVENTS, seq__gt=after).order_by("seq")
    steps = AgentCall.objects.filter(run=run, is_end=False).exclude(step="")
    calls = {turn_of(step): pk for pk, step in steps.values_list("pk", "step")}
    return [
        {
            "id": event.seq,
            "event": _event_of(event),
            "call": calls.get(turn_of(event.facts.get("key", ""))),
            "at": event.at.isoformat(),
        }
        for event in seen[:MOST_ROWS]
    ]


def _event_of(event: Event) -> str:
    is_over = event.facts.get("stop_reason") != CONTINUED
    return _EVENTS[event.kind] if is_over else "session.continued"


def outcome_of_call(call: ProposedCall) -> dict[str, Json]:
    return outcomes_of([call])[0]


def outcomes_of(
    calls: Sequence[ProposedCall], *, with_repeats: bool = True
) -> list[dict[str, Json]]:
    """Return the outcomes of calls: status, and arguments as they ran or may run.

    The status is executed, not_executed, waiting or unknown; for calls that their agent executes,
    also allowed or taken. Read runs before the ledger, as here: nothing begins in an ended run. At
    most five queries, ten with repeated calls.
    """
    kept = {call.run.pk for call in calls if call.row.step and not call.run.is_emptied}
    steps = defaultdict(list)
    for step in _steps_of(calls).filter(run__in=kept).order_by("position"):
        steps[step.run_id, turn_of(step.key)].append(step)
    outcomes = [_outcome_of(call, steps[call.run.pk, turn_of(call.row.step)]) for call in calls]
    left = [
        (call, outcome, (call.run.pk, turn_of(call.row.step)))
        for call, outcome in zip(calls, outcomes, strict=True)
        if call.row.step
        and outcome["status"] in (_NOT_OVER if call.run.state not in ENDED else _LEFT_OPEN)
    ]
    ended = [call.run.pk for call, _, _ in left if call.run.state in ENDED]
    effects = defaultdict(set)
    made = Effect.objects.filter(run__in=ended).values_list("run", "step__key", "state")
    for run, key, state in made:
        effects[run, turn_of(key)].add(state)
    turns = [at for _, _, at in left if any(s.kind in (USE, "escalate") for s in steps[at])]
    held = Escalation.objects.filter(run__in={run for run, _ in turns}, state=EscalationState.OPEN)
    requests = {(one.run_id, turn_of(one.step.key)): one for one in held.select_related("step")}
    for call, outcome, at in left:
        if call.run.state in ENDED:
            outcome |= _left_by_end(call.run, effects[at])
        else:
            outcome |= _waiting_for(call.run, requests.get(at))
    for call, outcome in zip(calls, outcomes, strict=True):
        if outcome["status"] in _NOT_OVER and call.run.state in ENDED:  # no slot ever had it
            outcome |= _left_by_end(call.run, set())
        if not (outcome["sentence"] and outcome["is_ruling"]):
            outcome["sentence"] = end_sentence(str(outcome["reason"])) or outcome["sentence"]
        if outcome["status"] == UNKNOWN and call.run.state not in ENDED:
            outcome["sentence"] = _UNKNOWN_YET
        del outcome["is_ruling"]
        if outcome["status"] != WAITING:
            outcome["waiting_for"] = ""
        if outcome["status"] not in (EXECUTED, NOT_EXECUTED):
            outcome["result"] = None
        for name in ("proposed", "arguments", "result"):
            outcome[name] = _as_sent(call, outcome[name])
        own, tool, reason = call.run, str(outcome["tool"]), str(outcome["reason"])
        offered = own.limits.proposable
        form = _form_words(own.desk, reason, tool, outcome["proposed"], offered)
        outcome["sentence"] = " ".join(filter(None, (outcome["sentence"], form)))
    _tell_held([(call.run, outcome) for call, outcome in zip(calls, outcomes, strict=True)])
    if with_repeats:
        _tell_repeats(calls, outcomes)
    return outcomes


def _steps_of(calls: Sequence[ProposedCall]) -> QuerySet[Step]:
    """Return the steps of these calls only."""
    turns = [(call.run.pk, turn_of(call.row.step)) for call in calls if call.row.step]
    own = [Q(run=run, key__startswith=turn) for run, turn in turns]
    return Step.objects.filter(reduce(or_, own)) if own else Step.objects.none()


def _tell_repeats(calls: Sequence[ProposedCall], outcomes: Sequence[dict[str, Json]]) -> None:
    """Add to repeats the outcomes of the calls that they repeat."""
    places = [
        [(one.get("run", str(call.run.pk)), f"{one['turn']}call") for one in outcome["repeats"]]
        for call, outcome in zip(calls, outcomes, strict=True)
    ]
    wanted = {place for own in places for place in own}
    steps = {"run__in": {run for run, _ in wanted}, "step__in": {step for _, step in wanted}}
    rows = AgentCall.objects.filter(**steps).order_by("pk") if wanted else ()
    agents = {call.row.agent_id for call in calls}
    first = with_runs(row for row in rows if row.agent_id in agents)
    came = {
        (str(call.run.pk), call.row.step): {"id": call.row.pk, "run": str(call.run.pk)}
        | {name: one[name] for name in _OF_FIRST}
        for call, one in zip(first, outcomes_of(first, with_repeats=False), strict=True)
    }
    for outcome, own in zip(outcomes, places, strict=True):
        outcome["repeats"] = [came[place] for place in own if place in came]


def _tell_held(calls: Sequence[tuple[Run, dict[str, Json]]]) -> None:
    """Add to allowed calls whether a kill switch holds them."""
    allowed = [(run, one) for run, one in calls if one["status"] == _ALLOWED]
    where = {run.workspace_id for run, _ in allowed}
    for switch in KillSwitch.objects.standing().filter(workspace__in=where):
        for run, one in allowed:
            if run.workspace_id == switch.workspace_id and switch.stops(run, one["tool"]):
                one |= {"waiting_for": "switch", "sentence": _HELD}


def _waiting_for(run: Run, held: Escalation | None) -> dict[str, Json]:
    """Return what a call waits for, or that its outcome is unknown."""
    if held is None:
        return {"waiting_for": "ruling"}
    held.run = run  # read already
    if held.step.kind == USE:
        return {"status": UNKNOWN, "reason": "effect_unknown"}
    takes_two = demand_for(held).people > 1 and held.approval_id is None
    return {"waiting_for": "two_people" if takes_two else "person"}


def _outcome_of(call: ProposedCall, own: list[Step]) -> dict[str, Json]:
    row, run = call.row, call.run
    texts = ("reason", "sentence", "tool", "rule", "changed_by", "decided_by", "comment")
    outcome: dict[str, Json] = {"key": row.key, "status": WAITING, "kind": "tool", "repeats": []}
    outcome |= dict.fromkeys(texts, "")
    outcome |= dict.fromkeys(("proposed", "arguments", "result", "answered_at"))
    outcome["waiting_for"] = "turn"  # until a slot has it
    outcome["is_ruling"] = False  # whether its ruling kept it from running
    proposal = next((step.reply for step in own if step.kind == AWAIT), None) or row.asked or {}
    outcome |= {"tool": proposal.get("name", ""), "proposed": proposal.get("args")}
    if "question" in proposal:
        outcome["kind"] = "question"
        outcome["proposed"] = {name: proposal[name] for name in ("question", "choices")}
    _tell_rulings(outcome, own, run)
    outcome["status"] = _left_to_agent(run, own) or WAITING
    answer = next((s for s in own if s.kind == "say" and s.asked.get("kind") == ANSWERED), None)
    if answer:
        outcome |= {name: answer.asked["facts"][name] for name in ("status", "reason")}
        outcome["answered_at"] = answer.ended_at.isoformat() if answer.ended_at else None
    if outcome["status"] == UNKNOWN:
        outcome |= _known_later(own)
    return outcome


def _known_later(own: list[Step]) -> dict[str, Json]:
    """Return the outcome of a call whose slot went on without it, if known by now."""
    used = [step for step in own if step.kind == USE and step.ended_at is not None]
    if not used or used[-1].failed == EFFECT_UNKNOWN.stored:
        return {}
    last, at = used[-1], used[-1].ended_at
    is_error = reports_error(last.reply)
    reason = last.failed or (f"tool_error:{last.asked['tool']}" if is_error else "")
    outcome = {"status": NOT_EXECUTED if reason else EXECUTED, "reason": reason}
    return {**outcome, "answered_at": at.isoformat() if at else None}


def _left_to_agent(run: Run, steps: list[Step]) -> str:
    """Return the status of a call that its agent executes; "" for other calls."""
    left = next((step for step in reversed(steps) if step.ended_at is None), None)
    if left is not None and left.kind == AWAIT:
        return _ALLOWED
    is_taken = left is not None and left.kind == USE and is_by_agent(run.desk, left.asked["tool"])
    return TAKEN if is_taken else ""


def _tell_rulings(outcome: dict[str, Json], steps: list[Step], run: Run) -> None:
    """Add a call's ruling, a person's decision and its result."""
    reviews = [step.reply for step in steps if step.kind == "review" and step.reply]
    if reviews:
        last = reviews[-1]
        outcome["is_ruling"] = last["decision"] == "block"
        # After an approval, the person's change says more than the review that allows it.
        asking = [review for review in reviews if review["decision"] == "escalate"]
        telling = (last if outcome["is_ruling"] or not asking else asking[-1])["deciding"]
        outcome |= {"rule": telling["rule"], "sentence": telling["sentence"]}
        outcome["arguments"] = _in_units(run, last["action"].get("args"))
        repeated = (review["facts"].get("repeats") for review in reversed(reviews))
        outcome["repeats"] = next(filter(None, repeated), [])
        if any(review["revisions"] for review in reviews):
            outcome["changed_by"] = "policy"
    for step in steps:
        if step.kind == "escalate" and step.reply:
            reply = step.reply
            outcome |= {"decided_by": reply.get("by", ""), "comment": reply.get("comment", "")}
            if step.asked["kind"] == INQUIRY.stored:
                answer = reply.get("correction")
                outcome["result"] = {"answer": answer} if answer else None
            elif reply.get("revised"):
                outcome["changed_by"] = "person"
        elif step.kind == "use" and step.ended_at is not None:
            outcome["arguments"] = _in_units(run, step.asked["args"])
            outcome["result"] = _in_units(run, step.reply)


def _in_units(run: Run, value: Json) -> Json:
    """Return a value in the units of the agent's schema."""
    return to_model_units(value) if tells_plain_numbers(run.desk) else value


def _left_by_end(run: Run, effects: set[str]) -> dict[str, Json]:
    """Return a call's outcome in an ended run: not executed only where no intent exists."""
    if EffectState.DONE in effects:
        return {"status": EXECUTED, "reason": ""}
    if effects & set(_UNSETTLED):
        return {"status": UNKNOWN, "reason": "effect_unknown"}
    if run.is_emptied:
        return {"status": NOT_EXECUTED, "reason": "erased"}
    why = run.stop_reason if run.stop_reason != "success" else ""
    return {"status": NOT_EXECUTED, "reason": why or "session_ended"}


def _as_sent(call: ProposedCall, value: Json) -> Json:
    """Return a value as its agent sent it, where the policy stores names instead."""
    row, run = call.row, call.run
    if not row.masked or not value or run.is_emptied:
        return value
    try:
        known = pseudonyms_of(run).values
    except ValuesLocked:
        return value
    own = {name: known[name] for name in row.masked if name in known}
    return Pseudonyms(naming(run.workspace_id), own).resolve(value)


# The correct form of a call, for an agent whose proposal could not be read.


def input_schema(tool: DeskTool) -> Json:
    """Return the schema of a tool's arguments; `required` lists those that cannot be left out.

    The console's own models get every argument as required, as strict output demands.
    """
    required = getattr(tool.spec, "required", ())
    if isinstance(tool.spec, Mapping):
        required = [name for name, kind in tool.spec.items() if not kind.endswith("?")]
    return {**args_schema(tool.spec), "required": list(required)}


def with_integers(desk: str, name: str, args: Json) -> Json:
    """Return arguments with 5001 for 5001.0 where the tool takes integers."""
    tool = tools_at(desk).get(name)
    return fit(args, args_schema(tool.spec)) if tool else args


def without_nulls(desk: str, name: str, args: Json) -> Json:
    """Return arguments without each null that stands for an omitted one. For declared desks."""
    tool = tools_at(desk).get(name)
    spec = tool.spec if tool else None
    if not (isinstance(spec, Mapping) and isinstance(args, Mapping)):
        return args
    return {
        key: value
        for key, value in args.items()
        if value is not None or not spec.get(key, "").endswith("?")
    }


def _form_words(desk: str, reason: str, name: str, given: Json, offered: Iterable[str]) -> str:
    """Return the available tools, or a tool's argument form with its fault; else ""."""
    if not reason.startswith(("invalid_action:", "tool_bad_args:")) or reason.endswith(
        ":too_large"
    ):
        return ""
    tools = tools_at(desk)
    known = [one for one in offered if one in tools]
    if name not in known:
        return f"The desk's tools are: {', '.join(known)}."
    schema, sentences = input_schema(tools[name]), list[str]()
    arguments = given if isinstance(given, Mapping) else {}
    if extra := [key[:_LONGEST] for key in arguments if key not in schema["properties"]]:
        sentences.append(f"{name} has no {', '.join(extra[:_MOST])}.")
    if missing := [key for key in schema["required"] if key not in arguments]:
        sentences.append(f"The call lacks {', '.join(missing)}.")
    form = json.dumps(_form(schema), ensure_ascii=False)
    return " ".join([*sentences, f"Write the arguments of {name} like this: {form}"])


def _form(schema: Json) -> Json:
    """Return a schema as an example whose values are words."""
    if "properties" in schema:
        needed = schema.get("required", schema["properties"])
        return {
            key if key in needed else f"{key} (may be left out)": _form(part)
            for key, part in schema["properties"].items()
        }
    if "items" in schema:
        return [_form(schema["items"])]
    if branches := schema.get("anyOf"):
        forms = [_form(branch) for branch in branches]
        return " or ".join(one if isinstance(one, str) else json.dumps(one) for one in forms)
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if schema.get("format") == "date":
        return "a date: 2026-01-31"
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    words = " or ".join(str(WORDS["json"].get(kind, kind)) for kind in kinds)
    if "maxLength" in schema:
        words += f" of up to {schema['maxLength']} characters"
    return f"{words}. {schema['description']}" if "description" in schema else words
