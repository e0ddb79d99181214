"""A desk's rules, sentences and limits, called as its company would."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from agents.core.limits import read_limits
from agents.core.registry import NamedTwice
from agents.sdk.desk_tools import fill
from agents.sdk.values import BadValue, read_stored, write
from opsconsole.desks import (
    Args,
    Case,
    Days,
    Desk,
    In,
    Json,
    Lower,
    Money,
    Names,
    Range,
    Ruling,
    Subject,
    Touch,
    block,
    limit,
    within,
)

CASE = Case("noor", "Noor Haddad", date(2026, 11, 22))


@dataclass(frozen=True)
class PayLimits:
    most: Money = limit(Money(100_000, "EUR"), "Largest payment", "Above it a person decides.")
    longest: Days = limit(Days(7), "Longest delay")
    banks: Names = limit(("ours",), "Banks")


@dataclass(frozen=True)
class PayFacts:
    is_known: bool


def a_desk(**more: Any) -> Desk:
    return Desk(
        **more,
        name="pay",
        title="Payments",
        subject=Subject("payee", find={"noor": {"name": "Noor"}}.get, label="{name} ({id})"),
        limits=PayLimits,
    )


def pay(call: Any, *, payee: str, amount: Money, due: date, note: str | None = None) -> Json:
    """Pay a payee."""
    return {"status": "ok", "paid": str(amount), "key": call}


def declare(desk: Desk, **more: Any) -> Callable[..., Json]:
    told = {"title": "Pay", "before": "Pays {amount}.", "after": "Paid.", "subject": "payee"}
    return desk.tool(Touch.SAFE, **{**told, **more})(pay)


def test_importing_it_needs_no_django() -> None:
    code = "import sys, opsconsole.desks; print([m for m in sys.modules if m[:6] == 'django'])"

    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_rule_gets_its_parameters_and_filled_sentences() -> None:
    desk = a_desk()
    declare(desk)

    @desk.rule(pay)
    def small(args: Args, limits: PayLimits) -> Ruling:
        return within(args.amount, limits.most, reason="large", what="{subject} would get")

    @desk.rule(pay)
    def known(facts: PayFacts, case: Case) -> Ruling | None:
        told = f"{case.subject} is not known; note: {{note}}."
        return None if facts.is_known else block("unknown", told)

    given = {"payee": "noor", "amount": {"amount": "1200.00", "currency": "EUR"}}
    given |= {"due": "2026-12-01", "note": "{subject} {amount} {0.__class__}"}
    tool = desk.tools["pay"]
    args = tool.arguments.read(given)
    rulings = {
        name: rule.ruling(tool, args, facts=PayFacts(False), limits=PayLimits(), case=CASE)
        for name, rule in desk.rules.items()
    }

    large, unknown = rulings["pay.small"], rulings["pay.known"]
    assert large
    assert unknown
    assert (large.verdict.word, large.observed, large.limit) == ("escalate", 120_000, 100_000)
    assert large.unit == "EUR"
    assert large.sentence == (
        "Noor Haddad would get EUR 1,200.00, over the automatic limit of EUR 1,000.00."
    )
    # A value that looks like a placeholder is text: values are filled in once.
    assert unknown.sentence == "noor is not known; note: {subject} {amount} {0.__class__}."


def test_rule_concerns_named_tools_or_a_touch() -> None:
    desk = a_desk()
    declare(desk)

    @desk.tool(Touch.READ, title="Look", subject="payee")
    def look(call: Any, *, payee: str) -> Json: ...

    @desk.rule(pay, look)
    def both() -> None: ...

    @desk.rule(every=Touch.SAFE)
    def writes() -> None: ...

    @desk.rule(every=Touch.READ)
    def every_call() -> None: ...

    @desk.tool(Touch.ONCE, title="Ring", subject="payee", before="Ring.", after="Rung.")
    def ring(call: Any, *, payee: str) -> Json: ...

    concerned = {
        name: [tool.name for tool in desk.tools.values() if rule.concerns(tool)]
        for name, rule in desk.rules.items()
    }

    assert concerned == {
        "pay.both": ["pay", "look"],
        "pay.writes": ["pay", "ring"],
        "pay.every_call": ["pay", "look", "ring"],
    }
    with pytest.raises(TypeError, match="a rule concerns no tool"):
        desk.rule()


def test_a_tool_is_called_with_its_types_and_says_what_it_does() -> None:
    desk = a_desk()
    names = {"payee": desk.subject, "note": desk.subject}
    declare(desk, names=names, may_change={"amount": Lower(), "due": Lower()})
    given = {"payee": "noor", "amount": {"amount": "12", "currency": "JPY"}, "due": "2026-12-01"}

    [tool] = desk.tools.values()

    assert tool.call("k1", given) == {"status": "ok", "paid": "JPY 12", "key": "k1"}  # type: ignore[arg-type]
    assert tool.sentence("{subject} gets {amount} on {due}; {note}", given, "Noor") == (
        "Noor gets JPY 12 on 1 December 2026; none"
    )
    assert (tool.description, desk.subject.label_of("noor", 1)) == ("Pay a payee.", "Noor (noor)")
    assert desk.subject.label_of("ben", 1) == ""
    assert tool.names_of(given, 1) == {"payee": {"noor": "Noor (noor)"}}


@pytest.mark.parametrize(
    "wrong",
    [
        {"before": "Pays {amont}."},
        {"after": "{role}"},
        {"subject": "employee"},
        {"resource": "account"},
        {"amount": "sum"},
        {"amount": "amount", "may_change": {"amount": Range(Money(1, "EUR"), Money(9, "EUR"))}},
        {"may_change": {"system": Lower()}},
        {"may_change": {"payee": Lower()}},
        {"may_change": {"note": Lower()}},
        {"people": 0},
        {"people": 3},
    ],
)
def test_a_declaration_that_names_what_is_not_there_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        declare(a_desk(), **wrong)


def test_a_rule_that_asks_for_more_or_comes_twice_is_refused() -> None:
    desk = a_desk()
    declare(desk)

    with pytest.raises(TypeError, match="clock"):
        desk.rule(pay)(lambda args, clock: None)
    with pytest.raises(NamedTwice):
        declare(desk)


def test_limits_and_facts_are_read_as_they_were_written() -> None:
    changed = PayLimits(longest=Days(30), banks=("ours", "theirs"))

    assert read_stored(PayLimits, write(changed)) == changed
    assert read_stored(PayLimits, {"longest": 30}) == PayLimits(longest=Days(30))
    assert type(read_stored(PayLimits, {}).longest) is Days
    assert read_stored(PayFacts, write(PayFacts(True))) == PayFacts(True)
    others: tuple[Any, ...] = ({"longest": "7"}, {"longest": 7.5}, {"other": 1}, {"banks": "a"}, [])
    for bad in others:
        with pytest.raises(BadValue):
            read_stored(PayLimits, bad)


def test_measures_of_two_kinds_are_not_compared() -> None:
    for one, other in ((Money(1, "EUR"), Money(1, "USD")), (Days(1), 1), (Money(1, "EUR"), 1)):
        with pytest.raises(TypeError):
            within(one, other, reason="r", what="It is")


def test_money_is_whole_minor_units_of_a_currency_there_is() -> None:
    assert [str(Money(1234, c)) for c in ("EUR", "JPY", "BHD")] == [
        "EUR 12.34",
        "JPY 1,234",
        "BHD 1.234",
    ]
    assert Money(5, "EUR") - Money(7, "EUR") == Money(-2, "EUR")
    assert max(Money(5, "EUR"), Money(7, "EUR")) == Money(7, "EUR")
    for minor, currency in (
        (1, "XAU"),
        (1, "eur"),
        (1, "EURO"),
        (1, ""),
        (True, "EUR"),
        (2**60, "EUR"),
    ):
        with pytest.raises(ValueError, match=r"currency|number"):
            Money(minor, currency)
    for mixed in (
        lambda: Money(1, "EUR") + Money(1, "USD"),
        lambda: Money(1, "EUR") < Money(1, "USD"),
    ):
        with pytest.raises(TypeError):
            mixed()
    assert In("EUR").currency == "EUR"


def test_a_sentence_has_plain_places_only() -> None:
    values = {"a": "{b}", "b": "secret"}

    assert fill("{a} {b.x} {b!r} {b:>9} {{b}} {c}", values) == "{b} {b.x} {b!r} {b:>9} {secret} {c}"


def test_policy_gains_new_parts_and_keeps_admin_limits() -> None:
    desk = a_desk()
    declare(desk)
    held = {**desk.document(), "limits": {"longest": 30, "gone": 1}, "caps": {"EUR": {}}}
    held["rules"] = ["pay.gone", *held["rules"]]
    of_admin = {"supervisor": {"max_seconds": 60}, "external": {"max_tool_calls": 50}}
    held["patterns"] = {**of_admin, "routing": {"tools": ["gone"]}}

    @desk.rule(pay)
    def small() -> None: ...

    assert desk.missing_from(held) == ["pay.small"]
    renewed = desk.document(held)
    assert desk.missing_from(renewed) == []
    assert renewed["rules"] == ["pay.bound", "pay.answer", "pay.caps", "pay.small"]
    assert renewed["limits"] == {**desk.document()["limits"], "longest": 30}
    assert renewed["caps"] == {"EUR": {}}
    assert renewed["patterns"] == of_admin


def test_a_desk_says_how_many_calls_its_runs_may_make() -> None:
    desk = a_desk(calls=20)
    declare(desk)
    document = desk.document()

    limits = read_limits({"profile": "strict", "desks": {"pay": document}}).of("supervisor", "pay")

    assert (limits.max_tool_calls, limits.calls_of("pay"), limits.repeats_of("pay")) == (20, 20, 1)
    assert limits.max_steps == 23  # two blocks that an agent is told of, and the answer
    assert limits.max_tokens == 240_000  # each question repeats what the calls before returned
    document["patterns"]["supervisor"]["max_tool_calls"] = 7  # as an admin set it
    assert desk.document(document)["patterns"] == document["patterns"]
    with pytest.raises(TypeError, match="calls is from 1 to 200, not 0"):
        a_desk(calls=0)
