"""The subject of a desk's runs with its names and books, or a report's scope."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from agents.core.decisions import EFFECT_UNKNOWN
from agents.core.json_forms import Action, is_storable, is_text
from agents.core.limits import Limits
from agents.core.requests import EscalationState, Json, Stop
from agents.core.reviews import Ruling, RulingKind
from agents.engine.desk.company import DeskFailed, of_company
from agents.engine.desk.rules import LONGEST, limits_of
from agents.engine.redaction import RunBorder
from agents.models import Book, Escalation, Run, Workspace
from agents.patterns.steps import FROM_VERSION
from agents.sdk.desk import DESKS, Desk
from agents.sdk.desk_patterns import found_in
from agents.sdk.desk_tools import Subject
from agents.sdk.rules import Beside, HeldRequest, Section, write_evidence


class UnknownSubject(LookupError):
    """The desk has no subject with that key. The message says so."""


def find_all(desk: Desk, text: str, *, book_id: int, most: int) -> list[tuple[str, str]]:
    """Return key and label of the subjects that match a key or a name. Raises UnknownSubject."""
    about = desk.subject
    with _looking_up(desk):
        subjects = about.find_all(about.key_in(text), book_id)
    if not subjects and desk.fill_demo and about.first is None:
        # A demo run gets its own books, where only the launch can look it up.
        return [(text, text)]
    return subjects[:most]


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
    """Return the desk's books next to a request; `effect` is the key of its outcome."""
    desk = DESKS.get(held.run.desk)
    if desk is None or desk.show_beside is None:
        return Beside()  # its evidence is stored with the review
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
            panel = desk.show_beside(request)
            parts = [replace(s, items=write_evidence(s.items)) for s in panel.sections]
    except DeskFailed as error:
        return Beside(sections=[Section(desk.title, (), f"{error}.")])
    return replace(panel, sections=parts)


def bound_arguments(run: Run) -> Mapping[str, Json]:
    """Return the subject's key, by each argument that is the subject in every tool that has it."""
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
    """Return a subject's names in texts about it."""
    about = desk.subject
    labels = {about.label_of(key, book) for book in books}
    called = about.called or (lambda key, book: ())
    words = {word for book in books for word in called(key, book)}
    return frozenset({key, *labels, *words} - {""})


def forget(desk: Desk, key: str, *, books: Collection[int]) -> int | None:
    """Empty every text about a subject in these books. Return the number of books that had it.

    None: the desk cannot erase, and its books are unchanged.
    """
    empty = desk.subject.forget
    return sum(bool(empty(key, book)) for book in books) if empty else None


# A name instead of a key: the policy replaces it by the key if exactly one has that name. Nobody
# learns names by guessing: others are listed by a tool or not at all, and of subjects only the
# run's own name counts.


_RULE = "policy.named"


def key_ruling(run: Run, action: Action, limits: Limits) -> Ruling | None:
    """Return the ruling on a call's names instead of keys; None if it has none.

    It revises them to keys, or blocks with a way to find the key. Call it before facts are
    gathered, as they are about the keys.
    """
    desk = DESKS.get(run.desk)
    tool = desk.tools.get(str(action.get("name"))) if desk else None
    is_earlier = run.question_version < FROM_VERSION or limits.profile == "reference"
    if desk is None or tool is None or is_earlier:
        return None
    given, border = action.get("args") or {}, RunBorder(run)
    keys: dict[str, str] = {}
    for name, about in {**tool.names, tool.subject: desk.subject}.items():
        text = border.resolve(given.get(name))
        if not isinstance(text, str) or about.named is None:
            continue
        try:
            with of_company(f"{desk.title} could not look up names"):
                if about.find_key(text, run.book_id):
                    continue
                keys_in_text = about.keys_named(text, run.book_id)
        except DeskFailed:
            continue  # the call is reviewed unchanged
        if name == tool.subject:
            if run.subject_key in keys_in_text:
                keys[name] = run.subject_key
        elif len(keys_in_text) == 1:
            keys[name] = keys_in_text[0]
        else:
            return _no_key(about, str(border.name(text)), keys_in_text, limits)
    if not keys:
        return None
    names = " and ".join(f"“{given[name]}” is the name of {key}" for name, key in keys.items())
    revised = {**action, "args": {**given, **keys}}
    return Ruling(
        RulingKind.REVISE,
        "name_for_key",
        f"{names}.",
        risk=5,
        observed=", ".join(str(given[name]) for name in keys),
        limit=", ".join(keys.values()),
        action=border.name(revised),
        rule=_RULE,
    )


def _no_key(about: Subject, text: str, keys: list[str], limits: Limits) -> Ruling:
    """Block a name that is not exactly one key; name a way to find the key."""
    lists = about.listed_by if about.listed_by in limits.proposable else ""
    sentence = f"There is no {about.kind} with the key or the name “{text}”."
    if keys:
        which = f": {', '.join(keys)}" if lists else ""
        sentence = f"Several have the name “{text}”{which}."
    flip = f"Call {lists} first: it lists each {about.kind} with its key." if lists else ""
    known = {"observed": text, "flip": flip, "rule": _RULE}
    return Ruling(RulingKind.BLOCK, "no_such_name", sentence, 60, **known)


# A report's scope and figures. The desk's functions get values, and their results get names again.


_WORD = re.compile(r"[\w-]+")


def scopes_of(desk: str, book: int) -> list[dict[str, str]]:
    """Return the possible scopes of a desk's report, the default first. Raises DeskFailed."""
    known, report = DESKS[desk], DESKS[desk].report
    if report is None:
        return []
    with of_company(f"{known.title} could not say what to report on"):
        offered = report.choices(book) if report.choices else [report.scope(book)]
        scopes = [dict(scope) for scope in offered if scope]
        for scope in scopes:
            names = {name for one in known.sources.values() for name in one.arguments} or {*scope}
            if set(scope) != names or not all(map(is_text, scope.values())):
                raise TypeError(f"{scope!r} is to hold texts by the names {sorted(names)}")
        return scopes


def choose_scope(scopes: Sequence[dict[str, str]], goal: str, chosen: str) -> dict[str, str] | None:
    """Return the first scope with all words of a choice, or else the one that the goal names most.

    None if there is none like it. A choice is written in any case: "2026-11-27 us".
    """
    if wanted := set(_WORD.findall(chosen.casefold())):
        matching = (one for one in scopes if wanted <= {text.casefold() for text in one.values()})
        return next(matching, None)
    words = set(_WORD.findall(goal))
    return max(scopes, key=lambda scope: sum(map(words.__contains__, scope.values())), default=None)


def in_words(scope: Mapping[str, str]) -> str:
    """Return a scope for a form: "2026-11-27 US"."""
    return " ".join(scope.values())


def figures_of(run: Run) -> Callable[[Sequence[Json], Collection[str]], dict[str, Json]] | None:
    """Return a function from the lines of a run's tasks to figures; None without a report.

    It raises Stop where the desk's function fails, and ValuesLocked.
    """
    desk, border = DESKS[run.desk], RunBorder(run)
    report = desk.report if run.scope else None
    if report is None:
        return None

    def figures(lines: Sequence[Json], expected: Collection[str]) -> dict[str, Json]:
        scope, seen = border.resolve([run.scope, lines])
        try:
            with of_company(f"{desk.title} could not make its figures"):
                limits = limits_of(desk, run.limits)
                known = found_in(scope, seen, expected=expected, limits=limits)
                values: Json = {**known.scope, **report.figures(known)}
                values.setdefault("failed_tasks", known.failed_tasks)
                if not is_storable(values):
                    raise TypeError(f"{values!r} is no JSON")
        except DeskFailed as error:
            raise Stop("report_failed", phase="aggregate", error=str(error)) from None
        named: dict[str, Json] = border.name(values)
        return named

    return figures
