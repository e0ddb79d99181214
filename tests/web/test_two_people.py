"""The card where two people decide: what it offers, by state and person."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from agents.models import Escalation, Event
from agents.people import members
from agents.requests import sharing
from tests.engine.scene import go, payments
from tests.engine.test_two_people import BELOW
from tests.engine.tiered import Tiered, say_yes, still_waits
from tests.golden import Golden
from tests.pins import pinned
from tests.web.test_card import card_of, page_of, pay
from tests.web.test_pages import client_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

PASSES = re.compile(r'form="pass" name="to" value="([^"]+)"')
OFFERED = ["adjust", "approve", "send_back", "reject"]


def verdicts_of(card: str) -> list[str]:
    """Return the verdicts that the card's form can send."""
    return re.findall(r'name="verdict" value="(\w+)"', card)


def form_of(card: str) -> dict[str, str]:
    """Return the form's hidden fields."""
    return dict(re.findall(r'type="hidden" name="(approval|action_sha256)" value="(\w+)"', card))


def send(name: str, request: Escalation, verdict: str, **more: str) -> Any:
    """Send the form of the card as this person sees it."""
    return pay(name, request, **form_of(card_of(name, request)), verdict=verdict, **more)


@pytest.mark.proves("I19")
def test_card_is_true_for_first_second_and_viewer(tiered: Tiered, golden: Golden) -> None:
    request = tiered.ask()
    pages = {"the first, before": page_of("finn", request)}
    assert verdicts_of(pages["the first, before"]) == OFFERED

    sent = send("finn", request, "adjust", comment="partly", **{"set.amount_minor": "1000"})
    assert sent.status_code == 302
    pages["the first, on the next page"] = client_of(tiered.finn).get(sent["Location"]).text

    pages |= {name: page_of(name, request) for name in ("finn", "faye", "eve")}
    offered = [verdicts_of(pages[name]) for name in ("finn", "faye", "eve")]
    assert offered == [["send_back", "reject"], OFFERED, []]
    assert "partly" in pages["faye"]  # the second reads the first one's reason
    export = client_of(tiered.ada).post(reverse("export")).getvalue().decode()
    assert "partly" in export
    tiered.drop(tiered.faye)
    pages["finn, as nobody else can approve"] = page_of("finn", request)
    tiered.drop(tiered.faye, back=True)

    assert send("faye", request, "approve").status_code == 302

    request.refresh_from_db()
    assert (request.state, payments(go(request.run))) == ("adjusted", [100_000])
    pages["faye, afterwards"] = page_of("faye", request)
    golden.check("two/first-and-second", pages)


def test_form_older_than_the_first_approval_is_refused(tiered: Tiered) -> None:
    request = tiered.ask()
    stale = form_of(card_of("faye", request))
    say_yes(request, tiered.finn)

    answers = [
        pay("faye", request, **stale),
        *(pay("faye", request, approval=other) for other in ("0", "999", "x")),
        pay("finn", request, **form_of(card_of("faye", request))),
    ]

    assert [answer.status_code for answer in answers] == [422] * 5
    assert still_waits(request)


def test_card_below_a_tier_is_passed_on(tiered: Tiered, golden: Golden) -> None:
    request, rita = tiered.ask(), client_of(tiered.scene.rita)
    pages = {"while others may": page_of("rita", request)}

    assert verdicts_of(pages["while others may"]) == ["pass", "send_back", "reject"]
    assert PASSES.findall(pages["while others may"]) == ["person:faye"]
    passed = rita.post(reverse("hand-over", args=[request.pk]), {"to": "person:faye"})
    assert PASSES.findall(page_of("rita", request)) == ["person:finn"]  # faye has it
    say_yes(request, tiered.finn)
    assert "assigned to <bdi>faye</bdi>" in rita.get(passed["Location"]).text  # not finn's yes

    request.refresh_from_db()
    assert (passed.status_code, str(request.assigned_to)) == (302, "faye")
    for gone in (tiered.finn, tiered.faye):
        tiered.drop(gone)
    pages["while nobody may"] = page_of("rita", request)
    assert PASSES.findall(pages["while nobody may"]) == []
    golden.check("two/below", pages)


def test_first_approval_lapses_with_its_givers_team(tiered: Tiered, golden: Golden) -> None:
    request = tiered.ask()
    say_yes(request, tiered.finn)
    tiered.drop(tiered.finn)

    golden.check("two/lapsed", {"faye": page_of("faye", request)})
    assert send("faye", request, "approve").status_code == 302

    assert still_waits(request)
    assert request.approval is not None
    assert request.approval.by == tiered.faye
    told = Event.objects.filter(run=request.run_id, kind__startswith="approval.")
    kinds = list(told.order_by("seq").values_list("kind", flat=True))
    assert kinds == ["approval.given", "approval.lapsed", "approval.given"]


@pytest.mark.parametrize("how", ["team", "limit"])
def test_lapsed_approval_is_told_of_its_giver(tiered: Tiered, golden: Golden, how: str) -> None:
    request = tiered.ask()
    say_yes(request, tiered.finn)
    form = form_of(card_of("faye", request))
    if how == "team":
        tiered.drop(tiered.finn)
    else:
        about: dict[str, Any] = {"workspace": tiered.scene.workspace, "user": tiered.finn}
        limit: dict[str, Any] = {"limit_minor": 1000, "desk": "refunds", "currency": "USD"}
        members.set_limit(**about, **limit, at=timezone.now())

    answered = pay("faye", request, **form, verdict="approve")

    assert answered.status_code == 409
    golden.check(f"two/lapsed-meanwhile-{how}", {"faye": answered.text})


def test_what_a_tier_takes_from_somebody_is_above_their_limit(tiered: Tiered) -> None:
    large, between = tiered.ask(), tiered.ask(BELOW)

    def above(user: User) -> set[int]:
        page = client_of(user).get(reverse("approvals"), {"view": "above"}).text
        return {int(pk) for pk in re.findall(r'<li id="q-(\d+)"', page)}

    both = {large.pk, between.pk}
    people = (tiered.scene.rita, tiered.ada, tiered.lena, tiered.finn, tiered.scene.eve)
    assert [above(who) for who in people] == [both, both, {large.pk}, set(), set()]


@pytest.mark.parametrize("more", [0, 6])
def test_card_takes_few_queries_however_much_waits(tiered: Tiered, more: int) -> None:
    request, small = tiered.ask(), tiered.ask(BELOW)
    for _ in range(more):
        tiered.ask()
    done = tiered.ask("Refund 1060 USD for user_id=42.")
    say_yes(done, tiered.lena)
    go(done.run)
    say_yes(request, tiered.finn)
    about: dict[str, Any] = {"escalation_id": small.pk, "by": tiered.lena, "at": timezone.now()}
    sharing.comment(text="Look.", **about)
    sharing.assign(to_user=tiered.lena, **about)

    for asked, name, after, pin in (
        (small, "lena", "", "card"),  # within her tier, with a comment
        (small, "rita", "", "card above a limit"),
        (request, "faye", "", "card"),  # the second person
        (done, "lena", "", "card"),
        (small, "lena", f"?done={done.pk}", "card after a decision"),
    ):
        client = client_of(User.objects.get(username=name))
        address = reverse("approval", args=[asked.pk]) + after
        client.get(address)  # the first of a minute moves the end of a session
        with pinned(pin):
            assert client.get(address).status_code == 200
