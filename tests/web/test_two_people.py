"""The card where two people decide: what it says and offers, by state and person."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from agents.models import Escalation, Event, Role
from agents.people import members
from agents.requests import sharing
from agents.sdk.adjustments import in_words
from tests.desks.bank import FIRST_PAYMENT, bank_scene, day, decide, euros, launch
from tests.engine.scene import go, payments
from tests.engine.test_two_people import BELOW
from tests.engine.tiered import Tiered, put_tiers, say_yes, still_waits
from tests.web.test_card import card_of, pay
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def verdicts_of(card: str) -> list[str]:
    """Return the verdicts that the card's form can send."""
    return re.findall(r'name="verdict" value="(\w+)"', card)


def form_of(card: str) -> dict[str, str]:
    """Return the form's hidden fields."""
    return dict(re.findall(r'type="hidden" name="(approval|action_sha256)" value="(\w+)"', card))


def send(name: str, request: Escalation, verdict: str, **more: str) -> Any:
    """Send the form of the card as this person sees it."""
    return pay(name, request, **form_of(card_of(name, request)), verdict=verdict, **more)


def table_of(user: User) -> str:
    """Return the audit log's CSV as a person downloads it."""
    return client_of(user).post(reverse("export")).getvalue().decode()


@pytest.mark.proves("I19")
def test_the_card_is_true_for_first_second_and_whoever_looks(tiered: Tiered) -> None:
    request = tiered.ask()
    first = card_of("finn", request)
    assert verdicts_of(first) == ["adjust", "approve", "send_back", "reject"]
    assert "Pay Anna USD 1,200.00, once a second person has approved the same" in words(first)
    assert "0 of 2: two people have to approve this." in words(first)

    sent = send("finn", request, "adjust", comment="partly", **{"set.amount_minor": "1000"})
    assert sent.status_code == 302
    strip = client_of(tiered.finn).get(sent["Location"]).text.partition('id="strip"')[2]
    said = "Anna #42: you approved USD 1,000.00, as the first of two people."
    assert said in words(strip[:2000])

    mine, second, viewer = (card_of(name, request) for name in ("finn", "faye", "eve"))
    assert verdicts_of(mine) == ["send_back", "reject"]
    assert "1 of 2: you approved USD 1,000.00" in words(mine)
    awaited = "Awaiting a second person: Pay Anna USD 1,000.00 instead of USD 1,200.00. You can"
    assert awaited in words(mine)
    assert verdicts_of(second) == ["adjust", "approve", "send_back", "reject"]
    assert "1 of 2: finn approved USD 1,000.00, changed," in words(second)
    assert "Pay Anna USD 1,000.00 instead of USD 1,200.00" in words(second)
    assert "finn’s approval then counts no more" in words(second)
    assert "As finn approved" in words(second)
    assert "What finn approved, in place of what the agent asked for" in words(second)
    assert "What the agent asked for." not in words(second)
    assert not verdicts_of(viewer)
    assert "1 of 2: finn approved USD 1,000.00" in words(viewer)
    run = client_of(tiered.faye).get(reverse("run", args=[request.run_id])).text
    assert words(run).count("finn approved as the first of two") == 2  # at its head and its stage
    assert "finn: approved as the first of two people, USD 1,000.00" in words(run)
    queue = client_of(tiered.scene.rita).get(reverse("approvals")).text
    assert "One person has approved. " in words(queue)
    assert ": “partly” If you approve the same, it is carried out." in words(second)
    assert "partly" in table_of(tiered.ada)
    tiered.drop(tiered.faye)
    assert "Nobody else can approve it now" in words(card_of("finn", request))
    assert "Awaiting a second person" not in words(card_of("finn", request))
    tiered.drop(tiered.faye, back=True)

    assert send("faye", request, "approve").status_code == 302

    request.refresh_from_db()
    assert (request.state, payments(go(request.run))) == ("adjusted", [100_000])
    assert "“partly”" in words(card_of("faye", request))


def test_a_desk_says_every_term_that_the_first_of_two_changed() -> None:
    scene = bank_scene()
    put_tiers(scene, User.objects.get(username="ada"), {"bank": {"EUR": [{"people": 2}]}})
    scene.add("paul", Role.REVIEWER)
    scene.add("vera", Role.VIEWER)
    run = go(launch(scene, FIRST_PAYMENT))
    later = in_words(day(9), {"format": "date"})

    held = decide(scene, run, {"amount": euros("600.00"), "on": day(9)})

    for name in ("rita", "paul"):
        card = words(card_of(name, held))
        assert f"EUR 600.00 from Operating account to Kanzlei Brandt (P-103), dated {later}" in card
    for name, before, behind in (  # only the second gets a form; the others read the same text
        ("rita", "Awaiting a second person: ", "You can still send it back or reject it."),
        ("vera", "Awaiting approval: ", "Your role here"),
    ):
        awaited = words(card_of(name, held)).partition(before)[2].partition(behind)[0]
        assert ("EUR 600.00" in awaited, "EUR 900.00" in awaited) == (True, False)
    log = words(client_of(User.objects.get(username="ada")).get(reverse("audit")).text)
    told = "as the first of two people, with changes: "
    changes = log.partition(told)[2][:60]
    assert told in log
    assert "amount EUR 600.00" in changes
    assert f"on {later}" in changes


def test_a_form_of_before_the_first_yes_decides_nothing(tiered: Tiered) -> None:
    request = tiered.ask()
    stale = form_of(card_of("faye", request))
    say_yes(request, tiered.finn)

    answers = [
        pay("faye", request, **stale),
        pay("faye", request, approval="0"),
        pay("faye", request, approval="999"),
        pay("faye", request, approval="x"),
        pay("finn", request, **form_of(card_of("faye", request))),
    ]

    assert [answer.status_code for answer in answers] == [422] * 5
    assert still_waits(request)


def test_below_the_tier_the_card_passes_it_to_those_who_may(tiered: Tiered) -> None:
    request = tiered.ask()
    card = card_of("rita", request)

    assert verdicts_of(card) == ["send_back", "reject"]
    assert "only the team Finance may approve USD 1,200.00. Hand it to one" in words(card)
    assert re.findall(r'<option value="([^"]+)">', card)[:2] == [
        "person:faye",
        "person:finn",
    ]
    assert 'value="team:finance"' not in card.partition('id="pass"')[2].partition("</form>")[0]
    rita = client_of(tiered.scene.rita)
    passed = rita.post(reverse("hand-over", args=[request.pk]), {"to": "person:faye"})

    request.refresh_from_db()
    assert (passed.status_code, str(request.assigned_to)) == (302, "faye")
    for gone in (tiered.finn, tiered.faye):
        tiered.drop(gone)
    alone = card_of("rita", request)
    assert "Automatic up to" in alone
    assert "You: " not in words(alone)  # their own limit does not matter here
    assert "and nobody else in it can do so now. Reject it" in words(alone)
    assert "Hand it over" not in words(alone)
    assert 'id="pass"' not in alone


def test_a_first_yes_of_somebody_who_may_no_longer_is_said_to_count_for_nothing(
    tiered: Tiered,
) -> None:
    request = tiered.ask()
    say_yes(request, tiered.finn)
    tiered.drop(tiered.finn)

    card = card_of("faye", request)
    said = "finn’s approval no longer counts: they are in no team that may approve it. Two people"
    assert said in words(card)
    assert "once a second person has approved the same" in words(card)
    assert send("faye", request, "approve").status_code == 302

    assert still_waits(request)
    assert request.approval is not None
    assert request.approval.by == tiered.faye
    told = Event.objects.filter(run=request.run_id, kind__startswith="approval.")
    assert list(told.order_by("seq").values_list("kind", flat=True)) == [
        "approval.given",
        "approval.lapsed",
        "approval.given",
    ]


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("not of the team", "they are in no team that may approve it."),
        ("a lower limit", "the amount is above their own limit now."),
    ],
)
def test_why_a_first_yes_counts_no_more_is_said_of_its_giver_not_to_the_reader(
    tiered: Tiered, how: str, why: str
) -> None:
    request = tiered.ask()
    say_yes(request, tiered.finn)
    form = form_of(card_of("faye", request))
    if how == "not of the team":
        tiered.drop(tiered.finn)
    else:
        members.set_limit(
            workspace=tiered.scene.workspace,
            user=tiered.finn,
            limit_minor=1000,
            desk="refunds",
            currency="USD",
            at=timezone.now(),
        )

    answered = pay("faye", request, **form, verdict="approve")

    assert answered.status_code == 409
    said = words(answered.text)
    assert f"finn’s approval no longer counts: {why} Nothing was decided." in said
    assert "your own limit" not in said
    assert "Hand it to one of them" not in said


def test_what_a_tier_takes_from_somebody_is_above_their_limit(tiered: Tiered) -> None:
    large, between = tiered.ask(), tiered.ask(BELOW)

    def above(user: User) -> set[int]:
        page = client_of(user).get(reverse("approvals"), {"view": "above"}).text
        return {int(pk) for pk in re.findall(r'<li id="q-(\d+)"', page)}

    both = {large.pk, between.pk}
    people = (tiered.scene.rita, tiered.ada, tiered.lena, tiered.finn, tiered.scene.eve)
    assert [above(who) for who in people] == [both, both, {large.pk}, set(), set()]


@pytest.mark.parametrize("more", [0, 6])
def test_a_card_takes_few_queries_however_much_waits(
    tiered: Tiered, more: int, django_assert_num_queries: Any
) -> None:
    request, small = tiered.ask(), tiered.ask(BELOW)
    for _ in range(more):
        tiered.ask()
    done = tiered.ask("Refund 1060 USD for user_id=42.")
    say_yes(done, tiered.lena)
    go(done.run)
    say_yes(request, tiered.finn)
    sharing.comment(escalation_id=small.pk, by=tiered.lena, text="Look.", at=timezone.now())
    sharing.assign(escalation_id=small.pk, by=tiered.lena, to_user=tiered.lena, at=timezone.now())

    for asked, name, after, queries in (
        (small, "lena", "", 10),  # within her tier, with a comment
        (small, "rita", "", 11),  # below it, and with a limit of her own
        (request, "faye", "", 10),  # the second person
        (done, "lena", "", 10),
        (small, "lena", f"?done={done.pk}", 11),
    ):
        client = client_of(User.objects.get(username=name))
        address = reverse("approval", args=[asked.pk]) + after
        client.get(address)  # the first of a minute moves the end of a session
        with django_assert_num_queries(queries):
            assert client.get(address).status_code == 200
