"""The work that every contestant does: a refund in four steps, with one human pause.

The model is scripted and answers at once, so that what is measured is the engine. The tools
are the desk's own, the same functions for everybody who has tools.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Any

ASKED_MINOR, GRANTED_MINOR, ATTENDED_MINOR = 120_000, 80_000, 100_000

# What the console does for a run beside its promises about money and record; see bench/loop.py.
CLAIMS, SWITCHES, CAP = "claims with a fence", "kill switches", "the cap on open requests"
MASKING, STEPS, NOTICE = "masking", "questions and reviews kept whole", "the notification"
ADDED = (CLAIMS, SWITCHES, CAP, MASKING, STEPS, NOTICE)


def goal(customer: int) -> str:
    return f"Customer {customer} requests a refund of 1200 USD for the annual plan."


def answer_of(step: int, customer: int) -> dict[str, Any]:
    """Return what the model says after `step` completed steps."""
    refund = {"user_id": customer, "amount_usd": ASKED_MINOR // 100, "reason": "not used"}
    letter = {"user_id": customer, "amount_usd": GRANTED_MINOR // 100, "message": "Refunded."}
    answers: list[dict[str, Any]] = [
        {"kind": "tool", "name": "get_refund_context", "args": {"user_id": customer}},
        {"kind": "tool", "name": "issue_refund", "args": refund},
        {"kind": "tool", "name": "send_refund_email", "args": letter},
        {"kind": "final", "answer": "USD 800.00 was refunded."},
    ]
    return answers[step]


@dataclass
class Watch:
    """The clock of one run: the model and the tools tell when they are reached."""

    launch_to_step: float = 0.0
    decision_to_step: float = 0.0
    _since: float = 0.0
    _into: str = ""

    def begin_launch(self) -> None:
        """Call before the launch."""
        self._since, self._into = time.perf_counter(), "launch_to_step"

    def begin_decision(self) -> None:
        """Call before the decision."""
        self._since, self._into = time.perf_counter(), "decision_to_step"

    def end_wait(self) -> None:
        """Call where a model or a tool begins."""
        if self._into:
            setattr(self, self._into, time.perf_counter() - self._since)
            self._into = ""


@dataclass
class Timing:
    """Seconds of one round; the lists hold one entry a run."""

    seconds: float = 0.0
    launch_to_step: list[float] = field(default_factory=list)
    decision_to_step: list[float] = field(default_factory=list)

    def add(self, watch: Watch) -> None:
        self.launch_to_step.append(watch.launch_to_step)
        self.decision_to_step.append(watch.decision_to_step)


class Queue:
    """Customers for several threads to take from."""

    def __init__(self, customers: range) -> None:
        self._left, self._lock = iter(customers), Lock()

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        with self._lock:
            return next(self._left)


def in_threads(
    one_after_another: Callable[[Queue, Timing], None], customers: range, at_once: int
) -> Timing:
    """Let `at_once` threads take customers until there are none left, and time that."""
    timing, queue = Timing(), Queue(customers)
    threads = [Thread(target=one_after_another, args=(queue, timing)) for _ in range(at_once)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    timing.seconds = time.perf_counter() - started
    return timing
