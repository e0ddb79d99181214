"""What counts as active time, and which tools the gateway lets through."""

import pytest

from agents.core.limits import Call, active, refusal
from tests.limits import SUPERVISED


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [
        ([], 0),
        ([(0, 2), (5, 6)], 3),  # one after the other
        ([(0, 2), (0, 2), (1, 3)], 3),  # concurrent time counts once
        ([(1, 9), (2, 3)], 8),
        ([(5, 6), (0, 2)], 3),  # in whatever order
    ],
)
def test_time_counts_once_however_many_are_busy(
    spans: list[tuple[float, float]], seconds: float
) -> None:
    assert active(spans) == seconds


@pytest.mark.proves("I22")
@pytest.mark.parametrize(
    ("tool", "calls_before", "why"),
    [
        ("issue_refund", 0, ""),
        ("transfer_money", 0, "tool_denied:transfer_money"),  # registered, not on the list
        ("send_refund_email", 0, "tool_missing:send_refund_email"),  # on the list, not registered
        ("issue_refund", 1, "loop_detected:signature_repeat"),
        ("issue_refund", SUPERVISED.max_tool_calls, "max_tool_calls"),
    ],
)
def test_a_tool_is_on_the_list_again_when_it_is_called(
    tool: str, calls_before: int, why: str
) -> None:
    call, registered = Call(tool, "the same"), {"issue_refund", "transfer_money"}

    said = refusal(call, before=[call] * calls_before, limits=SUPERVISED, registered=registered)

    assert said == why
