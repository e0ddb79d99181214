"""What another version would have done is counted: each run once, each sum by itself."""

from dataclasses import replace
from typing import Any

from agents.core.limits import Limits
from agents.core.reviews import ReviewResult, Ruling, RulingKind
from agents.desks.refunds.limits import STRICT
from agents.policies.flips import FlipTable, Proposal, concerned, untried
from tests.limits import SUPERVISED, with_limits, with_part

KINDS = {"approve": RulingKind.APPROVE, "escalate": RulingKind.ESCALATE, "block": RulingKind.BLOCK}


def ruled(decision: str, rule: str = "refunds.auto_limit", **action: Any) -> ReviewResult:
    deciding = Ruling(KINDS[decision], "why", "A sentence about Anna.", rule=rule)
    return ReviewResult(decision, deciding, action, [deciding])


def proposal(was: str, would: str, asked: int = 100, currency: str = "USD", **more: Any) -> Any:
    known = {"position": 3, "tool": "issue_refund", "asked": asked, "currency": currency}
    return Proposal(was=ruled(was), would=ruled(would), **{**known, **more})


def table(*runs: list[Proposal | str]) -> dict[str, Any]:
    found = FlipTable()
    for number, proposals in enumerate(runs):
        found.add(f"run {number}", "refunds", proposals)
    return found.as_json()


def test_run_counts_once_and_currencies_stand_apart() -> None:
    paid = proposal("approve", "escalate", 500, executed=500)
    found = table(
        [proposal("approve", "approve"), paid, proposal("approve", "block", 900)],
        [proposal("approve", "escalate", 700, "EUR", executed=600)],
        [proposal("approve", "approve", 50)],
    )

    names = ("currency", "would", "runs", "of", "asked", "granted", "executed")
    assert [[row[name] for name in names] for row in found["rows"]] == [
        ["EUR", "escalate", 1, 1, 700, 0, 600],
        ["USD", "escalate", 1, 2, 500, 0, 500],
    ]


def test_what_people_did_is_counted_apart() -> None:
    lowered = proposal("escalate", "approve", 900, granted=300, executed=300, people="adjusted")
    kept = proposal("escalate", "escalate", people="approved")

    found = table([lowered], [kept], [proposal("escalate", "escalate", people="open")])

    [row] = found["rows"]
    assert (row["asked"], row["granted"], row["people"]) == (900, 300, {"adjusted": 1})
    assert found["both"] == {"approved": 1, "open": 1}


def test_other_words_are_no_flip() -> None:
    one = replace(proposal("approve", "approve"), tool="", would=ruled("approve", answer="other"))

    found = table([one, one])

    assert (found["rows"], found["same"]) == ([], [["refunds", "", 1]])


def test_unknown_is_no_flip_and_has_no_text() -> None:
    found = table(["Its facts cannot be read: Anna is no number", proposal("approve", "approve")])

    assert found["unknown"] == {"Its facts cannot be read": 1}
    assert (found["rows"], found["runs"], found["rulings"]) == ([], 1, 1)
    assert "Anna" not in str(found)


def test_flips_are_ordered_for_a_reader() -> None:
    """Those that people turned down, then the largest; one of each rule before a second."""
    large, larger = proposal("approve", "escalate", 800), proposal("approve", "escalate", 900)
    no = proposal("escalate", "approve", 10, people="rejected")
    other = replace(proposal("approve", "block", 5), would=ruled("block", "refunds.window"))

    found = table([large], [larger], [no], [other])

    assert [run for run, *_ in found["flips"]] == ["run 2", "run 3", "run 1", "run 0"]


def judges(limits: Limits, name: str) -> bool:
    wanted = concerned("refunds", SUPERVISED, limits.of("supervisor", "refunds"))
    return wanted is not None and wanted({"kind": "tool", "name": name})


def test_only_concerned_tools_are_judged() -> None:
    names = ("issue_refund", "get_customer_context")
    judged = {
        "nothing": STRICT,
        "limit": with_limits(auto_limit_minor=1),
        "rule": with_part(rules=[one for one in STRICT.desks["refunds"]["rules"] if "mail" in one]),
        "caps": with_part(caps={"USD": {"workspace_daily_minor": 1}}),
    }

    found = {what: [judges(limits, name) for name in names] for what, limits in judged.items()}

    assert found["nothing"] == [False, False]
    assert (found["limit"], found["caps"]) == ([True, False], [True, True])
    assert found["rule"][0]


def test_what_rules_do_not_read_is_named() -> None:
    other = replace(with_part(rolling_days=7, off=["issue_refund"]), four_eyes=False)
    both = other, with_part(tools=["get_refund_context"])

    found = [untried("refunds", SUPERVISED, one.of("supervisor", "refunds")) for one in both]

    assert found[0] == (["Amounts are added up over"], ["No self-approval", "Tools that are off"])
    assert found[1] == ([], ["Tools"])
