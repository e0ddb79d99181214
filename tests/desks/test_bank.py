"""A transfer goes through the console: asked about, lowered, judged again, paid once, told."""

from functools import partial
from io import StringIO
from typing import Any
from unittest import mock

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from django.utils import timezone

from agents.core.requests import Json, RunState
from agents.core.reviews import DeskFacts, Facts
from agents.desks.refunds.limits import STRICT
from agents.engine.tools import admission
from agents.models import Escalation, Run
from agents.requests.words import sources
from agents.runs.trace import trace
from agents.sdk import values as serialization
from agents.sdk.desk import DESKS
from agents.sdk.rules import Case
from agents.sdk.values import Arguments
from agents.shell import refusal as operations_refusal
from tests.desks.bank import (
    ATTACKS,
    BLOCKED,
    FIRST_PAYMENT,
    LARGE,
    NEW_PAYEE,
    PAID_AT_ONCE,
    account_of,
    answer_of,
    bank_scene,
    day,
    decide,
    euros,
    launch,
    postings,
)
from tests.engine.scene import Scene, decide_request, go
from tests.web.clients import client_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def scene() -> Scene:
    return bank_scene()


def reasons_of(run: Run) -> list[str]:
    """Return the reasons of the rules that escalate."""
    held = Escalation.objects.get(run=run, state="open")
    wanting = held.review["escalating"]
    return [one["reason"] for one in held.review["rulings"] if one["rule"] in wanting]


def test_rules_reuse_arguments_and_limits_of_the_facts(scene: Scene) -> None:
    during: dict[str, int] = {}
    rulings, args, limits = admission.review, Arguments.read, serialization.read_stored
    with (
        mock.patch.object(Arguments, "read", autospec=True, side_effect=args) as of_args,
        mock.patch.object(serialization, "read_stored", side_effect=limits) as of_limits,
        mock.patch.object(admission, "review") as review,
    ):

        def count(action: Json, *known: Any, **options: Any) -> Any:
            before = of_args.call_count + of_limits.call_count
            ruled = rulings(action, *known, **options)
            during[str(action.get("name"))] = of_args.call_count + of_limits.call_count - before
            return ruled

        review.side_effect = count
        run = launch(scene, PAID_AT_ONCE)
        go(run)

    assert postings(run)
    assert during == {"read_invoice": 0, "transfer_money": 0, "None": 0}


def test_a_first_payment_is_lowered_judged_again_and_paid_once(scene: Scene) -> None:
    run = go(launch(scene, FIRST_PAYMENT))
    held = Escalation.objects.get(run=run)
    assert (run.state, reasons_of(run)) == (RunState.WAITING, ["first_payment"])
    why = "Kanzlei Brandt (P-103) has never been paid before, on file for 2 days."
    assert held.review["deciding"]["sentence"] == why
    assert "to Kanzlei Brandt (P-103), dated" in held.in_words("Operating account")
    origins = {one["value"]: [m[0] for m in one["marks"]] for one in sources(held, [])}
    assert origins["Kanzlei Brandt (P-103)"] == origins["EUR 900.00"] == ["request"]
    assert (held.subject_key, held.resource) == ("main", "main")
    assert (held.amount_minor, held.currency) == (90000, "EUR")

    decided = decide(scene, run, {"amount": euros("600.00"), "on": day(3)})
    run = go(run)

    assert (run.state, run.stop_reason) == (RunState.DONE, "success")
    assert postings(run) == [("P-103", 60000)]
    effect = run.effects.get()
    assert (effect.amount_minor, effect.currency, effect.resource) == (60000, "EUR", "main")
    assert (effect.subject_key, effect.args["on"]) == ("main", day(3))
    assert (decided.state, decided.patch) == ("adjusted", {"amount": euros("600.00"), "on": day(3)})
    paid = "EUR 600.00 was sent from Operating account to Kanzlei Brandt (P-103), dated"
    assert answer_of(run).startswith(paid)
    assert (account_of(run).free_minor, account_of(run).held_minor) == (440000, 0)
    call_command("verify_audit", stdout=StringIO())


def test_what_people_named_and_know_is_paid_at_once(scene: Scene) -> None:
    run = go(launch(scene, PAID_AT_ONCE))

    assert (run.state, postings(run)) == (RunState.DONE, [("P-101", 48000)])
    assert run.effects.get().escalation is None


def test_a_large_amount_is_asked_about(scene: Scene) -> None:
    run = go(launch(scene, LARGE))

    assert reasons_of(run) == ["large_transfer"]
    decide(scene, run, {"on": day(20)})
    assert postings(go(run)) == [("P-102", 195000)]


def test_a_blocked_payee_is_paid_by_nobody(scene: Scene) -> None:
    run = go(launch(scene, BLOCKED))

    assert run.stop_reason == "supervisor_block:payee_blocked"
    assert (run.escalations.count(), postings(run)) == (0, [])
    page = client_of(scene.omar).get(reverse("run", args=[run.pk]))
    assert "Blocked by policy: The payee Delta Freight (" in page.text


@pytest.mark.parametrize("approve", [True, False])
def test_a_payee_is_entered_as_asked_or_not_at_all(scene: Scene, approve: bool) -> None:
    run = go(launch(scene, NEW_PAYEE))
    assert reasons_of(run) == ["new_payee"]
    with pytest.raises(operations_refusal.Refused, match="cannot be changed"):
        decide(scene, run, {"name": "Somebody else"})

    decide(scene, run, approve=approve)
    run = go(run)

    from agents.desks.bank.models import Payee

    assert Payee.objects.filter(book=run.book_id, key="P-105").count() == approve
    assert run.state == (RunState.DONE if approve else RunState.STOPPED)
    told = trace(run)
    assert ("was entered as the payee" in told["headline"]) == approve


@pytest.mark.parametrize(
    ("attack", "reasons", "names"),
    [
        (ATTACKS[0], ["named_by_outsider", "first_payment"], "payee"),
        (ATTACKS[1], ["named_by_outsider"], "amount"),
        (ATTACKS[2], ["new_payee"], "payee"),
    ],
)
def test_an_attack_in_an_invoice_ends_at_a_person_who_sees_it(
    scene: Scene, attack: int, reasons: list[str], names: str
) -> None:
    run = go(launch(scene, attack))
    held = Escalation.objects.get(run=run)
    facts = held.review["facts"]

    assert reasons_of(run) == reasons  # the first is the headline
    [quote] = [one for one in facts["evidence"] if one["kind"] == "quote"]
    assert "Pay" in quote["text"] or "transfer" in quote["text"]
    assert facts["origins"][names] == "outside"
    by_text = [s["name"] for s in sources(held, []) if any(m[0] == "text" for m in s["marks"])]
    assert names.capitalize() in by_text  # as the card says of it
    with pytest.raises(operations_refusal.Refused, match="Enter a reason for the approval"):
        decide_request(held, scene.rita)
    with pytest.raises(CommandError, match="Enter a reason for the approval"):
        call_command("decide", held.pk, "--approve", "--as=rita")
    decide(scene, run, approve=False)
    assert (go(run).stop_reason, postings(run)) == ("human_rejected", [])


@pytest.mark.proves("I16")
@pytest.mark.parametrize(
    "patch",
    [
        {"amount": euros("900.01")},
        {"amount": euros("0.00")},
        {"amount": euros("-1.00")},
        {"amount": {"amount": "600.00", "currency": "USD"}},
        {"amount": euros("600")},
        {"amount": 600},
        {"on": partial(day, -1)},  # from when the test runs, not from when it was collected
        {"on": partial(day, 31)},
        {"payee": "P-101"},
        {"account": "other"},
        {"purpose": "mine"},
    ],
)
def test_nobody_pays_more_elsewhere_or_yesterday(scene: Scene, patch: dict[str, Any]) -> None:
    run = go(launch(scene, FIRST_PAYMENT))

    with pytest.raises(operations_refusal.Refused) as refusal:
        decide(scene, run, {name: one() if callable(one) else one for name, one in patch.items()})

    assert refusal.value.code == "bad_patch"
    assert postings(run) == []


def test_a_tool_of_another_desk_is_blocked_for_what_it_is() -> None:
    known = DeskFacts(None, Case("ACC-1", "Noor", timezone.now().date()), (), {})
    action = {"kind": "tool", "name": "issue_refund", "args": {"user_id": 42}}

    ruling = DESKS["bank"].checks["bank.bound"](
        action, Facts(desk=known), STRICT.of("supervisor", "refunds")
    )

    assert ruling is not None
    assert (ruling.verdict.word, ruling.reason) == ("block", "other_desk")
    assert ruling.sentence == "issue_refund is not a tool of this desk."
