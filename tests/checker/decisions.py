"""Who allowed what, and whether they had the right to."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from tests.checker.reading import Dump, Row, Violation
from tests.checker.tool_arguments import TOOL_ARGUMENTS, args_of, patch_of, subject_of, widenings

ENDED = ("done", "stopped", "failed")
DECIDED = ("approved", "adjusted", "rejected", "sent_back")


def sha256(value: Any) -> str:
    """Return the hash that binds an approval to its arguments: sorted keys, no spaces, UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def writes_were_allowed(dump: Dump) -> Iterator[Violation]:
    """I11: each write was allowed beforehand, in its run, with exactly these arguments."""
    for effect in dump.effects:
        key, review = effect["key"], dump.step[effect["review_id"]]
        action = {"kind": "tool", "name": effect["tool"], "args": effect["args"]}
        reply = review["reply"] or {}
        # An erasure removes the bound texts, but not amounts and customers.
        forgotten = dump.run[effect["run_id"]]["erased_at"] is not None
        if review["run_id"] != effect["run_id"] or review["kind"] != "review":
            yield Violation("I11", f"{key} was allowed by no review of its run")
        elif not forgotten and (
            not reply.get("allows") or sha256(reply["action"]) != sha256(action)
        ):
            yield Violation("I11", f"{key} was not what its review allowed")
        if not forgotten and effect["args_sha256"] != sha256(action):
            yield Violation("I11", f"{key} is bound to other arguments than it has")
        if not _told_before(dump, review["key"], effect):
            yield Violation("I11", f"{key} was intended before it was allowed")
        if effect["escalation_id"] is not None:
            yield from _grant_holds(dump, effect)


def _told_before(dump: Dump, review: str, effect: Row) -> bool:
    """Tell whether the record has the review's end before the intent; clocks may differ."""
    kinds = [(e["kind"], e["facts"].get("key")) for e in dump.events_of[effect["run_id"]]]
    if ("effect.intended", effect["key"]) not in kinds:
        return True  # a missing event is another fault
    before = kinds[: kinds.index(("effect.intended", effect["key"]))]
    return ("step.done", review) in before


def _grant_holds(dump: Dump, effect: Row) -> Iterator[Violation]:
    escalation = dump.escalation[effect["escalation_id"]]
    if escalation["run_id"] != effect["run_id"]:
        yield Violation("I11", f"{effect['key']} rests on a decision about another run")
    if escalation["state"] not in ("approved", "adjusted"):
        yield Violation("I29", f"{effect['key']} rests on a decision that is no yes")
        return
    if escalation["kind"] == "effect_unknown":
        return  # they were asked about its outcome
    if not _is_kept(dump, effect):
        return
    allowed = {**escalation["action"]["args"], **patch_of(dump, escalation)}
    done = effect["args"]
    if dump.run[effect["run_id"]]["erased_at"] is not None:  # an erasure removes texts, not numbers
        allowed, done = _numbers(allowed), _numbers(done)
    if allowed != done:
        yield Violation("I11", f"{effect['key']} is not what the person granted")


def _is_kept(dump: Dump, effect: Row) -> bool:
    """Tell whether its arguments still name its subject; an erasure removes a desk's keys"""
    run = dump.run[effect["run_id"]]
    return run["erased_at"] is None or run["desk"] == "refunds"


def _numbers(args: Row) -> Row:
    return {name: value for name, value in args.items() if not isinstance(value, str)}


def people_grant_no_more(dump: Dump) -> Iterator[Violation]:
    """I16: a person changes only what they may, to less than was requested and above zero."""
    for escalation in dump.escalations:
        for change in widenings(escalation, patch_of(dump, escalation)):
            yield Violation("I16", f"escalation {escalation['id']} changed {change}")


def one_decision_each(dump: Dump) -> Iterator[Violation]:
    """I17, I18: a request was decided once, and its step holds that answer."""
    for escalation in dump.escalations:
        told = [
            event["facts"]["decision"]
            for event in dump.events_of[escalation["run_id"]]
            if event["kind"] == "escalation.decided"
            and event["facts"]["escalation"] == escalation["id"]
        ]
        expected = [escalation["state"]] if escalation["state"] in DECIDED else []
        if told != expected:
            yield Violation("I18", f"escalation {escalation['id']} was decided {told}")
        step = dump.step[escalation["step_id"]]
        answered = step["ended_at"] is not None
        if escalation["state"] == "open" and answered:
            yield Violation("I17", f"escalation {escalation['id']} is open and answered")
        if escalation["state"] in (*DECIDED, "expired") and not answered:
            yield Violation("I17", f"escalation {escalation['id']} is answered to nobody")


def four_eyes(dump: Dump) -> Iterator[Violation]:
    """I19: if the policy requires four eyes, nobody decided about their own run."""
    for escalation in dump.escalations:
        run = dump.run[escalation["run_id"]]
        by = escalation["decided_by_id"]
        if by is not None and by == run["launched_by_id"] and dump.limits(run["id"])["four_eyes"]:
            yield Violation("I19", f"escalation {escalation['id']} was decided by its launcher")


def bound_to_the_subject(dump: Dump) -> Iterator[Violation]:
    """I20: a write touches its run's subject only; a tool without a subject declares that."""
    for effect in dump.effects:
        if not _is_kept(dump, effect):
            continue
        touched, run = subject_of(effect), dump.run[effect["run_id"]]
        column = effect["subject_key"]  # where both are present, they agree
        if touched is None or column != touched:
            yield Violation("I20", f"{effect['key']} touched {touched}, its row says {column}")
        elif run["desk"] != "refunds" and _terms_in_row(effect) != _terms_in_args(effect):
            yield Violation("I20", f"{effect['key']} is counted on {_terms_in_row(effect)}")
        elif dump.is_strict(run["id"]) and touched != subject_of(run):
            yield Violation("I20", f"{effect['key']} touched {touched}")


def _terms_in_row(effect: Row) -> tuple[str, str]:
    return effect["subject_key"], effect["resource"]


def _terms_in_args(effect: Row) -> tuple[str, str]:
    resource = args_of(effect).get(TOOL_ARGUMENTS[effect["tool"]].resource, "")
    return str(subject_of(effect)), str(resource)


def silence_is_a_no(dump: Dump) -> Iterator[Violation]:
    """I29: an expired request was answered as expired, by nobody."""
    for escalation in dump.escalations:
        if escalation["state"] != "expired":
            continue
        step = dump.step[escalation["step_id"]]
        said = (step["reply"] or {}).get("decision", "expired")
        if escalation["decided_by_id"] is not None or said != "expired":
            yield Violation("I29", f"escalation {escalation['id']} expired and says {said}")


def sent_back_within_the_limit(dump: Dump) -> Iterator[Violation]:
    """I52: a run is sent back at most as often as its policy allows, and then needs a person."""
    for run in dump.runs:
        returned, count = False, 0
        for event in dump.events_of[run["id"]]:
            decision = event["facts"].get("decision")
            if event["kind"] == "escalation.decided":
                returned = decision == "sent_back"
                count += returned
            if returned and event["kind"] == "effect.intended":
                yield Violation("I52", f"{event['facts']['key']} followed a send-back unseen")
        if count > dump.limits(run["id"]).get("max_send_backs", 0):
            yield Violation("I52", f"run {run['id']} was sent back {count} times")


def what_was_allowed_came_to_something(dump: Dump) -> Iterator[Violation]:
    """I41: an approved action was carried out, or its row and the record say why not."""
    for escalation in dump.escalations:
        is_yes = escalation["state"] in ("approved", "adjusted")
        if not is_yes or escalation["kind"] == "effect_unknown":
            continue
        if escalation["action"].get("kind", "tool") != "tool":
            yield from _what_is_no_call_was_heeded(dump, escalation)
            continue
        if escalation["action"].get("name") not in TOOL_ARGUMENTS:
            continue
        run, why = escalation["run_id"], escalation["not_carried_out"]
        mine = [e for e in dump.effects if e["escalation_id"] == escalation["id"]]
        came_to = [effect["state"] for effect in mine if effect["state"] != "refused"]
        reasons = [
            _whole_reason(dump, event)
            for event in dump.events_of[run]
            if event["kind"] == "escalation.not_carried_out"
            and event["facts"]["escalation"] == escalation["id"]
        ]
        where = f"escalation {escalation['id']}"
        if reasons != ([why] if why else []):
            yield Violation("I41", f"{where} says {why!r}, its record {reasons}")
        if why and came_to:
            yield Violation("I41", f"{where} was carried out and says that it was not: {why}")
        if not why and not came_to and dump.run[run]["state"] in ENDED:
            yield Violation("I41", f"{where} was allowed and came to nothing, nobody says why")


def _whole_reason(dump: Dump, event: Row) -> str:
    """Return a reason with its quotation, which stands beside the event until it is erased."""
    quoted = [one["text"] for one in dump.beside[event["id"]] if one["name"] == "reason"]
    return str(next(map(json.loads, filter(None, quoted)), event["facts"]["reason"]))


def _what_is_no_call_was_heeded(dump: Dump, escalation: Any) -> Iterator[Violation]:
    """I41: an approved output stands if its run succeeds; otherwise its row says why not."""
    run, why = dump.run[escalation["run_id"]], escalation["not_carried_out"]
    ended_so = run["stop_reason"] in ("success", "max_route_attempts")
    if ended_so and why:
        yield Violation("I41", f"escalation {escalation['id']} counts and says that it does not")
    approved = escalation["state"] == "approved"  # it may have been revised after a correction
    if run["state"] in ENDED and approved and not ended_so and not why:
        yield Violation("I41", f"escalation {escalation['id']} counts for nothing, nobody says why")
