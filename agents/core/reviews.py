"""A tool's call and a policy's review of it.

A call has an effect class, a place in ledger and inbox, and perhaps a permit. A review has facts
from the ledger and the run, never from a model's text, and rulings.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from agents.core.ledger_sentences import LEDGER
from agents.core.redact import masks_in
from agents.core.requests import Json


class Touch(StrEnum):
    READ = "read"  # changes nothing: may be repeated freely
    SAFE = "safe"  # changes the world at most once per key: may be repeated with the same key
    ONCE = "once"  # changes the world each time: if the outcome is unknown, a person is asked


class OutcomeUnknown(Exception):
    """The key does not tell whether the call took effect."""


class CallTarget(NamedTuple):
    """A call's subject, the resource that is locked and counted, and the amount it moves.

    Keys are the desk's own, the amount is in minor units.
    """

    subject_key: str = ""
    resource: str = ""
    amount_minor: int | None = None
    currency: str = ""


# A permit: one action, exactly, for one server, for at most a minute (decision 10).


_LASTS = timedelta(seconds=60)
SKEW = timedelta(seconds=30)  # by which a server's clock may be late
_WHOLE = 2**53  # from here on JSON numbers are not exact everywhere


def reported_by(intended_at: datetime, timeout: float) -> datetime:
    """Return the time by which an agent reports; `timeout` is its tool's limit in seconds.

    Until then a permit used at its last moment, under a late clock, may still take effect, so
    nobody may say that there was no effect.
    """
    return intended_at + _LASTS + SKEW + timedelta(seconds=timeout)


def expires_at(intended_at: datetime) -> int:
    """Return when a permit expires, in whole seconds since 1970."""
    return int((intended_at + _LASTS).timestamp())


def is_exact(value: Json) -> bool:
    """Tell whether a value reads alike in every language: no fractions and no large numbers."""
    if isinstance(value, dict):
        return all(is_exact(name) and is_exact(one) for name, one in value.items())
    if isinstance(value, list):
        return all(map(is_exact, value))
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= mark <= "\udfff" for mark in value)
    if isinstance(value, int):
        return -_WHOLE < value < _WHOLE
    return value is None


def claims_of(*, key: str, server: str, action: Json, intended_at: datetime) -> dict[str, Json]:
    """Return the contents of a permit."""
    return {
        "jti": key,
        "aud": server,
        "iat": int(intended_at.timestamp()),
        "exp": expires_at(intended_at),
        "action": action,
        "digest": digest_of(action),
    }


def digest_of(action: Json) -> str:
    """Return the SHA-256 of an exact value in the form of RFC 8785, in hex."""
    text = json.dumps(_in_order(action), separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _in_order(value: Json) -> Json:
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return {name: _in_order(value[name]) for name in names}
    return [_in_order(one) for one in value] if isinstance(value, list) else value


# A review.

T = TypeVar("T")


class Border(Protocol):
    """Translates between a run, which has names, and desk code, which gets values."""

    def resolve(self, value: Json) -> Json:
        """Return the input of desk code: values instead of the run's own names."""

    def name(self, value: Json) -> Json:
        """Return desk code's output for storing and comparing: names instead of values."""

    def unknown_in(self, value: Json) -> Iterator[tuple[str, str]]:
        """Yield what stands for a value that the run does not know, after its field."""


class Open:
    """Translates nothing: only masks stand for unknown values."""

    def resolve(self, value: Json) -> Json:
        return value

    def name(self, value: Json) -> Json:
        return value

    def unknown_in(self, value: Json) -> Iterator[tuple[str, str]]:
        return masks_in(value)


class ReadOnce:
    """A cache of what was read from arguments or limits, for all rules of a review."""

    def __init__(self) -> None:
        self._read: list[tuple[object, Any]] = []

    def get(self, source: object, read: Callable[[], T]) -> T:
        """Return what `read` returns for this object, read once. Raises what it raises."""
        for known, value in self._read:
            if known is source:
                kept: T = value
                return kept
        made = read()
        self._read.append((source, made))
        return made


@dataclass(frozen=True)
class DeskFacts:
    """The facts for a desk's own rules; types are those of `agents.sdk`."""

    own: Any  # the desk's own facts
    case: Any  # the console's own knowledge of the run
    done: tuple[str, ...]  # what the run has done, in its tools' sentences
    stored: Json  # all of it, as stored with the ruling
    record: Mapping[str, str] = field(default_factory=dict)  # sentences on its findings, by name
    answered: tuple[str, ...] = ()  # what specialists found, in sentences
    refused: tuple[str, ...] = ()  # what nobody was told, and what people sent back, in sentences
    is_told: bool = False  # somebody reads it: a letter or an answer


@dataclass(frozen=True)
class Facts:
    """The facts for rules of all desks, with a desk's own."""

    scope: Json = None  # the day and the region of a report; None: not a report
    ledger: tuple[str, ...] = ()  # what this run did, in the console's sentences
    record: Mapping[str, str] = field(default_factory=dict)  # sentences on its findings, by name
    # Findings that no longer hold, but would be written to someone.
    outdated: Mapping[str, str] = field(default_factory=dict)
    letter: str = ""  # the argument of this action that an outsider reads; "": none
    own_words: tuple[str, ...] = ()  # passages of a letter that no record has as they stand
    # Who sent back the run's last proposal, if this action changes something; or "".
    sent_back_by: str = ""
    called_before: bool = False  # a declared desk's tool, by a run that this one repeats
    unfit: str = ""  # why these values of the action's arguments do not fit its tool
    # Earlier calls of the session that did or may do the same, as they were proposed.
    repeats: tuple[Json, ...] = ()
    # What a reviewer rejected about the same: the request, its run, in words.
    rejected: Json = None
    desk: DeskFacts | None = None  # its own, and what is stored of all
    border: Border = field(default_factory=Open)  # never kept
    once: ReadOnce = field(default_factory=ReadOnce, compare=False)  # also not stored

    @property
    def unattended(self) -> Mapping[str, int]:
        """Return the launcher's and the workspace's payments of today without a person."""
        known: Mapping[str, int] = self.desk.stored["unattended"] if self.desk else {}
        return known

    @property
    def sentences(self) -> dict[str, str]:
        """Return the console's own sentences, by the names used in references."""
        ledger = {LEDGER: " ".join(self.ledger)} if self.ledger else {}
        return {**self.record, **ledger}

    @property
    def choices(self) -> Mapping[str, Mapping[str, str]]:
        """Return a person's choices for an argument that nobody named, each value in words."""
        known: Mapping[str, Mapping[str, str]] = (
            self.desk.stored.get("choices", {}) if self.desk else {}
        )
        return known

    def as_json(self) -> Json:
        if self.desk is None:
            return {}
        more = {"repeats": self.repeats, "rejected": self.rejected}
        kept = {name: value for name, value in more.items() if value}
        return {**self.desk.stored, **kept, **self._seen(self.desk)}

    def _seen(self, known: DeskFacts) -> Json:
        """Return what else rules depend on; pages do not show it."""
        more: dict[str, Json] = {
            "sent_back_by": self.sent_back_by,
            "unfit": self.unfit,
            "outdated": self.outdated,
            "record": known.record,
            "answered": known.answered,
            "refused": known.refused,
        }
        seen = {name: value for name, value in more.items() if value}
        return {"seen": seen} if seen or known.is_told else {}


class RulingKind(IntEnum):
    """The kinds of rulings. The greatest counts; a revised action may then be escalated."""

    APPROVE = 0
    ESCALATE = 1
    REVISE = 2
    BLOCK = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Ruling:
    """One rule's judgement and its reason: a code for programs, a sentence for people."""

    verdict: RulingKind
    reason: str  # a stable code such as unattended_cap_of_the_day
    sentence: str
    risk: int = 0  # 0 none to 100
    observed: Json = None  # the judged value: minor units, days, a count, a name
    limit: Json = None  # its limit, in the same unit
    unit: str = ""  # of both: days, calls, a currency (for minor units); "": a name
    flip: str = ""  # the nearest change that would have been approved, as a sentence
    action: Json = None  # for revise: the action as it should be
    rule: str = ""  # module and function; set by the registry

    def as_json(self) -> dict[str, Json]:
        stored = {**vars(self), "verdict": self.verdict.word}
        if not self.unit:
            del stored["unit"]
        return stored


BY_PERSON = "approved_by_person"  # the reason of a ruling that a person has approved


_ANY_NUMBER = math.inf  # a consent to any number, but to no words

# Rules that a person has consented to, each with the value shown to them; None: any value.
Consent: TypeAlias = Mapping[str, Json]


def consent_of(review: Json, answer: Json = None) -> Consent:
    """Return the consent given by approving a stored review: to rules that asked now or before.

    If the person's `answer` has a text of their own, counts of the agent's text do not limit it.
    """
    corrected = bool((answer or {}).get("correction"))
    return {
        ruling["rule"]: _ANY_NUMBER if corrected else ruling["observed"]
        for ruling in review["rulings"]
        if ruling["reason"] == BY_PERSON or ruling["rule"] in review["escalating"]
    }


def covers(consent: Consent, ruling: Ruling) -> bool:
    """Tell whether a consent covers a ruling; for a number, up to the number shown."""
    if ruling.rule not in consent:
        return False
    shown, observed = consent[ruling.rule], ruling.observed
    if shown == _ANY_NUMBER and observed is None:
        return True
    if shown is None or (type(shown) is type(observed) and shown == observed):
        return True
    return _is_number(shown) and _is_number(observed) and bool(observed <= shown)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class ReviewResult:
    """The result of applying every rule to an action until nothing changes."""

    decision: str  # approve, revise, escalate, block: the word for the trace
    deciding: Ruling
    action: Json  # with the policy's revisions
    rulings: Sequence[Ruling]  # of the last round
    revisions: Sequence[Ruling] = field(default=())

    @property
    def allows(self) -> bool:
        """Tell whether the action may run now without a person."""
        return self.decision in ("approve", "revise")

    @property
    def escalating(self) -> list[str]:
        """Return the rules that ask for a person, whose decision covers only these."""
        return [r.rule for r in self.rulings if r.verdict is RulingKind.ESCALATE]

    def as_json(self) -> dict[str, Json]:
        return {
            "decision": self.decision,
            "allows": self.allows,
            "deciding": self.deciding.as_json(),
            "action": self.action,
            "rulings": [ruling.as_json() for ruling in self.rulings],
            "revisions": [ruling.as_json() for ruling in self.revisions],
            "escalating": self.escalating,
        }
