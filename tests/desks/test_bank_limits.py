"""Daily caps and people's own limits, in the desk's currency only."""

import csv
import json
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from typing import Any
from unittest import mock

import pytest
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from agents.core.limits import read_limits
from agents.core.requests import RunState
from agents.engine.desk import subjects
from agents.engine.desk.review_context import ReviewContext
from agents.models import Effect, Escalation, Role, Run, Workspace
from agents.overview.pages import overview
from agents.people import workspaces
from agents.sdk.desk import DESKS
from agents.shell import refusal
from tests.audit.test_rows import reasons
from tests.desks.bank import (
    FIRST_PAYMENT,
    LARGE,
    PAID_AT_ONCE,
    bank_scene,
    decide,
    euros,
    launch,
    postings,
)
from tests.engine.scene import REFUND_500, Scene, go
from tests.web.test_pages import client_of
from tests.web.words import words

TOOLS = DESKS["bank"].all_tools

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def under(scene: Scene, **caps: Any) -> None:
    """Publish the policy with other caps for the bank."""
    policy = Workspace.objects.get(pk=scene.workspace.pk).policy
    assert policy is not None
    document = json.loads(json.dumps(policy.document))
    document["desks"]["bank"]["caps"] = caps
    limits = read_limits(document)
    version = workspaces.policy_version(scene.workspace, limits, at=timezone.now())
    Workspace.objects.filter(pk=scene.workspace.pk).update(policy=version)


def reason(run: Run) -> str:
    held = Escalation.objects.get(run=run, state="open")
    return str(held.review["deciding"]["reason"])


@pytest.mark.both
@pytest.mark.proves("I4", "I43")
@pytest.mark.parametrize("whose", ["launcher", "workspace"])
def test_what_goes_out_in_a_day_without_a_person_has_a_cap(whose: str) -> None:
    scene = bank_scene()
    under(scene, EUR={f"{whose}_daily_minor": 100000})
    runs = [go(launch(scene, PAID_AT_ONCE)) for _ in range(3)]

    assert [len(postings(run)) for run in runs] == [1, 1, 0]
    assert reason(runs[2]) == "unattended_cap_of_the_day"
    decide(scene, runs[2])
    assert len(postings(go(runs[2]))) == 1


@pytest.mark.both
@pytest.mark.proves("I43")
def test_each_launcher_has_a_cap_and_all_of_a_workspace_have_one() -> None:
    scene = bank_scene()
    under(scene, EUR={"launcher_daily_minor": 50000, "workspace_daily_minor": 100000})
    lena, noah = (scene.add(name, Role.OPERATOR) for name in ("lena", "noah"))

    runs = [go(launch(scene, PAID_AT_ONCE, by=who)) for who in (scene.omar, lena, lena, noah)]

    assert [len(postings(run)) for run in runs] == [1, 1, 0, 0]
    held = [Escalation.objects.get(run=run).review["deciding"]["limit"] for run in runs[2:]]
    assert held == [50000, 100000]
    tomorrow = timezone.now() + timedelta(days=1)
    context = ReviewContext(DESKS["bank"], runs[0], tomorrow, "transfer_money", {}, None, [])
    assert context.unattended_today("EUR") == {"workspace": 0, "launcher": 0}


def test_a_cap_counts_its_own_currency_only() -> None:
    scene = bank_scene()
    under(scene, EUR={"workspace_daily_minor": 50000})
    first = go(launch(scene, PAID_AT_ONCE))
    Effect.objects.filter(run=first).update(currency="USD")

    assert go(launch(scene, PAID_AT_ONCE)).state == RunState.DONE
    Effect.objects.filter(run=first).update(currency="EUR")


def test_a_currency_without_a_cap_is_a_persons() -> None:
    scene = bank_scene()
    under(scene, USD={"workspace_daily_minor": 50000})

    assert reason(go(launch(scene, PAID_AT_ONCE))) == "no_cap_of_the_day"


def set_limit(limit: str, *more: str) -> str:
    call_command("set_limit", "demo", "rita", limit, *more, stdout=(out := StringIO()))
    return out.getvalue()


IN_EUR = ("--desk", "bank", "--currency", "EUR")


@pytest.mark.both
def test_own_limit_includes_earlier_grants(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, tool = bank_scene(), DESKS["bank"].tools["transfer_money"]
    set_limit("1000.00", *IN_EUR)
    large = go(launch(scene, LARGE))
    with mock.patch.object(subjects, "open_book", return_value=large.book_id):
        first = go(launch(scene, FIRST_PAYMENT))

    with pytest.raises(refusal.Refused, match=r"above your own limit of EUR 1,000\.00"):
        decide(scene, large)
    decide(scene, large, {"amount": euros("700.00")})
    with pytest.raises(refusal.Refused, match=r"With the EUR 700\.00 you already granted") as no:
        decide(scene, first, {"amount": euros("300.01")})
    decide(scene, first, {"amount": euros("300.00")})

    assert no.value.code == "above_own_limit"
    assert [amount for _, amount in postings(go(large))] == [70000]
    call_command("verify_audit", stdout=StringIO())

    # A tool without a resource is counted on its subject only.
    monkeypatch.setitem(DESKS["bank"].tools, "transfer_money", replace(tool, resource=""))
    runs = [go(launch(scene, FIRST_PAYMENT)) for _ in range(2)]
    Run.objects.filter(pk__in=[run.pk for run in runs]).update(book_id=large.book_id)
    granted = decide(scene, runs[0], {"amount": euros("800.00")})
    with pytest.raises(refusal.Refused, match=r"With the EUR 800\.00 you already granted"):
        decide(scene, runs[1], {"amount": euros("800.00")})
    Escalation.objects.filter(pk=granted.pk).update(subject_key="another")
    assert decide(scene, runs[1], {"amount": euros("800.00")}).resource == ""


def test_card_offers_as_proposed_only_within_own_limit(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = bank_scene()
    held = Escalation.objects.get(run=go(launch(scene, LARGE)))
    client.force_login(scene.rita)

    def card() -> str:
        return client.get(f"/approvals/{held.pk}/").content.decode()

    assert 'value="approve"' in card()
    set_limit("1000.00", *IN_EUR)
    assert 'value="approve"' not in card()
    assert "Up to EUR 1,000.00, your approval limit." in words(card())
    assert f"{held.asked} is above your limit of EUR 1,000.00." in words(card())

    tool = TOOLS["transfer_money"]
    of_day = replace(tool, may_change={"on": tool.may_change["on"]})
    fixed = replace(tool.request, change="", answers=tool.request.answers[1:])
    for other in (of_day, replace(tool, may_change={}, request=fixed)):
        monkeypatch.setitem(TOOLS, "transfer_money", other)
        shown = card()
        answers = [verdict for verdict in ("adjust", "approve") if f'value="{verdict}"' in shown]
        assert (answers, "above your limit of EUR 1,000.00" in words(shown)) == ([], True)


@pytest.mark.judged_otherwise
def test_process_without_the_desk_refuses_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = bank_scene()
    run, paid = go(launch(scene, FIRST_PAYMENT)), go(launch(scene, PAID_AT_ONCE))
    monkeypatch.delitem(DESKS, "bank")

    with pytest.raises(refusal.Refused) as no:
        decide(scene, run)
    told = Client().get("/readyz")
    [warned] = [one for one in run_checks(databases=["default"]) if one.id == "opsconsole.W005"]

    assert no.value.code == "unknown_desk"
    assert "not installed: bank." in warned.msg
    assert told.json()["desks"] == "missing: bank"
    assert decide(scene, run, approve=False).state == "rejected"
    assert client_of(scene.rita).get(f"/runs/{paid.pk}/").status_code == 200
    paid_alone, *_ = overview(scene.rita, at=timezone.now())["period"]["figures"]
    assert paid_alone["value"] == "EUR 480.00"


def test_the_log_and_its_csv_name_calls_with_their_own_currency() -> None:
    scene = bank_scene()
    run = go(launch(scene, FIRST_PAYMENT))
    decide(scene, run, {"amount": euros("600.00")})
    go(run)
    go(scene.launch(REFUND_500))
    ada = client_of(User.objects.get(username="ada"))

    page = ada.get("/audit/").text
    exported = ada.post("/audit/export/", {"currency": "EUR"}).getvalue().decode()

    assert "Asked for approval of EUR 900.00 for Operating account (a payee who is new" in page
    assert "Approved EUR 600.00 instead of EUR 900.00 for Operating account. “as agreed”" in page
    assert "Carried out “Transfer money” of EUR 600.00 for Operating account." in page
    rows = list(csv.DictReader(exported.splitlines()))
    moved = [(r["event"], r["desk"], r["currency"], r["amount"]) for r in rows if r["amount"]]
    assert moved == [
        ("effect.done", "bank", "EUR", "600.00"),
        ("escalation.opened", "bank", "EUR", "900.00"),
    ]
    held = Escalation.objects.filter(run=run)
    held.update(amount_minor=80000)
    assert "amount_minor is 80000; the record says 90000" in str(reasons())
    held.update(amount_minor=90000)
