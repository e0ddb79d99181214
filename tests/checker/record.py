"""The record: every change has its event, in valid chains."""

import csv
import hashlib
import hmac
import io
from collections import Counter
from collections.abc import Iterator
from datetime import UTC

from tests.checker.decisions import DECIDED, sha256
from tests.checker.reading import Dump, Row, Violation


def changes_are_told(dump: Dump) -> Iterator[Violation]:
    """I32: each row and each of its states has an event."""
    told = Counter(
        (event["run_id"], event["kind"], _about(event)) for event in dump.events if event["run_id"]
    )
    for run_id, kind, about in _expected_lines(dump):
        if not told[run_id, kind, about]:
            yield Violation("I32", f"run {run_id} has no {kind} of {about}")
    for event in dump.events:
        run = dump.run.get(event["run_id"])
        if run and event["workspace_id"] != run["workspace_id"]:
            yield Violation("I38", f"event {event['id']} is in another workspace than its run")
    for row in [*dump.runs, *dump.escalations]:
        run = dump.run[row.get("run_id", row["id"])]
        if row["workspace_id"] != run["workspace_id"]:
            yield Violation("I38", f"escalation {row['id']} is in another workspace")


def _about(event: Row) -> object:
    """Return the name of the row that an event is about."""
    facts, kind = event["facts"], event["kind"]
    if kind.startswith("escalation."):
        return facts["escalation"]
    return facts.get("key")


def _expected_lines(dump: Dump) -> Iterator[tuple[str, str, object]]:
    for run in dump.runs:
        yield run["id"], "run.queued", None
    # A request closed by a person has the event of their decision.
    by_person = {escalation["step_id"] for escalation in dump.escalations}
    for step in dump.steps:
        if step["kind"] == "say":  # an event, and nothing else
            yield step["run_id"], step["asked"]["kind"], step["key"]
            continue
        if step["ended_at"] is not None and step["id"] not in by_person:
            kind = "step.failed" if step["failed"] else "step.done"
            yield step["run_id"], kind, step["key"]
        else:  # a step begun and ended in one commit has only the event of its end
            yield step["run_id"], "step.begun", step["key"]
    for escalation in dump.escalations:
        run_id, pk = escalation["run_id"], escalation["id"]
        yield run_id, "escalation.opened", pk
        if escalation["state"] in DECIDED:
            yield run_id, "escalation.decided", pk
        if escalation["state"] == "expired":
            yield run_id, "escalation.expired", pk
    for effect in dump.effects:
        yield effect["run_id"], "effect.intended", effect["key"]
        if effect["state"] in ("done", "refused"):
            yield effect["run_id"], f"effect.{effect['state']}", effect["key"]


def chains_hold(dump: Dump) -> Iterator[Violation]:
    """I33: seq has no gaps, and each hash covers its content and the previous hash."""
    own = [event for event in dump.events if event["run_id"] is None]
    for run in dump.runs:
        yield from _chain(f"run {run['id']}", dump.events_of[run["id"]], run)
    for workspace in dump.workspaces:
        events = [event for event in own if event["workspace_id"] == workspace["id"]]
        events.sort(key=lambda event: event["seq"])
        yield from _chain(f"workspace {workspace['id']}", events, workspace)


def _chain(name: str, events: list[Row], ends: Row) -> Iterator[Violation]:
    previous = ""
    for seq, event in enumerate(events, 1):
        if (event["seq"], event["previous"]) != (seq, previous):
            yield Violation("I33", f"{name}: event {event['seq']} does not follow")
        previous = event["hash"]
        if sha256(_hashed_part(event)) != previous:
            yield Violation("I33", f"{name}: event {event['seq']} is not what was hashed")
    if (len(events), previous) != (ends["event_count"], ends["head_hash"]):
        yield Violation("I33", f"{name}: it ends elsewhere than its row says")


def texts_are_those_written(dump: Dump) -> Iterator[Violation]:
    """I37: an event's text matches its digest, or was erased on record."""
    told = {event["run_id"] for event in dump.events if event["kind"] == "person.erased"}
    for event in dump.events:
        digests = event["facts"].get("texts", {})
        beside = {text["name"]: text for text in dump.beside[event["id"]]}
        if digests.keys() != beside.keys():
            yield Violation("I37", f"event {event['id']} has texts {sorted(beside)}")
        for name, text in beside.items():
            if text["erased_at"] is not None:
                if text["text"] or text["salt"] or event["run_id"] not in told:
                    yield Violation("I37", f"event {event['id']}: {name} is erased, untold or not")
            elif _keyed_hash(text["salt"], text["text"]) != digests.get(name):
                yield Violation("I37", f"event {event['id']}: {name} is not what was written")


def _keyed_hash(salt: str, text: str) -> str:
    return hmac.new(salt.encode(), text.encode(), hashlib.sha256).hexdigest()


def _hashed_part(event: Row) -> Row:
    run = event["run_id"]
    return {
        "workspace": event["workspace_id"],
        "run": f"{run[:8]}-{run[8:12]}-{run[12:16]}-{run[16:20]}-{run[20:]}" if run else None,
        "seq": event["seq"],
        "kind": event["kind"],
        "facts": event["facts"],
        "actor": event["actor"],
        "at": event["at"].astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "previous": event["previous"],
    }


def copy_is_whole(text: str, dump: Dump) -> Iterator[Violation]:
    """I33: an export (CSV) of a whole record holds each event once, by its hash."""
    there = Counter(line["hash"] for line in csv.DictReader(io.StringIO(text)))
    for event in dump.events:
        if there[event["hash"]] != 1:
            yield Violation("I33", f"the copy has event {event['id']} {there[event['hash']]} times")
