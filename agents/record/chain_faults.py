"""Find the first faulty event of a chain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agents.core.requests import Json
from agents.record.chain import link
from agents.record.erasable_texts import ERASURE, Text, unfit

UNTOLD_ERASURE = "its text was erased, and no erasure is on record"


@dataclass(frozen=True)
class Linked:
    """A stored event: the content that its hash covers, and the two hashes."""

    covered: dict[str, Json]  # workspace, run, seq, kind, facts, actor, at
    previous: str
    hash: str
    texts: Mapping[str, Text] = field(default_factory=dict)  # beside it, by name


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
