"""What a card tells and offers a person beyond what the agent says."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from agents.desks.refunds.limits import STRICT
from agents.desks.refunds.mail import message_id
from agents.desks.refunds.models import Customer, SentMail
from agents.models import Effect, Escalation, Membership, Role, Run, Scope
from agents.requests.card import OPEN
from agents.sdk.desk import DESKS
from tests.commands.test_run_pattern import command
from tests.engine.memory import Crash
from tests.engine.scene import REFUND_500, Scene, go, on_the_charge_of, recover
from tests.golden import Golden
from tests.web.test_pages import client_of, waiting
from tests.web.words import words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def page_of(name: str, escalation: Escalation) -> str:
    user = User.objects.get(username=name)
    return str(client_of(user).get(reverse("approval", args=[escalation.pk])).text)


def card_of(name: str, escalation: Escalation) -> str:
    """Return a card, from its headline to the agent's proposal."""
    page = page_of(name, escalation)
    return page[page.index('id="card"') : page.index('id="evidence"')]


def pay(name: str, escalation: Escalation, **more: str) -> Any:
    """Send the approving form as a person."""
    form = {"verdict": "approve", "action_sha256": escalation.action_sha256, **more}
    client = client_of(User.objects.get(username=name))
    return client.post(reverse("decide", args=[escalation.pk]), form)


def test_card_counts_open_requests_on_one_charge(scene: Scene, ada: User) -> None:
    asks = "Anna (customer 42) asks for a refund of {} USD of her annual plan."
    first = go(scene.launch(asks.format(1200)))
    rest = (scene.launch(asks.format(amount), by=ada) for amount in (1100, 1025))
    others = [go(on_the_charge_of(first, run)) for run in rest]
    card = card_of("rita", first.escalations.get())

    told = "3 open requests on the same money, USD 3,325.00 together. USD 1,200.00 is left."
    assert told in words(card)
    for run in others:
        assert f">request {run.escalations.get().pk}</a>" in card
    assert 'value="approve" checked' not in card
    assert 'value="adjust" checked' not in card


def test_card_above_a_limit_is_passed_on(scene: Scene) -> None:
    run = go(scene.launch("Anna (customer 42) asks for a refund of 1200 USD of her annual plan."))
    escalation = run.escalations.get()
    alone = card_of("rita", escalation)
    limits = {"small": 100_000, "mara": 120_000, "boss": None}
    for name, minor in limits.items():
        part = scene.add(name, Role.REVIEWER).memberships.get()
        part.desk_limits = {"refunds": {"USD": minor}} if minor else {}
        part.save()
    scene.add("chief", Role.ADMIN)

    assert "Nobody else may approve it." in alone
    card = card_of("rita", escalation)
    assert "USD 1,200.00 is above your limit of USD 800.00. mara or boss or chief" in words(card)
    assert 'value="pass"\n            checked' in card
    assert 'form="pass" name="to" value="person:mara"' in card
    for able in ("mara", "boss", "chief"):
        assert 'value="pass"' not in card_of(able, escalation)


def test_card_lists_decisions_however_many_requests_wait(scene: Scene, ada: User) -> None:
    asks = "Anna (customer 42) asks for a refund of {} USD of her annual plan."
    scene.publish({**STRICT.as_json(), "open_per_subject": 100}, ada)
    first = go(scene.launch(asks.format(1200)))
    decided = go(on_the_charge_of(first, scene.launch(asks.format(1190)))).escalations.get()
    assert pay("rita", decided, verdict="reject", comment="no").status_code == 302
    for amount in range(1100, 1100 + OPEN + 6):
        by = (ada, scene.omar)[amount % 2]  # as one person may have only so many open
        go(on_the_charge_of(first, scene.launch(asks.format(amount), by=by)))
    page = page_of("rita", first.escalations.get())

    assert f"At least {OPEN + 1} open requests on the same money" in page
    earlier = page.partition("Other decisions for")[2]
    assert f'href="{reverse("approval", args=[decided.pk])}"' in earlier


@pytest.mark.proves("F38")
def test_card_says_that_there_is_a_newer_policy(scene: Scene, golden: Golden, ada: User) -> None:
    escalation = waiting(scene)
    before = page_of("rita", escalation)

    command("publish_policy", "demo", "--tool", "send_reply", "--as", "ada")

    after = page_of("rita", escalation)
    assert ("newer-policy" in before, "newer-policy" in after) == (False, True)
    golden.check("card/newer-policy", {"before": before, "after": after})


def test_nobody_is_asked_once_the_time_is_over(scene: Scene, golden: Golden) -> None:
    escalation = waiting(scene)
    before = page_of("rita", escalation)

    over = timezone.now() - timedelta(hours=1)  # and no worker runs
    Escalation.objects.filter(pk=escalation.pk).update(expires_at=over)

    after = page_of("rita", escalation)
    assert ('id="dform"' in before, 'id="dform"' in after) == (True, False)
    golden.check("card/time-over", {"before": before, "after": after})


@pytest.mark.proves("W26")
def test_names_and_goals_that_deceive_are_marked(scene: Scene, golden: Golden) -> None:
    escalation = waiting(scene)
    theirs = Customer.objects.filter(book_id=escalation.run.book_id, number=42)
    pages = {"honest": page_of("rita", escalation)}

    theirs.update(name="Аnna")  # the first letter is Cyrillic
    pages["a name of two scripts"] = page_of("rita", escalation)
    theirs.update(name="Anna")
    # As stored before such goals were refused at launch.
    Run.objects.update(goal="Refund 1200 USD to user_id=42, An\u200bna.")
    pages["letters that nobody sees"] = page_of("rita", escalation)

    golden.check("card/deceptive", pages)


@pytest.mark.proves("I42")
@pytest.mark.parametrize(
    "scope",
    [
        {},
        {"scope": Scope.TOOL, "target": "issue_refund"},
        {"scope": Scope.PATTERN, "target": "supervisor"},
    ],
)
def test_while_a_switch_stands_nothing_is_approved(
    scene: Scene, golden: Golden, ada: User, scope: dict[str, Any]
) -> None:
    escalation = waiting(scene)
    scene.kill(ada, "look", **scope)

    page = page_of("ada", escalation)
    refused = pay("ada", escalation, comment="Four seats unused")

    golden.check(f"card/killed-{scope.get('scope', 'all')}", {"ada": page, "sent": refused.text})
    assert 'value="approve"' not in page
    assert refused.status_code == 409
    assert "<pre>Four seats unused</pre>" in refused.text
    assert Escalation.objects.get(pk=escalation.pk).state == "open"
    for verb in ("claim", "release-claim"):
        assert client_of(ada).post(reverse(verb, args=[escalation.pk])).status_code == 302
    assert pay("ada", escalation, verdict="reject", comment="no").status_code == 302


@pytest.mark.proves("I42")
def test_switch_of_something_else_stops_no_approval(scene: Scene, ada: User) -> None:
    escalation = waiting(scene)
    scene.kill(ada, "look", scope=Scope.TOOL, target="send_reply")

    assert 'value="approve"' in card_of("ada", escalation)
    assert pay("ada", escalation).status_code == 302


@pytest.mark.proves("I41")
def test_switch_after_the_approval_is_told(scene: Scene, golden: Golden, ada: User) -> None:
    escalation = waiting(scene)
    pay("ada", escalation)
    scene.kill(ada, "look")
    go(escalation.run)

    home = client_of(scene.rita).get(reverse("home")).text
    golden.check("card/killed-after", {"card": page_of("rita", escalation), "overview": home})


def test_claimed_request_offers_others_no_button(scene: Scene, ada: User) -> None:
    escalation = waiting(scene)
    client_of(scene.rita).post(reverse("claim", args=[escalation.pk]))

    refused = pay("ada", escalation, comment="Four seats unused")

    card = card_of("ada", escalation)
    assert "dform" not in card
    assert refused.status_code == 409
    assert "<noscript><pre>Four seats unused</pre></noscript>" in refused.text
    assert client_of(ada).post(reverse("release-claim", args=[escalation.pk])).status_code == 302


@pytest.mark.proves("I19")
def test_launcher_cannot_claim_their_own_request(scene: Scene) -> None:
    escalation = waiting(scene)
    Membership.objects.filter(user=scene.omar).update(role=Role.REVIEWER)

    refused = client_of(scene.omar).post(reverse("claim", args=[escalation.pk]))

    assert refused.status_code == 409
    assert Escalation.objects.get(pk=escalation.pk).claimed_by is None
    assert pay("rita", escalation, verdict="reject", comment="no").status_code == 302


def test_only_what_the_policy_changed_is_marked(scene: Scene, golden: Golden) -> None:
    escalation = waiting(scene, "Anna (customer 42) asks for a refund of 1500 USD.")
    theirs = Customer.objects.get(book_id=escalation.run.book_id, number=42)
    first = timezone.now() - timedelta(days=300)
    theirs.charges.create(plan="pro_monthly", amount_minor=4900, currency="USD", paid_at=first)

    golden.check("card/lowered", {"rita": page_of("rita", escalation)})


def test_names_reorder_no_amount(scene: Scene) -> None:
    escalation = waiting(scene)
    theirs = Customer.objects.filter(book_id=escalation.run.book_id, number=42)

    theirs.update(name="ענת כהן")

    card = card_of("rita", escalation)
    assert "<bdi>ענת כהן</bdi>" in card
    assert "ענת" not in card.replace("<bdi>ענת כהן</bdi>", "")


def test_amount_is_judged_before_it_is_sent(scene: Scene, golden: Golden) -> None:
    escalation = waiting(scene)
    client, at = client_of(scene.rita), reverse("judge", args=[escalation.pk])

    amounts = ("800", "800.01", "1200.01", "0", "USD 12,50", "1.000", "EUR 5")
    judged = {one: client.get(at, {"set.amount_minor": one}).text for one in amounts}

    golden.check("card/judged", judged)
    assert [one for one, page in judged.items() if 'data-allowed="yes"' in page] == [
        "800",
        "USD 12,50",
    ]
    assert "“1.000” is USD 1,000.00 or USD 1.00: write one of the two." in judged["1.000"]
    typed = {"set.amount_minor": "1.000", "comment": "partly"}
    sent = pay("rita", escalation, verdict="adjust", **typed)  # as without a script
    assert sent.status_code == 422
    assert 'value="1.000"' in sent.text
    assert "is USD 1,000.00 or USD 1.00" in sent.text
    assert not escalation.run.events.filter(kind="decision.refused").exists()


@pytest.mark.proves("I47", "F8", "F41")
def test_card_of_a_lost_email_tells_what_is_known(
    scene: Scene, golden: Golden, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EMAIL_BACKEND = "tests.desk.letterboxes.Broken"
    escalation = waiting(scene, REFUND_500)
    asked, key = page_of("rita", escalation), Effect.objects.get(tool="send_refund_email").key
    assert message_id(key).strip("<>") in asked
    assert SentMail.objects.get(key=key).to in asked

    with monkeypatch.context() as later:  # an answer needs no tool, even one since removed
        left = {**DESKS["refunds"].all_tools}
        del left["send_refund_email"]
        later.setattr(DESKS["refunds"], "all_tools", left)
        pay("rita", escalation, verdict="reject", comment="not in the log")

    golden.check("card/lost-email", {"asked": asked, "answered": page_of("rita", escalation)})


@pytest.mark.proves("F8")
def test_worker_that_died_noted_no_answer(scene: Scene, golden: Golden, settings: Any) -> None:
    settings.EMAIL_BACKEND = "tests.desk.letterboxes.Deadly"
    run = scene.launch(REFUND_500)
    with suppress(Crash):
        go(run)
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    recover(run.pk)
    go(run)

    asked = Escalation.objects.get(run=run, kind="effect_unknown")
    golden.check("card/lost-worker", {"rita": page_of("rita", asked)})


@pytest.mark.proves("F41")
def test_nobody_is_asked_where_no_mail_server_listens(
    scene: Scene, golden: Golden, settings: Any
) -> None:
    settings.EMAIL_BACKEND = "agents.notifications.channels.mail.LimitedBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", 1, False

    run = go(scene.launch(REFUND_500))

    mail = Effect.objects.get(run=run, tool="send_refund_email")
    assert mail.result == {"status": "error", "error": "email_not_taken:ConnectionRefusedError"}
    assert not Escalation.objects.filter(run=run).exists()
    page = client_of(scene.omar).get(reverse("run", args=[run.pk])).text
    golden.check("run/no-mail-server", {"omar": page})
