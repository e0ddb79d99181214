"""Properties of the strict policy for every amount, age and history."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents import policies
from agents.core.limits import Limits
from agents.core.money import MAX_MINOR
from agents.core.requests import Json
from agents.core.reviews import ReviewResult, Ruling, RulingKind, consent_of
from agents.desks.reference.desk import REFERENCE
from agents.desks.refunds.facts import ChargeFact, RefundFact, RefundFacts
from agents.desks.refunds.limits import RefundLimits
from agents.sdk.desk import DESKS
from tests.facts import seen
from tests.limits import SUPERVISED


def review(action: Json, facts: RefundFacts, limits: Limits, **more: Any) -> ReviewResult:
    return policies.review(action, seen(facts), limits, **more)


amounts = st.integers(1, 250_000)
CLASSES = {"approve": 0, "revise": 0, "escalate": 1, "block": 2}

STRICT, LIMITS = SUPERVISED, RefundLimits()


def refund(amount: int, **more: Any) -> dict[str, Any]:
    args = {"user_id": 42, "amount_minor": amount, "reason": "r", **more}
    return {"kind": "tool", "name": "issue_refund", "args": args}


@st.composite
def situations(draw: st.DrawFn) -> RefundFacts:
    """Draw a charge partly refunded, by this run or others, attended or not."""
    charge = draw(st.integers(1, 200_000))
    left = draw(st.integers(0, charge))
    mine = draw(st.lists(st.tuples(st.integers(1, 60_000), st.booleans()), max_size=2))
    refunds = tuple(
        RefundFact(42, amount, "rf", by_person=by_person, mailed=False, settled=True)
        for amount, by_person in mine
    )
    return RefundFacts(
        subject=42,
        context_of=(42,),
        refunds=refunds,
        charge=ChargeFact(charge, left, "USD", draw(st.integers(0, 30))),
        unattended_minor=draw(st.integers(0, 150_000)),
    )


def amount_of(ruled: ReviewResult) -> int:
    """Return the minor units that would be paid without a person; 0 if none."""
    return ruled.action["args"]["amount_minor"] if ruled.allows else 0


@pytest.mark.proves("I13")
@given(facts=situations(), amount=amounts, more=st.integers(1, 100_000))
def test_a_larger_amount_never_gets_a_weaker_answer(
    facts: RefundFacts, amount: int, more: int
) -> None:
    """Except for an amount paid twice, which is blocked however small it is."""
    if amount in [r.amount_minor for r in facts.refunds]:
        return
    small, large = (
        review(refund(amount), facts, STRICT),
        review(refund(amount + more), facts, STRICT),
    )

    if amount_of(large):
        # The part paid of the larger amount would also be paid if requested itself.
        assert review(refund(amount_of(large)), facts, STRICT).allows
        assert amount_of(large) >= amount_of(small) or not small.allows
    if small.decision == "block":
        assert not large.allows


@pytest.mark.proves("I13")
@given(facts=situations(), amount=amounts, days=st.integers(1, 60))
def test_an_older_charge_never_gets_a_weaker_answer(
    facts: RefundFacts, amount: int, days: int
) -> None:
    assert facts.charge is not None
    older = replace(facts, charge=replace(facts.charge, age_days=facts.charge.age_days + days))

    young, old = (review(refund(amount), facts, STRICT), review(refund(amount), older, STRICT))

    assert CLASSES[old.decision] >= CLASSES[young.decision]


@pytest.mark.proves("I13")
@given(facts=situations(), amount=amounts, more=st.integers(1, 100_000))
def test_more_refunded_before_never_gets_a_weaker_answer(
    facts: RefundFacts, amount: int, more: int
) -> None:
    fuller = replace(facts, unattended_minor=facts.unattended_minor + more)

    before, after = (review(refund(amount), facts, STRICT), review(refund(amount), fuller, STRICT))

    assert CLASSES[after.decision] >= CLASSES[before.decision]
    assert amount_of(after) <= amount_of(before)


@pytest.mark.proves("I22")
@given(facts=situations(), amount=st.integers(1, MAX_MINOR), reason=st.sampled_from(["", "r"]))
def test_what_may_run_may_run_by_itself(facts: RefundFacts, amount: int, reason: str) -> None:
    """A revised action is also allowed if proposed by itself."""
    ruled = review(refund(amount, reason=reason), facts, STRICT)

    if ruled.allows:
        alone = review(ruled.action, facts, STRICT)
        assert alone.decision == "approve"
        assert alone.action == ruled.action
        assert facts.charge is not None
        paid = ruled.action["args"]["amount_minor"]
        assert paid <= facts.charge.refundable_minor
        assert facts.unattended_minor + paid <= LIMITS.auto_limit_minor
        assert facts.refunded_minor + paid <= LIMITS.run_limit_minor


UNMEASURED = ("duplicate_refund", "amount_named_by_nobody")  # an amount, and no limit


@given(facts=situations(), amount=st.integers(-1, 250_000))
def test_what_measures_numbers_names_their_unit(facts: RefundFacts, amount: int) -> None:
    ruled = review(refund(amount), facts, STRICT)

    for ruling in (*ruled.rulings, *ruled.revisions):
        measures = type(ruling.limit) is int and not ruling.rule.startswith("subject.")
        assert bool(ruling.unit) == measures or ruling.reason in UNMEASURED


@pytest.mark.proves("I20")
@given(facts=situations(), amount=amounts, customer=st.integers(-5, 100))
def test_nobody_but_the_subject_is_touched(facts: RefundFacts, amount: int, customer: int) -> None:
    if customer == 42:
        return
    for action in (
        refund(amount, user_id=customer),
        {"kind": "tool", "name": "get_refund_context", "args": {"user_id": customer}},
    ):
        assert review(action, facts, STRICT).decision == "block"


@pytest.mark.proves("I15")
@given(facts=situations(), amount=amounts)
def test_a_person_lifts_only_what_they_were_asked(facts: RefundFacts, amount: int) -> None:
    asked = review(refund(amount), facts, STRICT)
    if asked.decision != "escalate":
        return

    again = review(asked.action, facts, STRICT, consent=consent_of(asked.as_json()))

    assert again.decision == "approve"
    for name in asked.escalating:
        others = {rule: None for rule in asked.escalating if rule != name}
        assert review(asked.action, facts, STRICT, consent=others).decision == "escalate"


@pytest.mark.proves("I14")
def test_what_no_rule_speaks_of_is_blocked() -> None:
    action = {"kind": "tool", "name": "drop_table", "args": {}}

    ruled = review(action, RefundFacts(), STRICT)

    assert ruled.decision == "block"
    assert ruled.deciding.reason == "unknown_tool_for_supervisor:drop_table"


@pytest.mark.proves("I14")
def test_a_rule_that_raises_or_is_missing_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(action: Any, facts: RefundFacts, limits: Limits) -> Ruling | None:
        raise ZeroDivisionError

    monkeypatch.setitem(DESKS["refunds"].checks, "test.raises", raises)
    facts = RefundFacts(subject=42, context_of=(42,), charge=ChargeFact(120000, 120000, "USD", 1))
    for name in ("test.raises", "no.such_rule"):
        limits = replace(STRICT, rules=(*STRICT.rules, name))
        ruled = review(refund(100), facts, limits)
        assert (ruled.decision, ruled.deciding.reason) == ("block", "rule_failed")
        assert ruled.deciding.rule == name


@given(facts=situations(), amount=amounts, kind=st.sampled_from(["tool", "final", "plan"]))
def test_unasked_rules_would_have_said_nothing(facts: RefundFacts, amount: int, kind: str) -> None:
    for tool in ("issue_refund", "get_refund_context", "send_refund_email", "drop_table"):
        action = {**refund(amount), "kind": kind, "name": tool, "answer": "It is done."}
        everything = {
            name
            for name in STRICT.rules
            if DESKS["refunds"].checks[name](action, seen(facts), STRICT)
        }

        judged = policies.judge(action, seen(facts), STRICT)

        assert {ruling.rule for ruling in judged if ruling.rule} == everything


@pytest.mark.proves("I12")
def test_a_policy_that_never_settles_asks_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_cent_less(action: Any, facts: RefundFacts, limits: Limits) -> Ruling | None:
        args = {**action["args"], "amount_minor": action["args"]["amount_minor"] - 1}
        return Ruling(RulingKind.REVISE, "less", "less", action={**action, "args": args})

    monkeypatch.setitem(DESKS["refunds"].checks, "test.less", one_cent_less)

    ruled = review(refund(100), RefundFacts(), replace(STRICT, rules=("test.less",)))

    assert ruled.decision == "escalate"
    assert ruled.deciding.reason == "revisions_do_not_settle"
    assert len(ruled.revisions) == policies.ROUNDS


def test_every_rule_of_the_profiles_exists() -> None:
    for desk, limits in (("refunds", STRICT), ("reference", REFERENCE)):
        parts = limits.desks[desk], *limits.desks[desk].get("patterns", {}).values()
        rules = {rule for part in parts for rule in part.get("rules", ())}
        assert rules <= set(DESKS[desk].checks)
