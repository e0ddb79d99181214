"""Reject several requests of one rule and kind for one reason, each checked by itself."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from agents.core.requests import EscalationState
from agents.models import Escalation, Event, Role
from agents.requests import sharing
from agents.requests.bulk import MOST_AT_ONCE, reject_many
from tests.engine.scene import Scene, decide_request, go, payments
from tests.golden import Golden
from tests.pins import pinned
from tests.web.serving import Desk, advance_run
from tests.web.test_pages import client_of

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


def test_next_ones_are_offered_while_there_are_any(scene: Scene, golden: Golden) -> None:
    waiting(scene)
    rita = client_of(scene.rita)

    some = rita.get(send(rita, form(bulk(rita)))["Location"]).text
    rest = bulk(rita)
    items = re.findall(r'name="item" value="([^"]+)"', rest)
    last = send(rita, form(rest, **{"item": items, "total.USD": "9,900.00"}))["Location"]

    golden.check("bulk/done", {"some": some, "all of them": rita.get(last).text})


@pytest.mark.proves("I53")
def test_each_is_judged_by_itself(scene: Scene, golden: Golden) -> None:
    first, second, third, far = waiting(scene)
    rita, at, ada = client_of(scene.rita), timezone.now(), scene.add("ada", Role.ADMIN)
    pages = {"asked": (page := bulk(rita))}
    assert page.index(f"{far.pk}.{far.action_sha256}") < page.index(
        f"{first.pk}.{first.action_sha256}"
    )
    sent = form(page)
    assert far.pk not in [int(item.partition(".")[0]) for item in sent["item"]]

    for wrong in ("", "3750.01", "3749", "13650.00"):
        refused = send(rita, {**sent, "total.USD": wrong})
        assert refused.status_code == 422
    pages["another total"] = refused.text
    refused = send(rita, {**sent, "refusal": " "})
    assert refused.status_code == 422
    pages["no reason"] = refused.text
    assert not Event.objects.filter(kind__in=("decision.refused", "escalation.decided")).exists()

    sharing.claim(escalation_id=second.pk, by=ada, at=at)
    decide_request(third, ada, approve=False, comment="no")
    pages["what still waits"] = send(rita, {**sent, "total.USD": "3.750,00"}).text
    reject_many(  # from the same form, clicked twice, as far as it has come
        items=[(first.pk, first.action_sha256)],
        by=scene.rita,
        comment="not a refund",
        bulk=sent["token"],
        now=timezone.now,
    )
    answered = send(rita, sent)
    assert answered.status_code == 302
    pages["the result"] = rita.get(answered.url).text
    again = send(rita, sent)
    assert again.url == answered.url
    told = Event.objects.filter(kind="escalation.decided", actor="rita")
    assert [event.facts["escalation"] for event in told] == [first.pk]
    assert Event.objects.filter(kind="decision.refused").count() == 2
    carl = scene.add("carl", Role.REVIEWER)
    sharing.release_claim(escalation_id=second.pk, by=ada, at=timezone.now())
    sharing.claim(escalation_id=second.pk, by=carl, at=timezone.now())
    pages["the result, later"] = rita.get(answered.url).text
    golden.check("bulk/each", pages)
    for held, state in ((first, "rejected"), (second, "open"), (third, "rejected"), (far, "open")):
        held.refresh_from_db()
        assert held.state == state
    assert (go(first.run).stop_reason, payments(first.run)) == ("human_rejected", [])


@pytest.mark.proves("I53")
def test_requests_of_more_than_one_kind_stay(scene: Scene, golden: Golden) -> None:
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
    golden.check("bulk/stale", {"rita": rita.get(stale.url).text})
    assert Escalation.objects.filter(state=EscalationState.OPEN).count() == len(ASKED)


@pytest.mark.proves("I53")
@pytest.mark.breaks("I32", "I17")  # rows that no run made
def test_two_thousand_are_offered_forty_at_a_time(scene: Scene) -> None:
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

    with pinned():
        page = bulk(rita)

    assert page.count('name="item"') == MOST_AT_ONCE


@pytest.mark.proves("I53")
@pytest.mark.slow
@pytest.mark.parametrize("width", [1440, 390])
def test_rita_rejects_several_by_keyboard(
    scene: Scene, ada: User, site: str, desk: Desk, width: int
) -> None:
    """One of them changes meanwhile."""
    for _ in range(3):
        advance_run(scene.launch_scenario("above-limit"))
    first, rita = Escalation.objects.order_by("pk")[0], desk("rita")
    rita.set_viewport_size({"width": width, "height": 844})
    rita.goto(f"{site}/approvals/?{RULE}")
    rita.keyboard.press("x")
    rita.wait_for_url(f"{site}/approvals/bulk/?{RULE}")
    ticked = rita.locator("#ticked")
    expect(ticked).to_contain_text("USD 3,600.00")
    assert rita.evaluate("document.documentElement.scrollWidth <= innerWidth")
    rita.locator("[name=item]").last.focus()
    rita.keyboard.press("Space")
    expect(ticked).to_contain_text("USD 2,400.00")
    rita.keyboard.press("Space")
    rita.locator("#refusal").focus()
    rita.keyboard.type("Not one of ours")
    rita.locator("[name^='total.']").focus()
    rita.keyboard.type("3600")
    decide_request(first, ada, approve=False, comment="no")
    rita.keyboard.press("Tab")
    rita.keyboard.press("Enter")
    for _ in range(2):  # its address leads there again
        expect(rita.locator("#bulk-outcome")).to_contain_text("USD 2,400.00")
        address = rita.url
        rita.goto(f"{site}/approvals/")
        rita.goto(address)
