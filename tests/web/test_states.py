"""Every state of a card for every role: its statements on money match the ledger, its
buttons do what they say, and the server refuses what it does not offer.
"""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import product
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Page, ViewportSize, expect

from agents.core.money import format_money
from agents.core.requests import EscalationState
from agents.desks.refunds.models import Customer
from agents.engine.turns import answering
from agents.models import Effect, Escalation, Role
from agents.people import members
from agents.requests import sharing
from agents.runs import launching
from tests.desks import bank
from tests.engine.scene import (
    REFUND_500,
    Scene,
    decide_request,
    fresh,
    go,
    payments,
    refund_by_phone,
    set_scene,
)
from tests.engine.tiered import put_tiers
from tests.golden import Golden
from tests.web import clients
from tests.web.serving import chromium, open_page, serve, sign_in
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)

DECIDE = ("rita", "ada")
WATCH = ("omar", "eve", "audrey")  # who may send none of its forms: see test_attacks.py
ROLES = (*DECIDE, *WATCH)
WIDTHS: tuple[ViewportSize, ...] = ({"width": 1440, "height": 900}, {"width": 390, "height": 844})
VERDICTS = {
    "adjust": {"comment": "partly used"},
    "approve": {"comment": "as agreed"},
    "send_back": {"advice": "USD 300 is enough."},
    "reject": {"comment": "outside the terms"},
}
CHANGES = {
    "action": {"set.amount_minor": "700.00"},
    "output": {"correction": "Say less, and say it plainly."},
    "question": {"correction": "Say less, and say it plainly."},
}

# Evaluated in the browser. Controls under the frame's bars at the edges of a phone are
# scrolled free; anything else in front of a control covers it.
CONTROLS = """
const rail = document.querySelector(".rail").getBoundingClientRect();
const card = document.querySelector("#card");
const pane = card.scrollHeight > card.clientHeight + 1 ? card : null;
const edges = (pane ?? document.documentElement).getBoundingClientRect();
const top = Math.max(document.querySelector(".topbar").getBoundingClientRect().bottom, edges.top);
const bottom = pane ? Math.min(innerHeight, edges.bottom) : rail.top > 0 ? rail.top : innerHeight;
const fields = "#dform :is(.choices label, select, textarea, .input, .amount input, .acts button)";
const controls = [...document.querySelectorAll(fields)].filter((one) => one.offsetParent);
const named = (one) => one.querySelector("input")?.name ?? (one.name || one.textContent.trim());
"""
COVERED = f"""() => {{ {CONTROLS}
  const found = new Set();
  for (const one of controls) {{
    one.scrollIntoView({{ block: "nearest" }});
    const at = one.getBoundingClientRect();
    for (const part of [0.1, 0.5, 0.9]) {{
      const [x, y] = [at.left + at.width * part, at.top + at.height * part];
      if (y <= top + 1 || y >= bottom - 1) continue;
      const seen = document.elementFromPoint(x, y);
      if (!one.contains(seen)) found.add(`${{named(one)}} under ${{seen?.className}}`);
    }}
  }}
  return [...found];
}}"""
FOCUSED = f"""() => {{ {CONTROLS}
  const active = document.activeElement;
  const one = controls.find((control) => control.contains(active));
  if (!one) return ["", false];
  const at = one.getBoundingClientRect();
  return [named(one), at.top >= top && at.bottom <= bottom];
}}"""
# The visible parts of cards: headline, choosable answers, buttons.
SEEN = """(pages) => pages.map((sent) => {
  document.body.replaceWith(new DOMParser().parseFromString(sent, "text/html").body);
  const texts = (them) => [...document.querySelectorAll(them)]
    .filter((one) => one.checkVisibility() && one.getBoundingClientRect().width > 0)
    .map((one) => one.innerText);
  return {
    isWide: document.documentElement.scrollWidth > innerWidth,
    headline: texts("#consequence h2").join(" "),
    answers: texts("#dform .choices label").length,
    sends: texts("#dform .acts button").length,
    claims: texts("#claim .claiming button").length,
  };
})"""
REACHABLE = f"""() => {{ {CONTROLS}
  return controls.filter((one) => !one.disabled).map(named);
}}"""


class Desk(NamedTuple):
    """The workspace, with an admin beside the reviewer."""

    scene: Scene
    ada: User

    def ask(self, goal: str = "") -> Escalation:
        run = go(self.scene.launch(goal) if goal else self.scene.launch())
        return Escalation.objects.get(run=run)

    def decide(self, one: Escalation, *, approve: bool = True, by: str = "ada") -> Escalation:
        return decide_request(
            one,
            User.objects.get(username=by),
            approve=approve,
            comment="as agreed",
            patch={"amount_minor": 80000} if by == "rita" and approve else None,
        )

    def kill(self) -> None:
        self.scene.kill(self.ada, "look")


def open_one(desk: Desk) -> Escalation:
    return desk.ask()


def claimed_by_rita(desk: Desk) -> Escalation:
    return sharing.claim(escalation_id=desk.ask().pk, by=desk.scene.rita, at=timezone.now())


def claimed_by_ada(desk: Desk) -> Escalation:
    return sharing.claim(escalation_id=desk.ask().pk, by=desk.ada, at=timezone.now())


def assigned_to_rita(desk: Desk) -> Escalation:
    """Assigned to Rita, who had snoozed it, and since claimed by Ada."""
    one = desk.ask()
    at = timezone.now()
    sharing.assign(escalation_id=one.pk, by=desk.ada, to_user=desk.scene.rita, note="x", at=at)
    return sharing.claim(escalation_id=one.pk, by=desk.ada, at=at)


def with_a_team(desk: Desk) -> Escalation:
    """Assigned to the team Leads, whose only member Ada has snoozed it."""
    one, at = desk.ask(), timezone.now()
    ours = desk.scene.workspace
    team = members.set_team(workspace=ours, slug="leads", name="Leads", add=[desk.ada], at=at)
    sharing.assign(escalation_id=one.pk, by=desk.scene.rita, to_team=team, at=at)
    until = at + timedelta(minutes=5)
    sharing.snooze(escalation_id=one.pk, by=desk.ada, until=until, at=at)
    return one


def assigned_to_nobody_able(desk: Desk) -> Escalation:
    """Assigned to somebody whose account has since been closed."""
    one, max_ = desk.ask(), desk.scene.add("max", Role.REVIEWER)
    sharing.assign(escalation_id=one.pk, by=desk.ada, to_user=max_, at=timezone.now())
    User.objects.filter(pk=max_.pk).update(is_active=False)
    return one


def assigned_to_ada(desk: Desk) -> Escalation:
    """Assigned to Ada; Rita has snoozed it."""
    one, at = desk.ask(), timezone.now()
    sharing.assign(escalation_id=one.pk, by=desk.scene.rita, to_user=desk.ada, at=at)
    until = at + timedelta(minutes=5)
    sharing.snooze(escalation_id=one.pk, by=desk.scene.rita, until=until, at=at)
    return one


def for_two_people(desk: Desk) -> Escalation:
    """For two people, neither of whom has approved."""
    put_tiers(desk.scene, desk.ada, {"refunds": {"USD": [{"people": 2}]}})
    one = desk.ask()
    put_tiers(desk.scene, desk.ada, None)  # which does not matter to a run that has begun
    return one


def awaiting_a_second(desk: Desk) -> Escalation:
    """Rita, the first of two, has approved a part; Ada may be the second."""
    return desk.decide(for_two_people(desk), by="rita")


def without_a_second(desk: Desk) -> Escalation:
    """Ada has approved all of it, which is above everybody else's limit."""
    return desk.decide(for_two_people(desk))


def expired(desk: Desk) -> Escalation:
    one = desk.ask()
    over = timezone.now() - timedelta(seconds=1)
    Escalation.objects.filter(pk=one.pk).update(expires_at=over)
    answering.expire(one.pk, at=timezone.now())
    go(one.run)
    return one


def rejected(desk: Desk) -> Escalation:
    one = desk.decide(desk.ask(), approve=False)
    go(one.run)
    return one


def sent_back(desk: Desk) -> Escalation:
    """Sent back; the run's next proposal waits."""
    one = desk.ask()
    decide_request(one, desk.ada, approve=False, send_back=True, comment="USD 750 is enough.")
    go(one.run)
    return one


def proposed_again(desk: Desk) -> Escalation:
    return sent_back(desk).run.escalations.get(state=EscalationState.OPEN)


def cancelled(desk: Desk) -> Escalation:
    one = desk.ask()
    launching.cancel(run_id=one.run_id, by=desk.ada, reason="look", at=timezone.now())
    return one


def approved_by_another(desk: Desk) -> Escalation:
    return desk.decide(desk.ask())


def superseded(desk: Desk) -> Escalation:
    """Approved; then part of the charge was refunded by phone, so the run asked again."""
    one = desk.decide(desk.ask(), by="rita")
    refund_by_phone(one.run)
    go(one.run)
    return one


def not_carried_out(desk: Desk) -> Escalation:
    one = desk.decide(desk.ask())
    launching.cancel(run_id=one.run_id, by=desk.ada, reason="look", at=timezone.now())
    return one


def carried_out(desk: Desk) -> Escalation:
    one = desk.decide(desk.ask(), by="rita")
    go(one.run)
    return one


def unknown(desk: Desk) -> Escalation:
    """The email after a refund has an unknown outcome."""
    return desk.ask(REFUND_500)


def frozen(desk: Desk) -> Escalation:
    one = desk.ask()
    desk.kill()
    return one


def scenario(key: str, *, approve: bool | None = None) -> Callable[[Desk], Escalation]:
    """Return the request of a gallery scenario after an answer; None: it still waits."""

    def ask(desk: Desk) -> Escalation:
        one = Escalation.objects.get(run=go(desk.scene.launch_scenario(key)))
        if approve is not None:
            desk.decide(one, approve=approve)
            go(one.run)
        return one

    ask.__name__ = key if approve is None else f"{key}-{'yes' if approve else 'no'}"
    return ask


# A letter, a draft, a judge's question and a case without a specialist.
ASKED = ("own-words", "exception", "judge-asks", "nobodys")
OTHERS = tuple(scenario(key, approve=approve) for key in ASKED for approve in (None, True, False))
SHARED = (
    *(claimed_by_rita, claimed_by_ada),
    *(assigned_to_rita, with_a_team, assigned_to_nobody_able, assigned_to_ada),
)
STATES: tuple[Callable[[Desk], Escalation], ...] = (
    *(open_one, expired, rejected, cancelled, sent_back, proposed_again, *SHARED),
    *(for_two_people, awaiting_a_second, without_a_second),
    *(approved_by_another, superseded, not_carried_out, carried_out, unknown, frozen),
    *OTHERS,
)

CASES = ("expired", "sent_back", "superseded", "nobodys-no", "own-words-yes", "exception-yes")


@pytest.fixture
def desk(settings: Any) -> Desk:
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    scene = set_scene()
    scene.add("audrey", Role.AUDITOR)
    return Desk(scene, scene.add("ada", Role.ADMIN))


def client_of(name: str) -> Client:
    return clients.client_of(User.objects.get(username=name))


def card_in(page: str) -> str:
    return page[page.index('id="card"') : page.index('aria-label="Evidence"')]


def verdicts_of(card: str) -> set[str]:
    """Return the verdicts that a card has a button for."""
    return set(re.findall(r'<input type="radio" name="verdict" value="(\w+)"', card))


def first_shown(card: str) -> dict[str, str]:
    """Return a form's hidden fields about the first approval."""
    return dict(re.findall(r'type="hidden" name="(approval)" value="(\d+)"', card))


def answer(client: Client, one: Escalation, verdict: str, **shown: str) -> tuple[int, Escalation]:
    """Send a verdict and roll it back. Return the status and the request in between."""
    changes = CHANGES.get(one.kind, {}) if verdict == "adjust" else {}
    form = {"verdict": verdict, "action_sha256": one.action_sha256, **VERDICTS[verdict], **changes}
    form |= shown
    with transaction.atomic():
        status = client.post(reverse("decide", args=[one.pk]), form).status_code
        after = Escalation.objects.get(pk=one.pk)
        transaction.set_rollback(True)
    return status, after


def rows_of(one: Escalation) -> str:
    """Return what a card has to say: the state of request and run, and what the ledger has."""
    one.refresh_from_db()
    run = fresh(one.run)
    effects = Effect.objects.filter(escalation=one).order_by("pk")
    amounts = (one.amount_minor, one.granted_minor)
    asked, granted = ("none" if it is None else format_money(it, "USD") for it in amounts)
    done = ", ".join(f"{effect.tool} {effect.state}" for effect in effects) or "nothing"
    paid = ", ".join(format_money(it, "USD") for it in payments(run)) or "nothing"
    return (
        f"{one.kind} {one.state}, asked {asked}, granted {granted}, executed {done}\n"
        f"run {run.state} {run.stop_reason}".strip()
        + f", paid in it {paid}"
    )


def check_amounts(one: Escalation, card: str) -> None:
    """Check that the headline names amounts of this request alone, and what was paid if it was."""
    done, first = Effect.objects.filter(escalation=one, state="done").first(), one.approval
    minor = {one.amount_minor, one.granted_minor, first.granted_minor if first else None}
    minor = {done.amount_minor} if done else minor
    headline = card.partition('id="consequence"')[2].partition("</h2>")[0]
    named = set(re.findall(r"USD [\d,.]*\d", words(headline)))
    if one.kind == "action":
        assert named <= {format_money(it, "USD") for it in minor if it is not None}


SHARES = {
    "hand-over": {"to": "person:rita", "note": "please"},
    "snooze": {"minutes": "5"},
    "wake": {},
    "comment": {"text": "Seen."},
}


def check_sharing(client: Client, one: Escalation, state: str, name: str, page: str) -> None:
    """Check that exactly the offered actions work."""
    for verb, form in SHARES.items():
        if state == "awaiting_a_second" and "to" in form:
            form = {**form, "to": "person:ada"}  # who can still be the second
        address = reverse(verb, args=[one.pk])
        is_live = f'action="{address}"' in page
        if name in WATCH:
            assert not is_live
            continue
        with transaction.atomic():
            status = client.post(address, form).status_code
            transaction.set_rollback(True)
        # Ending no snooze changes nothing; a standing snooze can be moved.
        may_be = verb in ("wake", "snooze") and one.state == EscalationState.OPEN
        assert (status == 302) == is_live or (may_be and status == 302), (name, verb, status)


def check_buttons(client: Client, one: Escalation, page: str) -> None:
    """Press every button, and send verdicts that have no button."""
    live = verdicts_of(card_in(page))
    for verdict in VERDICTS if live else ["reject"]:
        shown = first_shown(card_in(page))
        status, after = answer(client, one, verdict, **shown)
        assert (status == 302) == (verdict in live), (verdict, status)
        if verdict not in live:
            assert after.state == one.state
            continue
        states = {"approve": "approved", "adjust": "adjusted", "reject": "rejected"}
        states["send_back"] = "sent_back"
        granted = {"adjust": 70000, "approve": one.amount_minor}.get(verdict)
        if shown and granted:  # the first of two, unless equal to a first approval
            first = one.approval if verdict == "approve" else None
            states[verdict] = "open"
            if first:
                states[verdict] = "adjusted" if first.patch else "approved"
            assert first or after.approval_id != one.approval_id
            granted = first.granted_minor if first else None
        assert after.state == states[verdict]
        assert after.granted_minor == (granted if one.kind == "action" else None)
    for verb in ("claim", "release-claim"):
        address = reverse(verb, args=[one.pk])
        is_live = f'action="{address}"' in page
        with transaction.atomic():
            status = client.post(address).status_code
            transaction.set_rollback(True)
        # Releasing an unclaimed request or claiming one's own again changes nothing.
        assert status == 302 or not is_live, verb
        if status == 302 and not is_live:
            assert one.state == EscalationState.OPEN


@pytest.mark.proves("I47", "I50")
@pytest.mark.slow
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_card_is_true_for_everybody(
    desk: Desk, golden: Golden, settings: Any, state: Callable[[Desk], Escalation]
) -> None:
    if state is unknown:
        settings.EMAIL_BACKEND = "tests.desk.letterboxes.Broken"
    one = Escalation.objects.select_related("run").get(pk=state(desk).pk)
    address, users = reverse("approval", args=[one.pk]), {name: client_of(name) for name in ROLES}
    pages = {name: client.get(address).text for name, client in users.items()}

    golden.check(f"card/{state.__name__}", pages, rows=rows_of(one))
    if state not in SHARED:  # of which neither run nor record says anything
        run, case = (reverse(name, args=[one.run_id]) for name in ("run", "case"))
        told = {name: users[name].get(run).text for name in ("eve", "ada")}
        if state.__name__ in CASES:
            told["the case file"] = users["ada"].get(case).text
        golden.check(f"run/{state.__name__}", told, rows=rows_of(one))
    for name, page in pages.items():
        assert card_in(page).count("<h2 ") == 1, name
        check_amounts(one, card_in(page))
        if name in WATCH:
            assert not verdicts_of(card_in(page))
        else:
            check_buttons(users[name], one, page)
        if state not in OTHERS:  # sharing does not depend on the kind of request
            check_sharing(users[name], one, state.__name__, name, page)


@pytest.mark.proves("I47")
@pytest.mark.slow
def test_a_card_shows_its_buttons_at_both_widths(desk: Desk, settings: Any) -> None:
    """One browser checks all states and kinds: nothing is cut off, covered or contradictory."""
    found = {state: state(desk) for state in STATES if state not in (unknown, frozen)}
    transfers = (bank.launch(desk.scene, number) for number in (bank.LARGE, bank.NEW_PAYEE))
    kinds = [desk.ask(), *(found.pop(state) for state in OTHERS if state.__name__ in ASKED)]
    kinds += [Escalation.objects.get(run=go(run)) for run in transfers]
    named = Customer.objects.filter(book_id=kinds[0].run.book_id, number=42)
    named.update(name="Wolfeschlegelsteinhausenbergerdorffvoralternwarengewissenhaftschafers")
    settings.EMAIL_BACKEND = "tests.desk.letterboxes.Broken"
    found[unknown] = unknown(desk)
    with serve() as site, chromium() as browser:
        page = open_page(browser)
        sign_in(page, site, "rita")
        for one in kinds:
            assert check_widths(page, f"{site}/approvals/{one.pk}/") > 1
        check_looks(page, [*found.values(), *kinds])
        desk.kill()
        check_looks(page, kinds[:1])
        for one in kinds:
            noes = check_widths(page, f"{site}/approvals/{one.pk}/")
            assert noes == 1 + page.locator("#dform [value=send_back]").count()
            desk.decide(one, approve=False)
            assert check_widths(page, f"{site}/approvals/{one.pk}/") == 0


def check_looks(page: Page, found: list[Escalation]) -> None:
    """Compare what a browser shows of cards to each role with what the server sends."""
    with ThreadPoolExecutor(1) as pool:  # this thread has the browser's event loop
        pages = pool.submit(pages_of, found).result()
    for size in WIDTHS:
        page.set_viewport_size(size)
        shown = page.evaluate(SEEN, pages)
        for (one, _), sent, seen in zip(product(found, ROLES), pages, shown, strict=True):
            check_look(seen, one, sent)


def pages_of(found: list[Escalation]) -> list[str]:
    clients = [client_of(name) for name in ROLES]
    try:
        return [
            client.get(reverse("approval", args=[one.pk])).text
            for one, client in product(found, clients)
        ]
    finally:
        connection.close()


def check_look(seen: dict[str, Any], one: Escalation, sent: str) -> None:
    verdicts = verdicts_of(sent)
    assert not seen["isWide"]
    chosen = re.findall(r'name="verdict" value="\w+"\s+checked', sent)
    assert (seen["answers"], seen["sends"]) == (len(verdicts), len(chosen))
    claiming = [reverse(verb, args=[one.pk]) for verb in ("claim", "release-claim")]
    assert seen["claims"] == sum(f'action="{address}"' in sent for address in claiming)
    _, _, headline = sent.partition('id="consequence"')
    told = words(headline.partition("<h2 ")[2].partition(">")[2].partition("</h2>")[0])
    assert seen["headline"]
    assert "".join(seen["headline"].split()) in "".join(told.split())  # the chosen answer's


def check_widths(page: Page, address: str) -> int:
    """Check a card at both widths. Return how many answers it offers."""
    page.goto(address)
    tabs = page.locator("#dform .choices label")
    for size in WIDTHS:
        width = size["width"]
        page.set_viewport_size(size)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
        headline = page.locator("#consequence h2")
        for number in range(tabs.count()):
            tabs.nth(number).click()
            shown = page.locator("#dform .acts .btn:visible")
            expect(shown).to_have_count(1)
            amounts = set(re.findall(r"(?:USD|EUR) [\d,.]+\d", shown.inner_text()))
            assert amounts <= set(re.findall(r"(?:USD|EUR) [\d,.]+\d", headline.inner_text()))
            covered = page.evaluate(COVERED)
            assert not covered, f"{address}, choice {number}: {covered} at {width}"
            if width == 390:
                check_keys(page, address)
    return tabs.count()


def check_keys(page: Page, address: str) -> None:
    """Tab through the page until each control of the form has had the focus, in view."""
    missing = set(page.evaluate(REACHABLE))
    page.keyboard.press("Shift+Tab")  # out of the choice that was clicked; a Tab leads back to it
    for _ in range(60):
        page.keyboard.press("Tab")
        name, is_seen = page.evaluate(FOCUSED)
        assert is_seen or not name, f"{address}: {name} has the focus and is covered"
        missing.discard(name)
        if not missing:
            return
    raise AssertionError(f"{address}: no Tab leads to {missing}")
