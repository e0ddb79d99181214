"""Cases of policies: those that ship with each desk, and a company's own, without a database."""

import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from junitparser import JUnitXml

from agents.core.compat_0_2 import RULES
from agents.core.limits import strict
from agents.policies.cases import judge_case, read_cases, shipped_with
from agents.sdk.desk import DESKS, offered

WITH_CASES = [name for name in offered() if shipped_with(DESKS[name])]
LOOK = {
    "name": "a look",
    "desk": "bank",
    "pattern": "supervisor",
    "action": {"kind": "tool", "name": "read_account", "args": {"account": "a"}},
    "facts": {},
    "expect": "approve",
}


@pytest.mark.parametrize("desk", WITH_CASES)
def test_shipped_cases_show_each_rule_and_ten_attacks(desk: str) -> None:
    own, limits = DESKS[desk], strict({desk: DESKS[desk].part()})
    file = shipped_with(own)
    assert file
    cases = list(read_cases(file.read_text()))

    judged = [judge_case(case, limits).deciding for case in cases]

    codes = {code for rule in own.rules.values() for code in (*rule.stops, *rule.asks)}
    # A pair for each: what the rule stops, and next to it what passes.
    assert codes <= {one.reason for one in judged}
    assert {*own.rules} <= {RULES.get(one.rule, one.rule) for one in judged}
    attacks = [one for case, one in zip(cases, judged, strict=True) if "attack" in case.name]
    assert len(attacks) >= 10
    assert "APPROVE" not in {one.verdict.name for one in attacks}


def test_cases_are_judged_by_a_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("test_policy")
    policy, results = tmp_path / "policy.json", tmp_path / "results.xml"
    part = DESKS["bank"].document()
    limits = {**part["limits"], "unattended": {"amount": "500.00", "currency": "EUR"}}
    policy.write_text(json.dumps(strict({"bank": {**part, "limits": limits}}).as_json()))
    file = str(shipped_with(DESKS["bank"]))

    with pytest.raises(SystemExit) as ended:
        call_command("test_policy", file, "--policy", str(policy), "--junit", str(results))

    told = capsys.readouterr()
    written = JUnitXml.fromfile(str(results))
    assert (ended.value.code, written.failures) == (3, 2)
    assert "0 not as expected" in told.out
    assert "exactly the automatic limit: expected approve, got escalate large_transfer" in told.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (json.dumps(LOOK) + ",", "Line 1: "),
        (json.dumps({**LOOK, "expects": "block"}), "a case has no 'expects'; is 'expect' meant?"),
        (json.dumps({"name": "a look"}), "Line 1 lacks action, desk, expect, facts, pattern."),
        (json.dumps({**LOOK, "like": "another"}), "no earlier case is called 'another'"),
        (json.dumps({**LOOK, "desk": "shop"}), "there is no desk 'shop' here"),
        ("\ufeff" + json.dumps(LOOK), "Line 1: No facts are stored with it."),
        (json.dumps({**LOOK, "facts": {"desk": "bank", "own": {}}}), "Line 1: Its facts cannot"),
        ("[]", "Line 1 is no object."),
    ],
)
def test_line_that_is_no_case_is_refused(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(line)

    with pytest.raises(CommandError) as refused:
        call_command("test_policy", str(file))

    assert (refused.value.returncode, said in str(refused.value)) == (2, True)
