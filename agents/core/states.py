"""The states of runs, escalations and effects, and the allowed moves."""

from __future__ import annotations

from enum import StrEnum


class RunState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"  # for a person
    DONE = "done"
    STOPPED = "stopped"  # on purpose: policy, budget, person
    FAILED = "failed"  # our fault


ENDED = frozenset({RunState.DONE, RunState.STOPPED, RunState.FAILED})

MOVES: dict[RunState, frozenset[RunState]] = {
    RunState.QUEUED: frozenset({RunState.RUNNING, RunState.STOPPED}),
    RunState.RUNNING: frozenset({RunState.QUEUED, RunState.WAITING}) | ENDED,
    RunState.WAITING: frozenset({RunState.QUEUED, RunState.STOPPED}),
    RunState.DONE: frozenset(),
    RunState.STOPPED: frozenset(),
    RunState.FAILED: frozenset(),
}


class EscalationState(StrEnum):
    OPEN = "open"
    APPROVED = "approved"
    ADJUSTED = "adjusted"
    REJECTED = "rejected"
    SENT_BACK = "sent_back"  # to the agent, which may propose something else
    EXPIRED = "expired"
    CANCELLED = "cancelled"  # the run ended, or the agent took it back, before a decision

    @property
    def word(self) -> str:
        return self.value.replace("_", " ")


GRANTED = (EscalationState.APPROVED, EscalationState.ADJUSTED)  # a person approved
DECIDED = frozenset({*GRANTED, EscalationState.REJECTED, EscalationState.SENT_BACK})


class EffectState(StrEnum):
    INTENDED = "intended"  # committed before the call; its outcome is not known yet
    DONE = "done"
    REFUSED = "refused"  # the system of record refused it, or never did it
    UNKNOWN = "unknown"  # the key does not show it: a person is asked


MAYBE_DONE = (EffectState.INTENDED, EffectState.DONE, EffectState.UNKNOWN)
