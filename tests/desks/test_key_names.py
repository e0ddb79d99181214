"""A name in place of a key: taken where exactly one has it, and nothing is learned by guessing."""

import json
from dataclasses import replace

import pytest

from agents.core.requests import Json
from agents.desks.bank.models import Payee
from agents.models import Run
from agents.runs.changes import reply_of
from agents.sdk.desk import DESKS
from agents.shell.refusal import Refused
from opsconsole.desks import Range
from tests.desks import bank
from tests.engine.scene import fresh, go
from tests.engine.test_tool_calls import at_bank, model, pay

TOOLS = DESKS["bank"].all_tools

pytestmark = pytest.mark.django_db(transaction=True)

OURS = "Nordlicht Energie"


def first_review(run: Run) -> Json:
    return reply_of(run.steps.filter(kind="review").order_by("position")[0])


@pytest.mark.parametrize("name", [OURS, "nordlicht  ENERGIE", "Nordlicht\u200b Energie"])
def test_unique_name_becomes_its_key_in_the_review(name: str) -> None:
    run = at_bank()

    with model([pay(name)], "Paid."):
        run = go(run)

    assert bank.postings(run) == [("P-101", 48000)]
    review = first_review(run)
    assert (review["decision"], review["deciding"]["reason"]) == ("revise", "name_for_key")
    assert review["action"]["args"]["payee"] == "P-101"
    assert review["facts"]["origins"]["payee"] == "goal"  # the key's is that of its name


def test_a_large_amount_to_a_name_waits_with_the_key() -> None:
    scene = bank.bank_scene()
    run = at_bank("Pay Papier Hansen EUR 1,950.00 for invoice INV-7.", scene)

    with model([pay("Papier Hansen", "1950.00")], "Paid."):
        go(run)
        held = bank.decide(scene, run)
        run = go(run)

    assert held.action["args"]["payee"] == "P-102"
    assert bank.postings(run) == [("P-102", 195000)]


@pytest.mark.parametrize("name", ["Nordlicht", "Nоrdlicht Energie", "P-1O1"], ids=ascii)
def test_unknown_name_is_blocked_with_the_listing_tool(name: str) -> None:
    run = at_bank()

    with model([pay(name)], [pay()], "Paid.") as asked:
        run = go(run)

    told = json.loads(asked[2]["messages"][-1]["content"])
    assert "read_payees" in told["next"]
    assert not {"P-101", OURS} & set(told["why"].replace("”", " ").split())
    assert bank.postings(run) == [("P-101", 48000)]


def several(run: Run) -> None:
    of_run = {"book": run.book_id, "name": OURS}
    Payee.objects.create(key="P-190", entered_on=fresh(run).created_at.date(), **of_run)


@pytest.mark.parametrize("lists", [True, False])
def test_ambiguous_names_keys_appear_only_if_a_tool_lists_them(
    monkeypatch: pytest.MonkeyPatch, lists: bool
) -> None:
    run = at_bank()
    several(run)
    if not lists:
        document = json.loads(json.dumps(run.policy.document))
        document["desks"]["bank"]["tools"].remove("read_payees")
        type(run.policy).objects.filter(pk=run.policy_id).update(document=document)

    with model([pay(OURS)], [pay()], "Paid.") as asked:
        run = go(run)

    told = json.loads(asked[2]["messages"][-1]["content"])
    assert f"Several have the name “{OURS}”" in told["why"]
    assert ("P-190" in told["why"]) is lists
    assert bank.postings(run) == [("P-101", 48000)]


@pytest.mark.breaks("I16")  # the bank itself lets nobody change the payee
def test_a_person_who_changes_a_call_may_write_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = TOOLS["transfer_money"]
    changes = {**tool.may_change, "payee": Range(1, 40)}
    monkeypatch.setitem(TOOLS, "transfer_money", replace(tool, may_change=changes))
    scene = bank.bank_scene()
    run = at_bank("Pay Papier Hansen EUR 1,950.00 for invoice INV-7.", scene)

    with model([pay("Papier Hansen", "1950.00")], "Paid."):
        go(run)
        with pytest.raises(Refused, match="no payee with the key or the name “Nobody”"):
            bank.decide(scene, run, {"payee": "Nobody"})
        held = bank.decide(scene, run, {"payee": "nordlicht energie"})
        run = go(run)

    assert held.patch == {"payee": "P-101"}
    assert bank.postings(run) == [("P-101", 195000)]
