"""Documents of 0.2.0 and before are read as they were meant."""

from typing import Any

import pytest

from agents.core.compat_0_2 import policy_document
from agents.core.limits import read_limits
from agents.core.requests import Json

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
