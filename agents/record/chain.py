"""A chain: how one event is bound to the one before it, its first fault, its erasable texts."""

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from uuid import UUID

from agents.core.json_forms import sha256
from agents.core.requests import Json


def link(previous: str, event: dict[str, Json]) -> str:
    """Return the hash of `event` after `previous` ("" for the first), SHA-256 in hex.

    `event` has workspace, run, seq, kind, facts, actor and at. Changing one of them or the order
    of events changes every later hash.
    """
    if _has_fraction(event["facts"]):
        raise TypeError(f"{event['kind']}: an event holds no fractions; databases respell them")
    return sha256({**event, "at": spell_time(event["at"]), "previous": previous})


def _has_fraction(value: Json) -> bool:
    parts = [value]
    for part in parts:  # grows meanwhile
        if isinstance(part, float):
            return True
        if isinstance(part, dict):
            parts += part.values()
        elif isinstance(part, (list, tuple)):
            parts += part
    return False


@lru_cache(8)  # the events of a transaction share one time
def spell_time(at: datetime) -> str:
    """Return a time as the chain spells it: UTC, always with six digits of a second."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def name_of(*, workspace: int, run: object = None) -> str:
    """Return the name of a chain in heads and copies: a run's, or the workspace's own."""
    return f"workspace/{workspace}" if run is None else f"run/{run}"


def run_keys(names: Iterable[str]) -> list[UUID]:
    """Return the keys of the runs whose chains are among these names."""
    return [UUID(name[4:]) for name in names if _RUN.fullmatch(name)]


_RUN = re.compile(r"run/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


UNTOLD_ERASURE = "its text was erased, and no erasure is on record"


@dataclass(frozen=True)
class Linked:
    """A stored event: the content that its hash covers, and the two hashes."""

    covered: dict[str, Json]  # workspace, run, seq, kind, facts, actor, at
    previous: str
    hash: str
    texts: "Mapping[str, Text]" = field(default_factory=dict)  # beside it, by name


@dataclass(frozen=True)
class Fault:
    """The first faulty event of a chain: its `seq`, from 1, and why."""

    seq: int
    why: str


def first_fault(
    events: Iterable[Linked], *, count: int, head: str, after: tuple[int, str] = (0, "")
) -> Fault | None:
    """Return the first fault of a chain given in order of seq, or None.

    `count` and `head` are those in the chain's row; without them a missing tail would not show.
    `after` is the count and the last hash of the archived events.
    """
    (seq, previous), blank = after, 0
    for event in events:
        seq += 1
        if event.covered["seq"] != seq:
            return Fault(seq, f"event {seq} is missing; the next one is {event.covered['seq']}")
        if event.previous != previous:
            return Fault(seq, "it does not follow the event before it")
        if event.hash != _link(event):
            return Fault(seq, "its content is not what was hashed")
        if why := unfit(event.covered["facts"], event.texts):
            return Fault(seq, why)
        if event.covered["kind"] == ERASURE:
            blank = 0
        elif not blank and any(text.erased for text in event.texts.values()):
            blank = seq
        previous = event.hash
    if seq != count:
        return Fault(seq + 1, f"the chain ends after {seq} events; {count} were written")
    if previous != head:
        return Fault(seq, "it is not the event that the chain's head names")
    if blank:
        return Fault(blank, UNTOLD_ERASURE)
    return None


def _link(event: Linked) -> str:
    """Return the hash that an event should have; "" for content that no event can have."""
    try:
        return link(event.previous, event.covered)
    except (TypeError, ValueError):
        return ""


# Erasable texts of an event: the chain holds a salted digest, the text is stored beside it.
# With its salt a text can be verified. Once both are gone, nobody can find out what it was, even
# by trying every name, and the chain is unchanged.


TEXTS = "texts"  # the fact that holds the digests, by name
ERASURE = "person.erased"  # the event that records an erasure in a chain


@dataclass(frozen=True)
class Text:
    """A stored text: JSON in canonical form, and its salt; both "" once erased."""

    salt: str
    text: str
    erased: bool = False


def digest_of(salt: str, text: str) -> str:
    """Return the digest that an event's hash covers instead of a text: HMAC-SHA256, by salt."""
    return hmac.new(salt.encode(), text.encode(), hashlib.sha256).hexdigest()


def unfit(facts: Json, kept: Mapping[str, Text]) -> str:
    """Return why the texts beside an event are not its original ones, or ""."""
    digests = facts.get(TEXTS, {})
    for name in sorted(digests.keys() | kept.keys()):
        text = kept.get(name)
        if text is None:
            return f"its text {name!r} is gone without a trace"
        if name not in digests:
            return f"a text {name!r} was put beside it"
        if not text.erased and digest_of(text.salt, text.text) != digests[name]:
            return f"its text {name!r} is not what was written"
        if text.erased and (text.salt or text.text):
            return f"its text {name!r} is erased and still there"
    return ""
