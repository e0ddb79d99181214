#!/usr/bin/env python3
"""Check a copy of the record with nothing but Python's standard library.

    python3 verify_bundle.py RECORD.jsonl [--head HEADS.jsonl] [--keys FILE]

It finds the first event of each chain that does not fit, or is not the one that was sealed. With
a copy of the heads that was kept elsewhere it also finds a record that was made anew as a whole;
with the keys (one a line) it checks the seals themselves. Exit code: 0 it holds, 3 it does not,
2 it could not be read. It imports nothing of the program that wrote the record, on purpose.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

FORMAT = "opsconsole-record/1"
ERASURE = "person.erased"  # the event that tells that texts were erased
COVERED = ("workspace", "run", "seq", "kind", "facts", "actor", "at")


class Broken(Exception):
    """The copy is not what was written."""


def canonical(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def sha256(value: Any) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()


def keyed(key: bytes, value: bytes) -> str:
    return hmac.new(key, value, hashlib.sha256).hexdigest()


def wrong_texts(event: dict[str, Any]) -> str:
    """Return why the texts beside an event are not those whose digests it holds, or ""."""
    digests, texts = event["facts"].get("texts", {}), event.get("texts", {})
    if digests.keys() != texts.keys():
        return "the texts beside it are not those that it names"
    for name, given in texts.items():
        if given is not None:
            found = keyed(given["salt"].encode(), given["text"].encode())
            if found != digests[name]:
                return f"its text {name!r} is not what was written"
    return ""


def parsed(line: bytes, number: int) -> Any:
    """Return a line's document; what two readers could read as two things is refused."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a name stands twice in it")
        return dict(pairs)

    def fraction(text: str) -> Any:
        raise ValueError(f"it holds a fraction: {text}")

    try:
        return json.loads(
            line, object_pairs_hook=once, parse_float=fraction, parse_constant=fraction
        )
    except (ValueError, RecursionError) as error:
        raise Broken(f"line {number}: {error}") from error


def documents(file: BinaryIO) -> Iterator[dict[str, Any]]:
    """Yield what lies between the first line and the last; check both."""
    digest, last = hashlib.sha256(), None
    for number, line in enumerate(file, start=1):
        if last is not None:
            raise Broken(f"line {number}: it stands behind the last line")
        document = parsed(line, number)
        if not isinstance(document, dict):
            raise Broken(f"line {number}: it is no part of a record")
        if number == 1 and document.get("bundle") != FORMAT:
            raise Broken(f"line 1: it does not say that this is {FORMAT}")
        last = document.get("end")
        if last is None:
            digest.update(line)
            yield document
        elif last != {"lines": number - 1, "sha256": digest.hexdigest()}:
            raise Broken(f"line {number}: the lines before it are not those that were written")
    if last is None:
        raise Broken("it breaks off: the last line is missing")


class Check:
    """What was read so far, and what of it does not hold."""

    def __init__(self, keys: dict[str, bytes], kept: dict[int, dict[str, Any]]) -> None:
        self.keys, self.kept = keys, kept
        self.sealed: dict[str, list[str]] = {}
        self.faults: list[str] = []
        self.bad_head = False
        self.head: dict[str, Any] = {"number": 0, "seal": ""}
        self.chain: dict[str, Any] | None = None
        self.seq, self.previous, self.bad, self.blank = 0, "", False, 0
        self.chains = self.events = 0
        self.at = ""

    def take(self, document: dict[str, Any]) -> None:
        if "bundle" in document:
            self.at = document["at"]
        elif "head" in document:
            self.take_head(document["head"])
        elif "chain" in document:
            self.end_chain()
            self.chain, self.seq, self.previous = document["chain"], 0, ""
            self.bad, self.blank = False, 0
            self.chains += 1
        elif "event" in document:
            self.take_event(document["event"])

    def take_head(self, head: dict[str, Any]) -> None:
        own = [sha256([chain, hashes]) for chain, hashes in head["moved"].items()]
        leaves = sorted(own + head["others"])
        why = self.wrong_head(head, leaves)
        if why and not self.bad_head:
            self.faults.append(f"head {head['number']}: {why}")
        self.bad_head = self.bad_head or bool(why)
        self.head = head
        if not self.bad_head:
            for chain, hashes in head["moved"].items():
                self.sealed.setdefault(chain, []).extend(hashes)

    def wrong_head(self, head: dict[str, Any], leaves: list[str]) -> str:
        if head["number"] != self.head["number"] + 1 or head["before"] != self.head["seal"]:
            return "it does not follow the head before it"
        kept = self.kept.get(head["number"])
        if kept and (kept["seal"], kept["leaves"]) != (head["seal"], leaves):
            return "it is kept elsewhere as another"
        if self.keys:
            covered = {name: head[name] for name in ("number", "at", "key", "before")}
            key = self.keys.get(head["key"])
            if key is None:
                return f"it was sealed with the key {head['key']}, which is not given"
            if keyed(key, canonical({**covered, "moved": leaves})) != head["seal"]:
                return "its seal is not that of its content under its key"
        return ""

    def take_event(self, event: dict[str, Any]) -> None:
        self.seq += 1
        self.events += 1
        why = "" if self.bad else self.wrong_event(event)
        if why:
            self.say(self.seq, why)
        if event["kind"] == ERASURE:
            self.blank = 0
        elif not self.blank and None in event.get("texts", {}).values():
            self.blank = self.seq
        self.previous = event["hash"]

    def wrong_event(self, event: dict[str, Any]) -> str:
        name = self.chain["name"] if self.chain else ""
        owner = f"run/{event['run']}" if event["run"] else f"workspace/{event['workspace']}"
        seals = self.sealed.get(name, [])
        if owner != name:
            return "it belongs to another chain"
        if event["seq"] != self.seq:
            return f"it is missing; the next one is {event['seq']}"
        if event["previous"] != self.previous:
            return "it does not follow the event before it"
        covered = {part: event[part] for part in COVERED}
        if sha256({**covered, "previous": self.previous}) != event["hash"]:
            return "its content is not what was hashed"
        if self.seq <= len(seals) and seals[self.seq - 1] != event["hash"]:
            return "it is not the event that was sealed"
        return wrong_texts(event)

    def end_chain(self) -> None:
        if self.chain is None:
            return
        name, count = self.chain["name"], self.chain["count"]
        wanted = max(count, len(self.sealed.pop(name, [])))
        if not self.bad and self.seq < wanted:
            self.say(self.seq + 1, f"the chain ends after {self.seq} events of {wanted}")
        elif not self.bad and (self.seq, self.previous) != (count, self.chain["hash"]):
            self.say(self.seq, "it is not the event that the chain's end names")
        elif not self.bad and self.blank:
            self.say(self.blank, "its text was erased, and no erasure is on record")

    def say(self, seq: int, why: str) -> None:
        self.bad = True
        name = self.chain["name"] if self.chain else "no chain"
        self.faults.append(f"{name}: event {seq}: {why}")

    def end(self) -> None:
        self.end_chain()
        for name in sorted(self.sealed):
            self.faults.append(f"{name}: event 1: the chain is gone")
        number = self.head["number"] + 1
        if number in self.kept and self.kept[number]["at"] < self.at:
            self.faults.append(f"head {number}: it is older than this copy, and missing in it")


def kept_heads(path: Path | None) -> dict[int, dict[str, Any]]:
    """Return the seals in a file of heads by number, each with what it covers of the chains."""
    found = {}
    lines = path.read_bytes().split(b"\n")[:-1] if path else []  # what has no end is torn
    for number, line in enumerate(lines, start=1):
        head = parsed(line, number)
        leaves = sorted(sha256([chain, hashes]) for chain, hashes in head["moved"].items())
        found[head["number"]] = {"seal": head["seal"], "leaves": leaves, "at": head["at"]}
    return found


def read_keys(path: Path | None) -> dict[str, bytes]:
    lines = path.read_bytes().split() if path else []
    return {keyed(key, b"opsconsole audit key id")[:12]: key for key in lines}


def main() -> int:
    parser = argparse.ArgumentParser(description="Check a copy of the record.")
    parser.add_argument("record", type=Path)
    parser.add_argument("--head", type=Path, help="a copy of the heads that was kept elsewhere")
    parser.add_argument("--keys", type=Path, help="a file with the keys, one a line")
    given = parser.parse_args()
    try:
        check = Check(read_keys(given.keys), kept_heads(given.head))
        with given.record.open("rb") as file:
            for document in documents(file):
                check.take(document)
        check.end()
    except OSError as error:
        print(error, file=sys.stderr)
        return 2
    except Broken as error:
        print(error)
        return 3
    except (KeyError, TypeError, AttributeError):
        print("A line lacks a part that it must have.")
        return 3
    for fault in check.faults:
        print(fault)
    if check.faults:
        return 3
    print(
        f"{check.events} events in {check.chains} chains hold, under {check.head['number']} heads."
    )
    if not given.keys:
        print("The seals were not checked: no keys were given.")
    if not given.head:
        print("Nothing was compared with heads kept elsewhere.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
