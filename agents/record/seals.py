"""A chain, which binds each event to the one before it, and the seals over all chains."""

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from uuid import UUID

from agents.core.json_forms import canonical, sha256
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


# Seal all chains into a series of keyed heads, and check chains against their seals.
#
# A head holds the hashes of the events since the previous head, which it names, so the newest
# head covers every event of every chain. Only the holder of the key can make one.
#
# Since version 2 the hashes are in parts, one for each workspace, and the seal covers a digest of
# each part under the workspace's name. Someone who is shown one workspace must be shown all its
# parts, which name all its chains: none can be left out, added or moved to another workspace.


VERSION = 2
Moved = Mapping[str, Sequence[str]]  # the name of a chain -> the hashes of its new events, in order


@dataclass(frozen=True)
class SealedHead:
    """One head: what was sealed, when, with which key, after which head."""

    number: int  # from 1, without gaps
    at: str  # spelled as in the chain
    key: str  # the id of the key
    before: str  # the seal of the previous head; "" for the first
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
    """Return the id of a key, 12 hex digits that do not reveal it."""
    return _keyed_hash(key, "opsconsole audit key id")[:12]


def seal_head(head: SealedHead, key: str) -> SealedHead:
    """Return `head` sealed with `key`, including the key's id."""
    named = replace(head, key=key_id(key))
    return replace(named, seal=_seal(named, key))


def is_sealed(head: SealedHead, key: str) -> bool:
    return hmac.compare_digest(_seal(head, key).encode(), head.seal.encode())


def leaf(chain: str, hashes: Sequence[str]) -> str:
    """Return the digest of a chain for a head, which reveals nothing about the chain."""
    return sha256([chain, list(hashes)])


def as_line(head: SealedHead) -> str:
    """Return a head as a line of the file, newline included."""
    line = asdict(head)
    del line["workspaces" if head.workspaces is None else "moved"]
    return canonical(line) + "\n"


def from_line(line: Json) -> SealedHead:
    """Return the head in a line's JSON document. Raises ValueError."""
    names = {part.name for part in fields(SealedHead)}
    content = line.keys() & {"moved", "workspaces"} if isinstance(line, dict) else set()
    if len(content) != 1 or line.keys() != (names - {"moved", "workspaces"}) | content:
        raise ValueError("it is not a head")
    if type(line["number"]) is not int or not isinstance(line[min(content)], dict):
        raise ValueError("its number or its chains are of the wrong type")
    texts = [line[name] for name in ("at", "key", "before", "seal")]
    head = SealedHead(**{"moved": {}, **line})
    try:
        for _, hashes in head.chains():
            texts += hashes if isinstance(hashes, list) else [None]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("a part of it has the wrong form") from error
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("it holds something other than text")
    return head


class _Line:
    """Follows a series of heads to the first that is missing, not sealed or out of order."""

    def __init__(self, keys: Mapping[str, str], after: tuple[int, str]) -> None:
        self.keys, (self.number, self.before) = keys, after
        self.fault: Fault | None = None

    def take(self, head: SealedHead) -> None:
        if self.fault is None and (why := self._wrong(head)):
            self.fault = Fault(self.number + 1, why)
        self.number, self.before = self.number + 1, head.seal

    def _wrong(self, head: SealedHead) -> str:
        number = self.number + 1
        if head.number != number:
            return f"head {number} is missing; the next one is {head.number}"
        if head.before != self.before:
            return "it does not follow the head before it"
        key = self.keys.get(head.key)
        if self.keys and key is None:
            return f"it was sealed with the key {head.key}, which is not given"
        if key and not is_sealed(head, key):
            return "its seal does not match its content and key"
        return ""


def judge_heads(
    stored: Iterable[SealedHead],
    kept: Iterable[SealedHead],
    keys: Mapping[str, str],
    faults: list[Fault],
    after: tuple[int, str] = (0, ""),
) -> Iterator[SealedHead]:
    """Yield the heads to check events against; add their faults to `faults`.

    If the database and the copy disagree, the copy counts as long as its seals are valid. It may
    begin later than the database and end earlier, but not the reverse. `keys` are by id; without
    any, seals are not checked. Holds one head of each at a time. `after` is the number and the
    seal of the head before the first.
    """
    ours, merged = _Line(keys, after), _Line(keys, after)
    gaps: list[Fault] = []
    unlike: Fault | None = None
    for here, there in _side_by_side(stored, _in_order(kept, gaps)):
        head = there or here
        if here:
            ours.take(here)
        if there and unlike is None:
            unlike = _difference(here, there)
        if head:
            merged.take(head)
            if merged.fault is None:
                yield head
    faults_found = [ours.fault, unlike, *gaps[: unlike is None]]
    faults += [fault for fault in faults_found if fault]


def _difference(here: SealedHead | None, there: SealedHead) -> Fault | None:
    if here is None:
        why = "it is kept elsewhere, and the database does not have it"
        return Fault(there.number, f"{why}: an older copy, or heads were removed")
    if here != there:
        return Fault(there.number, "it is kept elsewhere with other content")
    return None


def _in_order(kept: Iterable[SealedHead], gaps: list[Fault]) -> Iterator[SealedHead]:
    """Yield the heads of a copy in ascending order; note the first gap."""
    before = None
    for head in kept:
        if before not in (None, head.number - 1) and not gaps:
            gaps.append(Fault(head.number, f"it follows head {before} in what is kept elsewhere"))
        if before is None or head.number > before:
            before = head.number
            yield head


def _side_by_side(
    stored: Iterable[SealedHead], kept: Iterable[SealedHead]
) -> Iterator[tuple[SealedHead | None, SealedHead | None]]:
    """Yield the heads of two ordered sources in pairs by number."""
    ours, theirs = iter(stored), iter(kept)
    here, there = next(ours, None), next(theirs, None)
    while here or there:
        is_here = here is not None and (there is None or here.number <= there.number)
        is_there = there is not None and (here is None or there.number <= here.number)
        yield here if is_here else None, there if is_there else None
        here = next(ours, None) if is_here else here
        there = next(theirs, None) if is_there else there


def with_bounds(
    heads: Iterable[SealedHead], full: int, *, is_sure: Callable[[str], bool]
) -> Iterator[tuple[SealedHead, str]]:
    """Yield each head with the earliest possible time of its events; "" if unknown.

    Events in a head happened after the previous head was made, except that heads of one sealing
    share its time, and one with `full` events or more left some to the next. A head with an
    unreliable time bounds nothing.
    """
    bound = at = ""
    was_full = False
    for head in heads:
        if head.at != at and not was_full and (not at or is_sure(at)):
            bound = at
        yield head, bound
        at, was_full = head.at, sum(len(hashes) for _, hashes in head.chains()) >= full


def _seal(head: SealedHead, key: str) -> str:
    covered: Json = {"number": head.number, "at": head.at, "key": head.key, "before": head.before}
    if head.workspaces is None:
        covered["moved"] = sorted(leaf(chain, hashes) for chain, hashes in head.moved.items())
    else:
        covered["version"] = VERSION
        covered["workspaces"] = {name: sha256(part) for name, part in head.workspaces.items()}
    return _keyed_hash(key, canonical(covered))


def keyed_digest(key: str, value: Json) -> str:
    """Return the keyed digest of a value that is not a head."""
    return _keyed_hash(key, canonical(value))


def _keyed_hash(key: str, text: str) -> str:
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
