"""Copy a run with all that belongs to it: new keys, another subject, another time.

Tables are copied by their models, parents before children, so that new columns are included. Hashes
are recomputed: the copy's chain is valid and its effects match their arguments.
Long, as each table with copies of other data has its own function.
"""

from __future__ import annotations

import itertools
import json
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from typing import Any, TypeAlias
from uuid import UUID, uuid4

from django.apps import apps
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import ForeignKey, Model

from agents.core.json_forms import sha256
from agents.core.requests import Json, question
from agents.models import (
    Book,
    Effect,
    Escalation,
    Event,
    EventText,
    PolicyVersion,
    Run,
    Step,
    Workspace,
)
from agents.models.record import Entry, chain_events, facts_of
from agents.sdk.desk import DESKS

# Parents first, after the tables of the desks' books. The chain's own functions make events.
_OF_RUN: tuple[type[Model], ...] = (Run, Step, Escalation, Effect)
UNIQUE = ("reference", "launch_token")  # columns with unique values
_BUSY = ("ask", "use")  # kinds of steps that take the run's own time, unlike waits for a person
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")

Clock: TypeAlias = Callable[[datetime], datetime]
Rows: TypeAlias = dict[tuple[type[Model], Any], Any]  # of this database, by keys of the original's


@dataclass(frozen=True)
class Original:
    """A driven run with everything that belongs to it."""

    run: Run
    name: str  # of its subject
    rows: dict[type[Model], list[Any]]
    events: list[Event]
    people: dict[int, str]  # names by the keys that the rows have

    @cached_property
    def hashed_bodies(self) -> Sequence[Mapping[str, Json]]:
        """Return the value behind each hash in a row or the record, innermost first."""
        return dict(_hashed_texts(self)), dict(_hash_sources(self))


def read_original(run_id: UUID) -> Original:
    """Read a run with its own book, as every demo run has."""
    run = Run.objects.get(pk=run_id)
    owned: dict[type[Model], dict[str, Any]] = {
        Book: {"pk": run.book_id},
        **{model: {path: run.book_id} for model, path in _book_tables().items()},
        Run: {"pk": run_id},
        **{model: {"run": run} for model in _OF_RUN[1:]},
    }
    rows: dict[type[Model], list[Any]] = {
        model: list(model._default_manager.filter(**owned[model]).order_by("pk"))
        for model in copied_tables()
    }
    _part_steps(rows[Step])
    subject = DESKS[run.desk].subject.find_one(run.subject_key, run.book_id)
    name = str(getattr(subject, "name", run.subject_key))
    events = Event.objects.filter(run=run_id).order_by("seq").prefetch_related("texts")
    people = dict(User.objects.values_list("pk", "username"))
    return Original(run, name, rows, list(events), people)


@cache
def copied_tables() -> tuple[type[Model], ...]:
    """Return the tables of which a run owns rows, parents first."""
    return (Book, *_book_tables(), *_OF_RUN)


@cache
def _book_tables() -> dict[type[Model], str]:
    """Return the tables of the desks' books, parents first, and how each leads to its book."""
    left = [model for model in apps.get_models() if model._meta.app_label != Run._meta.app_label]
    paths: dict[type[Model], str] = {}
    while ready := [model for model in left if _path(model, paths, left)]:
        paths.update({model: _path(model, paths, left) for model in ready})
        left = [model for model in left if model not in ready]
    return paths


def _path(
    model: type[Model], paths: Mapping[type[Model], str], left: Collection[type[Model]]
) -> str:
    """Return how a table leads to its book, once its parents are known; until then ""."""
    parents = {
        field.name: field.related_model
        for field in model._meta.concrete_fields
        if isinstance(field, ForeignKey) and field.related_model is not model
    }
    if any(parent in left for parent in parents.values()):
        return ""
    own = (name for name, parent in parents.items() if parent is Book)
    others = (f"{n}__{paths[parent]}" for n, parent in parents.items() if parent in paths)
    return next(own, "") or next(others, "")


def _part_steps(steps: Sequence[Step]) -> None:
    """Let each step that was recorded together with the next end where that one begins.

    Recorded lines in between have their own time and are ignored.
    """
    for step, following in itertools.pairwise(s for s in steps if s.kind != "say"):
        if step.ended_at and step.ended_at == following.ended_at:
            step.ended_at = following.begun_at


class Copy:
    """One copy of a run. Its tables are made parents first: see write_copies."""

    def __init__(
        self, original: Original, kept: Rows, *, clock: Clock, name: str, number: int
    ) -> None:
        self.original, self.clock = original, clock
        self.made = dict(kept)
        self.desk, self.keys = DESKS[original.run.desk], (original.run.subject_key, str(number))
        kind = self.desk.subject.kind
        arguments = {tool.subject for tool in self.desk.tools.values()}
        self.named = {*arguments, kind, "subject", "number", "id"}  # what holds its key in JSON
        self.words = {
            str(original.run.pk): str(uuid4()),
            **(self._names(original, name, {kind, kind.capitalize()}, arguments)),
            **_new_references(original),
        }
        self.pattern = _pattern(self.words)
        for hashed in original.hashed_bodies:  # they depend on values that are renamed by now
            self.words.update({old: sha256(self.rename(body)) for old, body in hashed.items()})
            self.pattern = _pattern(self.words)

    def _names(
        self, original: Original, name: str, kinds: Iterable[str], arguments: Iterable[str]
    ) -> dict[str, str]:
        (key, new), label = self.keys, original.run.subject_label
        if not key:
            return {}
        before = [f"{kind}{mark}" for kind in kinds for mark in (" ", ", ")]  # in a list of words
        before += [f"{arg}{mark}" for arg in arguments for mark in ("=", '": ')]
        return {
            label: label.replace(original.name, name).replace(key, new),
            original.name: name,
            f"{original.name.lower()}@": f"{name.lower()}@",
            **{f"{word}{key}": f"{word}{new}" for word in before},
        }

    def rename(self, value: Json, key: str = "") -> Json:
        """Return the copy's value for a column or in JSON; `key` is its name."""
        match value:
            case str() if _MOMENT.fullmatch(value):
                return self.clock(datetime.fromisoformat(value)).isoformat()
            case str() if key == "subject_key" and value == self.keys[0]:
                return self.keys[1]
            case str() if key == "subject_label":
                return self.words.get(value, value)
            case str():
                return self.pattern.sub(lambda match: self.words[match[0]], value)
            case dict():
                return {k: self.rename(one, k) for k, one in value.items()}
            case list():
                return [self.rename(one, key) for one in value]
            case int() if key in self.named and str(value) == self.keys[0]:
                return int(self.keys[1])
        return value

    def rows(self, model: type[Model]) -> list[Any]:
        """Return the new rows of a table whose parents exist."""
        new = {(model, row.pk): self._row(model, row) for row in self.original.rows[model]}
        self.made.update(new)
        return list(new.values())

    def _row(self, model: type[Model], row: Model) -> Model:
        columns = {}
        for column in model._meta.concrete_fields:
            value = getattr(row, column.attname)
            if isinstance(column, ForeignKey):
                parent = self.made.get((column.related_model, value))
                columns[column.attname] = parent.pk if parent else value
            elif column.name == "resource" and value:  # the desk's number
                columns[column.name] = self._resource(value)
            elif isinstance(value, datetime):
                columns[column.attname] = self.clock(value)
            elif isinstance(value, UUID):
                columns[column.attname] = UUID(self.words[str(value)])
            elif not column.primary_key:
                columns[column.attname] = self.rename(value, column.name)
        if isinstance(row, Step) and row.kind in _BUSY and columns["ended_at"]:
            columns["seconds"] = (columns["ended_at"] - columns["begun_at"]).total_seconds()
        return model(**columns)

    def chain(self) -> tuple[list[Event], list[EventText]]:
        """Return the copy's events and texts, and set the end of the chain on its run."""
        run: Run = self.made[(Run, self.original.run.pk)]
        events, texts, end = [], [], (0, "")
        for old in self.original.events:
            lines = chain_events(
                [Entry(old.kind, self._facts(old), old.actor)],
                workspace_id=run.workspace_id,
                run_id=run.pk,
                after=end,
                at=self.clock(old.at),
            )
            end, event = lines.end, Event(**lines.events[0])
            events.append(event)
            texts += [EventText(**{**text, "event_id": None}, event=event) for text in lines.texts]
        run.event_count, run.head_hash = end
        return events, texts

    def _facts(self, event: Event) -> Json:
        facts = self.rename(facts_of(event))
        for name, model in (("escalation", Escalation), ("book", Book)):
            if facts.get(name):
                facts[name] = self.made[(model, int(facts[name]))].pk
        if facts.get("resource"):
            facts["resource"] = self._resource(facts["resource"])
        return facts

    def _resource(self, key: str) -> str:
        """Return the copy's key of a call's resource, if that is a row."""
        table = self.desk.past and self.desk.past.resource
        return str(self.made[(table, int(key))].pk) if table else key


def kept_rows(original: Original, workspace: Workspace) -> Rows:
    """Return the rows that replace the originals' workspace, policy and people in copies."""
    here = {user.username: user for user in User.objects.all()}
    people: Rows = {(User, pk): here[name] for pk, name in original.people.items() if name in here}
    run = original.run
    return {
        **people,
        (Workspace, run.workspace_id): workspace,
        # The first, as in the recording: others may have been published since.
        (PolicyVersion, run.policy_id): workspace.policies.get(number=1),
    }


def write_copies(copies: Sequence[Copy]) -> None:
    """Insert copies, table by table, in one transaction; their chains are not sealed yet."""
    with transaction.atomic():
        for model in copied_tables():
            rows = [row for copy in copies for row in copy.rows(model)]
            if model is not Run:  # whose chain has to end first; its key is known
                model._default_manager.bulk_create(rows, batch_size=500)
        chains = [copy.chain() for copy in copies]
        # In the order of their times, as the audit log reads by key.
        events = sorted((e for chain, _ in chains for e in chain), key=lambda event: event.at)
        Event.objects.bulk_create(events, batch_size=500)
        EventText.objects.bulk_create((t for _, texts in chains for t in texts), batch_size=500)
        Run.objects.bulk_create(
            (copy.made[(Run, copy.original.run.pk)] for copy in copies), batch_size=500
        )


def _new_references(original: Original) -> dict[str, str]:
    """Return a new value for each unique one."""
    rows = [row for model in original.rows for row in original.rows[model]]
    references = [getattr(row, name, None) for row in rows for name in UNIQUE]
    return {old: f"{old.partition('_')[0]}_{secrets.token_hex(8)}" for old in references if old}


def _hashed_texts(original: Original) -> Iterator[tuple[str, Json]]:
    """Return each hash of an accepted output, with the agent's text."""
    steps = original.rows[Step]
    accepted = {step.asked["facts"].get("sha256") for step in steps if step.kind == "say"}
    for text in {text for step in steps for text in _texts(step.reply)}:
        if sha256(text) in accepted:
            yield sha256(text), text


def _texts(value: Json) -> Iterator[str]:
    """Return the texts of a reply, including those in a model's JSON."""
    match value:
        case str():
            yield value
            with suppress(ValueError):
                within = json.loads(value)
                yield from _texts(within) if isinstance(within, dict | list) else ()
        case dict():
            yield from (text for one in value.values() for text in _texts(one))
        case list():
            yield from (text for one in value for text in _texts(one))


def _hash_sources(original: Original) -> Iterator[tuple[str, Json]]:
    """Yield each hash of JSON in a row or the record, with its value."""
    yield sha256(original.run.goal), original.run.goal
    yield sha256(original.run.workflow), original.run.workflow
    yield sha256(original.run.outcome), original.run.outcome
    for step in original.rows[Step]:
        yield step.fingerprint, question(step.asked)
        if step.kind == "review":
            yield sha256(step.asked["action"]), step.asked["action"]
    for escalation in original.rows[Escalation]:
        yield escalation.action_sha256, escalation.action
    for effect in original.rows[Effect]:
        action = {"kind": "tool", "name": effect.tool, "args": effect.args}
        yield sha256(action), action


def _pattern(words: Iterable[str]) -> re.Pattern[str]:
    return re.compile(
        "|".join(rf"\b{re.escape(word)}" + r"\b" * word[-1].isalnum() for word in words)
    )
