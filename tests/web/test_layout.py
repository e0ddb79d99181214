"""What a person decides on is in sight together with the answers, on every kind of card."""

from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from agents.models import Escalation, Role
from agents.requests import sharing
from tests.desks import bank
from tests.engine.scene import Scene, go
from tests.web.serving import chromium, open_page, serve, sign_in

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

REFUNDS = ("above-limit", "own-words", "exception", "judge-asks", "nobodys")
TRANSFERS = (bank.FIRST_PAYMENT, bank.LARGE, bank.NEW_PAYEE, *bank.ATTACKS)
SIZES = ((1280, 720), (1366, 768), (390, 844))

# Finds headline, banner's first sentence, the first 200 characters of what was asked, and the bar.
# A text is in sight if nothing lies over its first and last letter, above the bar.
HIDDEN = """([small, large]) => {
  const bar = document.querySelector("#deciding"), at = bar.getBoundingClientRect(), found = [];
  const look = (name, one, most) => {
    if (!one) return;
    const walk = document.createTreeWalker(one, NodeFilter.SHOW_TEXT);
    let left = most, first = null, last = null;
    while (left > 0 && walk.nextNode()) {
      const node = walk.currentNode;
      if (!node.data.trim() || !node.parentElement.checkVisibility()) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const end = most === 1e4 ? node.data.search(/[.?!:](\\s|$)/) + 1 || node.length : node.length;
      range.setEnd(node, Math.min(end, left));
      left = end < node.length ? 0 : left - node.length;
      const boxes = [...range.getClientRects()];
      first ??= boxes[0];
      last = boxes.at(-1) ?? last;
    }
    for (const box of [first, last]) {
      if (!box) return void found.push(`${name}: nothing to see`);
      const y = (box.top + box.bottom) / 2;
      const seen = document.elementFromPoint(Math.min(box.right - 2, box.left + 4), y);
      if (!one.contains(seen) || box.bottom > at.top) found.push(`${name} at ${Math.round(y)}`);
    }
  };
  look("headline", document.querySelector("#consequence h2"), 1e3);
  look("banner", document.querySelector(".read .banner :is(h3, p)"), 1e4);
  look("words", document.querySelector(".read .words p"), 200);
  if (!document.querySelector(".read .words p")) found.push("nobody's words");
  for (const chip of bar.querySelectorAll(".opt")) {
    const { x, y, width, height } = chip.getBoundingClientRect();
    const seen = document.elementFromPoint(x + width - 8, y + height - 4);
    if (chip.checkVisibility() && !chip.contains(seen)) found.push(`chip ${chip.value}`);
  }
  const isChosen = document.querySelector("#dform [name=verdict]:checked");
  const most = isChosen ? large : small;
  if (at.height > most) found.push(`bar ${Math.round(at.height)} above ${most}`);
  if (at.bottom > innerHeight + 1) found.push(`bar ends at ${Math.round(at.bottom)}`);
  if (document.documentElement.scrollWidth > innerWidth) found.push("wider than the screen");
  return found;
}"""


def set_cards() -> tuple[Scene, list[Escalation]]:
    """Ask for one of every kind, with the demo's texts; two of one charge."""
    scene = bank.bank_scene()
    runs = [scene.launch_scenario(key) for key in (*REFUNDS, "no-reason")]
    runs += [bank.launch(scene, number) for number in TRANSFERS]
    return scene, [Escalation.objects.get(run=go(run), state="open") for run in runs]


def looks(page: Page, address: str) -> list[str]:
    """Return what cannot be seen of a card with each answer, at each size."""
    found: list[str] = []
    page.goto(address)
    answers = page.locator("#dform .choices label")
    for number in range(-1, answers.count()):
        if number >= 0:
            answers.nth(number).click()
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            limits = [132, 232] if width < 720 else [90, 180]
            hidden: list[str] = page.evaluate(HIDDEN, limits)
            found += [f"{width}x{height}, answer {number}: {one}" for one in hidden]
    return found


def test_a_card_shows_what_decides_it_beside_the_answers(settings: Any) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    scene, cards = set_cards()
    scene.add("mara", Role.REVIEWER)
    sharing.claim(escalation_id=cards[1].pk, by=scene.rita, at=timezone.now())
    missing = {}
    with serve() as site, chromium() as browser:
        for name in ("rita", "mara"):
            page = open_page(browser)
            sign_in(page, site, name)
            for one in cards if name == "rita" else cards[2:]:
                missing[name, str(one)] = looks(page, f"{site}/approvals/{one.pk}/")

    assert {card: found for card, found in missing.items() if found} == {}


STEP = "document.querySelector('#step-1 > summary').getBoundingClientRect().bottom"
ROWS = """[...document.querySelectorAll('.runs tbody tr')]
    .filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length"""


def test_runs_show_twelve_rows_and_a_first_step() -> None:
    scene = bank.bank_scene()
    runs = [scene.launch_scenario(key) for key in (*REFUNDS, "reoriented", "partial-report")]
    runs += [bank.launch(scene, number) for number in range(8, 13)]
    runs = [go(run) for run in (*runs, scene.decided_refund())]
    with serve() as site, chromium() as browser:
        page = open_page(browser, viewport={"width": 1280, "height": 720})
        sign_in(page, site, "eve")
        page.goto(f"{site}/runs/")
        assert not page.locator("td").evaluate_all("s => s.some(c => c.scrollWidth>c.clientWidth)")
        assert page.evaluate(ROWS) >= 12
        for run in runs:
            page.goto(f"{site}/runs/{run.pk}/")
            assert page.evaluate(STEP) <= 676, page.url  # the demo adds a bar
        page.locator("#step-1 summary").click()
        expect(page.locator("#step-1 .fold h3")).to_be_in_viewport()
