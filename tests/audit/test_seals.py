"""Heads without a database: which ones the seals accept."""

import json
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from agents.audit.chains import SealedChains
from agents.record import seals
from agents.record.seals import Fault, SealedHead, judge_heads, seal_head

KEY = "a-key-of-the-tests-with-32-characters"
AT = "2026-11-21T14:06:00.000000Z"


def history(*moved: dict[str, list[str]]) -> list[SealedHead]:
    """Return heads under KEY, one after the other."""
    made: list[SealedHead] = []
    for number, new in enumerate(moved, start=1):
        before = made[-1].seal if made else ""
        made.append(seal_head(SealedHead(number, AT, "", before, new), KEY))
    return made


OURS = history({"run/a": ["1", "2"]}, {"run/a": ["3"], "run/b": ["4"]}, {"run/b": ["5"]})
THEIRS = history({"run/a": ["1", "9"]}, {"run/a": ["3"], "run/b": ["4"]}, {"run/b": ["5"]})


def judge(stored: list[SealedHead], *kept: SealedHead) -> tuple[list[Fault], list[SealedHead]]:
    faults: list[Fault] = []
    trusted = list(judge_heads(stored, kept, {seals.key_id(KEY): KEY}, faults))
    return faults, trusted


def test_what_was_sealed_is_every_event_in_order() -> None:
    with closing(SealedChains()) as seal_head:
        for head in OURS:
            seal_head.add(head, "")

        assert judge(OURS) == ([], OURS)
        assert list(seal_head.counts()) == [("run/a", 3), ("run/b", 2)]
        assert [hashed for hashed, _ in seal_head.of("run/a")] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("stored", "number"),
    [
        (OURS[1:], 1),
        ([OURS[0], OURS[2]], 2),
        ([OURS[0], THEIRS[1], THEIRS[2]], 2),  # sealed with the key, but from another history
        ([OURS[0], replace(OURS[1], before=OURS[1].seal), OURS[2]], 2),
        ([OURS[0], replace(OURS[1], moved={"run/a": ["3"]}), OURS[2]], 2),
        ([OURS[0], replace(OURS[1], moved={"run/b": ["3"], "run/a": ["4"]}), OURS[2]], 2),
        ([OURS[0], replace(OURS[1], key=seals.key_id("another")), OURS[2]], 2),
    ],
)
def test_the_first_bad_head_is_named(stored: list[SealedHead], number: int) -> None:
    faults, trusted = judge(stored)

    assert [fault.seq for fault in faults] == [number]
    assert trusted == stored[: number - 1]


def test_copy_exposes_a_rewritten_history_under_the_key() -> None:
    faults, trusted = judge(THEIRS, OURS[1])

    assert faults == [Fault(2, "it is kept elsewhere with other content")]
    assert trusted == THEIRS[:1]


def test_forged_copy_does_not_discredit_a_sound_database() -> None:
    forged = replace(OURS[1], seal="0" * 64)

    faults, trusted = judge(OURS, forged)

    assert faults == [Fault(2, "it is kept elsewhere with other content")]
    assert trusted == OURS[:1]


@pytest.mark.parametrize(
    "change",
    [
        {"number": "1"},
        {"moved": []},
        {"moved": {"run/a": "12"}},
        {"moved": {"run/a": [1]}},
        {"seal": None},
        {"more": 1},
    ],
)
def test_a_line_that_is_not_a_head_is_refused(change: dict[str, Any]) -> None:
    line = json.loads(seals.as_line(OURS[0]))

    with pytest.raises(ValueError, match="it"):
        seals.from_line({**line, **change})
