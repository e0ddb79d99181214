"""What another version would have done is counted: each run once, each sum by itself."""

from dataclasses import replace
from typing import Any

from agents.core.limits import Limits
from agents.core.reviews import ReviewResult, Ruling, RulingKind
from agents.desks.refunds.limits import STRICT
from agents.policies.flips import Curve, FlipTable, Proposal, concerned, untried
from tests.limits import SUPERVISED, with_limits, with_part

KINDS = {one.word: one for one in RulingKind} | {"revise": RulingKind.APPROVE}
FIXED = Ruling(KINDS["approve"], "why", "A sentence.", observed=1, limit=1, unit="transfers")


def ruled(decision: str, rule: str = "refunds.auto_limit", **action: Any) -> ReviewResult:
    deciding = Ruling(KINDS[decision], "why", "A sentence about Anna.", rule=rule)
    return ReviewResult(decision, deciding, action, [deciding, FIXED])


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
        ["EUR", "escalate", 1, 3, 700, 0, 600],
        ["USD", "escalate", 1, 3, 500, 0, 500],
    ]


def test_other_amount_is_an_outcome_and_other_words_are_none() -> None:
    lowered = proposal("approve", "revise", 900, lowered=(0, 200))
    waited = proposal("escalate", "revise", 900, lowered=(300, 300), people="rejected")
    words = replace(proposal("approve", "approve"), would=ruled("revise", answer="other"))

    found = table([lowered], [waited], [words, words])

    names = ("was", "would", "runs", "asked", "lowered", "people")
    assert [[row[name] for name in names] for row in found["rows"]] == [
        ["approve", "revise", 1, 900, 200, {"": 1}],
        ["escalate", "revise", 1, 900, 300, {"rejected": 1}],
        ["approve", "approve", 1, 100, 0, {"": 1}],
    ]
    assert [run for run, *_ in found["flips"]] == ["run 1", "run 0"]


def test_curve_adds_up_one_currency() -> None:
    def points(*units: str) -> Any:
        curve = Curve("refunds", "auto_limit_minor", 1000, 400, STRICT)
        for unit in units:
            deciding = replace(ruled("escalate").deciding, observed=500, limit=1, unit=unit)
            under = replace(ruled("escalate"), rulings=[deciding, FIXED])
            curve.add("refunds", [proposal("approve", "escalate", 500, unit, strictest=under)])
        return curve.as_json()

    assert points("USD", "USD")["points"][0] == [0, 2, 1000]
    assert points("USD", "EUR") is None


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


def test_only_concerned_tools_are_judged() -> None:
    def judged(limits: Limits) -> list[bool]:
        wanted = concerned("refunds", SUPERVISED, limits.of("supervisor", "refunds"))
        calls: list[Any] = [{"kind": "tool", "name": name} for name in ("issue_refund", "reading")]
        return [wanted is not None and wanted(call) for call in calls]

    mails = [one for one in STRICT.desks["refunds"]["rules"] if "mail" in one]
    assert (judged(STRICT), judged(with_limits(auto_limit_minor=1))) == ([False] * 2, [True, False])
    assert judged(with_part(caps={"USD": {"workspace_daily_minor": 1}})) == [True, True]
    assert judged(with_part(rules=mails))[0]


def test_what_rules_do_not_read_is_named() -> None:
    other = replace(with_part(rolling_days=7, off=["issue_refund"]), four_eyes=False)
    both = other, with_part(tools=["get_refund_context"])

    found = [untried("refunds", SUPERVISED, one.of("supervisor", "refunds")) for one in both]

    assert found[0] == (["Amounts are added up over"], ["No self-approval", "Tools that are off"])
    assert found[1] == ([], ["Tools"])
