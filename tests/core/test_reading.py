"""Reading input from outside: JSON, actions, policy documents."""

import json
from typing import Any

import pytest

from agents.core.actions import MAX_TEXT, read_action
from agents.core.json_forms import MAX_CHARS, BadJson, parse
from agents.core.limits import BadPolicy, read_limits
from agents.core.requests import Stop
from agents.desks.refunds.limits import REFERENCE, REFUND_TOOLS, STRICT
from agents.tools import specs


@pytest.mark.proves("F31", "W16")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting"),
        ("{", "Expecting"),
        ('{"a": 1, "a": 2}', "twice"),
        ('{"a": {"b": 1, "b": 2}}', "twice"),
        ("[" * 21 + "]" * 21, "nested"),
        ("[" * 100_000, "nested"),
        ('{"a":' * 21 + "1" + "}" * 21, "nested"),
        ("1" * 5000, "digits"),
        ("NaN", "finite"),
        ("[Infinity]", "finite"),
        ("1e400", "finite"),
        ('"\\ud800"', "surrogate"),
        ('"' + "a" * MAX_CHARS + '"', "longer"),
        ("{'a': 1}", "Expecting"),
    ],
)
def test_json_that_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadJson, match=why):
        parse(text)


@pytest.mark.parametrize(
    "text", ['"[[[[[[[[[[[[[[[[[[[[[[[[["', '"\\"[[[[[[[[[[[[[[[[[[[[[[["', "[]"]
)
def test_brackets_in_a_string_do_not_nest(text: str) -> None:
    assert parse(text) == json.loads(text)


def read(said: Any, proposable: tuple[str, ...] = REFUND_TOOLS, desk: str = "refunds") -> Any:
    text = said if isinstance(said, str) else json.dumps(said)
    return read_action(text, specs=specs(desk), proposable=proposable)


def refusal_of(said: Any, proposable: tuple[str, ...] = REFUND_TOOLS, desk: str = "refunds") -> str:
    with pytest.raises(Stop) as stop:
        read(said, proposable, desk)
    assert stop.value.details["phase"] == "worker"
    json.dumps(stop.value.details["raw_action"], allow_nan=False)
    return stop.value.reason.removeprefix("invalid_action:")


def tool(**args: Any) -> dict[str, Any]:
    return {"kind": "tool", "name": "issue_refund", "args": {"user_id": 42, **args}}


def test_an_amount_is_minor_units_inside() -> None:
    assert read(tool(amount_usd=12.5, reason=" r "))["args"] == {
        "user_id": 42,
        "amount_minor": 1250,
        "reason": "r",
    }


@pytest.mark.parametrize("amount", [0, -5, -0.001, -1e-320])
def test_what_is_not_above_nought_stays_as_it_was_said(amount: float) -> None:
    assert read(tool(amount_usd=amount))["args"]["amount_usd"] == amount


@pytest.mark.proves("I6", "W26")
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (tool(amount_usd=0.001), "bad_arg_type:issue_refund:amount_usd"),
        (tool(amount_usd=10**400), "bad_arg_type:issue_refund:amount_usd"),
        ('{"kind":"tool","name":"issue_refund","args":{"user_id":42,"amount_usd":NaN}}',
         "bad_arg_type:issue_refund:amount_usd"),
        ('{"kind":"tool","name":"issue_refund","args":{"user_id":42,"amount_usd":-Infinity}}',
         "bad_arg_type:issue_refund:amount_usd"),
        (tool(amount_usd=True), "bad_arg_type:issue_refund:amount_usd"),
        (tool(amount_minor=500), "extra_tool_args:issue_refund"),
        (tool(amount_usd=5, reason="a\x1b[31m"), "bad_arg_type:issue_refund:reason"),
        (tool(amount_usd=5, reason="a\u202eb"), "bad_arg_type:issue_refund:reason"),
        (tool(amount_usd=5, reason="r" * (MAX_TEXT + 1)), "text_too_long:issue_refund:reason"),
        ({"kind": "final", "answer": "r" * (MAX_TEXT + 1)}, "text_too_long:final:answer"),
        ({"kind": "final", "answer": "\u202e"}, "bad_final_answer"),
        ({"kind": "final", "answer": 5}, "bad_final_answer"),
        ({"kind": "invalid"}, "bad_kind"),
        ("[1]", "not_object"),
        ("\ufeff{}", "non_json"),
    ],
)  # fmt: skip
def test_an_action_that_is_refused(said: Any, reason: str) -> None:
    assert refusal_of(said) == reason


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"on": "tomorrow"}, ":on"),
        ({"amount": {"amount": "5", "currency": "EUR", "x": 1}}, ":amount"),
        ({"\u202emade up": 1}, ""),
    ],
)
def test_a_model_is_told_which_argument_does_not_fit(changed: dict[str, Any], where: str) -> None:
    amount = {"amount": "5.00", "currency": "EUR"}
    fits = {"account": "A", "payee": "P", "amount": amount, "on": "2026-12-01", "purpose": "rent"}
    said = {"kind": "tool", "name": "transfer_money", "args": {**fits, **changed}}

    assert refusal_of(said, ("transfer_money",), "bank") == f"bad_tool_args:transfer_money{where}"


@pytest.mark.proves("I22")
def test_a_tool_that_may_not_be_proposed_is_refused() -> None:
    assert (
        refusal_of(tool(amount_usd=5), ("get_refund_context",)) == "tool_not_allowed:issue_refund"
    )


@pytest.mark.parametrize("limits", [STRICT, REFERENCE])
def test_a_policy_document_is_read_as_it_was_written(limits: Any) -> None:
    assert read_limits(json.loads(json.dumps(limits.as_json()))) == limits


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"surprise": 1}, "surprise"),
        ({"max_steps": -1}, "Steps: max_steps cannot be -1"),
        ({"max_steps": 1.5}, "valid integer"),
        ({"max_steps": True}, "valid integer"),
        ({"max_seconds": float("nan")}, "seconds"),
        ({"escalation_seconds": 10**12}, "3153600000"),  # it would end beyond the calendar
        ({"rolling_days": 10**9}, "36500"),
        ({"four_eyes": "yes"}, "valid boolean"),
        ({"rules": "all"}, "rules cannot be 'all'"),
        ({"rules": [1]}, "valid string"),
        ({"tool_calls": {"issue_refund": -1}}, "greater than or equal to 0"),
        ({"profile": ""}, "at least 1 character"),
    ],
)
def test_a_policy_document_that_is_refused(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(BadPolicy, match=says):
        read_limits({**STRICT.as_json(), **changed})


def test_a_policy_that_is_no_object_or_not_whole_is_refused() -> None:
    documents: list[Any] = [[], {"max_steps": 8}]
    for document in documents:
        with pytest.raises(BadPolicy):
            read_limits(document)
