"""The tables of docs/reliability.md are true of the tests they name."""

from __future__ import annotations

import pytest

from tests import proofs

ROW = "| I1 | One effect | {stands} | {last} |"
REAL = "`project/test_reliability.py::test_every_row_is_whole_and_its_proofs_exist`"


def test_every_row_is_whole_and_its_proofs_exist() -> None:
    assert proofs.faults(proofs.rows(proofs.TABLES.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("stands", "last", "fault"),
    [
        ("proved", "", "I1: proved, with 0 proofs"),
        ("proved", "`project/test_reliability.py::test_gone`", "I1: there is no "),
        ("proved", "`project/test_gone.py::test_it`", "I1: there is no "),
        ("partly", REAL, "I1: partly, and not a word why"),
        ("open", "", "I1: open, and not a word why"),
        ("absent", f"{REAL} there is none", "I1: absent, with 1 proofs"),
        ("surely", "it is", "I1: 'surely' is no standing"),
    ],
)
def test_a_row_that_claims_too_much_is_named(stands: str, last: str, fault: str) -> None:
    said = proofs.faults(proofs.rows(ROW.format(stands=stands, last=last)))

    assert any(line.startswith(fault) for line in said)


def test_a_row_that_is_missing_is_noticed() -> None:
    text = proofs.TABLES.read_text(encoding="utf-8")
    cut = "\n".join(line for line in text.splitlines() if not line.startswith("| F7 "))

    assert proofs.faults(proofs.rows(cut)) == [
        "the rows are not each of I, F and W once and in order"
    ]


def test_a_proof_that_did_not_pass_is_named() -> None:
    row = proofs.rows(ROW.format(stands="proved", last=REAL))
    name = row[0].proofs[0]

    assert proofs.missing_proofs(row, {name}) == []
    assert proofs.missing_proofs(row, {"tests/other.py::test_it"}) == [f"I1: {name}"]
