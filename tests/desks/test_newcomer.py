"""Mistakes in a newcomer's desk: nothing starts, and a sentence names file and line."""

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.apps import AppConfig, apps
from django.core.exceptions import ImproperlyConfigured

from agents.engine.desk import registry
from agents.management.commands import startdesk
from agents.patterns import PATTERNS
from agents.policies.answers import SHARED
from agents.sdk.declaration_checks import RESERVED
from opsconsole.environment import Environment

TYPED = "send_samples: weight cannot be of type"
LIMIT = ' = limit(Pieces(5), "Most samples without approval", "More wait for a person.")'
# Each change to the skeleton, with the sentence that it leads to.
WRONG: list[tuple[str, str, str]] = [
    ("pieces: Pieces) ->", "pieces: Pieces, weight: float) ->", f"{TYPED} float: take str, int"),
    ("pieces: Pieces) ->", "pieces: Pieces, weight: object) ->", f"{TYPED} object: take str"),
    ("pieces: Pieces) ->", "pieces: Pieces, weight=1) ->", "weight is to be a keyword with a type"),
    ("pieces: Pieces) ->", "pieces: Peices) ->", "send_samples: name 'Peices' is not defined"),
    ("pieces: Pieces) ->", "pieces: Pieces = 'all') ->", "pieces cannot be 'all'"),
    ("(call: Call, *, ", "(*, ", "send_samples: its first parameter is the call"),
    (
        '    after="{pieces} were sent to {subject}.",\n',
        "",
        "say what it does, before and after it",
    ),
    ("Send {pieces} to", "Send {piece} to", "send_samples has no piece for its sentence"),
    ('"pieces": Lower()', '"person": Lower()', "nobody changes what a call is about"),
    ('"pieces": Lower()', '"piece": Lower()', "send_samples has no argument piece"),
    ('"pieces": Lower()', '"pieces": Lower', "pieces cannot be changed by"),
    ("@desk.rule(send_samples)", "@desk.rule", "few is no tool of this desk: say @desk.rule("),
    ("def send_samples(", "async def send_samples(", "send_samples is to be a plain function"),
    ("def few(", "async def few(", "few is to be a plain function, without async"),
    ("args: Args, limits", "args: Args, clock", "few asks for clock"),
    ("send_samples", "transfer_money", "the desk bank has a tool transfer_money which does some"),
    ('name="samples"', 'name="bank"', "the name bank is taken"),
    ('name="samples"', 'name="approvals"', "called approvals, which is a word of the console's"),
    ('name="samples"', f'name="{"a" * 41}"', "up to 40 letters, digits, underscores"),
    ("send_samples", "final", "a tool cannot be called final: that is a kind of reply"),
    ("send_samples", "again", "a tool cannot be called again: that is a tool of the console's own"),
    ("send_samples", "s" * 61, "that is more than 60 characters"),
    ("pieces: Pieces) ->", "pieces: Pieces, fee_minor: int) ->", "fee_minor is to be Money"),
    ("    most: ", "    max_steps: ", "a policy has a max_steps for all desks"),
    ("def few(", "def caps(", "every desk has the console's rule caps"),
    ('Says("send_samples"', 'Says("send"', "'More samples than usual': no tool above it is called"),
    (
        'person="anna", pieces=20',
        'person="anna"',
        "'More samples than usual': send_samples: pieces",
    ),
    ("desk = Desk(", "our_desk = desk = dict(", "'dict' object has no attribute 'tool'"),
    ("class Limits:", "class Limits", "SyntaxError: expected ':'"),
    (LIMIT, "", "Limits: most needs a default"),
    (LIMIT, " = limit(5.5, 'Most')", "Limits: the default of most, 5.5, is no Pieces"),
    ("@dataclass(frozen=True)\n", "", "Limits: put @dataclass(frozen=True) above it"),
    ("import dataclass\n", "import dataclas\n", "ImportError: cannot import name 'dataclas'"),
]


@pytest.mark.parametrize(("old", "new", "sentence"), WRONG, ids=[new for _, new, _ in WRONG])
@pytest.mark.usefixtures("no_desk_left")
def test_a_desk_that_cannot_be_used_is_explained_in_a_sentence(
    old: str, new: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {"name": "samples", "title": "Samples", "console": "/opt/opsconsole"}
    text = startdesk.fill("desk.py.txt", words)
    assert old in text
    file = tmp_path / "samples" / "desk.py"
    file.parent.mkdir()
    (file.parent / "__init__.py").touch()
    file.write_text(text.replace(old, new))
    monkeypatch.syspath_prepend(str(tmp_path))
    config = AppConfig("samples", import_module("samples"))
    monkeypatch.setattr(apps, "get_app_configs", lambda: [config])

    with pytest.raises(ImproperlyConfigured) as refused:
        registry.discover_desks()

    said = str(refused.value)
    assert sentence in said
    assert re.match(rf"the desk of samples cannot be used\. {re.escape(str(file))}", said)
    assert "\n" not in said


def wrong_folder(place: Path) -> str:
    return f"{place}/nowhere"


def wrong_name(place: Path) -> str:
    return "acme_acces"


def shadowed_folder(place: Path) -> str:
    (place / "json").mkdir()
    (place / "json" / "__init__.py").touch()
    return f"{place}/json"


@pytest.mark.parametrize("wrong", [wrong_folder, wrong_name, shadowed_folder])
def test_an_app_that_is_not_there_is_named(
    wrong: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", ["/nowhere-else", *sys.path])
    given: Any = {"OPSCONSOLE_APPS": wrong(tmp_path)}

    with pytest.raises(ImproperlyConfigured, match=r"OPSCONSOLE_APPS is .*, but it must be"):
        Environment(given).packages("OPSCONSOLE_APPS")


def test_topics_and_patterns_that_ship_are_reserved() -> None:
    topics = {rule.partition(".")[0] for rule in SHARED}

    assert {"answers"} < topics
    assert topics | PATTERNS.keys() <= RESERVED
