"""What a card tells a person beyond what the agent says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from agents.desks.refunds.models import Customer
from agents.models import Escalation, Membership, Role, Run, Scope
from agents.runs import kill_switch
from agents.tools import TOOLS
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene, go
from tests.web.test_pages import client_of, waiting
from tests.web.words import words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def page_of(scene: Scene, escalation: Escalation) -> str:
    return client_of(scene.rita).get(reverse("approval", args=[escalation.pk])).text


@pytest.mark.proves("F38")
def test_a_card_says_that_there_is_a_newer_policy(scene: Scene) -> None:
    scene.add("ada", Role.ADMIN)
    escalation = waiting(scene)
    pinned = escalation.run.policy.number
    before = page_of(scene, escalation)

    command("publish_policy", "demo", "--tool", "send_reply", "--as", "ada")

    after = page_of(scene, escalation)
    assert "newer-policy" not in before
    assert (
        f"Policy v{pinned + 1} is now active. This run and its decision still follow v{pinned}"
        in after
    )


def test_nobody_is_offered_to_decide_once_the_time_is_over(scene: Scene) -> None:
    escalation = waiting(scene)
    assert "Reject, pay nothing" in words(page_of(scene, escalation))

    over = timezone.now() - timedelta(hours=1)  # and no worker runs
    Escalation.objects.filter(pk=escalation.pk).update(expires_at=over)
    page = words(page_of(scene, escalation))

    assert "The time to decide is over. The request is closed as soon as a worker runs." in page
    assert "Time is over → rejected" in page
    assert "0:00" not in page
    assert "Reject, pay nothing" not in page


@pytest.mark.proves("W26")
def test_a_name_that_looks_like_another_is_marked(scene: Scene) -> None:
    escalation = waiting(scene)
    honest = page_of(scene, escalation)
    theirs = Customer.objects.filter(book_id=escalation.run.book_id, number=42)

    theirs.update(name="Аnna")

    assert "Look closely" not in honest
    assert "“Аnna” mixes letters of different scripts: Cyrillic and Latin." in page_of(
        scene, escalation
    )


@pytest.mark.proves("W26")
def test_a_goal_with_letters_that_nobody_sees_is_marked(scene: Scene) -> None:
    escalation = waiting(scene)
    # As stored before such goals were refused at launch.
    Run.objects.update(goal="Refund 1200 USD to user_id=42, An\u200bna.")

    assert "“Anna” holds characters that are not shown: U+200B." in page_of(scene, escalation)


def card_of(name: str, escalation: Escalation) -> str:
    """Return the text of a card, from its headline to the agent's proposal."""
    user = User.objects.get(username=name)
    page: str = client_of(user).get(reverse("approval", args=[escalation.pk])).text
    return page[page.index('id="card"') : page.index('aria-label="Evidence"')]


def pay(name: str, escalation: Escalation, **more: str) -> Any:
    """Send the approving form as a person."""
    form = {"verdict": "approve", "action_sha256": escalation.action_sha256, **more}
    client = client_of(User.objects.get(username=name))
    return client.post(reverse("decide", args=[escalation.pk]), form)


def press(scene: Scene, ada: User, **scope: Any) -> None:
    at = timezone.now()
    kill_switch.kill(workspace=scene.workspace, by=ada, reason="look", at=at, **scope)


@pytest.mark.proves("I42")
@pytest.mark.parametrize(
    ("scope", "name"),
    [
        ({}, "all payments, emails and changes"),
        ({"scope": Scope.TOOL, "target": "issue_refund"}, "Issue refund"),
        ({"scope": Scope.PATTERN, "target": "supervisor"}, "Supervisor runs"),
    ],
)
def test_while_a_switch_stands_nothing_is_approved(
    scene: Scene, scope: dict[str, Any], name: str
) -> None:
    escalation, ada = waiting(scene), scene.add("ada", Role.ADMIN)
    press(scene, ada, **scope)

    card = card_of("ada", escalation)
    refused = pay("ada", escalation, comment="Four seats unused")

    assert f"cannot be approved: the kill switch “{name}” is on" in words(card)
    assert "Pay " not in card
    assert 'value="approve"' not in card
    assert refused.status_code == 409
    assert f"The kill switch “{name}” is on: ada pressed it" in refused.text
    assert "<pre>Four seats unused</pre>" in refused.text
    assert Escalation.objects.get(pk=escalation.pk).state == "open"
    for verb, status in (("claim", 302), ("release-claim", 302)):
        assert client_of(ada).post(reverse(verb, args=[escalation.pk])).status_code == status
    assert pay("ada", escalation, verdict="reject", comment="no").status_code == 302


@pytest.mark.proves("I42")
def test_a_switch_of_something_else_keeps_nobody_from_approving(scene: Scene) -> None:
    escalation, ada = waiting(scene), scene.add("ada", Role.ADMIN)
    press(scene, ada, scope=Scope.TOOL, target="send_reply")

    assert 'value="approve"' in card_of("ada", escalation)
    assert pay("ada", escalation).status_code == 302


@pytest.mark.proves("I41")
def test_a_switch_after_the_yes_is_told_on_the_card_and_the_overview(scene: Scene) -> None:
    escalation, ada = waiting(scene), scene.add("ada", Role.ADMIN)
    pay("ada", escalation)
    press(scene, ada)
    go(escalation.run)

    card = card_of("rita", escalation)
    home = client_of(scene.rita).get(reverse("home")).text

    assert "approved, not carried out: a kill switch was on" in words(card)
    assert "not yet" not in card
    assert "approved by ada, not carried out: a kill switch was on" in home


def test_a_run_that_was_blocked_executes_nothing_any_more(scene: Scene) -> None:
    run = go(scene.launch_scenario("another-customer"))

    page = client_of(scene.rita).get(reverse("run", args=[run.pk])).text

    assert "not yet" not in page


@pytest.mark.parametrize("name", ["eve", "omar", "audrey"])
def test_who_may_not_decide_reads_one_headline(scene: Scene, name: str) -> None:
    escalation = waiting(scene)
    scene.add("audrey", Role.AUDITOR)

    card = card_of(name, escalation)

    assert card.count("<h2 ") == 1
    assert "Awaiting approval: Refund USD 1,200.00 to Anna" in words(card)
    assert "<form" not in card
    assert "now." not in card


def test_what_somebody_else_has_claimed_offers_no_button(scene: Scene) -> None:
    escalation, ada = waiting(scene), scene.add("ada", Role.ADMIN)
    client_of(scene.rita).post(reverse("claim", args=[escalation.pk]))

    card = card_of("ada", escalation)
    refused = pay("ada", escalation, comment="Four seats unused")

    assert "rita has claimed it until" in words(card)
    assert "<form" not in card
    assert refused.status_code == 409
    assert "rita has claimed it until" in refused.text
    assert "What you filled in was not sent." in refused.text
    assert "<noscript><pre>Four seats unused</pre></noscript>" in refused.text
    assert client_of(ada).post(reverse("release-claim", args=[escalation.pk])).status_code == 302


@pytest.mark.proves("I19")
def test_who_launched_a_run_cannot_claim_its_request(scene: Scene) -> None:
    escalation = waiting(scene)
    role = Membership.objects.filter(user=scene.omar)
    role.update(role=Role.REVIEWER)

    refused = client_of(scene.omar).post(reverse("claim", args=[escalation.pk]))

    assert refused.status_code == 409
    assert "You launched this run" in refused.text
    assert Escalation.objects.get(pk=escalation.pk).claimed_by is None
    assert pay("rita", escalation, verdict="reject", comment="no").status_code == 302


def origins(escalation: Escalation) -> dict[str, str]:
    """Return what the card says of where each argument came from."""
    page = card_of("rita", escalation)
    rows = page[page.index('<dl class="sources"') :].split("<dt>")[1:]
    return {row[: row.index("</dt>")]: words(row[row.index("</bdi>") :]) for row in rows}


def test_only_what_the_policy_changed_is_marked_as_changed(scene: Scene) -> None:
    escalation = waiting(scene, "Anna (customer 42) asks for a refund of 1500 USD.")

    found = origins(escalation)

    assert found["Amount"].startswith("changed by policy")
    assert "policy" not in found["Customer"] + found["Reason"]


def test_names_are_islands_that_reorder_no_amount(scene: Scene) -> None:
    escalation = waiting(scene)
    theirs = Customer.objects.filter(book_id=escalation.run.book_id, number=42)

    theirs.update(name="ענת כהן")

    card = card_of("rita", escalation)
    bare = card.replace("<bdi>ענת כהן</bdi>", "")
    assert "<bdi>ענת כהן</bdi>" in card
    assert "ענת" not in bare


def test_an_amount_is_judged_before_it_is_sent(scene: Scene) -> None:
    escalation = waiting(scene)
    rita = client_of(scene.rita)

    def judge_amount(amount: str) -> tuple[bool, str]:
        page = rita.get(reverse("judge", args=[escalation.pk]), {"set.amount_minor": amount}).text
        return 'data-allowed="yes"' in page, words(page)

    assert judge_amount("800") == (True, "The policy allows USD 800.00, and you may grant it.")
    assert judge_amount("800.01")[0] is False
    assert "above your own limit of USD 800.00" in judge_amount("800.01")[1]
    assert "above your own limit of USD 800.00" in judge_amount("1200.01")[1]
    assert "Amount cannot be USD 0.00. At least USD 0.01." in judge_amount("0")[1]
    assert "not an amount like 800.00: write up to 9 digits, a point" in judge_amount("12,50")[1]
    assert not escalation.run.events.filter(kind="decision.refused").exists()


def test_who_may_grant_less_is_told_who_may_grant_it_all(scene: Scene) -> None:
    escalation = waiting(scene)
    scene.add("ada", Role.ADMIN)

    card = words(card_of("rita", escalation))

    assert "USD 1,200.00 needs a higher limit: ada." in card
    assert "higher limit" not in words(card_of("ada", escalation))


@pytest.mark.proves("I47")
def test_an_answer_about_a_call_says_nothing_that_the_ledger_denies(
    scene: Scene, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EMAIL_BACKEND = "tests.desk.letterboxes.Broken"
    escalation = waiting(scene, "User Anna (user_id=42) requests a refund of 500 USD.")
    assert escalation.kind == "effect_unknown"
    assert "Search the mail server" in page_of(scene, escalation)

    with monkeypatch.context() as later:  # an answer needs no tool, even one since removed
        later.delitem(TOOLS, "send_refund_email")
        pay("rita", escalation, verdict="reject", comment="not in the log")

    card = words(card_of("rita", escalation))
    assert "Search the mail server" not in page_of(scene, escalation)
    assert "rita answered that the action took no effect." in card
    assert "Nothing was paid" not in card  # the refund before the email was


def test_a_card_says_who_the_customer_is(scene: Scene) -> None:
    escalation = waiting(scene)
    theirs = Customer.objects.get(book_id=escalation.run.book_id, number=42)
    first = timezone.now() - timedelta(days=300)
    theirs.charges.create(plan="pro_monthly", amount_minor=4900, currency="USD", paid_at=first)

    page = words(page_of(scene, escalation))

    assert "The customer Country US Tier enterprise" in page
    assert f"Paid in all USD 1,249.00 in 2 charges since {first:%-d %B %Y}" in page


def test_what_is_no_approval_does_not_await_one(scene: Scene) -> None:
    case = Escalation.objects.get(run=go(scene.launch_scenario("nobodys")))

    seen = words(card_of("eve", case))

    assert "Awaiting a decision: Take over the case of Anna" in seen
    assert "Awaiting approval" not in seen
