"""Every stop reason in code or recorded cases has a sentence."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.core.limits import BUDGETS
from agents.policies import words as ends
from agents.policies.words import end_sentence

ROOT = Path(__file__).resolve().parents[2]
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


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("supervisor_block:duplicate_refund", "the same amount was already refunded"),
        ("invalid_plan:worker_required:payments_worker", "The plan leaves out payments worker"),
        ("tool_error:issue_refund", "Issue refund reported an error."),
        ("effect_denied:bash", "A person answered that bash took no effect."),
        ("max_seconds", "Time limit reached"),
        ("of_a_later_release:x", "“of_a_later_release:x”"),
        ("supervisor_block", "The policy blocked the action"),
        ("tool_error:{0.__class__}", "{0.  class  }"),
    ],
)
def test_an_end_is_said_in_words(code: str, sentence: str) -> None:
    assert sentence in end_sentence(code)
