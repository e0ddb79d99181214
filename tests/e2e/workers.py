"""A scripted refund, and how to run and watch real workers on it."""

import time
from collections.abc import Callable, Sequence
from threading import Event
from typing import Any

from agents.core.requests import ENDED, RunState
from agents.models import Run
from tests.conformance.replay_server import ReplayServer, Session
from tests.engine.scene import fresh
from tests.processes import LONGEST

SCRIPT = [
    '{"kind": "tool", "name": "get_refund_context", "args": {"user_id": 42}}',
    '{"kind": "tool", "name": "issue_refund", '
    '"args": {"user_id": 42, "amount_usd": 1200, "reason": "not used"}}',
    '{"kind": "tool", "name": "send_refund_email", '
    '"args": {"user_id": 42, "amount_usd": 800, "message": "done"}}',
    '{"kind": "final", "answer": "USD 800.00 was refunded."}',
]
PATIENCE = float(LONGEST)  # what is waited for begins with the start of a process


class Held(Session):
    """A script; answers with these places in it wait until the test allows them."""

    def __init__(self, script: Sequence[str], *places: int) -> None:
        super().__init__("refund", script)
        self.places, self.may_go_on = places, Event()

    def take(self, *asked: Any) -> Any:
        answer = super().take(*asked)
        if answer[1] in self.places:
            self.may_go_on.wait(PATIENCE)
        return answer


def settings_of(model: ReplayServer, **more: str) -> dict[str, str]:
    """Return a worker's environment: the scripted model, and leases too long to be lost.

    `recover` brings back the runs of a dead worker.
    """
    return {
        "OPENAI_BASE_URL": model.base_url("refund"),
        "OPENAI_API_KEY": "any",
        "OPENAI_TOOL_CALLS": "off",  # it would read the script's first line
        "OPSCONSOLE_LEASE_SECONDS": "60",
        **more,
    }


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; fail after too long."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def reach(state: RunState, *runs: Run) -> None:
    """Wait until runs have a state; fail at once if one has ended in another."""

    def all_have() -> bool:
        now = [fresh(run) for run in runs]
        told = [(run.state, run.stop_reason, run.attempts) for run in now]
        assert not any(run.state in ENDED - {state} for run in now), told
        return all(run.state == state for run in now)

    until(all_have)
