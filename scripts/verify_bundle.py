#!/usr/bin/env python3
"""Check a copy of the record with nothing but Python's standard library.

    python3 verify_bundle.py RECORD.jsonl [--head HEADS.jsonl] [--keys FILE] [--texts FILE]

It finds the first event of each chain that does not fit or is not the one that was sealed, and
chains that are missing, repeated or of another workspace. With a copy of the heads that was kept
elsewhere it also finds a record that was forged or cut; with the keys (one a line) it checks the
seals themselves. The proof of one run is such a copy of its chain alone, with the heads that seal
it. An archive has its texts in a separate file. Exit code: 0 no fault, 4 no fault, but checked
without keys or without heads, 3 a fault, 2 bad usage or unreadable files.
It imports nothing of the program that wrote the record, on purpose.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

NOT_ALL = 4  # the exit code if keys or heads were not given
FORMAT = "opsconsole-record/2"
ARCHIVED = "archive.written"  # has the number of an archive's runs
ERASURE = "person.erased"  # the event of erased texts
ENDS = ("run.done", "run.failed", "run.stopped")  # the events of a run's end
TAKEN = "audit.exported"  # the event of a copy
COVERED = ("workspace", "run", "seq", "kind", "facts", "actor", "at")
LATE = timedelta(minutes=10)  # longest delay between an event and its seal
NAME = re.compile(r"workspace/[1-9][0-9]*|run/[0-9a-f-]{36}")
WORKSPACE = re.compile(r"[1-9][0-9]*")
DIGEST = re.compile(r"[0-9a-f]{64}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
SLUG = re.compile(r"[\w-]+")


class Broken(Exception):
    """The copy is not as it was written."""


class BadUsage(Exception):
    """A given file is unusable."""


def canonical(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def sha256(value: Any) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()


def keyed(key: bytes, value: bytes) -> str:
    return hmac.new(key, value, hashlib.sha256).hexdigest()


def time_of(text: str) -> datetime:
    if not TIME.fullmatch(text):
        raise ValueError("a time is not spelled as one")
    return datetime.fromisoformat(text)


def parsed(line: bytes, where: str, *, is_trace: bool = False) -> Any:
    """Return a line's document; refuse ambiguous JSON.

    Only the trace of an archived run, which no hash covers, has fractions.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a name stands twice in it")
        return dict(pairs)

    def fraction(text: str) -> Any:
        raise ValueError("it holds a fraction")

    try:
        parse = {"parse_float": float if is_trace else fraction, "parse_constant": fraction}
        found = json.loads(line.decode(), object_pairs_hook=once, **parse)  # bytes may be UTF-16
        canonical(found)  # half a surrogate has no spelling
    except (ValueError, RecursionError) as error:
        raise Broken(f"{where}: {error}") from error
    return found


def documents(file: BinaryIO) -> Iterator[dict[str, Any]]:
    """Yield the documents between the first line and the last; check both."""
    digest, last = hashlib.sha256(), None
    for number, line in enumerate(file, start=1):
        if last is not None:
            raise Broken(f"line {number}: it stands behind the last line")
        document = parsed(line, f"line {number}")
        if not isinstance(document, dict) or ("bundle" in document) != (number == 1):
            raise Broken(f"line {number}: it is no part of a record")
        last = document.get("end")
        if "end" not in document:
            digest.update(line)
            yield document
        elif document.keys() != {"end"} or last != {
            "lines": number - 1,
            "sha256": digest.hexdigest(),
        }:
            raise Broken(f"line {number}: the lines before it are not those that were written")
    if last is None:
        raise Broken("it breaks off: the last line is missing")


def wrong_texts(event: dict[str, Any]) -> str:
    """Return why the texts next to an event do not match its digests, or ""."""
    digests, texts = event["facts"].get("texts", {}), event.get("texts", {})
    if digests.keys() != texts.keys():
        return "the texts beside it are not those that it names"
    for name, given in texts.items():
        if given is not None:
            has_only(given, "salt", "text")
            found = keyed(given["salt"].encode(), given["text"].encode())
            if found != digests[name]:
                return "a text beside it is not what was written"
    return ""


def has_only(line: dict[str, Any], *names: str) -> None:
    """Refuse parts that nothing covers: a reader could take them for proved."""
    if line.keys() - set(names):
        raise ValueError("a line has a part that it must not have")


class Head:
    """A head, whole or as a copy shows it: its sealed content, and the chains that it shows."""

    def __init__(self, line: dict[str, Any]) -> None:
        content = "workspaces" if "workspaces" in line else "moved"
        has_only(line, "number", "at", "key", "before", "seal", "others", content)
        self.number, self.at, self.seal = line["number"], line["at"], line["seal"]
        self.before, self.key, others = line["before"], line["key"], line.get("others")
        self.parts: dict[str, Any] | None = line.get("workspaces")  # None: version 1
        self.covered = {name: line[name] for name in ("number", "at", "key", "before")}
        if self.parts is None:
            self.moved: dict[str, list[str]] = line["moved"]
            self.others: Any = others or []
            own = [sha256([chain, hashes]) for chain, hashes in self.moved.items()]
            self.covered["moved"] = sorted(own + self.others)
        else:
            self.moved, self.others = {}, others or {}
            for part in self.parts.values():
                has_only(part, "moved", "earlier")
                earlier = part.get("earlier", {"chains": 0})
                has_only(earlier, "chains", "sha256")
                if type(earlier["chains"]) is not int:
                    raise ValueError("a number of chains is none")
                if part["moved"].keys() & self.moved.keys():
                    raise ValueError("a chain stands in two workspaces")
                self.moved |= part["moved"]
            if not all(map(WORKSPACE.fullmatch, [*self.parts, *self.others])):
                raise ValueError("a workspace has an unreadable id")
            if self.parts.keys() & self.others.keys():
                raise ValueError("a workspace stands twice in a head")
            own_parts = {name: sha256(part) for name, part in self.parts.items()}
            self.covered |= {"version": 2, "workspaces": own_parts | self.others}
        if type(self.number) is not int or not all(map(NAME.fullmatch, self.moved)):
            raise ValueError("a head is no such thing")
        hidden = self.others if self.parts is None else self.others.values()
        if not all(map(DIGEST.fullmatch, hidden)):  # names and digests are printed
            raise ValueError("a digest is none")
        time_of(self.at)

    def wrong(self, previous: Head | None, keys: dict[str, bytes]) -> str:
        """Return why it does not follow `previous` or does not match its seal, or ""."""
        if previous and (self.number, self.before) != (previous.number + 1, previous.seal):
            return "it does not follow the head before it"
        if previous and previous.parts is not None and self.parts is None:
            return "it is older in kind than the head before it"
        if keys and self.key not in keys:
            return "it was sealed with a key that is not given"
        if keys and keyed(keys[self.key], canonical(self.covered)) != self.seal:
            return "its seal does not match its content and key"
        return ""


class Chain:
    """A chain's progress, and its faults."""

    def __init__(self, line: dict[str, Any]) -> None:
        has_only(line, "name", "count", "hash", "archived")
        self.name, self.count, self.hash = line["name"], line["count"], line["hash"]
        if not NAME.fullmatch(self.name):
            raise ValueError("a chain has an unreadable name")
        self.seq, self.previous, self.workspace = 0, "", ""
        if archived := line.get("archived"):  # its first events are in an archive
            has_only(archived, "count", "hash", "workspace")
            self.seq, self.previous = archived["count"], archived["hash"]
            self.workspace = str(archived["workspace"])
            if not self.name.startswith("run/") or type(self.seq) is not int or self.seq < 1:
                raise ValueError("a chain is archived that cannot be")
        self.archived = self.seq
        self.bad, self.blank, self.has_end = False, 0, False


class Check:
    """The state of a check, and the faults found."""

    def __init__(
        self, keys: dict[str, bytes], kept: list[Head], is_torn: bool, texts: BinaryIO | None
    ) -> None:
        self.archive: dict[str, Any] = {}  # its number, and the latest end of its runs
        self.texts, self.beside_run = texts, dict[str, Any]()
        self.archived, self.told = Counter[str](), Counter[str]()  # runs of archives, a workspace
        self.emptied = 0  # runs without texts
        self.keys, self.kept = keys, {head.number: head for head in kept}
        self.is_torn = is_torn  # the last line of the kept heads
        self.faults: list[str] = []
        self.at, self.workspaces = "", dict[str, str]()
        self.last = ""  # time of the newest event
        self.ahead = 0  # events whose seals are newer than this copy
        self.sealed_at = ""  # the newest time of a head of the copy that is not ahead of it
        self.run = ""  # the only chain of a run's proof; "" for a copy of workspaces
        self.head: Head | None = None  # the newest one of the copy
        self.uncompared: list[int] = []  # heads of the copy that are not kept elsewhere
        self.bad_head = False
        self.first_bound = 0  # the number of the first head that binds the set of chains
        self.earlier: dict[str, Any] = {}  # workspace -> that head's list of older chains
        self.unbound: set[str] = set()  # chains that heads of version 1 show
        self.elsewhere: set[str] = set()  # other workspaces; of version 1, digests of chains
        self.sealed: dict[str, list[str]] = {}  # by heads of the copy, then by newer ones
        self.by_copy: dict[str, int] = {}  # how many of them by heads of the copy
        self.home: dict[str, str] = {}  # chain -> the workspace in whose part it is sealed
        self.is_whole = False  # up to the event of this copy, by heads
        self.beside: dict[str, int] = {}  # chain -> events sealed with that event, not in the copy
        self.taken: dict[str, int] = {}  # workspace -> seq of the event of this copy
        self.chain: Chain | None = None
        self.ended: dict[str, Chain] = {}
        self.events = 0
        self.loose: list[tuple[str, str, int]] = []  # at, chain and seq of events in no seal

    def take(self, document: dict[str, Any]) -> None:
        [(kind, content)] = document.items() if "bundle" not in document else [("", document)]
        if not kind:
            self.begin(content)
        elif kind == "head" and self.chain is None:
            if self.archive:
                raise ValueError("an archive has no heads")
            self.take_head(Head(content))
        elif kind == "chain":
            self.end_chain()
            self.take_chain(Chain(content))
        elif kind == "event" and self.chain is not None:
            self.take_event(self.chain, content)
        else:
            raise ValueError("a line stands where it does not belong")

    def begin(self, line: dict[str, Any]) -> None:
        if line["bundle"] != FORMAT:
            raise Broken(f"line 1: it does not say that this is {FORMAT}")
        has_only(line, "bundle", "at", "workspaces", "run", "archive")
        if archive := line.get("archive"):
            has_only(archive, "number", "before")
            if type(archive["number"]) is not int or len(line["workspaces"]) != 1:
                raise ValueError("an archive has no number, or several workspaces")
            time_of(archive["before"])
            self.archive = archive
        self.at, self.workspaces = line["at"], line["workspaces"]
        names = [f"workspace/{pk}" for pk in self.workspaces]
        if not names or not all(map(NAME.fullmatch, names)):
            raise ValueError("it names no workspace")
        if not all(map(SLUG.fullmatch, self.workspaces.values())):
            raise ValueError("a workspace has an unreadable name")
        if "run" in line:
            self.run = f"run/{line['run']}"
            if not NAME.fullmatch(self.run) or len(names) != 1:
                raise ValueError("it is of no one run")
        time_of(self.at)

    def take_head(self, head: Head) -> None:
        kept = self.kept.get(head.number, head)
        is_other = (kept.seal, canonical(kept.covered)) != (head.seal, canonical(head.covered))
        why = head.wrong(None if self.run else self.head, self.keys)
        if self.run and self.head and head.number <= self.head.number:
            why = "it does not come after the head before it"
        elif self.run and self.run not in head.moved:
            why = "it seals nothing of this run, and its proof has no other heads"
        elif not self.run and self.head is None and (head.number, head.before) != (1, ""):
            why = "it is not the first"
        elif is_other:
            why = "it is kept elsewhere with other content"
        elif (after := self.kept.get(head.number + 1)) and after.before != head.seal:
            why = f"head {after.number}, kept elsewhere, follows another"
        elif head.parts is not None and head.others.keys() & self.workspaces.keys():
            why = "it does not show its part of a workspace of this copy"
        elif head.parts is not None and head.parts.keys() - self.workspaces.keys():
            why = "it shows a part of a workspace that is not of this copy"
        if why and not self.bad_head:
            self.faults.append(f"head {head.number}: {why}")
        self.bad_head = self.bad_head or bool(why)
        if head.parts is None:
            self.unbound |= head.moved.keys()
        self.bind(head)
        self.elsewhere.update(head.others)
        self.uncompared += [head.number] if head.number not in self.kept else []
        self.head = head
        if time_of(head.at) <= time_of(self.at) + LATE:
            self.sealed_at = max(self.sealed_at, head.at)
        if not self.bad_head:
            self.seal(head)

    def bind(self, head: Head) -> None:
        """Take the first head of version 2's list of the chains that were sealed before it."""
        if head.parts is not None and not self.first_bound and not self.run:
            self.first_bound = head.number
            self.earlier = {name: part.get("earlier") for name, part in head.parts.items()}

    def seal(self, head: Head) -> None:
        for chain, hashes in head.moved.items():
            if self.run in ("", chain):
                self.sealed.setdefault(chain, []).extend(hashes)
        for workspace, part in (head.parts or {}).items():
            for chain in part["moved"]:
                if self.run in ("", chain) and self.home.setdefault(chain, workspace) != workspace:
                    self.faults.append(f"head {head.number}: {chain} changes its workspace")

    def heads_end(self) -> None:
        """Add the seals that newer heads, kept elsewhere, have for the next events."""
        self.by_copy = {chain: len(hashes) for chain, hashes in self.sealed.items()}
        for head in self.newer():
            self.seal(head)
            if self.archive and time_of(head.at) <= time_of(self.at):
                self.by_copy = {chain: len(hashes) for chain, hashes in self.sealed.items()}
        for head in self.newer()[:1]:
            self.bind(head)

    @property
    def number(self) -> int:
        """Return the number of the newest head of the copy, 0 if there is none."""
        return self.head.number if self.head else 0

    def newer(self) -> list[Head]:
        """Return the heads kept elsewhere that follow the newest one here, without a gap."""
        number, found = self.number, list[Head]()
        while not self.bad_head and number + len(found) + 1 in self.kept:
            found.append(self.kept[number + len(found) + 1])
        return found

    def take_chain(self, chain: Chain) -> None:
        if not self.ended and self.chain is None:
            self.heads_end()
        if chain.name in self.ended:
            self.faults.append(f"{chain.name}: it stands twice in this copy")
        self.chain = chain
        if chain.archived:
            if self.archive:
                raise ValueError("an archive leaves out what it is to have")
            self.archived[chain.workspace] += 1
            sealed = self.sealed.get(chain.name, [])[: chain.archived]
            if len(sealed) < chain.archived or sealed[-1] != chain.previous:
                self.say(chain, chain.archived, "it is archived as another than was sealed")
            if self.home.get(chain.name, chain.workspace) != chain.workspace:
                self.say(chain, 1, "its chain was sealed in another workspace")
        if self.texts:
            self.beside_run = parsed(self.texts.readline(), chain.name, is_trace=True)
            has_only(self.beside_run, "run", "texts", "steps", "erased")
            if f"run/{self.beside_run['run']}" != chain.name:
                raise Broken(f"{chain.name}: its texts are not where they belong")
            self.emptied += "erased" in self.beside_run

    def put_texts(self, event: dict[str, Any]) -> None:
        """Add the given texts of an archive's event that are not erased."""
        if "texts" in event:
            raise ValueError("an archive has its texts apart")
        digests = event["facts"].get("texts", {})
        if self.texts and "erased" not in self.beside_run:
            event["texts"] = self.beside_run["texts"].get(str(event["seq"]), {})
        elif digests:
            event["texts"] = dict.fromkeys(digests)

    def take_event(self, chain: Chain, event: dict[str, Any]) -> None:
        has_only(event, *COVERED, "previous", "hash", "texts")
        time_of(event["at"])  # it is printed, also where the chain is bad
        self.last = max(self.last, event["at"])  # each is spelled alike
        chain.seq += 1
        self.events += 1
        if self.archive:
            self.put_texts(event)
        chain.workspace = chain.workspace or str(event["workspace"])
        why = "" if chain.bad else self.wrong_event(chain, event)
        if why:
            self.say(chain, chain.seq, why)
        if chain.seq > len(self.sealed.get(chain.name, [])):
            self.loose.append((event["at"], chain.name, chain.seq))
        chain.has_end = chain.has_end or event["kind"] in ENDS
        if event["kind"] == ERASURE:
            chain.blank = 0
        elif not chain.blank and None in event.get("texts", {}).values():
            chain.blank = chain.seq
        if event["kind"] == TAKEN and event["at"] == self.at and event["run"] is None:
            self.taken[chain.workspace] = chain.seq
        if event["kind"] == ARCHIVED and event["run"] is None:
            self.told[chain.workspace] += event["facts"]["runs"]
        if event["kind"] == "workspace.created":
            self.check_slug(chain, event)
        chain.previous = event["hash"]

    def check_slug(self, chain: Chain, event: dict[str, Any]) -> None:
        if event["facts"].get("slug") != self.workspaces.get(chain.workspace):
            self.say(chain, chain.seq, "this copy gives its workspace another name")

    def wrong_event(self, chain: Chain, event: dict[str, Any]) -> str:
        owner = f"run/{event['run']}" if event["run"] else f"workspace/{event['workspace']}"
        seals = self.sealed.get(chain.name, [])
        if time_of(event["at"]) > time_of(self.at) + LATE:
            if chain.seq > len(seals):
                return "it says that it is newer than this copy"
            self.ahead += 1
        if owner != chain.name:
            return "it belongs to another chain"
        if str(event["workspace"]) != chain.workspace or chain.workspace not in self.workspaces:
            return "it belongs to another workspace"
        if self.home.get(chain.name, chain.workspace) != chain.workspace:
            return "its chain was sealed in another workspace"
        if event["seq"] != chain.seq:
            return "it is missing; the next one has another number"
        if event["previous"] != chain.previous:
            return "it does not follow the event before it"
        covered = {part: event[part] for part in COVERED}
        if sha256({**covered, "previous": chain.previous}) != event["hash"]:
            return "its content is not what was hashed"
        if chain.seq <= len(seals) and seals[chain.seq - 1] != event["hash"]:
            return "it is not the event that was sealed"
        return wrong_texts(event)

    def end_chain(self) -> None:
        chain = self.chain
        if chain is None:
            return
        wanted = max(chain.count, self.by_copy.get(chain.name, 0))
        if not chain.bad and chain.seq < wanted:
            why = f"the chain ends after {chain.seq} events of {wanted}"
            self.say(chain, chain.seq + 1, why)
        elif not chain.bad and (chain.seq, chain.previous) != (chain.count, chain.hash):
            self.say(chain, chain.seq, "it is not the event that the chain's end names")
        elif not chain.bad and chain.blank and not (self.archive and self.lacks_texts):
            self.say(chain, chain.blank, "its text was erased, and no erasure is on record")
        self.ended[chain.name] = chain

    @property
    def lacks_texts(self) -> bool:
        return self.texts is None or "erased" in self.beside_run

    def say(self, chain: Chain, seq: int, why: str) -> None:
        chain.bad = True
        self.faults.append(f"{chain.name}: event {seq}: {why}")

    def end(self) -> None:
        if self.chain is None:
            self.heads_end()
        self.end_chain()
        for name in sorted(self.by_copy.keys() - self.ended.keys() if not self.archive else ()):
            self.faults.append(f"{name}: event 1: the chain is gone")
        if self.run:
            self.end_run(self.ended.get(self.run))
        elif self.archive:
            self.end_archive()
        else:
            for pk in self.workspaces:
                self.end_workspace(pk)
            self.end_cut()
        if self.texts and self.texts.read(1):
            raise Broken("there are texts of more runs than are here")
        number, later = self.number, [one for one in self.kept if one > self.number]
        if later and not self.newer() and not self.bad_head:
            why = f"heads kept elsewhere go on with head {min(later)}: give those between too"
            self.faults.append(
                f"head {number + 1}: this copy ends with head {number}, and the {why}"
            )
        newest = max([self.sealed_at, *(head.at for head in self.newer())])
        if newest and self.loose and time_of(min(self.loose)[0]) < time_of(newest) - LATE:
            _, name, seq = min(self.loose)
            why = "it is in no seal and says that it is older than the newest head"
            self.faults.append(f"{name}: event {seq}: {why}")

    def end_workspace(self, pk: str) -> None:
        if f"workspace/{pk}" not in self.ended:
            self.faults.append(f"workspace/{pk}: event 1: the chain is gone")
        elif pk not in self.taken:
            self.faults.append(f"workspace/{pk}: no event says that a copy was taken at {self.at}")
        if self.archived[pk] > self.told[pk]:
            why = f"its log has {self.told[pk]} archived runs, this copy has {self.archived[pk]}"
            self.faults.append(f"workspace/{pk}: {why}")
        if self.first_bound > 1:
            mine = sorted(
                name
                for name, chain in self.ended.items()
                if chain.workspace == pk and name in self.unbound
            )
            bound = self.earlier.get(pk)
            if (bound or mine) and bound != {"chains": len(mine), "sha256": sha256(mine)}:
                number = bound["chains"] if bound else 0
                why = f"names {number} older chains of workspace {pk}; {len(mine)} are here"
                self.faults.append(f"head {self.first_bound}: it {why}, or others")

    def end_run(self, chain: Chain | None) -> None:
        """Compare the proof of a run with newer heads, which may have sealed later events."""
        if chain is None or self.ended.keys() != {self.run}:
            raise ValueError("the proof of a run has its chain, and no other")
        count = self.by_copy.get(self.run, 0)
        for head in self.newer():
            count += len(head.moved.get(self.run, ()))
            if count > chain.seq and time_of(head.at) < time_of(self.at) - LATE and not chain.bad:
                why = f"head {head.number}, kept elsewhere, sealed it before this copy was taken"
                self.say(chain, chain.seq + 1, why)
            self.is_whole = self.is_whole or time_of(head.at) > time_of(self.at)
        if count > chain.seq:
            self.beside[self.run] = count - chain.seq

    def end_archive(self) -> None:
        """Find events of an archive without a head: all of it was sealed when it was written.

        No seal covers the date in its first line: heads newer than its events do as well.
        """
        written = min(self.at, self.last)
        self.is_whole = any(time_of(head.at) >= time_of(written) for head in self.newer())
        loose = [one for one in self.loose if self.is_whole or self.sealed.get(one[1])]
        if loose:
            _, name, seq = min(loose)
            why = "it is in no seal, and an archive has only what was sealed"
            self.faults.append(f"{name}: event {seq}: {why}")
        for name, chain in self.ended.items():
            more = len(self.sealed.get(name, ())) - chain.seq
            if more > 1 and not chain.bad:
                self.say(chain, chain.seq + 1, f"heads seal {more} more; an erasure adds one")
            elif not chain.has_end and not chain.bad:
                self.say(
                    chain,
                    chain.seq,
                    "its run has not ended, and an archive has only runs that have",
                )
            elif more > 0:
                self.beside[name] = more

    def end_cut(self) -> None:
        """Find what newer heads sealed before this copy was taken, and the copy lacks."""
        reach = dict(self.by_copy)
        over = {
            pk for pk, seq in self.taken.items() if reach.get(f"workspace/{pk}", 0) >= seq
        }  # workspaces of which this copy need not know more
        for head in self.newer():
            for chain, hashes in head.moved.items():
                reach[chain] = reach.get(chain, 0) + len(hashes)
            now = {pk for pk, seq in self.taken.items() if reach.get(f"workspace/{pk}", 0) >= seq}
            for chain in head.moved:
                pk = self.home.get(chain, "")
                read = self.ended[chain].seq if chain in self.ended else 0
                if pk not in self.workspaces or pk in over or read >= reach[chain]:
                    continue
                if pk in now:  # it sealed what came before the copy and after it alike
                    if chain != f"workspace/{pk}":
                        self.beside[chain] = reach[chain] - read
                else:
                    why = f"kept elsewhere, sealed {reach[chain]} events before this copy was taken"
                    self.faults.append(f"{chain}: event {read + 1}: head {head.number}, {why}")
                    over.add(pk)
            over |= now
        self.is_whole = over >= self.workspaces.keys()

    def summary(self) -> Iterator[str]:
        names = ", ".join(f"{slug} ({pk})" for pk, slug in self.workspaces.items())
        number, newer = self.number, self.newer()
        what = f"{self.run} alone, " if self.run else ""
        yield f"The copy says it is of {what}workspace {names}, taken at {self.at}."
        if self.archive:
            number_of, before = self.archive["number"], self.archive["before"]
            yield f"It is archive {number_of}, of runs that ended before {before}."
        else:
            yield f"It ends with head {number}" + (f" of {self.head.at}." if self.head else ".")
        if self.first_bound not in (0, 1):
            yield f"Head {self.first_bound} is the first that binds the set of chains."
        if self.elsewhere:
            other = sorted(name for name in self.elsewhere if len(name) < 64)
            many = len(self.elsewhere) - len(other)
            yield f"Not in this copy: workspaces {', '.join(other) or 'unnamed'}; " + (
                f"{many} digests of chains elsewhere." if many else "their chains are not counted."
            )
        if self.loose:
            (first, *_), (last, *_) = min(self.loose), max(self.loose)
            count, chains = len(self.loose), len({name for _, name, _ in self.loose})
            yield f"In no seal: {count} events of {chains} chains, {first} to {last}."
        if self.ahead:
            yield (
                f"{self.ahead} sealed events say that they are newer than this copy: a clock was "
                "wrong."
            )
        if newer:
            yield f"{len(newer)} newer heads are kept elsewhere, up to {newer[-1].at}."
        if self.is_torn:
            yield "The last line of the heads kept elsewhere is incomplete: it was left out."
        if self.kept and (alone := self.uncompared):
            yield f"Heads not kept elsewhere, so not compared: {alone[0]} to {alone[-1]}."

    def unproved(self) -> Iterator[str]:
        """Yield what this copy cannot prove."""
        newest = [self.head, *self.newer()][-1]
        if self.archive:
            yield (
                "that these are the runs which were archived, and what its first line says of "
                "them: compare the digest in the last line with sha256 of archive "
                f"{self.archive['number']} in the log (archive.written)."
            )
            if self.loose and not self.is_whole:
                yield (
                    f"that {len(self.loose)} of its events were sealed: give it heads that were "
                    "made since it was written (--head)."
                )
            if self.texts is None:
                yield "the texts beside its events: they were not given (--texts)."
            else:
                yield "the trace beside its texts: no event holds it."
            if self.emptied:
                yield (
                    f"the texts of {self.emptied} runs: their file says that they were erased. "
                    "Compare that with the erasures in the log (person.erased, archive.erased)."
                )
        if self.archived:
            yield f"what {self.archived.total()} runs did that are archived: check their archives."
        if self.loose and not self.archive:
            chains = len({name for _, name, _ in self.loose})
            yield (
                f"that {len(self.loose)} events of {chains} chains happened: they are in no seal, "
                "and somebody without the key could have written them."
            )
        if not self.is_whole and not self.archive:
            after = f"head {newest.number} of {newest.at}" if newest else "its first event"
            yield (
                f"that nothing is missing at its end: had everything after {after} been left out, "
                "this check would say the same. Give it heads that were kept elsewhere and made "
                "after this copy was taken (--head)."
            )
        if (self.run or self.archive) and self.beside:
            yield (
                f"that {sum(self.beside.values())} events of {len(self.beside)} runs are from "
                "after this copy was taken: newer heads sealed them, and it does not have them."
            )
        elif self.beside:
            count, chains = sum(self.beside.values()), len(self.beside)
            yield (
                f"that {count} events of {chains} chains are from after this copy was taken: it "
                "does not have them, and one head sealed them together with the event of "
                "the copy. Seal the record right before a copy, too."
            )
        if self.run:
            yield "what its workspace is called: the chain that tells it is not in this copy."
        elif not self.first_bound and not self.archive:
            yield "how many chains there are: no head binds them."
        if not self.keys:
            forged = ""
            if not self.kept:
                forged = ": somebody without the key could have forged all of it"
            elif alone := self.uncompared:
                forged = f": without the key one could forge what heads {alone[0]} to {alone[-1]}"
                forged += " seal"
            yield f"that the seals are genuine: no keys were given (--keys){forged}."


def kept_heads(path: Path | None, keys: dict[str, bytes]) -> tuple[list[Head], bool]:
    """Return the heads in a file, which must follow each other, and whether it ends torn.

    A last line that lacks only its newline is a head. Raises BadUsage, Broken.
    """
    found: list[Head] = []
    *lines, last = content(path).split(b"\n") if path else [b""]
    is_torn = bool(last) and not is_head(last)
    lines += [last] if last and not is_torn else []
    for number, line in enumerate(lines, start=1):
        try:
            head = Head(parsed(line, f"line {number}"))
        except (Broken, KeyError, TypeError, AttributeError, ValueError) as error:
            raise BadUsage(f"{path}: line {number} is not a head") from error
        if why := head.wrong(found[-1] if found else None, keys):
            raise Broken(f"head {head.number}, kept elsewhere: {why}")
        found.append(head)
    if path and not found:
        raise BadUsage(f"{path}: there is no head in it")
    return found, is_torn


def content(path: Path) -> bytes:
    """Return a file's content, without the mark that some editors put before it."""
    return path.read_bytes().removeprefix(b"\xef\xbb\xbf")


def is_head(line: bytes) -> bool:
    try:
        Head(parsed(line, ""))
    except (Broken, KeyError, TypeError, AttributeError, ValueError):
        return False
    return True


def read_keys(path: Path | None) -> dict[str, bytes]:
    lines = content(path).split() if path else []
    if path and not lines:
        raise BadUsage(f"{path}: there is no key in it")
    return {keyed(key, b"opsconsole audit key id")[:12]: key for key in lines}


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Check a copy of the record.",
        epilog="Exit code: 0 it holds, 4 it holds as far as it can be checked without keys or "
        "without newer heads, 3 it does not hold, 2 a file that cannot be used.",
    )
    parser.add_argument("record", type=Path)
    parser.add_argument("--head", type=Path, help="a copy of the heads that was kept elsewhere")
    parser.add_argument("--keys", type=Path, help="a file with the keys, one a line")
    parser.add_argument("--texts", type=Path, help="the texts of an archive")
    given = parser.parse_args()
    try:
        keys = read_keys(given.keys)
        with ExitStack() as stack:
            texts = stack.enter_context(given.texts.open("rb")) if given.texts else None
            check = Check(keys, *kept_heads(given.head, keys), texts)
            file = stack.enter_context(given.record.open("rb"))
            for document in documents(file):
                check.take(document)
            check.end()
        summary = [*check.summary(), *(f"NOT PROVED: {one}" for one in check.unproved())]
    except (OSError, BadUsage) as error:
        print(error, file=sys.stderr)
        return 2
    except Broken as error:
        print(error)
        return 3
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError, OverflowError):
        print("A line lacks a part that it must have, or has one that it must not.")
        return 3
    if check.faults:
        print(*check.faults, sep="\n")
    else:
        heads = check.head.number if check.head else 0
        print(f"{check.events} events in {len(check.ended)} chains hold, heads: {heads}.")
    print(*summary, sep="\n")
    if check.faults:
        return 3
    is_proved = given.keys and given.head and check.is_whole and not check.loose
    return 0 if is_proved else NOT_ALL


if __name__ == "__main__":
    sys.exit(main())
