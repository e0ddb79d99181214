"""Seal all chains into one keyed head after another, and hold chains against what was sealed.

A head carries the hashes of the events that are new since the head before, which it names; so
the newest head stands for every event of every chain. Only who holds the key can write one.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace

from agents.audit.chain_faults import Fault
from agents.core.digest import canonical, sha256
from agents.core.effects import Json

Moved = Mapping[str, Sequence[str]]  # the name of a chain -> the hashes of its new events, in order


@dataclass(frozen=True)
class Head:
    """One line of the heads: what was sealed, when, with which key, after which head."""

    number: int  # from 1, without gaps
    at: str  # as the chain spells a time
    key: str  # the id of the key
    before: str  # the seal of the head before; "" for the first
    moved: Moved
    seal: str = ""


def key_id(key: str) -> str:
    """Return the name of a key, which does not give it away: 12 hex digits."""
    return _keyed(key, "opsconsole audit key id")[:12]


def sealed(head: Head, key: str) -> Head:
    """Return `head` under the seal of `key`, which also names itself in it."""
    named = replace(head, key=key_id(key))
    return replace(named, seal=_seal(named, key))


def leaf(chain: str, hashes: Sequence[str]) -> str:
    """Return what stands for a chain in a head; it says nothing of the chain to strangers."""
    return sha256([chain, list(hashes)])


def as_line(head: Head) -> str:
    """Return a head as a line of the file, with its end."""
    return canonical(asdict(head)) + "\n"


def from_line(found: Json) -> Head:
    """Return the head that a line's document holds. Raises ValueError."""
    if not isinstance(found, dict) or set(found) != {part.name for part in fields(Head)}:
        raise ValueError("it is not a head")
    number, moved = found["number"], found["moved"]
    if not isinstance(number, int) or not isinstance(moved, dict):
        raise ValueError("its number or its chains are no such thing")
    texts = [found[name] for name in ("at", "key", "before", "seal")]
    for hashes in moved.values():
        texts += hashes if isinstance(hashes, list) else [hashes, None]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("it holds something other than text")
    return Head(**found)


def first_bad_head(heads: Iterable[Head], key_of: Callable[[str], str | None]) -> Fault | None:
    """Return the first head that is missing, not under its seal, or does not follow."""
    before = ""
    for number, head in enumerate(heads, start=1):
        if head.number != number:
            return Fault(number, f"head {number} is missing; the next one is {head.number}")
        if head.before != before:
            return Fault(number, "it does not follow the head before it")
        key = key_of(head.key)
        if key is None:
            return Fault(number, f"it was sealed with the key {head.key}, which is not given")
        if not hmac.compare_digest(_seal(head, key).encode(), head.seal.encode()):
            return Fault(number, "its seal is not that of its content under its key")
        before = head.seal
    return None


def first_difference(kept: Sequence[Head], stored: Sequence[Head]) -> Fault | None:
    """Return the first head kept elsewhere that the database does not have as it is kept.

    What is kept may begin later than the database and end earlier, never the other way round.
    """
    by_number = {head.number: head for head in stored}
    for head in kept:
        here = by_number.get(head.number)
        if here is None:
            newest = len(stored)
            why = f"it is kept elsewhere, and the database ends with head {newest}"
            return Fault(head.number, f"{why}: an older copy, or heads were removed")
        if here != head:
            return Fault(head.number, "it is kept elsewhere as another")
    return None


def judged(
    stored: Sequence[Head], kept: Sequence[Head], key_of: Callable[[str], str | None]
) -> tuple[list[Fault], list[Head]]:
    """Return what is wrong with the heads, and those by which the events can be held.

    Where the database and the copy disagree, the copy counts, as far as its seals hold.
    """
    faults = [first_bad_head(stored, key_of), first_difference(kept, stored)]
    by_number = {head.number: head for head in [*stored, *kept]}
    merged = [by_number[number] for number in sorted(by_number)]
    bad = first_bad_head(merged, key_of)
    trusted = [head for head in merged if bad is None or head.number < bad.seq]
    return [fault for fault in faults if fault], trusted


def sealed_hashes(heads: Iterable[Head]) -> dict[str, list[str]]:
    """Return the hashes of each chain's events, from the first on, as heads sealed them."""
    found: dict[str, list[str]] = {}
    for head in heads:
        for chain, hashes in head.moved.items():
            found.setdefault(chain, []).extend(hashes)
    return found


def first_unlike(hashes: Iterable[str], seals: Sequence[str]) -> Fault | None:
    """Return the first event of a chain that is not the one that was sealed in its place."""
    seq = 0
    for seq, (found, wanted) in enumerate(zip(hashes, seals, strict=False), start=1):
        if found != wanted:
            return Fault(seq, "it is not the event that was sealed")
    if seq < len(seals):
        return Fault(seq + 1, f"the chain ends after {seq} events; {len(seals)} were sealed")
    return None


def _seal(head: Head, key: str) -> str:
    leaves = sorted(leaf(chain, hashes) for chain, hashes in head.moved.items())
    covered: Json = {"number": head.number, "at": head.at, "key": head.key, "before": head.before}
    return _keyed(key, canonical({**covered, "moved": leaves}))


def _keyed(key: str, text: str) -> str:
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
