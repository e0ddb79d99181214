"""Each promise has its tests, and the page of promises says which."""

import pytest

from tests import proofs

ONE = '[money]\ntitle = "Money"\nI1 = {entry}\n'


def test_every_promise_is_tested() -> None:
    assert proofs.faults(proofs.promises(), proofs.marked_tests()) == []


def test_the_page_of_promises_is_up_to_date() -> None:
    said = "python -m tests.proofs writes it"

    assert proofs.PAGE.read_text(encoding="utf-8") == proofs.page(), said


@pytest.mark.parametrize(
    ("entry", "tests", "fault"),
    [
        ('"One effect."', (), "I1: 0 tests are marked with it"),
        ('{ absent = "There is none." }', ("tests/a.py::b",), "I1: 1 tests are marked with it"),
        (f'"{"x" * 161}"', ("tests/a.py::b",), "I1: 161 characters of 160"),
        ('"One effect."\nI1000 = "More."', ("tests/a.py::b",), "I1000: no such promise"),
        ('"One effect."', ("tests/a.py::b",), "I2: it must be there once"),
    ],
)
def test_a_faulty_promise_is_named(entry: str, tests: tuple[str, ...], fault: str) -> None:
    found = proofs.read_promises(ONE.format(entry=entry), {"I1": tests})

    assert fault in proofs.faults(found, [])


def test_a_mark_without_a_promise_is_named() -> None:
    assert "I999: no such promise" in proofs.faults(proofs.promises(), ["I999"])
