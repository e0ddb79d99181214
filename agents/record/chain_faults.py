"""Walk a chain of events and find the first that does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agents.core.requests import Json
from agents.record.chain import link
from agents.record.erasable_texts import ERASURE, Text, unfit

UNTOLD_ERASURE = "its text was erased, and no erasure is on record"


@dataclass(frozen=True)
class Linked:
    """An event as it is stored: what its hash covers, and the two hashes."""

    covered: dict[str, Json]  # workspace, run, seq, kind, facts, actor, at
    previous: str
    hash: str
    texts: Mapping[str, Text] = field(default_factory=dict)  # beside it, by name


@dataclass(frozen=True)
class Fault:
    """The first event of a chain that does not fit. `seq` is where, from 1."""

    seq: int
    why: str


def first_fault(
    events: Iterable[Linked], *, count: int, head: str, after: tuple[int, str] = (0, "")
) -> Fault | None:
    """Return the first fault of a chain in order of seq, or None if it holds.

    `count` and `head` are what the chain's row says: without them a cut tail looks whole. `after`
    are the number and the last hash of the events that are archived.
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
    """Return the hash an event should have; "" for content that no event could hold."""
    try:
        return link(event.previous, event.covered)
    except (TypeError, ValueError):
        return ""
