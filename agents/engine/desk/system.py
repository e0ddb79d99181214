"""The business behind a declared desk: its facts, its subjects and what a call is about.

One class, as it implements the protocol of `agents/systems.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connections

from agents.core.actions import Action
from agents.core.call_target import CallTarget
from agents.core.facts import DeskFacts, Facts, ReadOnce
from agents.core.letter_phrases import free_passages
from agents.core.limits import Limits
from agents.core.request_kinds import EFFECT_UNKNOWN
from agents.core.requests import Json
from agents.core.states import EffectState, EscalationState
from agents.db.driver import Pending, send
from agents.engine.desk import books
from agents.engine.desk.fresh_lookup import LookedUp
from agents.engine.desk.functions import DeskFailed, of_company
from agents.engine.desk.ledger import EFFECTS, DeskLedger
from agents.engine.desk.rules import LONGEST, limits_of, words_of
from agents.engine.desk.step_facts import (
    sent_back_sentences,
    sentences_on_record,
    specialist_results,
)
from agents.engine.redaction import RunBorder
from agents.models import Book, Effect, Escalation, Run, Step, Workspace
from agents.sdk import serialization
from agents.sdk.adjustments import label_of
from agents.sdk.argument_words import money_of
from agents.sdk.arguments import BadArguments
from agents.sdk.beside import Beside, HeldRequest, Section
from agents.sdk.desk import DESKS, Desk, tool_title
from agents.sdk.desk_tools import DeskTool
from agents.sdk.evidence import Fact, Quote, write_evidence
from agents.sdk.fact_sources import Origin
from agents.sdk.report import Report
from agents.sdk.rule_case import Case
from agents.sdk.values import show
from agents.systems import Example, KnownSubject, Shelf, UnknownSubject
from agents.tools import TOOLS, Touch

LOOKED_INTO = "The case was looked into; nothing was done."
# Of a shelf of scenarios: what stands before the names of these.
_PURPOSES = {
    "supervisor": ("Its agents can", "tools"),
    "routing": ("A question goes to one specialist after another", "specialists"),
    "orchestrator": ("A report from several sources", "sources"),
    "workflow": ("Step by step, each checked by a judge", "workflows"),
}


@dataclass(frozen=True)
class DeclaredSystem:
    """The business behind a declared desk, derived from its declarations."""

    desk: Desk

    @property
    def patterns(self) -> Collection[str]:
        return ("supervisor", *self.desk.patterns)

    @property
    def report(self) -> Report | None:
        return self.desk.report

    @property
    def workflows(self) -> Mapping[str, Json]:
        return self.desk.workflows

    @property
    def profiles(self) -> Mapping[str, Limits]:
        return self.desk.profiles

    @property
    def title(self) -> str:
        return self.desk.title

    @property
    def kind(self) -> str:
        return self.desk.subject.kind

    def shelves(self) -> list[Shelf]:
        return [shelf for pattern in self.patterns if (shelf := self._shelf(pattern)).examples]

    def _shelf(self, pattern: str) -> Shelf:
        desk = self.desk
        examples = [
            Example(f"{desk.name}/{number}", one.title, one.expect, one.ends, one.goal)._replace(
                subject=one.subject, pattern=pattern, workflow=one.workflow
            )
            for number, one in enumerate(desk.scenarios)
            if one.pattern == pattern
        ]
        who, table = _PURPOSES[pattern]
        titles = {name: one.get("title") for name, one in desk.workflows.items()}
        named = [titles.get(name) or tool_title(name) for name in getattr(desk, table)]
        may = f"{who}: {', '.join(named)}."
        if not desk.fill_demo:
            may += " Its tools act on your own systems, in a demo too."
        key, title = f"desk-{desk.name}", self.title
        if pattern != "supervisor":
            key, title = f"{key}-{pattern}", f"{title}: {pattern}"
        return Shelf(key, title, may, examples)

    def find_all(self, text: str, *, book_id: int, most: int) -> list[KnownSubject]:
        with self._looking_up():
            found = self.desk.subject.find_all(text, book_id)
        if not found and self.desk.fill_demo:
            # A demo run gets its own books, where only the launch can look it up.
            return [KnownSubject(text, text)]
        return [KnownSubject(*each) for each in found[:most]]

    @contextmanager
    def _looking_up(self) -> Iterator[None]:
        """Raise UnknownSubject if the company's own look-up fails."""
        try:
            with of_company(f"{self.title}: the look-up of the {self.kind} failed"):
                yield
        except DeskFailed as error:
            raise UnknownSubject(f"{error}. The server's log has the details.") from error

    def first_subjects(self, *, book_id: int, most: int) -> list[KnownSubject]:
        return []

    def names(self, keys: Collection[tuple[int, str]]) -> Mapping[tuple[int, str], str]:
        return {}  # kept from the launch: reading them may take another machine

    def background(self, held: Escalation, *, at: datetime, effect: str) -> Beside:
        if self.desk.show_beside is None:
            return Beside()  # its evidence is kept with the review
        request = HeldRequest(
            held.subject_key,
            held.run.subject_label,
            held.run.book_id,
            at,
            effect,
            is_lost=held.kind == EFFECT_UNKNOWN.stored,
            is_open=held.state == EscalationState.OPEN,
            attempts=held.step.attempts,
            is_demo=held.run.book.is_isolated,
        )
        try:
            with of_company(f"{self.title} could not be looked up"):
                found = self.desk.show_beside(request)
                parts = [replace(s, items=write_evidence(s.items)) for s in found.sections]
        except DeskFailed as error:
            return Beside(sections=[Section(self.title, (), f"{error}.")])
        return replace(found, sections=parts)

    def bound_arguments(self, run: Run) -> Mapping[str, Json]:
        """Return the subject's, by each argument that is the subject in every tool that has it."""
        tools = self.desk.tools.values()
        other = {name for tool in tools for name in tool.arguments.hints if name != tool.subject}
        keys = {tool.subject for tool in tools} - other
        key: Json = run.subject_key
        if key and self.desk.numbers:
            key = int(key)
        return dict.fromkeys(keys, key) if key else {}

    def new_book(self, name: str, *, is_demo: bool, at: datetime) -> int:
        of_demo = {"is_demo": is_demo, "is_isolated": is_demo}
        return Book.objects.create(name=name, created_at=at, **of_demo).pk

    def open_book(self, workspace: Workspace, at: datetime) -> int:
        if not workspace.is_demo or self.desk.fill_demo is None:
            return int(workspace.book_id)
        book_id = self.new_book("Demo", is_demo=True, at=at)
        self.desk.fill_demo(book_id, at)
        return book_id

    def find_subject(self, given: int | str | None, *, book_id: int) -> KnownSubject:
        known = self.desk.subject
        if given is None:  # of a report
            return KnownSubject("", "")
        key = str(given)
        with self._looking_up():
            label = known.label_of(key, book_id)
        if not label or max(len(label), len(key)) > LONGEST:
            raise UnknownSubject(f"The desk {self.desk.name!r} knows no {known.kind} {key!r}.")
        return KnownSubject(key, label)

    def target_of(self, run: Run, action: Action) -> CallTarget:
        tool, given = self.desk.tools.get(str(action.get("name"))), action.get("args") or {}
        if tool is None:
            return CallTarget(run.subject_key)
        real = RunBorder(run).resolve(given)
        money = tool.amount_of(tool.read(real)) if tool.amount else None
        about = str(real[tool.subject]), tool.resource_of(given)
        return CallTarget(*about, *((money.minor, money.currency) if money else ()))

    def fetch_facts(
        self,
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
        tool = self.desk.tools.get(str(action.get("name")))
        resource = tool.resource_of(action.get("args") or {}) if tool else ""
        if lock:
            lock_resource(run, resource)
        acted = EFFECTS.fetch(run=run.pk)

        def answer() -> tuple[Facts, str]:
            known = (run, action, limits, acted.get(), steps)
            return gather_facts(*known, at=at, done=done, ahead=ahead), resource

        return Pending(answer)

    def label_of(self, key: str, name: str) -> str:
        return name or f"{self.desk.subject.kind} {key}"

    def names_of(self, key: str, *, books: Collection[int]) -> frozenset[str]:
        about = self.desk.subject
        labels = {about.label_of(key, book) for book in books}
        called = about.called or (lambda key, book: ())
        words = {word for book in books for word in called(key, book)}
        return frozenset({key, *labels, *words} - {""})

    def forget(self, key: str, *, books: Collection[int]) -> int | None:
        forget = self.desk.subject.forget
        return sum(bool(forget(key, book)) for book in books) if forget else None

    def traces_of(self, effects: Sequence[Effect], erased: Collection[UUID]) -> Mapping[str, Json]:
        return books.traces(self.desk, effects, erased)

    def without_intent(self) -> Iterator[str]:
        return books.without_intent(self.desk)


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
