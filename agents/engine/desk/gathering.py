"""Gather the facts of a desk for a review, in the transaction of that review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections

from agents.core.actions import Action
from agents.core.facts import DeskFacts, Facts, ReadOnce
from agents.core.letter_phrases import free_passages
from agents.core.limits import Limits
from agents.core.requests import Json
from agents.core.states import EffectState
from agents.db.driver import Pending, send
from agents.engine.desk.fresh_lookup import LookedUp
from agents.engine.desk.functions import DeskFailed, of_company
from agents.engine.desk.ledger import EFFECTS, DeskLedger
from agents.engine.desk.rules import limits_of, words_of
from agents.engine.desk.step_facts import (
    sent_back_sentences,
    sentences_on_record,
    specialist_results,
)
from agents.engine.redaction import RunBorder
from agents.models import Effect, Run, Step
from agents.sdk import serialization
from agents.sdk.adjustments import label_of
from agents.sdk.argument_words import money_of
from agents.sdk.arguments import BadArguments
from agents.sdk.desk import DESKS, Desk
from agents.sdk.desk_tools import DeskTool
from agents.sdk.evidence import Fact, Quote, write_evidence
from agents.sdk.fact_sources import Origin
from agents.sdk.rule_case import Case
from agents.sdk.values import show
from agents.tools import TOOLS, Touch

LOOKED_INTO = "The case was looked into; nothing was done."


def fetch_declared(
    run: Run,
    action: Action,
    limits: Limits,
    steps: Sequence[Step],
    *,
    at: datetime,
    lock: bool,
    done: Mapping[int, Json],
    ahead: LookedUp | None,
) -> Pending[tuple[Facts, str]]:
    """Fetch the facts of a review, and the key of the resource that a call uses, or "".

    `lock` holds the resource until the transaction ends. `done` are results that the ledger is
    about to be told, by the key of their step; `ahead` is what was looked up before, or None.
    """
    tool = DESKS[run.desk].tools.get(str(action.get("name")))
    resource = tool.resource_of(action.get("args") or {}) if tool else ""
    if lock:
        lock_resource(run, resource)
    acted = EFFECTS.fetch(run=run.pk)

    def answer() -> tuple[Facts, str]:
        known = (run, action, limits, acted.get(), steps)
        return gather_facts(*known, at=at, done=done, ahead=ahead), resource

    return Pending(answer)


def lock_resource(run: Run, resource: str) -> None:
    """Send for a lock on a call's resource until the transaction ends; it need not have a row.

    Call with the run's and the workspace's rows locked. SQLite has one writer.
    """
    database = connections[DEFAULT_DB_ALIAS]
    if resource and database.vendor == "postgresql":
        key = f"{run.desk}:{run.book_id}:{resource}"
        send(database, "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [key])


def case_of(run: Run, at: datetime) -> Case:
    """Return what the console itself knows of a run, for desk code; the day is in UTC."""
    launcher, label = str(run.launched_by_id), RunBorder(run).resolve(run.subject_label)
    return Case(run.subject_key, label, at.astimezone(UTC).date(), launcher)


def names_of(desk: Desk, tool: DeskTool, given: Json, book: int) -> dict[str, dict[str, str]]:
    """Return the names of the keys in a call's arguments; empty if the look-up fails."""
    with suppress(DeskFailed), of_company(f"{desk.title} could not look up names"):
        return tool.names_of(given, book)
    return {}


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


def gather_facts(
    run: Run,
    action: Action,
    limits: Limits,
    effects: Sequence[Effect],
    steps: Sequence[Step],
    *,
    at: datetime,
    done: Mapping[int, Json],
    ahead: LookedUp | None = None,
) -> Facts:
    """Ask a run's desk for its facts, in the transaction of the review.

    `done` holds results not yet in the ledger, by step; `ahead` is the answer looked up before the
    transaction. Raises StaleLookup.
    """
    desk, case, name = DESKS[run.desk], case_of(run, at), str(action.get("name", ""))
    tool, given, border = desk.tools.get(name), action.get("args", {}), RunBorder(run)
    real = border.resolve(given)
    try:
        args: Any = tool.read(real) if tool else None
    except BadArguments as error:
        return Facts(unfit=_unfit(error, border), desk=DeskFacts(None, case, (), {}))
    if action.get("kind") == "final" and any(r.concerns(None) for r in desk.rules.values()):
        args = words_of(action, border)
        given = {"words": action.get("note", action["answer"])}
    failed, once = "", ReadOnce()
    once.get(given, lambda: args)
    called = names_of(desk, tool, real, run.book_id) if tool else {}
    ledger = DeskLedger(desk, run, at, name, given, args, steps, ahead, called, border)
    money = tool.amount_of(args) if tool else None
    own = written = None
    try:
        with of_company(f"{desk.title} could not gather its facts"):
            if desk.gather and run.subject_key:  # a report is about no subject
                own = desk.gather(run.subject_key, ledger)
            written = serialization.write(own) if own is not None else None
    except DeskFailed as error:
        failed = str(error)
    is_write = tool is not None and tool.touch is not Touch.READ
    told = tuple(
        done_sentence(desk, effect, case, run)
        for effect in effects
        if effect.tool in desk.tools
        and (effect.state == EffectState.DONE or effect.step_id in done)
    )
    try:
        with of_company("It could not be gathered"):
            known = {"args": args, "facts": own, "limits": limits_of(desk, limits), "case": case}
            shown = desk.evidence_of(**known) if is_write and not failed else []
    except DeskFailed as error:
        shown = write_evidence([Fact("Evidence", str(error))])
    quotes = [Quote("What the agent read, written by an outsider", t) for t in ledger.outside()]
    shown = [*shown, *write_evidence(quotes[-1:])]
    called_before = is_write and ledger.called_before()
    record = sentences_on_record(steps, TOOLS, border=border)
    letter = tool.letter if tool else ""
    found = Facts(called_before=called_before, scope=run.scope, once=once, letter=letter)
    if letter:
        found = replace(found, ledger=told, record=record)
        words = free_passages(str(given.get(letter)), found.own_texts)
        found = replace(found, own_words=tuple(words))
    kept = {
        "desk": run.desk,
        "own": written,
        **({"failed": failed} if failed else {}),
        "case": {**serialization.write(case), "label": run.subject_label},
        "done": list(told),
        **(
            {"lookup": {"at": ahead.at.isoformat(), "value": serialization.write(ahead.value)}}
            if ahead
            else {}
        ),
        **({"unattended": ledger.unattended_today(money.currency)} if money else {}),
        **({"names": called} if called else {}),
        **({"called_before": True} if called_before else {}),
        **({"evidence": shown} if shown and is_write else {}),
        **(_origins(ledger, given) if is_write else {}),
        **({"scope": run.scope} if run.scope else {}),
        **({"letter": letter, "own_words": list(found.own_words)} if letter else {}),
    }
    named = {**border.name(kept), "case": kept["case"]}
    answered = _answered(desk, steps, border)
    refused = _refused(desk, steps, case, run) if action.get("kind") == "final" else ()
    known_to_desk = DeskFacts(own, case, told, named, record, answered, refused)
    return replace(found, desk=known_to_desk)


def _answered(desk: Desk, steps: Sequence[Step], border: RunBorder) -> tuple[str, ...]:
    """Return what the specialists of a run found, in sentences."""
    own = [step for step in steps if step.kind == "use" and step.asked["tool"] in desk.specialists]
    said = sentences_on_record(own, TOOLS, border=border).values()
    return tuple(said) or ((LOOKED_INTO,) if specialist_results(own) else ())


def _origins(ledger: DeskLedger, given: Json) -> dict[str, Json]:
    """Return who named each argument, and what a person has to compare.

    Of one with several parts, the part that is named worst.
    """
    judged = {name: ledger.worst_of(name) for name in given}
    worst = {
        name: show(part)
        for name, (origin, part) in judged.items()
        if isinstance(given[name], list | dict)
        and not (origin.is_of_people or money_of(given[name]))
    }
    origins = {name: origin.value for name, (origin, _) in judged.items()}
    told = (ledger.doubt_of(name, *found) for name, found in judged.items())
    doubts = [one for one in told if one]
    nobodys = {name: part for name, (origin, part) in judged.items() if origin is Origin.NOBODY}
    read = {name: tool for name, part in nobodys.items() if (tool := ledger.read_in(part))}
    more = {"worst": worst, "doubts": doubts, "read_in": read}
    return {"origins": origins, **{name: kept for name, kept in more.items() if kept}}


def _unfit(error: BadArguments, border: RunBorder) -> str:
    """Return why a call's values do not fit its tool, in a sentence."""
    place, _, why = str(error).partition(": ")
    return str(border.name(f"{label_of(place.partition('.')[0])} does not fit its tool: {why}."))
