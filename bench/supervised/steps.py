"""What the graph's state keeps of its steps, and what no transaction has told of them yet."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeAlias

from agents.core.json_forms import canonical
from agents.models.record import Entry
from agents.record.seals import spell_time
from agents.sdk.desk import DESKS
from bench.supervised import tables
from bench.supervised.record import Change

TOOLS = DESKS["refunds"].all_tools

Steps: TypeAlias = Sequence[dict[str, Any]]  # action, observation; a ruling where it only read


def key_of(thread: str, step: int) -> str:
    return f"{thread}:{step}"


def context_of(steps: Steps) -> list[int]:
    """Return the customers whose context was really read: the desk named them in its answer."""
    seen = [past["observation"] for past in steps]
    return sorted({found["user"]["id"] for found in seen if "user" in found})


def _untold(steps: Steps) -> list[tuple[int, dict[str, Any]]]:
    """Return the steps that no transaction has told of: the newest write, and the reads since."""
    newest = max((step for step, past in enumerate(steps) if _outcome(past)), default=0)
    return list(enumerate(steps))[newest:]


def _outcome(past: dict[str, Any]) -> str:
    """Return what became of a write, "" for what was only read."""
    if "ruling" in past:
        return ""
    return "done" if past["observation"].get("status", "ok") == "ok" else "refused"


def has_acted(steps: Steps) -> bool:
    return any(map(_outcome, steps))


def late_events(thread: str, steps: Steps) -> list[Entry]:
    """Return the events of steps that no transaction has told of."""
    return [
        Entry(f"effect.{outcome}", {"key": key_of(thread, step)})
        if (outcome := _outcome(past))
        else Entry("action.ruled", past["ruling"])
        for step, past in _untold(steps)
    ]


def settling(thread: str, steps: Steps, at: datetime) -> list[Change]:
    """Return how the ledger is told what became of the newest write; a hold it left is released."""
    changes: list[Change] = []
    for step, past in _untold(steps):
        if outcome := _outcome(past):
            seen = canonical(past["observation"])
            changes.append((tables.SETTLE, (outcome, seen, spell_time(at), thread, step)))
        if outcome == "refused" and (release := TOOLS[past["action"]["name"]].release):
            release(key_of(thread, step), at)
    return changes
