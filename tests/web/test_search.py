"""Search: one real field for pages, subjects, payees, requests and runs."""

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, expect

from agents.models import Escalation
from tests.desks import bank
from tests.desks.bank import bank_scene
from tests.engine.scene import Scene, go
from tests.golden import Golden
from tests.pins import pinned
from tests.web.serving import Desk, advance_run, open_page, sign_in
from tests.web.test_pages import client_of, stranger
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)


PART = {"HX-Request": "true", "HX-Target": "found"}


def test_each_kind_is_found_by_what_people_know(golden: Golden) -> None:
    scene = bank_scene()
    transfer = Escalation.objects.get(run=go(bank.launch(scene, bank.LARGE)))
    refund = Escalation.objects.get(run=go(scene.launch()))
    done = scene.decided_refund()
    decided = Escalation.objects.get(run=done)
    rita = client_of(scene.rita)

    def found(text: str) -> str:
        page: str = rita.get(reverse("search"), {"q": text}, headers=PART).text
        return page

    request = [reverse("approval", args=[one.pk]) for one in (transfer, refund)]
    assert request[0] in found("papier hans")  # a payee
    assert request[1] not in found("papier hans")
    anna = found("anna")
    assert request[1] in anna
    at, run = reverse("subject", args=["refunds", "42"]), reverse("run", args=[done.pk])
    assert all(at in found(text) for text in ("anna", "42", "#42"))
    assert reverse("subject", args=["bank", "main"]) in found("main")
    assert all(run in found(text) for text in ("anna", str(done.pk)[:8]))
    assert request[1] in found(str(refund.pk))
    assert reverse("kill") in found("kill sw")
    assert reverse("launch") not in found("launch")  # she may not
    assert reverse("launch") in client_of(scene.omar).get(reverse("search"), {"q": "launch"}).text
    go(scene.launch_scenario("exception"))
    assert "Approve the agent’s “memo”, Max #7" in found("max")
    assert "All runs" not in anna
    assert anna.index(request[1]) < anna.index(reverse("approval", args=[decided.pk]))
    about = words(rita.get(at).text)
    assert "1 request waits for USD 1,200.00." in about
    assert "carried out in 14 days: 1 call, 1 approved by a person." in about
    assert f"Request {decided.pk}, decided by rita" in about
    assert client_of(stranger()).get(at).status_code == 404
    assert "Operating account" in rita.get(reverse("subjects")).text
    golden.check("search", {"rita": anna, "and nothing": found("zebra")})
    for _ in range(4):
        go(scene.launch())
    assert "All runs" in found("anna")
    assert f"{reverse('approvals')}?subject=anna" in found("anna")
    assert not found(" ").strip()
    go(scene.launch("Pay 1020 USD back to Anna (customer 42)."))
    assert found("P-102").index(request[0]) < found("P-102").index("Anna")
    assert "to Papier Hansen (P-102), dated" in words(rita.get(reverse("runs")).text)


def test_search_finds_nothing_of_another_workspace(scene: Scene) -> None:
    held = Escalation.objects.get(run=go(scene.launch()))
    other = client_of(stranger())
    for text in ("anna", str(held.pk), str(held.run_id)):
        there = other.get(reverse("search"), {"q": text}).text
        assert reverse("approval", args=[held.pk]) not in there
        assert reverse("run", args=[held.run_id]) not in there
    rita = client_of(scene.rita)
    assert "card body hits" not in rita.get(reverse("search")).text, "nothing was asked"
    with pinned():
        page = rita.get(reverse("search"), {"q": "anna <b>"})

    assert "anna &lt;b&gt;" in page.text
    assert "anna <b>" not in page.text


@pytest.mark.slow
@pytest.mark.parametrize("way", ["/", "Control+k", "click"])
def test_field_takes_what_is_typed_at_once(scene: Scene, site: str, desk: Desk, way: str) -> None:
    held = Escalation.objects.get(run=advance_run(scene.launch()))
    page = desk("rita", "/kill/")
    if way == "click":
        page.locator("#q").click()
    else:
        page.keyboard.press(way)
    with page.expect_response(lambda answered: answered.url.endswith("?q=anna")):
        page.keyboard.type("anna", delay=0)

    hit = page.locator(f'#found a[href="/approvals/{held.pk}/"]')
    expect(hit).to_contain_text(f"{held.pk}: ")
    expect(page.locator("#q")).to_be_focused()
    expect(page.locator("#found form")).to_have_count(0)  # the results alone
    assert page.url == f"{site}/kill/"
    page.keyboard.press("Escape")
    expect(hit).to_be_hidden()
    page.locator("#q").click()
    hit.click()
    expect(page.locator("#consequence")).to_be_visible()


@pytest.mark.slow
def test_search_works_without_a_script(scene: Scene, site: str, browser: Browser) -> None:
    run = advance_run(scene.launch())
    page = open_page(browser, java_script_enabled=False)
    sign_in(page, site, "rita")
    page.goto(site)
    page.locator("#q").fill("anna")
    page.keyboard.press("Enter")

    expect(page.locator(f'main a[href="/runs/{run.pk}/"]')).to_be_visible()
