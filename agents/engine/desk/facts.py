"""Gather the facts of a review, from top to bottom.

There are three kinds: the desk's own facts, what the ledger and the run's steps have, and earlier
proposals and rejections. `fetch_facts` gets them all.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from agents.core.json_forms import Action
from agents.core.ledger_sentences import free_passages
from agents.core.limits import Limits
from agents.core.requests import EffectState, EscalationState, Json
from agents.core.reviews import Border, DeskFacts, Facts, ReadOnce
from agents.db.driver import Pending, send_lock
from agents.engine.desk.company import DeskFailed, LookedUp, of_company
from agents.engine.desk.registry import tools_of
from agents.engine.desk.repeats import comparable, rejection_of, repeats_of
from agents.engine.desk.review_context import EFFECTS, ReviewContext, names_of
from agents.engine.desk.rules import limits_of, words_of
from agents.engine.redaction import RunBorder
from agents.models import Effect, Run, Step
from agents.sdk import values as serialization
from agents.sdk.adjustments import label_of, money_of
from agents.sdk.desk import DESKS, Desk, tools_at
from agents.sdk.desk_tools import DeskTool
from agents.sdk.rules import Case, EarlierReview, Fact, Origin, Quote, write_evidence
from agents.sdk.values import BadArguments, show

_LOOKED_INTO = "The case was looked into; nothing was done."


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
    is_stored: bool = False,
) -> Pending[tuple[Facts, str]]:
    """Fetch the facts for reviewing `action`, in an open pipeline if any.

    It returns the facts, and the desk's key of the action's resource, or "".

    - `lock` holds the resource and the counted sums until the transaction ends, but no daily caps
      for an action that a person approved (`is_attended`).
    - `done` are results that the ledger will get, by the key of their step.
    - `ahead` is an earlier look-up.
    - `turn` is the prefix of its own steps' keys, where it is proposed.
    - `before` is the review on which this one rests.
    - `is_stored` adds what only people read; rules do not need it.

    Its answer raises StaleLookup.
    """
    context = context_of(run, action, limits, steps, at)
    context.locks, context.is_attended = lock, is_attended
    context.looked_up, context.done, context.before = ahead, done or {}, before
    context.is_stored = is_stored
    if lock:
        _lock_resource(context)
    _send(context, limits)

    def answer() -> tuple[Facts, str]:
        facts = _gather(context, action)
        if turn and run.agent_id:
            context.lock_sums()  # its other sessions may propose the same
        used = context.key_of_resource
        if turn and (earlier := repeats_of(run, action, steps, turn, at=at)):
            facts = replace(facts, repeats=earlier)
        if turn and (no := rejection_of(run, action, used, limits, at=at)):
            facts = replace(facts, rejected=no)
        return facts, used

    return Pending(answer)


def context_of(
    run: Run, action: Action, limits: Limits, steps: Sequence[Step], at: datetime
) -> ReviewContext:
    """Return the context of a review, with the action's arguments typed."""
    desk, border = DESKS[run.desk], RunBorder(run)
    name, given = str(action.get("name", "")), action.get("args", {})
    args: Any = None
    if action.get("kind") == "final" and any(r.concerns(None) for r in desk.rules.values()):
        args = words_of(action, border)
        given = {"words": action.get("note", action.get("answer"))}
    about = (desk, run, at, name, given, args, steps)
    context = ReviewContext(*about, border=border, limits=limits_of(desk, limits))
    try:
        context.args = context.declared.read(border.resolve(given)) if context.declared else args
    except BadArguments as error:
        context.unfit = _unfit(error, border)
    return context


def _unfit(error: BadArguments, border: RunBorder) -> str:
    """Return why a call's values do not fit its tool, in a sentence."""
    place, _, why = str(error).partition(": ")
    return str(border.name(f"{label_of(place.partition('.')[0])} does not fit its tool: {why}."))


# Sent before anything is answered: locks, the desk's books, the run's own calls.


def _lock_resource(context: ReviewContext) -> None:
    """Send for a lock on the call's resource until the transaction ends.

    Call with the run's row and its workspace's writes locked.
    """
    run, resource = context.run, context.resource
    spelled = str(comparable(resource)) if context.has_spellings else resource
    if spelled:
        send_lock(f"{run.desk}:{run.book_id}:{spelled}")


def hold_resource(run: Run, action: Action, limits: Limits, *, at: datetime) -> Pending[str]:
    """Lock a call's resource, as its review does, and fetch the desk's key of it."""
    context = context_of(run, action, limits, (), at)
    context.locks = True
    _lock_resource(context)
    _send_for_books(context)
    return Pending(lambda: context.key_of_resource)


def _send(context: ReviewContext, limits: Limits) -> None:
    """Send for the desk's own facts, and for the run's effects."""
    desk, run, tool = context.desk, context.run, context.declared
    _send_for_books(context)  # first, because it may lock what later answers are about
    if desk.numbers:
        moves = tool and tool.amount and not tool.letter and limits.caps_of(desk.name)
        context.sums = context.send_for_unattended(desk.numbers) if moves else Pending(dict)
    # A run's effects all come from its steps.
    registered = tools_of(run)
    called = {step.asked["tool"] for step in context.steps if step.kind == "use"}
    if any(name not in registered or registered[name].writes for name in called):
        context.acted = EFFECTS.fetch(run=run.pk)


def _send_for_books(context: ReviewContext) -> None:
    if context.desk.send:
        context.sent = context.desk.send(context.run.subject_key, context)


# After the answers: the desk's own facts, and the console's additions.


class _Gathered(NamedTuple):
    """A desk's facts on an action."""

    own: Any  # its facts
    written: Json = None  # the same as stored
    failed: str = ""  # why there are none
    record: Mapping[str, str] = MappingProxyType({})  # sentences about its findings, by name
    outdated: Mapping[str, str] = MappingProxyType({})  # statements of a letter that are outdated


def _gather(context: ReviewContext, action: Action) -> Facts:
    """Ask a run's desk for its facts, in the transaction of the review. Raises StaleLookup."""
    run, case, once = context.run, case_of(context.run, context.at), ReadOnce()
    known: dict[str, Any] = {
        "border": context.border,
        "sent_back_by": sent_back_by(run.desk, context.steps, action),
    }
    if context.unfit:
        return Facts(unfit=context.unfit, desk=DeskFacts(None, case, (), {}), **known)
    gathered = _ask_desk(context, is_told=bool(context.letter) or action.get("kind") == "final")
    once.get(context.given, lambda: context.args)
    known |= {"scope": run.scope, "once": once, "letter": context.letter}
    return _add_console(context, action, case, gathered, known)


def _ask_desk(context: ReviewContext, *, is_told: bool) -> _Gathered:
    desk, run = context.desk, context.run
    on_record: dict[str, str] = {}
    record: dict[str, str] = {}
    if is_told:  # somebody reads it
        on_record = _sentences_on_record(context.steps, tools_of(run), context.border)
        record = context.border.name(on_record) if on_record else {}
    own = written = None
    try:
        with of_company(f"{desk.title} could not gather its facts"):
            if desk.gather and (
                run.subject_key or desk.send or desk.is_replayed
            ):  # a report is about no subject
                own = desk.gather(run.subject_key, context)
            if own is not None and context.is_stored:
                written = serialization.write(own)
            now = _record_now(context, on_record, record) if context.letter else record
            vouched = getattr(own, "sentences", {}) if is_told else {}
    except DeskFailed as error:
        return _Gathered(None, failed=str(error), record=record)
    outdated = {name: text for name, text in record.items() if now.get(name) != text}
    return _Gathered(own, written, "", {**now, **context.border.name(vouched)}, outdated)


def _record_now(
    context: ReviewContext, on_record: dict[str, str], record: dict[str, str]
) -> dict[str, str]:
    """Return sentences on a run's findings, as of now."""
    tools = (tool for tool in context.desk.tools.values() if record and tool.now)
    now = {tool.name: tool.now(context) for tool in tools if tool.now}
    registered = tools_of(context.run)
    said_now = _sentences_on_record(context.steps, registered, context.border, now=now)
    if said_now == on_record:
        return record
    named: dict[str, str] = context.border.name(said_now)
    return named


def _add_console(
    context: ReviewContext, action: Action, case: Case, gathered: _Gathered, known: dict[str, Any]
) -> Facts:
    """Return the console's facts, with a desk's facts as stored."""
    desk, run, border = context.desk, context.run, context.border
    is_final = action.get("kind") == "final"
    is_told = is_final or bool(context.letter)
    sentences = tuple(_deed(desk, effect, case, run) for effect in context.all_effects)
    known["called_before"] = context.writes and context.called_before()
    if context.letter:
        text = str(context.given.get(context.letter) or "")
        known |= {"ledger": sentences, "record": gathered.record, "outdated": gathered.outdated}
        passages = free_passages(text, Facts(**known).sentences.values(), desk.subject.kind)
        known["own_words"] = tuple(passages)
    moves = context.declared and not context.letter  # a letter only mentions money
    money = context.declared.amount_of(context.args) if context.declared and moves else None
    kept = {
        **({"failed": gathered.failed} if gathered.failed else {}),
        **({"names": context.called} if context.called else {}),
        **(context.books if money else {}),
    }
    ours: dict[str, Json] = {}  # without values that need a name
    if money:
        ours["unattended"] = context.unattended_today(money.currency)
    if context.is_stored:
        kept |= _for_people(context, case, gathered, known)
        written = {**serialization.write(case), "label": run.subject_label}
        ours |= {"desk": run.desk, "case": written, "done": list(sentences)}
    named = {**ours, **border.name(kept)}
    answered = _answered(desk, context.steps, border)
    more = (*_untold(context), *_refused(desk, context.steps, case, run)) if is_final else ()
    about = (gathered.own, case, sentences, named, gathered.record, answered, more)
    return Facts(**known, desk=DeskFacts(*about, is_told=is_told))


# What a person reads next to a call: evidence, and the origins of its arguments.


def _for_people(
    context: ReviewContext, case: Case, gathered: _Gathered, facts: dict[str, Any]
) -> dict[str, Json]:
    """Return what is stored of facts besides what rules read again."""
    ahead, scope = context.looked_up, context.run.scope
    looked_up = ahead and {"at": ahead.at.isoformat(), "value": serialization.write(ahead.value)}
    shown = _evidence(context, case, gathered) if context.writes else []
    known = {"called_before": facts["called_before"], "evidence": shown, "scope": scope}
    more = {"lookup": looked_up, "letter": context.letter, **known}
    return {
        "own": gathered.written,
        **{name: value for name, value in more.items() if value},
        **({"own_words": list(facts["own_words"])} if context.letter else {}),
        **(_origins(context) if context.writes else {}),
    }


def _evidence(context: ReviewContext, case: Case, gathered: _Gathered) -> list[Json]:
    """Return a call's evidence for a person: from its desk, and an outsider's text."""
    known = {"args": context.args, "facts": gathered.own, "limits": context.limits, "case": case}
    try:
        with of_company("It could not be gathered"):
            shown = [] if gathered.failed else context.desk.evidence_of(**known)
    except DeskFailed as error:
        shown = write_evidence([Fact("Evidence", str(error))])
    quotes = [Quote("What the agent read, written by an outsider", t) for t in context.outside()]
    return [*shown, *write_evidence(quotes[-1:])]


def _origins(context: ReviewContext) -> dict[str, Json]:
    """Return each argument's origin, what a person has to compare, and what they may look at."""
    given, known = context.given, context.declared.arguments if context.declared else ()
    judged = {name: context.worst_of(name) for name in given if name in known}
    doubts = (context.doubt_of(name, *part) for name, part in judged.items())
    worst = {
        name: show(part)
        for name, (origin, part) in judged.items()
        if isinstance(given[name], list | dict)
        and not (origin.is_of_people or money_of(given[name]))
    }
    origins = {name: origin.value for name, (origin, _) in judged.items()}
    nobodys = {name: part for name, (origin, part) in judged.items() if origin is Origin.NOBODY}
    # Nobody vouches for an agent's own words, whatever they repeat.
    terms = context.declared.terms if context.declared else ()
    read = {
        name: tool
        for name, part in nobodys.items()
        if name in terms and (tool := context.read_in(part))
    }
    more = {"worst": worst, "doubts": [one for one in doubts if one], "read_in": read}
    return {"origins": origins, **{name: kept for name, kept in more.items() if kept}}


# Calls in sentences.


def case_of(run: Run, at: datetime) -> Case:
    """Return the console's own knowledge of a run for desk code; the day is in UTC."""
    launcher, label = str(run.launched_by_id), RunBorder(run).resolve(run.subject_label)
    return Case(run.subject_key, label, at.astimezone(UTC).date(), launcher)


def _sentence(desk: Desk, name: str, which: str, args: Json, case: Case, run: Run) -> str:
    """Return a sentence on a call, with the present names of its keys."""
    tool, border = desk.tools[name], RunBorder(run)
    given = border.resolve(args)
    called = names_of(desk, tool, given, run.book_id)
    return str(border.name(tool.sentence(getattr(tool, which), given, case.label, called)))


def _deed(desk: Desk, effect: Effect, case: Case, run: Run) -> str:
    """Return what a call did, or may have done, in a sentence."""
    sentence = _sentence(desk, effect.tool, "after", effect.args, case, run)
    is_sure = effect.state == EffectState.DONE
    return sentence if is_sure else f"It is not known whether this happened: {sentence}"


def _untold(context: ReviewContext) -> list[str]:
    """Return what no letter states of the calls that letters are about, in sentences."""
    desk, sentences = context.desk, list[str]()
    for letter in (tool for tool in desk.tools.values() if tool.tells):
        told = [call.amount for call in context.made(letter.name)]
        for call in context.made(letter.told_tool):
            if call.amount in told:
                told.remove(call.amount)
            elif call.is_settled:
                of = f" of {call.amount}" if call.amount else ""
                sentences.append(f"The {desk.subject.kind} has not been told{of}.")
    return list(dict.fromkeys(sentences))


def _refused(desk: Desk, steps: Iterable[Step], case: Case, run: Run) -> tuple[str, ...]:
    """Return the calls that people sent back, in sentences: none of them was made."""
    refusals = []
    for step in sorted((step for step in steps if step.kind == "escalate"), key=_position):
        action, reply = step.asked["action"], step.reply or {}
        if reply.get("decision") == EscalationState.SENT_BACK and action["kind"] == "tool":
            proposed = _sentence(desk, str(action["name"]), "before", action["args"], case, run)
            refusals.append(f"Sent back by {reply['by']}, not done: {proposed.removesuffix('.')}.")
    return tuple(refusals)


def _answered(desk: Desk, steps: Sequence[Step], border: Border) -> tuple[str, ...]:
    """Return what the specialists of a run found, in sentences."""
    own = [step for step in steps if step.kind == "use" and step.asked["tool"] in desk.specialists]
    on_record = _sentences_on_record(own, desk.all_tools, border)
    sentences = tuple(border.name(on_record).values()) if on_record else ()
    return sentences or ((_LOOKED_INTO,) if _specialist_results(own) else ())


# The steps of the run, and of the earlier runs in an external agent's session.


def calls_before(run: Run, action: Action) -> list[Step]:
    """Return the calls of the session's earlier runs, which a review counts as the run's own.

    None for a read. Call outside a pipeline.
    """
    tool = tools_at(run.desk).get(str(action.get("name")))
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


def _specialist_results(steps: Iterable[Step]) -> tuple[Json, ...]:
    """Return the findings of the run's specialists, oldest first."""
    replies = [step.reply for step in steps if step.kind == "use" and not step.failed]
    return tuple(
        reply["result"]
        for reply in replies
        if isinstance(reply, dict) and reply.get("status") == "done" and "result" in reply
    )


_position = attrgetter("position")


def sent_back_by(desk: str, steps: Iterable[Step], action: Action) -> str:
    """Return who sent back a proposal that keeps `action` from running unseen; "" for none.

    It is "" for a read. The last proposal that was sent back counts until a call is approved; of
    the action's own tool, any does.
    """
    if action.get("kind") != "tool":
        return ""
    tool = tools_at(desk).get(action["name"])
    if tool is not None and not tool.writes:
        return ""
    escalated = sorted((step for step in steps if step.kind == "escalate"), key=_position)
    calls = [(step.asked["action"], step.reply) for step in escalated if step.reply]
    calls = [(call, reply) for call, reply in calls if call["kind"] == "tool"]
    of_tool = [(call, reply) for call, reply in calls if call["name"] == action["name"]]
    replies = [reply for _, reply in (*of_tool, *calls[-1:])]
    sent_back = [reply for reply in replies if reply.get("decision") == EscalationState.SENT_BACK]
    return str(sent_back[-1]["by"]) if sent_back else ""


def _sentences_on_record(
    steps: Iterable[Step],
    registered: Mapping[str, DeskTool],
    border: Border,
    *,
    now: Mapping[str, Json] = MappingProxyType({}),
) -> dict[str, str]:
    """Return sentences on the run's look-ups, by name; the newest counts.

    They have values: name them before storing. `now` has what tools would find at this moment,
    which replaces their findings.
    """
    sentences: dict[str, str] = {}
    for step in steps:
        tool = registered.get(step.asked["tool"]) if step.kind == "use" else None
        if tool and tool.may_say and step.reply and not step.failed:
            with suppress(KeyError, TypeError, ValueError, AttributeError):  # it found nothing
                sentences |= tool.may_say(border.resolve(now.get(tool.name, step.reply)))
    return sentences
