"""An agent's statements on a step are read strictly; omissions count against it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.core.checkpoints import (
    Assessment,
    Commitment,
    no_assessment,
    read_assessment,
    read_commitment,
)
from agents.core.drift import evidence, reconcile
from agents.core.verdicts import question_by_person, question_of, read_verdict

GIVEN = Commitment(given=True, confidence="high", scope_in=("send_reply to the customer",))
CLEAN = Assessment(met_commitment=True, readable=True)


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


def test_a_clean_step_triggers_nothing() -> None:
    assert reconcile(GIVEN, CLEAN) == []


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


def test_a_commitment_that_is_missing_is_a_trigger() -> None:
    assert reconcile(read_commitment("I will do my best"), CLEAN) == ["commitment_missing"]


@pytest.mark.parametrize(
    ("said", "confidence"),
    [({}, "medium"), ({"confidence": None}, "medium"), ({"CONFIDENCE": "certain"}, "certain")],
)
def test_confidence_is_kept_as_it_was_said(said: dict[str, Any], confidence: str) -> None:
    read = read_commitment(f"Sure:\n```json\n{json.dumps(said)}\n```")

    assert (read.given, read.confidence) == (True, confidence)


def test_one_value_of_the_wrong_kind_drops_the_whole_commitment() -> None:
    read = read_commitment('{"interpretation": "x", "scope_in": "all", "confidence": "high"}')

    assert read == Commitment()


def test_what_would_hide_in_a_text_is_not_kept() -> None:
    read = read_assessment('{"met_commitment": true, "concerns": ["a\\u0000b\\u202ec"]}')

    assert read.concerns == ("a\ufffdb\ufffdc",)


def test_a_model_that_fails_to_assess_has_met_nothing() -> None:
    assert reconcile(GIVEN, no_assessment("llm_error")) == [
        "commitment_not_met",
        "concern:Failed to obtain self-assessment: llm_error",
    ]


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
def test_a_tool_that_was_not_declared_is_found_without_being_admitted(
    commitment: Commitment, found: list[str]
) -> None:
    assert evidence(commitment, used=["send_reply"], claim="") == found


def test_low_confidence_and_a_false_claim_are_evidence() -> None:
    unsure = Commitment(given=True, confidence="low")

    assert evidence(unsure, used=[], claim="USD 5 was refunded") == [
        "confidence:low",
        "ledger:USD 5 was refunded",
    ]


@pytest.mark.parametrize("word", [" HALT ", "Continue", "ask_human"])
def test_a_verdict_is_known_whatever_its_case(word: str) -> None:
    read = read_verdict(f'My verdict: {{"verdict": "{word}", "reason": "r"}}')

    assert (read.word, read.reason) == (word.strip().lower(), "r")


@pytest.mark.parametrize(
    "said",
    [
        "",
        "halt",
        "{}",
        '{"verdict": null}',
        '{"verdict": "stop"}',
        '{"verdict": "halt!"}',
        '{"verdict": 1}',
        '{"verdict": "halt"}{"verdict": "continue"}',
        '{"verdict": "reorient"}',
    ],
)
def test_what_is_no_clear_verdict_asks_a_person(said: str) -> None:
    read = read_verdict(said)

    assert read.word == "ask_human"
    assert read.question.endswith("What should happen next?")


def test_a_long_reply_is_cut_by_characters() -> None:
    assert f"{'ü' * 500}…\n" in read_verdict("ü" * 501).question


def test_a_question_that_the_judge_leaves_blank_is_made_of_what_it_knew() -> None:
    verdict = read_verdict('{"verdict": "ask_human", "reason": "odd", "correction": "be brief"}')

    asked = question_of(verdict, ["concern:c"])

    assert all(part in asked for part in ("odd", "be brief", "concern:c"))


def test_who_looks_at_every_output_is_told_the_triggers_or_that_there_are_none() -> None:
    assert question_by_person(["a", "b"]) == "Supervision triggers: a, b"
    assert question_by_person([]) == "Review this step's output."
