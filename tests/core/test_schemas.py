"""The schemas given to models are exact and fit strict structured output."""

import json
from typing import Any

import pytest

from agents import tools
from agents.core.actions import (
    action_schema,
    plan_schema,
    read_action,
    read_plan,
    read_route,
    route_schema,
)
from agents.desks.refunds.limits import REFUND_TOOLS, SPECIALISTS, WORKERS
from agents.llm.tool_calls import envelop, unpack
from agents.sdk.desk import DESKS

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


def test_there_is_a_branch_for_each_tool_with_its_own_arguments() -> None:
    branches = {
        branch["properties"]["name"]["enum"][0]: branch["properties"]["args"]["properties"]
        for branch in ACTION["anyOf"]
        if branch["properties"]["kind"]["enum"] == ["tool"]
    }

    assert sorted(branches) == sorted(REFUND_TOOLS)
    assert branches["get_refund_context"] == {"user_id": {"type": "integer", "enum": [42]}}
    amount = branches["issue_refund"]["amount_usd"]
    assert (amount["type"], amount["minimum"]) == ("number", 0.01)
    assert branches["issue_refund"]["reason"]["type"] == ["string", "null"]


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


def test_what_fits_the_others_is_a_plan_and_a_route() -> None:
    task = {"id": "t1", "worker": "sales_worker", "args": DAY, "critical": True}
    plan = json.dumps({"kind": "plan", "tasks": [task]})
    route = json.dumps({"kind": "route", "target": SPECIALISTS[0], "args": {"ticket": "42"}})

    assert read_plan(unpack(plan), specs=tools.specs("refunds"), allowed=WORKERS, max_tasks=4) == [
        task
    ]
    assert read_route(unpack(route), allowed=SPECIALISTS, forbidden=())["target"]


@pytest.mark.parametrize("text", ["", "no JSON", '{"reply": 1, "more": 2}', "[1", '{"a": NaN}'])
def test_any_other_text_stays_as_it_is(text: str) -> None:
    assert unpack(text) == text
