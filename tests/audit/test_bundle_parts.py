"""A copy is refused for parts that no hash covers, terminal escapes and impossible times."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.core.json_forms import canonical
from tests.audit.test_bundle import Copy
from tests.audit.test_bundle_attacks import FULL, heads, made_copy

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def copy(heads_file: Path, settings: Any, tmp_path: Path) -> Copy:
    return made_copy(heads_file, settings, tmp_path, older=0)


def note_beside_a_text(copy: Copy) -> None:
    event = next(event for event in copy.events() if event.get("texts"))
    next(iter(event["texts"].values()))["note"] = "The CFO approved this."


def control_characters(copy: Copy) -> None:
    heads(copy)[-1]["others"] = {"9.\nAll seals hold.\x1b[8m": "0" * 64}


def end_of_time(copy: Copy) -> None:
    copy.documents[0]["at"] = "9999-12-31T23:59:59.000000Z"


def beginning_of_time(copy: Copy) -> None:
    for head in heads(copy):
        head["at"] = "0001-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    "attack", [note_beside_a_text, control_characters, end_of_time, beginning_of_time]
)
@pytest.mark.parametrize("arguments", [FULL, ()])
def test_a_part_that_cannot_be_believed_is_refused(
    copy: Copy, attack: Callable[[Copy], None], arguments: tuple[str, ...]
) -> None:
    attack(copy)
    copy.write()

    code, said = copy.verify(*arguments)

    assert code == 3, said
    assert "\x1b" not in said


def test_a_note_in_the_last_line_is_refused(copy: Copy) -> None:
    record = copy.folder / "record.jsonl"
    *lines, last = record.read_text().splitlines()
    noted = last.removesuffix("}") + "," + canonical({"note": "approved"}).removeprefix("{")
    record.write_text("\n".join([*lines, noted, ""]))

    assert copy.verify(*FULL)[0] == 3


def test_last_head_needs_no_newline_and_torn_one_is_named(copy: Copy) -> None:
    file = copy.folder / "heads.jsonl"
    whole = file.read_bytes()

    file.write_bytes(whole.removesuffix(b"\n"))
    assert "1 newer heads are kept elsewhere" in copy.verify(*FULL)[1]

    file.write_bytes(whole[:-20])
    assert "is incomplete: it was left out" in copy.verify(*FULL)[1]
