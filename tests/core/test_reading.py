"""Input from outside is read strictly, by the schemas given to models: JSON, actions, policies."""

import json
from typing import Any

import pytest

from agents import tools
from agents.core.compat_0_2 import policy_document
from agents.core.json_forms import (
    MAX_CHARS,
    MAX_TEXT,
    BadJson,
    action_schema,
    parse,
    plan_schema,
    read_action,
    route_schema,
)
from agents.core.limits import BadPolicy, read_limits
from agents.core.requests import Json, Stop
from agents.desks.reference.desk import REFERENCE
from agents.desks.refunds.limits import STRICT
from agents.desks.refunds.scenarios import WORKERS
from agents.llm.tool_calls import envelop, unpack
from agents.sdk.desk import DESKS
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


REFUND_TOOLS = STRICT.of("supervisor", "refunds").proposable
SPECIALISTS = STRICT.of("routing", "refunds").proposable


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


# What strict output accepts; https://platform.openai.com/docs/guides/structured-outputs
TAKEN = {
    *("type", "properties", "required", "additionalProperties", "items", "enum", "anyOf"),
    *("minimum", "maximum", "minItems", "maxItems"),
}
ACTION = action_schema(tools.specs("refunds"), proposable=REFUND_TOOLS, bound={"user_id": 42})
PLAN = plan_schema(tools.specs("refunds"), allowed=WORKERS, max_tasks=4)
ROUTE = route_schema(SPECIALISTS)
DAY = {"report_date": "2026-02-26", "region": "US"}


def parts(schema: Any) -> list[dict[str, Any]]:
    """Return a schema with all its subschemas."""
    inside = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    inside += [schema["items"]] if "items" in schema else []
    return [schema, *(part for each in inside for part in parts(each))]


@pytest.mark.proves("F31")
@pytest.mark.parametrize("schema", [ACTION, PLAN, ROUTE])
def test_strict_output_takes_it(schema: Any) -> None:
    sent = envelop(schema)

    assert sent["type"] == "object"
    for part in parts(sent):
        assert set(part) <= TAKEN
        if part.get("type") == "object":
            assert part["additionalProperties"] is False
            assert part["required"] == list(part["properties"])


@pytest.mark.parametrize("name", sorted(DESKS["refunds"].all_tools))
def test_every_number_and_list_of_a_tool_has_bounds(name: str) -> None:
    schema = action_schema(tools.specs("refunds"), proposable=[name], bound={})
    bounds = {"integer": "minimum", "number": "minimum", "array": "minItems"}

    for part in parts(schema):
        kinds = part.get("type", ())
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            if (low := bounds.get(kind)) and "enum" not in part:
                assert part[low] <= part[low.replace("min", "max")]


@pytest.mark.parametrize("reason", [None, "late delivery"])
def test_what_fits_the_schema_is_an_action(reason: str | None) -> None:
    args = {"user_id": 42, "amount_usd": 500.0, "reason": reason}
    said = json.dumps({"reply": {"kind": "tool", "name": "issue_refund", "args": args}})

    action = read_action(unpack(said), specs=tools.specs("refunds"), proposable=REFUND_TOOLS)

    assert action["args"]["amount_minor"] == 50000
    assert action["args"].get("reason") == reason


def test_a_field_of_an_argument_may_be_null() -> None:
    address = {"street": "Dojima 1", "zip": None}
    said = {"kind": "tool", "name": "late", "args": {"bill_to": [address], "remark": None}}

    kept = json.loads(unpack(json.dumps({"reply": said})))

    assert kept == {**said, "args": {"bill_to": [address]}}


# As 0.2.0 published them, shortened, with what an admin may have changed.
AT_TOP: dict[str, Json] = {
    "profile": "strict",
    "rules": ["refunds.auto_limit"],
    "proposable": ["get_refund_context", "issue_refund"],
    "executable": ["get_refund_context"],
    "tool_calls": {"get_refund_context": 3, "transfer_money": 4},
    "rolling_days": 7,
    "required": [],
    "about": "customer",
    "auto_limit_minor": 5000,
    "launcher_daily_minor": None,
    "tells_customer": False,
    "late_roles": ["worker"],
    "max_steps": 6,
    "patterns": {
        "routing": {
            "rules": ["delegation.reading"],
            "proposable": ["billing_specialist", "issue_refund"],
            "window_days": 3,
            "reviewer_daily_minor": 900,
            "late_roles": ["router"],
            "max_steps": 3,
        }
    },
    "desks": {"bank": {"rules": ["bank.bound"], "tools": ["transfer_money"], "limits": {}}},
}


def test_the_limits_of_a_run_are_those_that_the_document_says() -> None:
    here = read_limits(AT_TOP).of("routing", "refunds")

    assert (here.max_steps, here.late, here.rolling_days) == (3, ("router",), 7)
    assert (here.proposable, here.executable) == (("billing_specialist", "issue_refund"), ())
    assert here.part_of("refunds", "limits") == {"auto_limit_minor": 5000, "window_days": 3}


@pytest.mark.parametrize("patterns", [{}, {"routing": {"rules": [], "proposable": []}}, None])
def test_document_without_refund_rules_lacks_the_desk(patterns: Json) -> None:
    nothing: dict[str, Any] = {"rules": [], "proposable": [], "executable": [], "max_steps": 6}

    read = policy_document({"profile": "strict", **nothing, "patterns": patterns})

    assert read == {"profile": "strict", "max_steps": 6, "desks": {}}


@pytest.mark.parametrize("wrong", [{"rules": 5}, {"patterns": 5}, {"patterns": {"routing": 5}}])
@pytest.mark.parametrize("desks", [{}, 5, {"bank": 5}])
def test_what_cannot_be_read_is_left_to_be_refused(wrong: Json, desks: Json) -> None:
    with pytest.raises(ValueError, match=r"valid (tuple|dictionary)|valid string"):
        read_limits({"profile": "strict", "rules": ["a.b"], "desks": desks, **wrong})
