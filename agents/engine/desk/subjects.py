"""The subjects of a desk's runs, and the books that these act on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from agents.core.request_kinds import EFFECT_UNKNOWN
from agents.core.requests import Json
from agents.core.states import EscalationState
from agents.engine.desk.functions import DeskFailed, of_company
from agents.engine.desk.rules import LONGEST
from agents.models import Book, Escalation, Run, Workspace
from agents.sdk.beside import Beside, HeldRequest, Section
from agents.sdk.desk import DESKS, Desk
from agents.sdk.evidence import write_evidence


class UnknownSubject(LookupError):
    """The desk has no subject with that key. The message says so."""


def find_all(desk: Desk, text: str, *, book_id: int, most: int) -> list[tuple[str, str]]:
    """Return key and label of those that people mean by a key or a name. Raises UnknownSubject."""
    about = desk.subject
    with _looking_up(desk):
        found = about.find_all(about.key_in(text), book_id)
    if not found and desk.fill_demo and about.first is None:
        # A demo run gets its own books, where only the launch can look it up.
        return [(text, text)]
    return found[:most]


def find_subject(desk: Desk, given: int | str | None, *, book_id: int) -> tuple[str, str]:
    """Return key and label of a subject for a launch; of a report, none. Raises UnknownSubject."""
    if given is None:
        return "", ""
    known, key = desk.subject, str(given)
    with _looking_up(desk):
        label = known.label_of(key, book_id)
    if not label or max(len(label), len(key)) > LONGEST:
        raise UnknownSubject(f"The desk {desk.name!r} knows no {known.kind} {key!r}.")
    return key, label


@contextmanager
def _looking_up(desk: Desk) -> Iterator[None]:
    """Raise UnknownSubject if the company's own look-up fails."""
    try:
        with of_company(f"{desk.title}: the look-up of the {desk.subject.kind} failed"):
            yield
    except DeskFailed as error:
        raise UnknownSubject(f"{error}. The server's log has the details.") from error


def beside(held: Escalation, *, at: datetime, effect: str) -> Beside:
    """Return what the desk's books say beside a request; `effect` is the key of what came of it."""
    desk = DESKS.get(held.run.desk)
    if desk is None or desk.show_beside is None:
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
        resource=held.resource,
        facts=held.review.get("facts") or {},
        asked_at=held.created_at,
    )
    try:
        with of_company(f"{desk.title} could not be looked up"):
            found = desk.show_beside(request)
            parts = [replace(s, items=write_evidence(s.items)) for s in found.sections]
    except DeskFailed as error:
        return Beside(sections=[Section(desk.title, (), f"{error}.")])
    return replace(found, sections=parts)


def bound_arguments(run: Run) -> Mapping[str, Json]:
    """Return the subject's, by each argument that is the subject in every tool that has it."""
    desk, key = DESKS[run.desk], run.subject_key
    tools = desk.tools.values()
    other = {name for tool in tools for name in tool.arguments.hints if name != tool.subject}
    value: Json = int(key) if key and desk.numbers else key
    return dict.fromkeys({tool.subject for tool in tools} - other, value) if key else {}


def new_book(name: str, *, is_demo: bool, at: datetime) -> int:
    """Make a book and return its key."""
    of_demo = {"is_demo": is_demo, "is_isolated": is_demo}
    return Book.objects.create(name=name, created_at=at, **of_demo).pk


def open_book(desk: Desk, workspace: Workspace, at: datetime) -> int:
    """Return the key of the book that a new run acts on: its own copy in a demo."""
    if not workspace.is_demo or desk.fill_demo is None:
        return int(workspace.book_id)
    book_id = new_book("Demo", is_demo=True, at=at)
    desk.fill_demo(book_id, at)
    return book_id


def names_of(desk: Desk, key: str, *, books: Collection[int]) -> frozenset[str]:
    """Return what a subject is called where people write of it."""
    about = desk.subject
    labels = {about.label_of(key, book) for book in books}
    called = about.called or (lambda key, book: ())
    words = {word for book in books for word in called(key, book)}
    return frozenset({key, *labels, *words} - {""})


def forget(desk: Desk, key: str, *, books: Collection[int]) -> int | None:
    """Empty every text about a subject in these books. Return in how many it was known.

    None: the desk does not say how, and its books are as they were.
    """
    empty = desk.subject.forget
    return sum(bool(empty(key, book)) for book in books) if empty else None
