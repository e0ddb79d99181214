"""Seal all chains into one keyed head after another, and hold chains against what was sealed.

A head carries the hashes of the events that are new since the head before, which it names; so
the newest head stands for every event of every chain. Only who holds the key can write one.

Since version 2 the hashes stand in parts, one for each workspace, and the seal covers a digest of
each part under the workspace's name. Who is given one workspace has to be shown all its parts,
and these name all its chains: none can be left out, added or taken for another workspace's.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace

from agents.core.digest import canonical, sha256
from agents.core.requests import Json
from agents.record.chain_faults import Fault

VERSION = 2
Moved = Mapping[str, Sequence[str]]  # the name of a chain -> the hashes of its new events, in order


@dataclass(frozen=True)
class SealedHead:
    """One line of the heads: what was sealed, when, with which key, after which head."""

    number: int  # from 1, without gaps
    at: str  # as the chain spells a time
    key: str  # the id of the key
    before: str  # the seal of the head before; "" for the first
    moved: Moved  # of version 1 only
    seal: str = ""
    # The id of a workspace -> its part: "moved", and once "earlier". None: version 1.
    workspaces: Mapping[str, Json] | None = None

    def chains(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield each chain that moved, with the hashes of its new events."""
        yield from self.moved.items()
        for part in (self.workspaces or {}).values():
            yield from part["moved"].items()


def part_of(moved: Moved, earlier: Iterable[str] | None = None) -> Json:
    """Return a workspace's part of a head.

    `earlier` are its chains that only heads of version 1 have sealed: the first head of version 2
    binds their number and names.
    """
    if earlier is None:
        return {"moved": dict(moved)}
    names = sorted(earlier)
    return {"moved": dict(moved), "earlier": {"chains": len(names), "sha256": sha256(names)}}


def key_id(key: str) -> str:
    """Return the name of a key, which does not give it away: 12 hex digits."""
    return _keyed(key, "opsconsole audit key id")[:12]


def sealed(head: SealedHead, key: str) -> SealedHead:
    """Return `head` under the seal of `key`, which also names itself in it."""
    named = replace(head, key=key_id(key))
    return replace(named, seal=_seal(named, key))


def leaf(chain: str, hashes: Sequence[str]) -> str:
    """Return what stands for a chain in a head; it says nothing of the chain to strangers."""
    return sha256([chain, list(hashes)])


def as_line(head: SealedHead) -> str:
    """Return a head as a line of the file, with its end."""
    line = asdict(head)
    del line["workspaces" if head.workspaces is None else "moved"]
    return canonical(line) + "\n"


def from_line(found: Json) -> SealedHead:
    """Return the head that a line's document holds. Raises ValueError."""
    names = {part.name for part in fields(SealedHead)}
    content = found.keys() & {"moved", "workspaces"} if isinstance(found, dict) else set()
    if len(content) != 1 or found.keys() != (names - {"moved", "workspaces"}) | content:
        raise ValueError("it is not a head")
    if type(found["number"]) is not int or not isinstance(found[min(content)], dict):
        raise ValueError("its number or its chains are no such thing")
    texts = [found[name] for name in ("at", "key", "before", "seal")]
    head = SealedHead(**{"moved": {}, **found})
    try:
        for _, hashes in head.chains():
            texts += hashes if isinstance(hashes, list) else [None]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("it has a part that is none") from error
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("it holds something other than text")
    return head


def first_bad_head(heads: Iterable[SealedHead], keys: Mapping[str, str]) -> Fault | None:
    """Return the first head that is missing, not under its seal, or does not follow.

    `keys` are by their ids; without any the seals are not checked.
    """
    before = ""
    for number, head in enumerate(heads, start=1):
        if head.number != number:
            return Fault(number, f"head {number} is missing; the next one is {head.number}")
        if head.before != before:
            return Fault(number, "it does not follow the head before it")
        key = keys.get(head.key)
        if keys and key is None:
            return Fault(number, f"it was sealed with the key {head.key}, which is not given")
        if key and not hmac.compare_digest(_seal(head, key).encode(), head.seal.encode()):
            return Fault(number, "its seal is not that of its content under its key")
        before = head.seal
    return None


def first_difference(kept: Sequence[SealedHead], stored: Sequence[SealedHead]) -> Fault | None:
    """Return the first head kept elsewhere that the database does not have as it is kept.

    What is kept may begin later than the database and end earlier, never the other way round.
    """
    by_number = {head.number: head for head in stored}
    before = None
    for head in kept:
        if before not in (None, head.number - 1):
            return Fault(head.number, f"it follows head {before} in what is kept elsewhere")
        before = head.number
        here = by_number.get(head.number)
        if here is None:
            newest = len(stored)
            why = f"it is kept elsewhere, and the database ends with head {newest}"
            return Fault(head.number, f"{why}: an older copy, or heads were removed")
        if here != head:
            return Fault(head.number, "it is kept elsewhere as another")
    return None


def judged(
    stored: Sequence[SealedHead], kept: Sequence[SealedHead], keys: Mapping[str, str]
) -> tuple[list[Fault], list[SealedHead]]:
    """Return what is wrong with the heads, and those by which the events can be held.

    Where the database and the copy disagree, the copy counts, as far as its seals hold.
    """
    faults = [first_bad_head(stored, keys), first_difference(kept, stored)]
    by_number = {head.number: head for head in [*stored, *kept]}
    merged = [by_number[number] for number in sorted(by_number)]
    bad = first_bad_head(merged, keys)
    trusted = [head for head in merged if bad is None or head.number < bad.seq]
    return [fault for fault in faults if fault], trusted


def sealed_hashes(heads: Iterable[SealedHead]) -> dict[str, list[str]]:
    """Return the hashes of each chain's events, from the first on, as heads sealed them."""
    found: dict[str, list[str]] = {}
    for head in heads:
        for chain, hashes in head.chains():
            found.setdefault(chain, []).extend(hashes)
    return found


def bounds(
    heads: Iterable[SealedHead], full: int, *, is_sure: Callable[[str], bool]
) -> dict[str, list[tuple[int, str]]]:
    """Return for each chain since when its events can be: (up to which seq, a time) in order.

    What a head seals happened after the head before it was made; but those that one seal makes
    have one time, and one of `full` events or more left some to the next. A head whose time is
    not sure bounds nothing.
    """
    found: dict[str, list[tuple[int, str]]] = {}
    bound = at = ""
    was_full = False
    for head in heads:
        if head.at != at and not was_full and (not at or is_sure(at)):
            bound = at
        count = 0
        for chain, hashes in head.chains():
            mine = found.setdefault(chain, [])
            mine.append(((mine[-1][0] if mine else 0) + len(hashes), bound))
            count += len(hashes)
        at, was_full = head.at, count >= full
    return found


def homes(heads: Iterable[SealedHead]) -> dict[str, str]:
    """Return the id of the workspace under which each chain was first sealed, as far as told."""
    found: dict[str, str] = {}
    for head in heads:
        for workspace, part in (head.workspaces or {}).items():
            for chain in part["moved"]:
                found.setdefault(chain, workspace)
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


def _seal(head: SealedHead, key: str) -> str:
    covered: Json = {"number": head.number, "at": head.at, "key": head.key, "before": head.before}
    if head.workspaces is None:
        covered["moved"] = sorted(leaf(chain, hashes) for chain, hashes in head.moved.items())
    else:
        covered["version"] = VERSION
        covered["workspaces"] = {name: sha256(part) for name, part in head.workspaces.items()}
    return _keyed(key, canonical(covered))


def _keyed(key: str, text: str) -> str:
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
