"""Cases of a policy: a call with its facts, and what the rules have to say of it.

They stand in a file, a case a line, and are judged without a database.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from agents.core.json_forms import Action, BadJson, parse
from agents.core.limits import Limits
from agents.core.requests import Json
from agents.core.reviews import Consent, Open, ReviewResult
from agents.policies import NO_CONSENT, review
from agents.policies.again import FAILED, CannotJudge, read_facts
from agents.sdk.desk import DESKS, Desk


class BadCase(ValueError):
    """A line is no case. The message says which and why."""


@dataclass(frozen=True)
class PolicyCase:
    """One call at a desk. An absent fact is absent: it has no default."""

    name: str
    desk: str
    pattern: str
    action: Action
    facts: Json  # as stored with a ruling
    expect: str  # a decision, and with it the code of the ruling that decides: block bad_date
    consent: Consent
    line: int


_KEYS = {one.name for one in fields(PolicyCase)} - {"line"}
_MAY_LACK = {"consent"}


def read_cases(text: str) -> Iterator[PolicyCase]:
    """Yield the cases of a file. Raises BadCase.

    One that is `like` an earlier case, by its name, says only what differs.
    """
    known: dict[str, Json] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if not line.strip():
            continue
        try:
            held = parse(line)
        except BadJson as error:
            raise BadCase(f"Line {number}: {error}") from None
        if not isinstance(held, dict):
            raise BadCase(f"Line {number} is no object.")
        if unknown := sorted(held.keys() - _KEYS - {"like"}):
            near = get_close_matches(unknown[0], _KEYS, n=1)
            hint = f"is {near[0]!r} meant?" if near else f"it has {', '.join(sorted(_KEYS))}."
            raise BadCase(f"Line {number}: a case has no {unknown[0]!r}; {hint}")
        if (like := held.pop("like", None)) is not None:
            if like not in known:
                raise BadCase(f"Line {number}: no earlier case is called {like!r}.")
            held = _merged(known[like], held)
        if lacks := sorted(_KEYS - _MAY_LACK - held.keys()):
            raise BadCase(f"Line {number} lacks {', '.join(lacks)}.")
        known[held["name"]] = held
        yield PolicyCase(**{"consent": NO_CONSENT, **held}, line=number)


def _merged(first: Json, second: Json) -> Json:
    if not (isinstance(first, Mapping) and isinstance(second, Mapping)):
        return second
    both = {**first, **second}
    return {key: _merged(first[key], both[key]) if key in first else both[key] for key in both}


def shipped_with(desk: Desk) -> Path | None:
    """Return the file of a desk's own cases, or None."""
    module = sys.modules[desk.gather.__module__] if desk.gather else None
    file = Path(module.__file__).parent / "cases.jsonl" if module and module.__file__ else None
    return file if file and file.exists() else None


def changed_side(old: Limits, new: Limits) -> tuple[PolicyCase, ReviewResult, ReviewResult] | None:
    """Return the first of the desks' own cases on which two policies decide otherwise, or None."""
    for name in [name for name in DESKS if old.covers(name) and new.covers(name)]:
        with suppress(BadCase):  # its facts are of another release
            for case in shipped_cases(DESKS[name]):
                was, now = (judge_case(case, limits) for limits in (old, new))
                failed = FAILED in (was.deciding.reason, now.deciding.reason)
                if was.decision != now.decision and not failed:
                    return case, was, now
    return None


def shipped_cases(desk: Desk) -> Sequence[PolicyCase]:
    """Return a desk's own cases; none of a file that this release cannot read."""
    file = shipped_with(desk)
    with suppress(BadCase):
        return _cases_in(file) if file else ()
    return ()


@cache
def _cases_in(file: Path) -> list[PolicyCase]:
    return list(read_cases(file.read_text(encoding="utf-8")))


def judge_case(case: PolicyCase, whole: Limits) -> ReviewResult:
    """Judge a case by a policy. Raises BadCase."""
    if case.desk not in DESKS:
        raise BadCase(f"Line {case.line}: there is no desk {case.desk!r} here.")
    try:
        facts = read_facts(DESKS[case.desk], case.action, case.facts, Open())
    except (CannotJudge, KeyError, TypeError, AttributeError) as error:
        raise BadCase(f"Line {case.line}: {error}") from None
    limits = whole.of(case.pattern, case.desk)
    return review(case.action, facts, limits, consent=case.consent)


def is_as_expected(case: PolicyCase, judged: ReviewResult) -> bool:
    decision, _, code = case.expect.partition(" ")
    return decision == judged.decision and code in ("", judged.deciding.reason)
