"""After any events in any order, the rows are consistent and every run ends."""

from collections import Counter

import pytest

from tests.engine.machine import Engine
from tests.settings import ON_POSTGRES

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]

SEQUENCES = 6 if ON_POSTGRES else 16  # there the point is SQL and locks, not the order
STEPS = 50
# One run of the test must meet all of these, or the weights are wrong.
MET = (
    *("approved", "adjusted", "rejected", "expired", "approval.given", "approval.lapsed"),
    *("escalation.assigned", "escalation.not_carried_out", "decision.refused"),
    *("kill_switch.on", "sent_back", "crash", "effect.done"),
)


@pytest.mark.proves("I23", "I24", "F36", "F38")
def test_record_stays_true_in_any_order_of_events() -> None:
    met: Counter[str] = Counter()
    for seed in range(SEQUENCES):
        engine = Engine(seed)
        try:
            met += engine.live(STEPS)
        except BaseException as error:
            error.add_note(f"seed {seed}, after {engine.done}")
            raise

    assert ON_POSTGRES or [name for name in MET if not met[name]] == [], met
