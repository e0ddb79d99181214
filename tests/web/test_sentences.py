"""Every kind of event, and every reason to stop, has a sentence."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db.migrations.loader import MigrationLoader
from django.db.models import Q

from agents.core.limits import BUDGETS
from agents.core.requests import EffectState, RunState
from agents.models import Event, Run
from agents.models.outside import SwitchStage
from agents.models.people import InvitationState
from agents.policies import words as ends
from agents.record.event_kinds import EVENTS, FREQUENT, LEDGER
from agents.shell.event_words import ASK_REASONS, EventContext, tell_events
from agents.shell.formats import CHIPS, WORDS

ROOT = Path(__file__).resolve().parents[2]
# Kinds that the code composes.
COMPOSED = {
    *(f"run.{state}" for state in RunState if state is not RunState.RUNNING),
    *(f"effect.{state}" for state in EffectState),
    *(f"kill_switch.{stage}" for stage in SwitchStage),
    *(f"invitation.{state}" for state in InvitationState if state is not InvitationState.OPEN),
}
NAMED = re.compile(r'(?:Entry|_say|say|_record)\(\s*(?:\w+, )*(?:at, )?"([a-z_]+\.[a-z_]+)"')


def kinds_in_code() -> set[str]:
    texts = [path.read_text() for path in (ROOT / "agents").rglob("*.py")]
    found = {kind for text in texts for kind in NAMED.findall(text)}
    constants = re.compile(r'^(?:LATE|ERASURE) = "([a-z_.]+)"', re.MULTILINE)
    said = re.compile(r'"((?:convergence|step|audit|escalation)\.[a-z_]+)"')
    more = {kind for text in texts for form in (constants, said) for kind in form.findall(text)}
    return {kind for kind in found | more | COMPOSED if not kind.endswith(".py")}


def test_every_kind_that_the_code_writes_has_a_sentence() -> None:
    written = kinds_in_code()

    assert len(written) > 35
    assert sorted(written - set(EVENTS)) == []
    others = [p for p in (ROOT / "agents").rglob("*.py") if not p.stem.startswith("event_")]
    quoted = {kind for p in others for kind in re.findall(r'"([a-z_]+\.[a-z_]+)"', p.read_text())}
    assert sorted(set(EVENTS) - written - quoted) == []


def test_tables_of_words_are_those_that_the_code_names() -> None:
    text = "".join(path.read_text() for path in (ROOT / "agents").rglob("*.py"))
    pages = "".join(path.read_text() for path in (ROOT / "templates").rglob("*.html"))
    read = re.findall(r"\b(?:WORDS|CHIPS)\[[\"'](\w+)[\"']\]", text)
    counted = re.findall(r"\|counted:\"(\w+)\"", pages)

    assert {*read, *counted} - {*WORDS, *CHIPS} == set()
    assert {*WORDS, *CHIPS} - {*read, *counted, *re.findall(r"\"(\w+)\"", text)} == set()


def test_every_reason_to_ask_a_person_has_words() -> None:
    found = set()
    of_desks = ("engine/desk/rules.py", "desks/refunds/rules.py", "desks/bank/rules.py")
    agents = ROOT / "agents"
    for path in (*(agents / "policies").glob("*.py"), *(agents / one for one in of_desks)):
        for node in ast.walk(ast.parse(path.read_text())):
            made = ast.unparse(node) if isinstance(node, ast.Call) else ""
            if made.startswith(("Ruling(RulingKind.ESCALATE, '", "escalate('")):
                found.add(made.split("'")[1])

    assert len(found) > 5
    assert found | {"output_review"} == set(ASK_REASONS)  # a workflow asks by itself


def test_an_index_has_the_kinds_that_its_migration_names() -> None:
    migrated = MigrationLoader(None).project_state().apps.get_model("agents.Event")._meta.indexes
    conditions = {index.name: str(index.condition) for index in migrated}

    assert conditions["event_ledger"] == str(Q(kind__in=LEDGER))
    assert conditions["event_kind"] == str(~Q(kind__in=FREQUENT))


ODD: list[Any] = [{}, [], "text", None, 7, {"decision": [], "key": {}}, {"key": None, "step": []}]


@pytest.mark.parametrize("kind", [*sorted(EVENTS), "of.a_later_release", "", "x"])
def test_no_facts_are_too_odd_to_be_told(kind: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("agents.shell.event_words._context", lambda events: EventContext())
    monkeypatch.setattr(
        "agents.shell.event_words.facts_of", lambda event: dict(event.facts.items())
    )
    run = Run(subject_key="no number")
    events = [Event(pk=1, kind=kind, facts=facts, run=run, at="2026-11-21") for facts in ODD]

    for event in events:
        (line,) = tell_events([event])
        assert line.sentence, event.facts


ROOMS = ("core", "engine", "llm", "patterns", "policies", "operations")
# The calls that end a run, with the prefix of the reasons that they name.
CALLS = {
    "Stop": "",
    "stop": "",
    "ModelFailed": "",
    "refuse": "",
    "turn_away": "",
    "InvalidAction": "invalid_action:",
    "InvalidPlan": "invalid_plan:",
    "InvalidRoute": "invalid_route:",
}
# Prefixes of a tool's name, or stand-ins for another reason, in these tables.
TABLES = {"_REASONS": "values", "REFUSED": "values"}


def text_of(node: ast.AST) -> str:
    """Return a text as in the code, with NAME in place of filled-in values."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) for part in node.values)
    if isinstance(node, ast.Constant):
        return str(node.value) if isinstance(node.value, str) else ""
    return "name" if isinstance(node, ast.FormattedValue) else ""


def reasons_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            first = text_of(node.args[0])
            if name in CALLS and first:
                yield f"{CALLS[name]}{first}"
            if name == "Ruling" and ast.unparse(node.args[0]) == "RulingKind.BLOCK":
                yield f"supervisor_block:{text_of(node.args[1])}"
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "attr", "") == "failed":
            yield text_of(node.value)
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in TABLES:
            if isinstance(node.value, ast.Dict):
                yield from map(text_of, node.value.values)
        elif isinstance(node, ast.Return) and node.value is not None:
            text = text_of(node.value)
            yield from [text] if re.fullmatch(r"(tool|route|worker|loop)_\w+(:\w+)?", text) else []


def known_to_code() -> set[str]:
    files = [path for room in ROOMS for path in (ROOT / "agents" / room).rglob("*.py")]
    found = {reason for path in files for reason in reasons_in(ast.parse(path.read_text()))}
    found |= BUDGETS
    found -= {"supervisor_block:name"}  # each rule names its own
    return {reason for reason in found if re.fullmatch(r"[a-z_]+(:\w+)*", reason)}


def known_to_cases() -> set[str]:
    texts = [path.read_text() for path in (ROOT / "tests/conformance").glob("*.json")]
    return {
        json.loads(code) for text in texts for code in re.findall(r'"stop_reason": ("[^"]+")', text)
    }


def is_known(code: str) -> bool:
    head, _, rest = code.partition(":")
    if head == "supervisor_block":
        return rest.partition(":")[0] in ends._BLOCKS
    return head in ends._ENDS


def test_no_stop_reason_is_without_a_sentence() -> None:
    code, cases = known_to_code(), known_to_cases()

    assert len(code) > 90
    assert len(cases) > 60
    assert sorted(reason for reason in code | cases if not is_known(reason)) == []


def test_no_two_ends_to_choose_from_read_the_same() -> None:
    sentences = [sentence for _, sentence in ends.known_ends()]

    assert sorted({one for one in sentences if sentences.count(one) > 1}) == []
