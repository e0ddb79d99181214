"""Reject several requests of one rule and kind for one reason, each checked by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Browser, expect

from agents.core.decisions import Decision
from agents.core.states import EscalationState
from agents.models import Escalation, Event, Role
from agents.requests import deciding, sharing
from agents.requests.bulk import MOST_AT_ONCE, reject_many
from tests.engine.scene import Scene, decide_request, go, payments
from tests.web.serving import chromium, serve
from tests.web.test_journeys import advance_run, desk
from tests.web.test_journeys import complaints as complaints
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)

RULE = "rule=refunds.auto_limit"
ASKED = (1200, 1250, 1300, 9900)  # of which the last is unlike the others


def waiting(scene: Scene) -> list[Escalation]:
    for amount in ASKED:
        one = Escalation.objects.get(run=go(scene.launch()))
        Escalation.objects.filter(pk=one.pk).update(amount_minor=100 * amount)
    return list(Escalation.objects.order_by("pk"))


def test_what_somebody_else_has_claimed_is_not_ticked(scene: Scene) -> None:
    first, *_ = waiting(scene)
    ada = scene.add("ada", Role.ADMIN)
    sharing.claim(escalation_id=first.pk, by=ada, at=timezone.now())

    theirs, mine = form(bulk(client_of(scene.rita))), form(bulk(client_of(ada)))

    item = f"{first.pk}.{first.action_sha256}"
    assert (item in theirs["item"], item in mine["item"]) == (False, True)


def form(page: str, **fields: Any) -> dict[str, Any]:
    """Return a page's form as sent unchanged, with the total of the ticked requests."""
    ticked = re.findall(r'name="item" value="([^"]+)"[^>]* checked', page)
    [token] = re.findall(r'name="token" value="([^"]+)"', page)
    given = {"item": ticked, "token": token, "refusal": "not a refund", "total.USD": "3,750.00"}
    return {**given, **fields}


def bulk(client: Client, query: str = RULE) -> str:
    return client.get(f"{reverse('bulk')}?{query}").text


def send(client: Client, sent: dict[str, Any], query: str = RULE) -> Any:
    return client.post(f"{reverse('bulk-reject')}?{query}", sent)


def test_the_next_ones_are_offered_while_there_are_any(scene: Scene) -> None:
    waiting(scene)
    rita = client_of(scene.rita)

    some = rita.get(send(rita, form(bulk(rita)))["Location"]).text
    rest = bulk(rita)
    items = re.findall(r'name="item" value="([^"]+)"', rest)
    last = rita.get(
        send(rita, form(rest, **{"item": items, "total.USD": "9,900.00"}))["Location"]
    ).text

    assert ("3 rejected" in some, "The next ones" in some) == (True, True)
    assert ("1 rejected" in last, "The next ones" in last) == (True, False)


def test_the_total_to_type_is_that_of_what_still_waits(scene: Scene) -> None:
    first, *_ = waiting(scene)
    rita, ada = client_of(scene.rita), scene.add("ada", Role.ADMIN)
    sent = form(bulk(rita), **{"total.USD": "3.750,00"})
    decide_request(first, ada, approve=False, comment="no")

    refused = words(send(rita, sent).text)

    assert "You ticked 2 requests: USD 2,550.00. Type this total to go on." in refused
    assert "Ticked at first: USD 2,550.00." in refused


@pytest.mark.proves("I53")
def test_each_is_judged_by_itself_and_the_result_says_who_was_left(scene: Scene) -> None:
    first, second, third, far = waiting(scene)
    rita, at, ada = client_of(scene.rita), timezone.now(), scene.add("ada", Role.ADMIN)
    page = bulk(rita)
    said = words(page)
    assert "Matching 4 requests, USD 13,650.00 Smallest USD 1,200.00 Largest USD 9,900.00" in said
    assert page.index(f"{far.pk}.{far.action_sha256}") < page.index(
        f"{first.pk}.{first.action_sha256}"
    )
    assert "unlike the others" in said
    sent = form(page)
    assert far.pk not in [int(item.partition(".")[0]) for item in sent["item"]]

    for wrong in ("", "3750.01", "3749", "13650.00"):
        refused = send(rita, {**sent, "total.USD": wrong})
        assert refused.status_code == 422
        assert "You ticked 3 requests: USD 3,750.00. Type this total" in words(refused.text)
    refused = send(rita, {**sent, "refusal": " "})
    assert (refused.status_code, "Enter a reason." in refused.text) == (422, True)
    assert not Event.objects.filter(kind__in=("decision.refused", "escalation.decided")).exists()

    sharing.claim(escalation_id=second.pk, by=ada, at=at)
    deciding.decide(
        escalation_id=third.pk, by=ada, at=at, wanted=Decision(approve=False, comment="no")
    )
    reject_many(  # from the same form, clicked twice, as far as it has come
        items=[(first.pk, first.action_sha256)],
        by=scene.rita,
        comment="not a refund",
        bulk=sent["token"],
        now=timezone.now,
    )
    answered = send(rita, sent)
    assert answered.status_code == 302
    result = words(rita.get(answered.url).text)
    assert "1 rejected: USD 1,200.00. 2 left." in result
    assert "ada had claimed it" in result
    assert "ada had decided: rejected" in result
    again = send(rita, sent)
    assert again.url == answered.url
    told = Event.objects.filter(kind="escalation.decided", actor="rita")
    assert [event.facts["escalation"] for event in told] == [first.pk]
    assert Event.objects.filter(kind="decision.refused").count() == 2
    assert words(rita.get(answered.url).text).count("ada had") == 2
    carl = scene.add("carl", Role.REVIEWER)
    sharing.release_claim(escalation_id=second.pk, by=ada, at=timezone.now())
    sharing.claim(escalation_id=second.pk, by=carl, at=timezone.now())
    assert "carl had" not in words(rita.get(answered.url).text)
    for held, state in ((first, "rejected"), (second, "open"), (third, "rejected"), (far, "open")):
        held.refresh_from_db()
        assert held.state == state
    assert (go(first.run).stop_reason, payments(first.run)) == ("human_rejected", [])


@pytest.mark.proves("I53")
def test_what_is_of_more_than_one_kind_or_somebody_elses_is_rejected_by_nobody(
    scene: Scene,
) -> None:
    held = waiting(scene)
    rita = client_of(scene.rita)
    sent = form(bulk(rita))

    assert "?tool=issue_refund&amp;desk=refunds&amp;rule=" in bulk(rita, "tool=issue_refund")
    assert send(rita, sent, "rule=refunds.window").status_code == 422
    far = f"{held[-1].pk}.{'0' * 64}"
    odd: dict[str, Any]
    for odd in (
        {"item": [*sent["item"], f"{held[-1].pk + 99}.x"]},
        {"item": []},
        {"item": ["x"]},
        {"token": "x"},
        {"approve": "yes"},
        {"refusal": ["first", "second"]},
        {"item": [f"{number}.x" for number in range(1, 43)]},
    ):
        assert send(rita, {**sent, **odd}).status_code == 422, odd
    assert send(client_of(scene.eve), sent).status_code == 403
    stale = send(rita, {**sent, "item": [far], "total.USD": "9900.00"})
    assert "The request had changed meanwhile" in words(rita.get(stale.url).text)
    assert Escalation.objects.filter(state=EscalationState.OPEN).count() == len(ASKED)


@pytest.mark.proves("I53")
@pytest.mark.breaks("I32", "I17")  # rows that no run made
def test_two_thousand_are_offered_forty_at_a_time_in_a_few_questions(
    scene: Scene, django_assert_max_num_queries: Any
) -> None:
    one = waiting(scene)[0]
    steps = list(one.run.steps.model.objects.filter(pk=one.step_id).values())
    columns = [field.attname for field in Escalation._meta.concrete_fields if field.name != "id"]
    row = {name: getattr(one, name) for name in columns}
    step = {name: value for name, value in steps[0].items() if name != "id"}
    of_step = one.run.steps.model
    made = of_step.objects.bulk_create(
        of_step(**{**step, "key": f"x{n}/person", "position": 1000 + n}) for n in range(2000)
    )
    Escalation.objects.bulk_create(Escalation(**{**row, "step_id": s.pk}) for s in made)
    rita = client_of(scene.rita)
    bulk(rita)

    with django_assert_max_num_queries(12):
        page = bulk(rita)

    assert "At most 40 can be rejected at once. These are the first 40 of 2004." in words(page)
    assert page.count('name="item"') == MOST_AT_ONCE


@pytest.fixture
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.mark.proves("I53")
@pytest.mark.slow
@pytest.mark.parametrize("width", [1440, 390])
def test_rita_rejects_several_by_keyboard_while_one_of_them_changes(
    scene: Scene, browser: Browser, complaints: list[str], width: int
) -> None:
    for _ in range(3):
        advance_run(scene.launch_scenario("above-limit"))
    first = Escalation.objects.order_by("pk")[0]

    with serve() as site:
        rita = desk(browser, site, "rita", complaints)
        rita.set_viewport_size({"width": width, "height": 844})
        rita.goto(f"{site}/approvals/?{RULE}")
        rita.keyboard.press("x")
        rita.wait_for_url(f"{site}/approvals/bulk/?{RULE}")
        expect(rita.locator("#ticked")).to_have_text("Ticked: 3 requests, USD 3,600.00.")
        assert rita.evaluate("document.documentElement.scrollWidth <= innerWidth")
        rita.locator("[name=item]").last.focus()
        rita.keyboard.press("Space")
        expect(rita.locator("#ticked")).to_have_text("Ticked: 2 requests, USD 2,400.00.")
        rita.keyboard.press("Space")
        rita.locator("#refusal").focus()
        rita.keyboard.type("Not one of ours")
        rita.keyboard.press("Tab")
        rita.keyboard.type("3600")
        ada, at = scene.add("ada", Role.ADMIN), timezone.now()
        deciding.decide(
            escalation_id=first.pk, by=ada, at=at, wanted=Decision(approve=False, comment="no")
        )
        rita.keyboard.press("Tab")
        rita.keyboard.press("Enter")
        expect(rita.locator("#bulk-outcome")).to_have_text("2 rejected: USD 2,400.00. 1 left.")
        expect(rita.get_by_text("ada had decided: rejected")).to_be_visible()
        address = rita.url
        rita.goto(f"{site}/approvals/")
        rita.goto(address)
        expect(rita.locator("#bulk-outcome")).to_have_text("2 rejected: USD 2,400.00. 1 left.")
