"""Recorded vectors of single functions. Where the reference took garbage, ours refuses it."""

from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone

from agents.core.json_forms import args_hash
from agents.core.money import BadAmount, minor_of_number
from agents.core.reviews import DeskFacts, Facts, RulingKind
from agents.desks.reference.desk import REFERENCE, CaseFacts, as_recorded, usd
from agents.engine.desk.rules import NO_CASE
from agents.models import Escalation
from agents.policies import judge
from agents.replay.cases import _intends, read_human
from agents.sdk.desk import DESKS
from agents.sdk.desk_tools import DeskCall
from tests.conformance.harness import decode_value, difference, units

TOOLS = DESKS["reference"].all_tools

HASHES = units("args_hash")
REVIEWS = units("review_action")
PEOPLE = units("simulate_human_approval")
CALLS = units("tools")


@pytest.mark.parametrize("vector", HASHES, ids=str)
def test_arguments_hash_as_recorded(vector: dict[str, Any]) -> None:
    args = decode_value(vector["args"])

    assert args_hash(args) == vector["supervisor"]["returns"]
    assert args_hash(args) == vector["routing"]["returns"]
    assert args_hash(args, fold_spaces=False) == vector["orchestrator"]["returns"]


def minor(value: Any) -> int | None:
    """Return an amount that was said in USD, or None where it is no amount above nought."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        amount = minor_of_number(value)
    except BadAmount:
        return None
    return amount if amount > 0 else None


def cleaned(action: Any) -> Any:
    """Return an action as our parser would have read it."""
    return {**action, "args": as_recorded(action.get("args") or {})}


def facts_of(state: dict[str, Any]) -> Facts | None:
    """Return a recorded state as facts, or None for a total that is no money (SUP-Q4, Q28)."""
    total = state.get("executed_refund_total_usd", 0.0)
    executed = minor(total) or 0
    if total != executed / 100:
        return None
    has_refund = bool(executed or state.get("refund_executed"))
    own = CaseFacts(bool(state.get("has_context")), has_refund, usd(executed))
    return Facts(desk=DeskFacts(own, NO_CASE, (), {}))


@pytest.mark.parametrize("vector", REVIEWS, ids=str)
def test_one_round_of_the_reference_rules_says_what_was_recorded(vector: dict[str, Any]) -> None:
    said, facts = decode_value(vector["action"]), facts_of(decode_value(vector["state"]))
    expected = decode_value(vector["returns"])
    amount = (said.get("args") or {}).get("amount_usd")
    limit = minor(vector["policy"].get("auto_refund_limit_usd", 1000.0))
    assert limit is not None
    part = {**REFERENCE.desks["reference"], "limits": {"auto_limit_minor": limit}}
    limits = replace(REFERENCE, desks={"reference": part}).of("supervisor", "reference")
    if (said.get("args") or {}).get("reason") == "  ":
        assert not TOOLS["issue_refund"].accepts(cleaned(said)["args"])
        return  # the parser has refused it before a rule was asked
    if facts is None:
        return  # such a total cannot come about: amounts are whole cents before they are added

    ruling = max(judge(cleaned(said), facts, limits), key=lambda r: r.verdict)

    if said.get("name") == "issue_refund" and minor(amount) is None:
        # NaN, true, text, a tenth of a cent: whatever the reference said, nothing is paid.
        assert ruling.verdict is RulingKind.BLOCK
        return
    assert (ruling.verdict.word, ruling.reason) == (expected["kind"], expected["reason"])
    assert difference(expected["revised_action"], ruling.action) == ""


@pytest.mark.parametrize("vector", PEOPLE, ids=str)
def test_the_simulated_person_decides_as_recorded(vector: dict[str, Any]) -> None:
    action = cleaned(decode_value(vector["action"]))
    expected = vector["returns"]
    amount = minor(action["args"].get("amount_usd"))
    if amount is None:
        return  # the parser has refused it before anybody was asked
    about_money = action["name"] == "issue_refund"
    escalation = Escalation(action=action, amount_minor=amount if about_money else None)

    approve, granted, comment = _intends(escalation, read_human(None))

    assert approve == expected["approved"]
    assert comment == expected["comment"]
    if about_money:
        assert granted == minor(expected["revised_action"]["args"]["amount_usd"])


@pytest.mark.parametrize("vector", CALLS, ids=str)
def test_a_tool_answers_as_recorded(vector: dict[str, Any]) -> None:
    args = decode_value(vector["args"])
    args = {**args, **{name: as_recorded(args)[name] for name in args if name == "amount_usd"}}
    if "amount_usd" in args and minor(args["amount_usd"]) is None:
        return  # no such amount reaches a tool (SUP-Q4, Q11)

    result = TOOLS[vector["tool"]].call(DeskCall("key", timezone.now(), ""), args)

    if "raises" in vector:  # without a reason; ours is optional, as the policy fills it in
        assert result["status"] == "ok"
        return
    assert difference(decode_value(vector["returns"]), result) == ""


@pytest.mark.parametrize("unit", units("routing_workers"), ids=lambda unit: unit["ticket"])
def test_a_specialist_answers_as_recorded(unit: dict[str, Any]) -> None:
    assert answer_of(unit, ticket=unit["ticket"]) == unit["returns"]


@pytest.mark.parametrize("unit", units("orchestrator_workers"), ids=str)
def test_a_worker_answers_as_recorded(unit: dict[str, Any]) -> None:
    if "raises" in unit:  # a region that is no text is refused with the plan (ORC-Q4)
        return

    assert answer_of(unit, **unit["args"]) == unit["returns"]


def answer_of(unit: dict[str, Any], **args: Any) -> Any:
    """Return what a worker says the second time."""
    return TOOLS[unit["worker"]].call(DeskCall("key", timezone.now(), "", nth=2), args)
