"""Recorded vectors of single functions. Where the reference took garbage, ours refuses it."""

from typing import Any

import pytest
from django.utils import timezone

from agents.core.json_forms import args_hash
from agents.core.money import BadAmount, minor_of_number, to_model_units
from agents.core.reviews import RulingKind
from agents.desks.refunds.facts import RefundFact, RefundFacts
from agents.desks.refunds.limits import REFERENCE
from agents.engine.desk.rules import limits_of
from agents.models import Escalation
from agents.policies import judge
from agents.replay.cases import _intends, read_human
from agents.sdk.desk import DESKS
from agents.sdk.desk_tools import DeskCall
from tests.conformance.harness import decode_value, difference, units
from tests.demo_book import open_demo_book
from tests.limits import with_limits

TOOLS = DESKS["refunds"].all_tools

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


def inside(action: Any) -> Any:
    """Return an action as our parser would have read it."""
    args = dict(action.get("args") or {})
    amount = minor(args.get("amount_usd"))
    if amount is not None:
        del args["amount_usd"]
        args["amount_minor"] = amount
    return {**action, "args": args}


def facts_of(state: dict[str, Any]) -> RefundFacts | None:
    """Return a recorded state as facts, or None for a total that is no money (SUP-Q4, Q28)."""
    total = state.get("executed_refund_total_usd", 0.0)
    executed = minor(total) or 0
    if total != executed / 100:
        return None
    if state.get("refund_executed"):
        executed = executed or 1
    refund = RefundFact(42, executed, "rf", by_person=False, mailed=False, settled=True)
    context = (42,) if state.get("has_context") else ()
    return RefundFacts(context_of=context, refunds=(refund,) if executed else ())


@pytest.mark.parametrize("vector", REVIEWS, ids=str)
def test_one_round_of_the_reference_rules_says_what_was_recorded(vector: dict[str, Any]) -> None:
    said, facts = decode_value(vector["action"]), facts_of(decode_value(vector["state"]))
    expected = decode_value(vector["returns"])
    amount = (said.get("args") or {}).get("amount_usd")
    limit = minor(vector["policy"].get("auto_refund_limit_usd", 1000.0))
    assert limit is not None
    limits = with_limits(REFERENCE, auto_limit_minor=limit).of("supervisor", "refunds")
    if facts is None:
        return  # such a total cannot come about: amounts are whole cents before they are added

    ruling = max(judge(inside(said), facts, limits), key=lambda r: r.verdict)

    if said.get("name") == "issue_refund" and minor(amount) is None:
        # NaN, true, text, a tenth of a cent: whatever the reference said, nothing is paid.
        assert ruling.verdict is RulingKind.BLOCK
        return
    assert (ruling.verdict.word, ruling.reason) == (expected["kind"], expected["reason"])
    assert difference(expected["revised_action"], to_model_units(ruling.action)) == ""


@pytest.mark.parametrize("vector", PEOPLE, ids=str)
def test_the_simulated_person_decides_as_recorded(vector: dict[str, Any]) -> None:
    action = inside(decode_value(vector["action"]))
    expected = vector["returns"]
    amount = action["args"].get("amount_minor")
    if amount is None:
        return  # the parser has refused it before anybody was asked
    about_money = action["name"] == "issue_refund"
    escalation = Escalation(action=action, amount_minor=amount if about_money else None)

    approve, granted, comment = _intends(escalation, read_human(None))

    assert approve == expected["approved"]
    assert comment == expected["comment"]
    if about_money:
        assert granted == minor(expected["revised_action"]["args"]["amount_usd"])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("vector", CALLS, ids=str)
def test_a_tool_answers_as_recorded(vector: dict[str, Any]) -> None:
    at = timezone.now()
    limits = limits_of(DESKS["refunds"], REFERENCE.of("supervisor", "refunds"))
    call = DeskCall("key", at, "", open_demo_book(at=at).pk, limits)
    args = decode_value(vector["args"])
    if "amount_usd" in args:
        try:
            args["amount_minor"] = minor_of_number(args.pop("amount_usd"))
        except BadAmount:
            return  # no such amount reaches a tool (SUP-Q4, Q11)

    result = TOOLS[vector["tool"]].call(call, args)

    if "raises" in vector:  # without a reason; ours is optional, as the policy fills it in
        assert result["status"] == "ok"
        return
    assert difference(decode_value(vector["returns"]), to_model_units(result)) == ""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("unit", units("routing_workers"), ids=lambda unit: unit["ticket"])
def test_a_specialist_answers_as_recorded(unit: dict[str, Any]) -> None:
    assert answer_of("routing", unit, ticket=unit["ticket"]) == unit["returns"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("unit", units("orchestrator_workers"), ids=str)
def test_a_worker_answers_as_recorded(unit: dict[str, Any]) -> None:
    if "raises" in unit:  # a region that is no text is refused with the plan (ORC-Q4)
        return

    assert answer_of("orchestrator", unit, **unit["args"]) == unit["returns"]


def answer_of(pattern: str, unit: dict[str, Any], **args: Any) -> Any:
    """Return what a worker of a pattern says the second time, in the model's units."""
    at = timezone.now()
    limits = limits_of(DESKS["refunds"], REFERENCE.of(pattern, "refunds"))
    call = DeskCall("key", at, "", open_demo_book(at=at).pk, limits, nth=2)
    return to_model_units(TOOLS[unit["worker"]].call(call, args))
