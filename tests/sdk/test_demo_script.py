"""What a scenario's models say in each role, and lines that no model could say."""

import json
from datetime import date
from typing import Any

import pytest

from agents.llm.prompts import AT_DESK
from agents.sdk.demo import PATTERN_OF, spoken
from agents.sdk.desk import Desk
from opsconsole.desks import (
    Answers,
    Call,
    Json,
    Judge,
    Plans,
    Report,
    Routes,
    Says,
    Step,
    Subject,
    Touch,
)
from tests.desks.elsewhere import PACKAGE

TODAY = date(2027, 1, 4)
AGAIN = [
    Step("serve", "First."),
    Step("serve", "Second."),
    Judge("serve", "reorient", "It is too short.", correction="Write more."),
]


def said(role: str, **inputs: Any) -> Any:
    text = spoken(AGAIN, role, {"step": "serve", **inputs}, TODAY, critical=())
    return json.loads(text) if text.startswith("{") else text


def test_sent_back_step_uses_its_second_line() -> None:
    first, corrected = {"instruction": "Serve."}, {"instruction": "Serve.\n\nWrite more."}

    assert said("executor", answer_as="text", **first) == "First."
    assert said("judge", **first)["verdict"] == "reorient"
    assert said("executor", answer_as="text", **corrected) == "Second."
    assert said("judge", **corrected)["verdict"] == "continue"


def a_desk(**more: Any) -> Desk:
    """Return a desk with something for each pattern."""
    report = Report(lambda book: {"day": "1"}, lambda found: {}, str, str)
    desk = Desk(name="any", title="Any", subject=Subject("one", find=str), report=report, **more)
    desk.workflows = {"serve": json.loads((PACKAGE / "serve.json").read_text("utf-8"))}

    @desk.tool(Touch.READ, title="Read", subject="key")
    def look_up(call: Call, *, key: str) -> Json:
        return {}

    @desk.specialist(title="Menu")
    def menu(call: Call, ticket: str) -> Json:
        return None

    @desk.source(title="Guests")
    def guests(call: Call, day: str) -> Json:
        return {}

    return desk


@pytest.mark.parametrize(
    ("pattern", "demo", "sentence"),
    [
        ("routing", [Routes("nobody", "x")], "nothing above it is called nobody"),
        ("routing", [Says("look_up", key="x")], "in routing, models say Routes and Answers"),
        ("orchestrator", [Plans("guests", "menu")], "nothing above it is called menu"),
        ("workflow", [Step("greet", "Hi.")], "no Step says what serve puts out"),
        ("workflow", [Step("greet"), Step("serve", Says("look_up"))], "look_up: key"),
        ("supervisor", [Answers()], "say which one it is about"),
        ("magic", [], "nothing above it is for the pattern magic"),
    ],
)
def test_a_line_that_cannot_be_said_is_refused(pattern: str, demo: Any, sentence: str) -> None:
    flow = "serve" if pattern == "workflow" else ""
    subject = "" if pattern in ("supervisor", "orchestrator") else "x"
    asked: Any = {"subject": subject, "goal": "g", "expect": "e", "workflow": flow}

    with pytest.raises(TypeError, match=sentence):
        a_desk().scenario("one", demo=demo, pattern=pattern, **asked)


def test_prompts_mention_no_other_desk() -> None:
    assert AT_DESK.keys() == PATTERN_OF.keys() - {"writer"}  # whom only recorded cases have
    words = ("refund", "customer", "sales", "stock", "inventory", "charge")
    found = {(role, w) for role, text in AT_DESK.items() for w in words if w in text.lower()}
    assert found == set()


def test_admins_pattern_limits_stay_until_tools_change() -> None:
    desk = a_desk()
    held = desk.document()
    held["patterns"]["routing"] |= {"hand_over": False, "max_steps": 1, "max_blocks": 7}

    assert desk.document(held)["patterns"]["routing"] == held["patterns"]["routing"]
    assert desk.missing_from(held) == []

    @desk.specialist(title="Owner")
    def owner(call: Call, ticket: str) -> Json:
        return None

    renewed = desk.document(held)["patterns"]["routing"]
    assert renewed["tools"] == ["menu", "owner"]
    assert (renewed["max_steps"], renewed["hand_over"], renewed["max_blocks"]) == (2, False, 7)
    assert desk.missing_from(held) == ["owner"]
    assert "workflow" in desk.missing_from({**held, "patterns": {}})
