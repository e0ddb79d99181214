"""What came of a goal: whether an end means that something was carried out."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from agents.core.claims import claims_deed
from agents.core.requests import Json


class CameOf(StrEnum):
    """What came of the goal of a run that is done."""

    CARRIED_OUT = "carried_out"  # a call that writes
    ANSWERED = "answered"  # only words, that claim no more
    NOTHING = "nothing_done"
    BLOCKED = "blocked"  # the policy blocked calls, in a session that then ended with words


# In the outcome of a run that is stopped: what its agent answered after a block, as no result.
AFTER_BLOCK = "after_block"
IN_WORDS = {
    CameOf.CARRIED_OUT: "carried out",
    CameOf.ANSWERED: "answered only",
    CameOf.NOTHING: "nothing done",
    CameOf.BLOCKED: "blocked",
}
WORDS = {one: f"Done: {words}" for one, words in IN_WORDS.items()}


def came_of(
    outcome: Json, *, has_written: bool, writes: Collection[str], is_blocked: bool = False
) -> CameOf:
    """Return what came of a goal, from a run's outcome; `writes` are tools that could have.

    An end that says `done`, or claims a deed, without one has done nothing. `is_blocked` tells that
    calls were blocked: that counts whatever the end says.
    """
    if has_written:
        return CameOf.CARRIED_OUT
    if is_blocked:
        return CameOf.BLOCKED
    words, says = str(outcome.get("note", outcome.get("answer", ""))), outcome.get("says")
    is_claim = says in ("done", "cannot") or (bool(writes) and claims_deed(words, writes))
    return CameOf.NOTHING if is_claim and says != "answer" else CameOf.ANSWERED


def words_of(outcome: Json) -> str:
    """Return what came of the goal of a run that is done; "" for one that ended before 0.3.0."""
    kept = outcome.get("came_of", "") if isinstance(outcome, dict) else ""
    return WORDS[CameOf(kept)] if kept in set(CameOf) else ""
