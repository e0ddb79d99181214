"""An agent's statements on a step are read strictly; omissions count against it."""

import json

import pytest

from agents.core.checkpoints import (
    Commitment,
    evidence,
    read_assessment,
    reconcile,
)

GIVEN = Commitment(given=True, confidence="high", scope_in=("send_reply to the customer",))


def test_triggers_come_in_the_order_of_the_specification() -> None:
    said = {"met_commitment": False, "unexpected": ["u"], "concerns": ["c", ""]}

    found = reconcile(GIVEN, read_assessment(json.dumps({**said, "deviations": ["d1", "ü 2"]})))

    assert found == [
        "commitment_not_met",
        "deviation:d1",
        "deviation:ü 2",
        "concern:c",
        "unexpected:u",
    ]


@pytest.mark.parametrize(
    "said",
    [
        "fine, all done",
        '{"met_commitment": true',
        '{"met_commitment": "false"}',
        '{"met_commitment": true, "deviations": "none"}',
        '{"met_commitment": true, "met_commitment": true}',
        '{"met_commitment": true, "Met_Commitment": false}',
        '{"met_commitment": true} {"met_commitment": true}',
    ],
)
def test_an_assessment_that_cannot_be_read_met_nothing(said: str) -> None:
    found = reconcile(GIVEN, read_assessment(said))

    assert found == ["commitment_not_met", "assessment_unparseable"]


def test_what_would_hide_in_a_text_is_not_kept() -> None:
    read = read_assessment('{"met_commitment": true, "concerns": ["a\\u0000b\\u202ec"]}')

    assert read.concerns == ("a\ufffdb\ufffdc",)


@pytest.mark.parametrize(
    ("commitment", "found"),
    [
        (GIVEN, []),
        (Commitment(given=True, confidence="high"), ["tool_outside_scope:send_reply"]),
        (
            Commitment(
                given=True,
                confidence="high",
                scope_in=("send_reply",),
                scope_out=("calling send_reply twice",),
            ),
            ["tool_outside_scope:send_reply"],
        ),
    ],
)
def test_undeclared_tool_is_evidence_without_admission(
    commitment: Commitment, found: list[str]
) -> None:
    assert evidence(commitment, used=["send_reply"], claim="") == found
