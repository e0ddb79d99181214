"""Runs move as allowed, and none gets stuck."""

from collections.abc import Iterator

from tests.checker.reading import Dump, Row, Violation

ENDED = ("done", "stopped", "failed")
MOVES = {
    "": ("queued",),
    "queued": ("running", "stopped"),
    "running": ("queued", "waiting", *ENDED),
    "waiting": ("queued", "stopped"),
}
_STATES = {f"run.{state}": state for state in ("queued", "waiting", *ENDED)}
_STATES["run.claimed"] = "running"


def moves_are_of_the_table(dump: Dump) -> Iterator[Violation]:
    """I23: each run's events are a path through the table of moves, ending in the row's state."""
    for run in dump.runs:
        state = ""
        for event in dump.events_of[run["id"]]:
            to = _STATES.get(event["kind"])
            if to is None:
                continue
            if to not in MOVES.get(state, ()):
                yield Violation("I23", f"run {run['id']} went from {state or 'nothing'} to {to}")
            state = to
        if state != run["state"]:
            yield Violation("I23", f"run {run['id']} is {run['state']}, its record says {state}")


def nothing_after_the_end(dump: Dump) -> Iterator[Violation]:
    """I23: an ended run begins nothing and asks nobody."""
    begins = ("step.", "escalation.opened", "escalation.decided", "effect.intended")
    for run in dump.runs:
        if run["state"] not in ENDED:
            continue
        over = False
        for event in dump.events_of[run["id"]]:
            if over and event["kind"].startswith(begins):
                yield Violation("I23", f"run {run['id']} had ended before its {event['kind']}")
            over = over or _STATES.get(event["kind"]) in ENDED
    for escalation in dump.escalations:
        if escalation["state"] == "open" and dump.run[escalation["run_id"]]["state"] in ENDED:
            yield Violation("I23", f"escalation {escalation['id']} is open, its run has ended")


def no_run_is_stuck(dump: Dump) -> Iterator[Violation]:
    """I24: a run that has not ended is queued, leased, or waiting for a person or a call."""
    asked = {e["run_id"] for e in dump.escalations if e["state"] == "open"}
    # An agent elsewhere may call at any time.
    asked |= {s["run_id"] for s in dump.steps if s["kind"] == "await" and s["ended_at"] is None}
    for run in dump.runs:
        if run["state"] == "running" and not (run["lease_owner"] and run["lease_ends_at"]):
            yield Violation("I24", f"run {run['id']} is running without a lease")
        if run["state"] == "waiting" and run["id"] not in asked:
            yield Violation("I24", f"run {run['id']} waits for nobody")
        if run["state"] != "running" and run["lease_owner"]:
            yield Violation("I24", f"run {run['id']} is {run['state']} and still leased")


def no_write_while_killed(dump: Dump) -> Iterator[Violation]:
    """I30: no write in a switch's scope starts while the switch is on.

    Both write their events under the workspace's lock, so ids follow the order of commits.
    """
    switches: dict[tuple[int, str, str], Row] = {}
    for event in sorted(dump.events, key=lambda event: event["id"]):
        if event["kind"].startswith("kill_switch."):
            facts = event["facts"]
            switches[event["workspace_id"], facts["scope"], facts["target"]] = event
        elif event["kind"] == "effect.intended":
            key = event["facts"]["key"]
            run = dump.run[event["run_id"]]
            tool = next((one["tool"] for one in dump.effects if one["key"] == key), "")
            scopes = {"workspace": "", "pattern": run["pattern"], "tool": tool}
            scopes["agent"] = str(dump.events_of[run["id"]][0]["facts"].get("agent"))
            found = [switches.get((run["workspace_id"], *scope)) for scope in scopes.items()]
            if any(switch and _stops(switch, run) for switch in found):
                yield Violation("I30", f"{key} began while writes were stopped")


def _stops(switch: Row, run: Row) -> bool:
    if switch["kind"] == "kill_switch.trial":
        return bool(run["created_at"] <= switch["at"])
    return bool(switch["kind"] == "kill_switch.on")
