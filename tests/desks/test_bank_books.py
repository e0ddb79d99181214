"""What the ledger tells a desk, and how the bank's books handle calls."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from agents.core.limits import Limits
from agents.db.driver import fetch_now
from agents.desks.bank import ledger
from agents.engine.desk.facts import fetch_facts
from agents.engine.desk.review_context import ReviewContext
from agents.models import Effect, Run
from agents.policies import review
from agents.sdk.desk import DESKS
from agents.sdk.desk_tools import DeskCall
from agents.sdk.rules import Origin
from agents.sdk.values import Money
from bench.counting import count_statements
from tests.desks.bank import (
    FIRST_PAYMENT,
    PAID_AT_ONCE,
    account_of,
    bank_scene,
    day,
    decide,
    euros,
    launch,
    postings,
)
from tests.engine.scene import fresh, go

pytestmark = pytest.mark.django_db(transaction=True)


def transfer(payee: str = "P-103", amount: str = "600.00") -> dict[str, Any]:
    asked = {"account": "main", "payee": payee, "amount": euros(amount), "on": day(0)}
    return {"kind": "tool", "name": "transfer_money", "args": {**asked, "purpose": "x"}}


def context_of(run: Run, action: dict[str, Any]) -> ReviewContext:
    given, bank = action["args"], DESKS["bank"]
    args = bank.tools[action["name"]].arguments.read(given)
    steps = list(run.steps.order_by("position"))
    return ReviewContext(bank, run, timezone.now(), action["name"], given, args, steps)


def reason_of(run: Run, action: dict[str, Any]) -> str:
    limits: Limits = run.limits
    facts, _ = fetch_now(fetch_facts, run, action, limits, [], at=timezone.now(), lock=False)
    return review(action, facts, limits).deciding.reason


def test_what_a_person_set_names_nothing_elsewhere() -> None:
    scene = bank_scene()
    run = go(launch(scene, FIRST_PAYMENT))
    decide(scene, run, {"amount": euros("600.00")})
    run = fresh(run)

    left = {**transfer(), "args": {**run.escalations.get().action["args"]}}
    left["args"]["amount"] = euros("600.00")
    assert context_of(run, left).origin("amount") is Origin.PERSON
    assert context_of(run, transfer("P-101")).origin("amount") is Origin.NOBODY


@pytest.mark.both
@pytest.mark.breaks("I8", "I32")  # calls with an unknown outcome are inserted by hand
def test_what_is_under_way_counts_as_done() -> None:
    run = go(launch(bank_scene(), PAID_AT_ONCE))
    for state, settled in (
        ("intended", None),
        ("unknown", timezone.now()),
        ("done", timezone.now()),
    ):
        Effect.objects.filter(run=run).update(state=state, settled_at=settled)
        context = context_of(run, transfer("P-101", "480.00"))
        same: dict[str, Any] = {"payee": "P-101", "amount": Money(48000, "EUR")}
        assert context.count("transfer_money", by="resource", days=1, **same) == 1, state
        assert context.count("transfer_money", days=1, unattended=True) == 1
        assert context.sum("transfer_money", currency="EUR", days=1) == Money(48000, "EUR")
        assert context.last("transfer_money", by="launcher", days=1) == timezone.now().date()
    other: dict[str, Any] = {"payee": "P-101", "amount": Money(48001, "EUR")}
    assert context.count("transfer_money", by="resource", days=1, **other) == 0
    later = replace(context, at=timezone.now() + timedelta(days=2))
    assert later.count("transfer_money", by="workspace", days=1) == 0


@pytest.mark.both
def test_a_review_asks_the_ledger_once_for_the_same_calls() -> None:
    run = go(launch(bank_scene(), PAID_AT_ONCE))
    context = context_of(run, transfer("P-101", "480.00"))
    today: dict[str, Any] = {"by": "resource", "days": 1}

    with count_statements() as sent:
        moved = context.sum("transfer_money", currency="EUR", **today)
        count = context.count("transfer_money", **today)

    assert (moved, count, sent.statements) == (Money(48000, "EUR"), 1, 1)


@pytest.mark.both
@pytest.mark.breaks("I2", "I4")  # not our bank: it pays in dollars
def test_currencies_are_not_added() -> None:
    run = go(launch(bank_scene(), PAID_AT_ONCE))
    Effect.objects.filter(run=run).update(currency="USD")

    context = context_of(run, transfer())

    assert context.sum("transfer_money", currency="EUR", days=1) == Money(0, "EUR")
    assert context.sum("transfer_money", currency="USD", days=1) == Money(48000, "USD")


def call(run: Run, key: str) -> DeskCall:
    return DeskCall(key, timezone.now(), "main", run.book_id)


TOOL = DESKS["bank"].tools["transfer_money"]


def args_of(amount: str) -> dict[str, Any]:
    return {**transfer("P-101", amount)["args"], "on": "2026-12-01"}


@pytest.mark.both
@pytest.mark.proves("I2")
def test_a_key_pays_what_it_was_held_for_and_once() -> None:
    run = launch(bank_scene(), PAID_AT_ONCE)

    told = [TOOL.call(call(run, "key"), args_of("3.00")) for _ in range(2)]
    other = TOOL.call(call(run, "key"), args_of("3.01"))

    assert told[0] == told[1] == ledger.find_transfer("key")
    assert other == {"status": "error", "error": "key_of_another_transfer"}
    assert [amount for _, amount in postings(run)] == [300]


@pytest.mark.both
def test_what_a_transfer_holds_is_free_again_once_it_is_given_up() -> None:
    run = launch(bank_scene(), PAID_AT_ONCE)
    with transaction.atomic():  # as an intent does; a failed hold does not end the run
        TOOL.hold(call(run, "first"), args_of("4000.00"))
        TOOL.hold(call(run, "second"), args_of("4000.00"))

    refused = TOOL.call(call(run, "second"), args_of("4000.00"))
    ledger.release("first", timezone.now())
    late = TOOL.call(call(run, "first"), args_of("4000.00"))

    assert refused == {"status": "error", "error": "insufficient_funds"}
    assert late == {"status": "error", "error": "given_up_before"}
    assert (account_of(run).free_minor, account_of(run).held_minor) == (500000, 0)


@pytest.mark.parametrize("amount", ["0.00", "-5.00"])
def test_a_transfer_of_nothing_is_blocked(amount: str) -> None:
    run = launch(bank_scene(), PAID_AT_ONCE)

    assert reason_of(run, transfer("P-101", amount)) == "no_amount"
