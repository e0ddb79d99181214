"""Whatever happens in whatever order, what is written stays true and every run ends."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.engine.machine import Engine
from tests.settings import ON_POSTGRES

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]

ABOUT_A_MINUTE = settings(
    max_examples=15 if ON_POSTGRES else 40,  # there about SQL and locks, not about the order
    stateful_step_count=25,
    phases=[Phase.generate],  # a failure as it was found: to shrink it takes minutes
    suppress_health_check=list(HealthCheck),
)


def test_whatever_happens_in_whatever_order_the_record_stays_true() -> None:
    run_state_machine_as_test(Engine, settings=ABOUT_A_MINUTE)
