"""Ask the business behind a run's desk for the facts of a review."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from agents.core.actions import Action
from agents.core.limits import Limits
from agents.core.requests import Json
from agents.core.reviews import Border, DeskFacts, Facts, ReadOnce
from agents.core.statements import Deed, free_passages, ledger_sentences
from agents.core.states import EffectState, EscalationState
from agents.db.driver import Pending, send_lock
from agents.engine.desk import registry as simulation
from agents.engine.desk.company import DeskFailed, LookedUp, of_company
from agents.engine.desk.repeats import comparable, rejection_of, repeats_of
from agents.engine.desk.review_context import EFFECTS, DeskLedger, names_of
from agents.engine.desk.rules import limits_of, words_of
from agents.engine.redaction import RunBorder
from agents.models import Effect, Run, Step
from agents.sdk import arguments as serialization
from agents.sdk.adjustments import label_of, money_of
from agents.sdk.arguments import BadArguments
from agents.sdk.desk import DESKS, Desk
from agents.sdk.facts import EarlierReview, Origin
from agents.sdk.rules import Case, Fact, Quote, write_evidence
from agents.sdk.values import show
from agents.tools import TOOLS, Tool


def calls_before(run: Run, action: Action) -> list[Step]:
    """Return the calls of the session's earlier runs, on which a review rests as on the run's own.

    None for what merely reads. Call outside a pipeline.
    """
    tool = TOOLS.get(str(action.get("name")))
    if tool is not None and not tool.writes:
        return []
    return steps_before(run, "use")


def steps_before(run: Run, *kinds: str) -> list[Step]:
    """Return the finished steps of these kinds of an agent's session's earlier runs."""
    earlier = run.earlier_runs() if run.agent_id and run.again_of_id else []
    if not earlier:
        return []
    made = Step.objects.filter(run__in=earlier, kind__in=kinds, failed="", ended_at__isnull=False)
    return list(made.order_by("begun_at", "pk"))


def fetch_facts(
    run: Run,
    action: Action,
    limits: Limits,
    steps: Sequence[Step],
    *,
    at: datetime,
    lock: bool,
    is_attended: bool = False,
    done: Mapping[int, Json] | None = None,
    ahead: LookedUp | None = None,
    turn: str = "",
    before: EarlierReview | None = None,
) -> Pending[tuple[Facts, str]]:
    """Fetch the facts for reviewing `action`, in an open pipeline if any.

    The answer is the facts, and the desk's key of the resource that the action uses, or "".
    `lock` holds the resource, and the sums that the review rests on, until the transaction ends;
    caps of a day are none of them where a person approved the action (`is_attended`). `done` are
    results that the ledger is about to be told, by the key of their step; `ahead` is what was
    looked up before. `turn` is the prefix of the keys of its own steps, where it is proposed;
    `before` is the review on which this one rests. Its answer raises StaleLookup.
    """
    asked = read_asked(run, action, limits, steps, at)
    resource = asked.resource
    if lock:
        _lock(asked)
    asked.locks, asked.is_attended = lock, is_attended
    asked.found, asked.done, asked.before = ahead, done or {}, before
    _send(asked, limits)

    def answer() -> tuple[Facts, str]:
        facts = gather_facts(asked, action)
        if turn and run.agent_id:
            asked.lock_sums()  # its other sessions may propose the same
        used = asked.fetched.resource if asked.desk.send else resource
        if turn and (earlier := repeats_of(run, action, steps, turn, at=at)):
            facts = replace(facts, repeats=earlier)
        if turn and (no := rejection_of(run, action, used, limits, at=at)):
            facts = replace(facts, rejected=no)
        return facts, used

    return Pending(answer)


def _send(asked: DeskLedger, limits: Limits) -> None:
    """Send for what a desk wants of its own, and for what the run has done."""
    desk, run, tool = asked.desk, asked.run, asked.declared
    if desk.send:  # first, because it may lock what later answers are about
        asked.sent = desk.send(run.subject_key, asked)
    if desk.numbers:
        moves = tool and tool.amount and not tool.letter and limits.caps_of(desk.name)
        asked.sums = asked.send_for_unattended(desk.numbers) if moves else Pending(dict)
    # A run's effects all come from its steps.
    registered = simulation.registry(run)
    called = {step.asked["tool"] for step in asked.steps if step.kind == "use"}
    if any(name not in registered or registered[name].writes for name in called):
        asked.acted = EFFECTS.fetch(run=run.pk)


def hold_resource(run: Run, action: Action, limits: Limits, *, at: datetime) -> Pending[str]:
    """Lock what a call uses, as its review before the call does, and fetch the desk's key of it."""
    asked = read_asked(run, action, limits, (), at)
    asked.locks = True
    _lock(asked)
    if asked.desk.send:
        asked.sent = asked.desk.send(run.subject_key, asked)
    return Pending(lambda: asked.fetched.resource if asked.desk.send else asked.resource)


def _lock(asked: DeskLedger) -> None:
    resource = asked.resource
    spelled = str(comparable(resource)) if asked.has_spellings else resource
    lock_resource(asked.run, spelled)


def lock_resource(run: Run, resource: str) -> None:
    """Send for a lock on a call's resource until the transaction ends.

    Call with the run's row and its workspace's writes locked.
    """
    if resource:
        send_lock(f"{run.desk}:{run.book_id}:{resource}")


# Gather the facts of a desk for a review, in the transaction of that review.


LOOKED_INTO = "The case was looked into; nothing was done."


def read_asked(
    run: Run, action: Action, limits: Limits, steps: Sequence[Step], at: datetime
) -> DeskLedger:
    """Return what a desk may ask about an action, with its arguments typed."""
    desk, border = DESKS[run.desk], RunBorder(run)
    name, given = str(action.get("name", "")), action.get("args", {})
    args: Any = None
    if action.get("kind") == "final" and any(r.concerns(None) for r in desk.rules.values()):
        args = words_of(action, border)
        given = {"words": action.get("note", action.get("answer"))}
    about = (desk, run, at, name, given, args, steps)
    asked = DeskLedger(*about, border=border, limits=limits_of(desk, limits))
    try:
        asked.args = asked.declared.read(border.resolve(given)) if asked.declared else args
    except BadArguments as error:
        asked.unfit = _unfit(error, border)
    return asked


def case_of(run: Run, at: datetime) -> Case:
    """Return what the console itself knows of a run, for desk code; the day is in UTC."""
    launcher, label = str(run.launched_by_id), RunBorder(run).resolve(run.subject_label)
    return Case(run.subject_key, label, at.astimezone(UTC).date(), launcher)


def done_sentence(desk: Desk, effect: Effect, case: Case, run: Run) -> str:
    """Return the sentence on what a call has done, with the present names of its keys."""
    return _sentence(desk, effect.tool, "after", effect.args, case, run)


def _sentence(desk: Desk, name: str, which: str, args: Json, case: Case, run: Run) -> str:
    tool, border = desk.tools[name], RunBorder(run)
    given = border.resolve(args)
    called = names_of(desk, tool, given, run.book_id)
    return str(border.name(tool.sentence(getattr(tool, which), given, case.label, called)))


def _refused(desk: Desk, steps: Sequence[Step], case: Case, run: Run) -> tuple[str, ...]:
    def tell(step: Step) -> str:
        action = step.asked["action"]
        return _sentence(desk, str(action["name"]), "before", action["args"], case, run)

    return sent_back_sentences(steps, tell)


class _Gathered(NamedTuple):
    """What a desk says of an action."""

    own: Any  # its facts
    written: Json = None  # the same as stored
    failed: str = ""  # why there are none
    record: Mapping[str, str] = MappingProxyType({})  # what may be said of its findings, by name
    outdated: Mapping[str, str] = MappingProxyType({})  # what no longer holds, in a letter


def gather_facts(asked: DeskLedger, action: Action) -> Facts:
    """Ask a run's desk for its facts, in the transaction of the review. Raises StaleLookup."""
    run, case, once = asked.run, case_of(asked.run, asked.at), ReadOnce()
    known: dict[str, Any] = {
        "border": asked.border,
        "sent_back_by": sent_back_by(asked.steps, action),
    }
    if asked.unfit:
        return Facts(unfit=asked.unfit, desk=DeskFacts(None, case, (), {}), **known)
    gathered = _ask_desk(asked, is_told=bool(asked.letter) or action.get("kind") == "final")
    add = _add_own if isinstance(gathered.own, Facts) else _add_declared
    once.get(asked.given, lambda: asked.args)
    known |= {"scope": run.scope, "once": once, "letter": asked.letter}
    facts: Facts = add(asked, action, case, gathered, known)
    return facts


def _ask_desk(asked: DeskLedger, *, is_told: bool) -> _Gathered:
    desk, run = asked.desk, asked.run
    said: dict[str, str] = {}
    record: dict[str, str] = {}
    if is_told:  # somebody reads it
        said = sentences_on_record(asked.steps, simulation.registry(run), asked.border)
        record = asked.border.name(said) if said else {}
    own = written = None
    try:
        with of_company(f"{desk.title} could not gather its facts"):
            if desk.gather and (run.subject_key or desk.send):  # a report is about no subject
                own = desk.gather(run.subject_key, asked)
            if own is not None and not isinstance(own, Facts):
                written = serialization.write(own)
            now = _record_now(asked, said, record) if asked.letter else record
    except DeskFailed as error:
        return _Gathered(None, failed=str(error), record=record)
    outdated = {name: said for name, said in record.items() if now.get(name) != said}
    return _Gathered(own, written, "", now, outdated)


def _record_now(asked: DeskLedger, said: dict[str, str], record: dict[str, str]) -> dict[str, str]:
    """Return the record of a run's findings, as they would be at this moment."""
    tools = (tool for tool in asked.desk.tools.values() if record and tool.now)
    now = {tool.name: tool.now(asked) for tool in tools if tool.now}
    registered = simulation.registry(asked.run)
    said_now = sentences_on_record(asked.steps, registered, asked.border, now=now)
    if said_now == said:
        return record
    named: dict[str, str] = asked.border.name(said_now)
    return named


def _add_own(
    asked: DeskLedger, action: Action, case: Case, gathered: _Gathered, known: dict[str, Any]
) -> Facts:
    """Add what the console knows to facts that a desk has in the console's own form."""
    desk, steps, own = asked.desk, asked.steps, gathered.own
    is_final = action["kind"] == "final"
    judged = _judged(asked) if asked.writes else {}
    about = {
        **known,
        "evidence": specialist_results(steps) if is_final else (),
        "origins": {name: origin.value for name, (origin, _) in judged.items()},
        "doubts": () if asked.letter else tuple(_doubts(asked, judged)),
    }
    if not (is_final or asked.letter):
        return replace(own, ledger=(), **about)
    approved = approvals_of(steps) if is_final else {}
    done = ledger_sentences([_deed(desk, effect, case, approved) for effect in asked.all_effects])
    refused = _refused(desk, steps, case, asked.run) if is_final else ()
    about |= {"record": gathered.record, "outdated": gathered.outdated}
    return _with_own_words(replace(own, ledger=(*done, *own.ledger, *refused), **about), asked)


def _deed(desk: Desk, effect: Effect, case: Case, approved: Mapping[int, str]) -> Deed:
    tool = desk.tools[effect.tool]
    moves = effect.amount_minor is not None and not tool.letter  # letters only mention it
    sentence = tool.sentence(tool.after, effect.args, case.label)
    if moves and effect.step_id in approved:
        sentence += f" {approved[effect.step_id]}"
    return Deed(sentence, moves_money=moves, settled=effect.state == EffectState.DONE)


def _with_own_words(facts: Facts, asked: DeskLedger) -> Facts:
    """Return facts with the passages of a letter that no record has."""
    if not asked.letter:
        return facts
    text = str(asked.given.get(asked.letter) or "")
    return replace(facts, own_words=tuple(free_passages(text, facts.own_texts, facts.COURTESY)))


def _add_declared(
    asked: DeskLedger, action: Action, case: Case, gathered: _Gathered, known: dict[str, Any]
) -> Facts:
    """Return what the console knows, with a desk's facts as they are stored."""
    desk, run, border, found = asked.desk, asked.run, asked.border, asked.found
    # The runs of an agent's session are told of together; one that repeats another tells its own.
    made = asked.all_effects if run.agent_id else asked.effects
    done = (effect for effect in made if effect.state == EffectState.DONE)
    told = tuple(done_sentence(desk, effect, case, run) for effect in done)
    called_before = asked.writes and asked.called_before()
    facts = Facts(called_before=called_before, **known)
    if asked.letter:
        outdated = gathered.outdated
        facts = replace(facts, ledger=told, record=gathered.record, outdated=outdated)
        facts = _with_own_words(facts, asked)
    money = asked.declared.amount_of(asked.args) if asked.declared else None
    shown = _evidence(asked, case, gathered) if asked.writes else []
    kept = {
        "desk": run.desk,
        "own": gathered.written,
        **({"failed": gathered.failed} if gathered.failed else {}),
        "case": {**serialization.write(case), "label": run.subject_label},
        "done": list(told),
        **(
            {"lookup": {"at": found.at.isoformat(), "value": serialization.write(found.value)}}
            if found
            else {}
        ),
        **({"unattended": asked.unattended_today(money.currency)} if money else {}),
        **({"names": asked.called} if asked.called else {}),
        **({"called_before": True} if called_before else {}),
        **({"evidence": shown} if shown else {}),
        **(_origins(asked) if asked.writes else {}),
        **({"scope": run.scope} if run.scope else {}),
        **({"letter": asked.letter, "own_words": list(facts.own_words)} if asked.letter else {}),
    }
    named = {**border.name(kept), "case": kept["case"]}
    answered = _answered(desk, asked.steps, border)
    refused = _refused(desk, asked.steps, case, run) if action.get("kind") == "final" else ()
    about = (gathered.own, case, told, named, gathered.record, answered, refused)
    return replace(facts, desk=DeskFacts(*about))


def _evidence(asked: DeskLedger, case: Case, gathered: _Gathered) -> list[Json]:
    """Return what a person reads beside a call: what its desk shows, and an outsider's text."""
    known = {"args": asked.args, "facts": gathered.own, "limits": asked.limits, "case": case}
    try:
        with of_company("It could not be gathered"):
            shown = [] if gathered.failed else asked.desk.evidence_of(**known)
    except DeskFailed as error:
        shown = write_evidence([Fact("Evidence", str(error))])
    quotes = [Quote("What the agent read, written by an outsider", t) for t in asked.outside()]
    return [*shown, *write_evidence(quotes[-1:])]


def _answered(desk: Desk, steps: Sequence[Step], border: Border) -> tuple[str, ...]:
    """Return what the specialists of a run found, in sentences."""
    own = [step for step in steps if step.kind == "use" and step.asked["tool"] in desk.specialists]
    said = sentences_on_record(own, TOOLS, border)
    found = tuple(border.name(said).values()) if said else ()
    return found or ((LOOKED_INTO,) if specialist_results(own) else ())


_Judged: TypeAlias = dict[str, tuple[Origin, Json]]


def _judged(asked: DeskLedger) -> _Judged:
    """Return who named each argument and, of one with several parts, the part named worst."""
    known = asked.declared.arguments if asked.declared else ()
    return {name: asked.worst_of(name) for name in asked.given if name in known}


def _doubts(asked: DeskLedger, judged: _Judged) -> list[Json]:
    """Return what a person has to compare."""
    told = (asked.doubt_of(name, *found) for name, found in judged.items())
    return [one for one in told if one]


def _origins(asked: DeskLedger) -> dict[str, Json]:
    """Return who named each argument, what a person has to compare, and what they may look at."""
    given, judged = asked.given, _judged(asked)
    worst = {
        name: show(part)
        for name, (origin, part) in judged.items()
        if isinstance(given[name], list | dict)
        and not (origin.is_of_people or money_of(given[name]))
    }
    origins = {name: origin.value for name, (origin, _) in judged.items()}
    nobodys = {name: part for name, (origin, part) in judged.items() if origin is Origin.NOBODY}
    read = {name: tool for name, part in nobodys.items() if (tool := asked.read_in(part))}
    more = {"worst": worst, "doubts": _doubts(asked, judged), "read_in": read}
    return {"origins": origins, **{name: kept for name, kept in more.items() if kept}}


def _unfit(error: BadArguments, border: RunBorder) -> str:
    """Return why a call's values do not fit its tool, in a sentence."""
    place, _, why = str(error).partition(": ")
    return str(border.name(f"{label_of(place.partition('.')[0])} does not fit its tool: {why}."))


# What a review may know from the run's own steps; the ledger and the desk are asked in facts.


def specialist_results(steps: Iterable[Step]) -> tuple[Json, ...]:
    """Return what the specialists of the run found, oldest first."""
    replies = [step.reply for step in steps if step.kind == "use" and not step.failed]
    return tuple(
        reply["result"]
        for reply in replies
        if isinstance(reply, dict) and reply.get("status") == "done" and "result" in reply
    )


def approvals_of(steps: Sequence[Step]) -> dict[int, str]:
    """Return who approved a call and why, in a sentence, by the key of the call's step."""
    named = {step.key: step for step in steps}
    found = {}
    for step in steps:
        review = named.get(step.asked.get("allowed_by") or "") if step.kind == "use" else None
        request = named.get(review.asked.get("granted") or "") if review else None
        if request and request.reply:
            by, why = request.reply["by"], " ".join((request.reply.get("comment") or "").split())
            found[step.pk] = f"Approved by {by}: “{why}”." if why else f"Approved by {by}."
    return found


_position = attrgetter("position")


def sent_back_by(steps: Iterable[Step], action: Action) -> str:
    """Return who sent back what keeps `action` from being done unseen, where it writes; or "".

    What was sent back last does, until a yes to a call; of the action's own tool, whatever was.
    """
    if action.get("kind") != "tool":
        return ""
    tool = TOOLS.get(action["name"])
    if tool is not None and not tool.writes:
        return ""
    escalated = sorted((step for step in steps if step.kind == "escalate"), key=_position)
    calls = [(step.asked["action"], step.reply) for step in escalated if step.reply]
    calls = [(call, reply) for call, reply in calls if call["kind"] == "tool"]
    of_tool = [(call, reply) for call, reply in calls if call["name"] == action["name"]]
    said = [reply for _, reply in (*of_tool, *calls[-1:])]
    sent_back = [reply for reply in said if reply.get("decision") == EscalationState.SENT_BACK]
    return str(sent_back[-1]["by"]) if sent_back else ""


def sent_back_sentences(steps: Iterable[Step], tell: Callable[[Step], str]) -> tuple[str, ...]:
    """Return which calls people sent back, in sentences: none of them was made.

    `tell` says what a step asked for.
    """
    asked = sorted((step for step in steps if step.kind == "escalate"), key=_position)
    return tuple(
        f"Sent back by {reply['by']}, not done: {tell(step).removesuffix('.')}."
        for step in asked
        if (reply := step.reply or {}).get("decision") == EscalationState.SENT_BACK
        and step.asked["action"]["kind"] == "tool"
    )


def sentences_on_record(
    steps: Iterable[Step],
    registered: Mapping[str, Tool],
    border: Border,
    *,
    now: Mapping[str, Json] = MappingProxyType({}),
) -> dict[str, str]:
    """Return what may be said of what the run has looked up, by name; the newest counts.

    It is said with values: name them before it is kept. `now` has what tools would find at this
    moment, which is then said in place of what they found.
    """
    said: dict[str, str] = {}
    for step in steps:
        tool = registered.get(step.asked["tool"]) if step.kind == "use" else None
        if tool and tool.may_say and step.reply and not step.failed:
            with suppress(KeyError, TypeError, ValueError, AttributeError):  # it found nothing
                said |= tool.may_say(border.resolve(now.get(tool.name, step.reply)))
    return said
