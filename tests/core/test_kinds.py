"""The table of request kinds is complete, and the docs match it."""

import re
from pathlib import Path
from string import Formatter
from typing import Literal

import pytest
from pydantic import ValidationError

from agents.core.decisions import ADJUST, ANSWER, APPROVE, KINDS, REJECT, RequestKind, kind_of
from agents.core.tables import read_table
from agents.sdk.desk import DESKS
from tests.processes import ROOT

TOOLS = DESKS["refunds"].all_tools

FILLED = {"before", "after", "brief", "tool", "step", "subject", "by", "amount", "asked"}
ALL = {**KINDS, **{t.name: t.request for t in TOOLS.values()}}


@pytest.mark.parametrize("kind", ALL.values(), ids=ALL)
def test_a_kind_can_be_answered_and_says_what_became_of_it(kind: RequestKind) -> None:
    verdicts = [answer.verdict for answer in kind.answers]
    sentences = [kind.asks, kind.note, kind.done, kind.undone, kind.pending, kind.lost]
    sentences += [text for a in kind.answers for text in (a.label, a.consequence, a.button)]

    assert {REJECT, ADJUST if kind.change == ANSWER else APPROVE} <= set(verdicts)
    assert (ADJUST in verdicts) == bool(kind.change)
    assert all([kind.asks, kind.tag, kind.undone, kind.reason])
    assert not kind.runs_tool or all([kind.pending, kind.under_way, kind.lost])
    assert {name for s in sentences for _, name, _, _ in Formatter().parse(s) if name} <= FILLED


def test_what_is_stored_leads_back_to_its_kind() -> None:
    for name, kind in KINDS.items():
        other = "final" if name == "answer" else "advice"
        action = {"kind": "tool" if kind.runs_tool or kind.settles_call else other}
        assert kind_of(kind.stored, action) is kind


def test_a_kind_is_compared_in_its_table_alone() -> None:
    stored = "|".join({kind.stored for kind in KINDS.values()})
    compared = re.compile(rf'(?<!action\.)kind (==|!=|in|not in) \(?"({stored})"')

    found = [
        path.relative_to(ROOT).as_posix()
        for path in (*(ROOT / "agents").rglob("*.py"), *(ROOT / "templates").rglob("*.html"))
        if compared.search(path.read_text())
    ]

    assert found == []


@pytest.mark.parametrize("row", ["tag = 1", 'tga = "x"', 'tag = "x"\n[next]\nlike = "none"'])
def test_a_table_of_another_shape_does_not_load(row: str, tmp_path: Path) -> None:
    (tmp_path / "rows.toml").write_text(f"[first]\n{row}")

    with pytest.raises((ValidationError, KeyError)):
        read_table(dict[str, dict[Literal["tag"], str]], str(tmp_path / "x.py"), "rows.toml")


def test_the_docs_name_each_kind() -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    said = page.partition("A person can be asked")[2].partition("\n\n")[0]

    assert re.findall(r"`(\w+)`", said) == list(KINDS)
