"""A letter in the agent's own words: a person sends, corrects or rejects it."""

from __future__ import annotations

import json

import pytest
from django.test import override_settings
from django.urls import reverse

from agents.core.requests import Json
from agents.core.states import RunState
from agents.desks.refunds.models import SentMail
from agents.models import Effect, Escalation
from tests.engine.faulty import advance_all, as_demo, faulty_server
from tests.engine.scene import Scene, go
from tests.privacy.searching import places_of
from tests.web.test_outputs import client_of, form, open_request
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)

ASKS = "Anna (customer 42) asks for her last charge to be explained in plain words."
OWN_KEY = "opaque-value-of-the-key"
OURS = "Hello Anna,\n\nyour plan is annual_enterprise. Call +1 900 555 0100 with questions."


def test_the_card_shows_the_text_and_the_words_that_nobody_vouches_for(scene: Scene) -> None:
    escalation = open_request(scene, ASKS, "customer-reply")

    page = client_of(scene.rita).get(reverse("approval", args=[escalation.pk])).text

    assert escalation.kind == "output"
    assert not SentMail.objects.exists()
    assert "The email to Anna" in words(page)
    assert "As promised we know that Customer 42 is Anna" in page
    assert "They begin: As promised we know that Customer 42 is Anna with the plan …" in words(page)
    assert "No money was moved." in page
    assert "Send an email to Anna" in page


@pytest.mark.proves("I10")
@pytest.mark.parametrize("verdict", ["approve", "adjust"])
def test_what_a_person_lets_out_is_what_is_sent(scene: Scene, verdict: str) -> None:
    escalation = open_request(scene, ASKS, "customer-reply")
    wanted = form(escalation, verdict=verdict, correction=OURS.replace("\n", "\r\n"))

    client_of(scene.rita).post(reverse("decide", args=[escalation.pk]), wanted)

    run = go(escalation.run)
    assert (run.state, run.stop_reason) == (RunState.DONE, "success")
    body = escalation.action["args"]["message"] if verdict == "approve" else OURS
    assert [mail.body for mail in SentMail.objects.all()] == [body]
    effect = Effect.objects.get(run=run, tool="send_reply")
    assert effect.escalation_id == escalation.pk
    page = client_of(scene.rita).get(reverse("approval", args=[escalation.pk])).text
    told = "as the agent wrote it" if verdict == "approve" else "as rita edited it"
    assert f"The email was sent {told}." in words(page)
    for part in ("as rita edited it", "Call +1 900 555 0100"):
        assert (part in words(page)) == (verdict == "adjust")
    trace = client_of(scene.rita).get(reverse("run", args=[run.pk])).text
    assert "Carried out 1 email no payment or change proposed" in words(trace)


@pytest.mark.proves("I41")
def test_a_letter_is_refused_with_what_would_be_gone_and_sent_with_an_address(
    scene: Scene,
) -> None:
    escalation = open_request(scene, ASKS, "customer-reply")
    own = "Hello Anna,\n\nwrite to help@shop.example with 4111 1111 1111 1111."
    wanted = form(escalation, verdict="adjust", correction=own)

    page = client_of(scene.rita).post(reverse("decide", args=[escalation.pk]), wanted)

    assert "Anna #42 would read [card number] in place of what you wrote" in page.text
    assert own.replace("\n", "&#10;") in page.text or own in page.text
    escalation.refresh_from_db()
    assert escalation.state == "open"
    assert not SentMail.objects.exists()
    own = "Hello Anna,\n\nwrite to help@shop.example with questions."
    wanted = form(escalation, verdict="adjust", correction=own)
    client_of(scene.rita).post(reverse("decide", args=[escalation.pk]), wanted)
    go(escalation.run)
    assert [mail.body for mail in SentMail.objects.all()] == [own]


@pytest.mark.parametrize(
    ("text", "allowed", "says"),
    [
        (
            "Hello Anna,\n\nyou paid USD 1,200.00.",
            "yes",
            "Found in the ledger or on record: USD 1,200.00.",
        ),
        ("Hello Anna,\n\nwe paid $900.", "yes", "No amount with a currency code was found"),
        ("Hello Anna,\n\nwe paid 900.00 USD.", "yes", "Neither ledger nor record has 900.00 USD."),
        ("Hello Anna,\n\ncard 4111 1111 1111 1111.", "no", "would read [card number]"),
        ("Hello \u202eAnna.", "no", "without control or invisible characters"),
    ],
)
def test_an_email_is_judged_while_a_person_edits_it(
    scene: Scene, text: str, allowed: str, says: str
) -> None:
    escalation = open_request(scene, ASKS, "customer-reply")
    place = reverse("judge-letter", args=[escalation.pk])

    judged = client_of(scene.rita).post(place, {"correction": text}).text

    assert f'data-allowed="{allowed}"' in judged
    assert says in words(judged)
    assert not escalation.run.events.filter(kind="decision.refused").exists()


def test_an_email_that_was_emptied_is_asked_for_as_an_email(scene: Scene) -> None:
    escalation = open_request(scene, ASKS, "customer-reply")

    page = client_of(scene.rita).post(
        reverse("decide", args=[escalation.pk]), form(escalation, verdict="adjust", correction=" ")
    )

    assert page.status_code == 422
    assert "Write the email." in page.text


@pytest.mark.proves("I36")
def test_a_letter_of_the_agents_with_masks_in_it_is_not_sent_as_it_stands(scene: Scene) -> None:
    letter = f"Your card 4111 1111 1111 1111, and password: {OWN_KEY}. Write to eve@else.example."

    def says(role: str, inputs: Json) -> str:
        if role != "executor" or inputs["step"] not in ("check", "send"):
            return as_demo(role, inputs)
        if inputs["step"] == "check":
            said = json.dumps({"result": letter, "converged": True})
            return said.replace(letter, "".join(f"\\u{ord(char):04x}" for char in letter))
        args = {"user_id": 42, "message": list(inputs["earlier_outputs"].values())[-1]}
        return json.dumps({"kind": "tool", "name": "send_reply", "args": args})

    with faulty_server(timeout=30) as server, override_settings(OPENAI_API_KEY=OWN_KEY):
        server.says = says
        [run] = advance_all([scene.launch_scenario("reply")])
    held = Escalation.objects.get(run=run)

    page = client_of(scene.rita).post(reverse("decide", args=[held.pk]), form(held))

    assert "[card number] and [secret] in place of what the agent wrote" in page.text
    assert "".join(places_of(OWN_KEY) + places_of("4111 1111") + places_of("\\u0034")) == ""
    assert not SentMail.objects.exists()
    client_of(scene.rita).post(
        reverse("decide", args=[held.pk]), form(held, verdict="adjust", correction=OURS)
    )
    assert go(run).stop_reason == "success"
    assert [mail.body for mail in SentMail.objects.all()] == [OURS]


def test_a_run_whose_judge_is_its_executor_says_so(scene: Scene) -> None:
    run = go(scene.launch("Anna asks.", pattern="workflow", workflow="customer-reply"))

    page = client_of(scene.rita).get(reverse("run", args=[run.pk])).text

    assert "The same model (demo) did this work and judged it" in page
    assert "OPENAI_" not in page


@pytest.mark.proves("I46")
def test_a_letter_too_long_to_be_sent_says_so(scene: Scene) -> None:
    """The run says so once it stops, and a draft's card before anybody approves it."""
    letter = "Thank you. " * 400

    def says(role: str, inputs: Json) -> str:
        if role == "executor" and inputs["step"] == "draft" and "frankly" in str(inputs):
            return letter
        if role != "executor" or inputs["step"] not in ("check", "send"):
            return as_demo(role, inputs)
        if inputs["step"] == "check":
            return json.dumps({"result": letter, "converged": True})
        args = {"user_id": 42, "message": letter.strip()}
        return json.dumps({"kind": "tool", "name": "send_reply", "args": args})

    with faulty_server(timeout=30) as server:
        server.says = says
        [run] = advance_all([scene.launch_scenario("reply")])
        [asks] = advance_all([scene.launch_scenario("judge-asks")])

    page = words(client_of(scene.rita).get(reverse("run", args=[run.pk])).text)
    assert run.state == RunState.STOPPED
    assert not SentMail.objects.exists()
    assert "text was longer than the 4,000 characters that can be read and sent" in page
    held = Escalation.objects.get(run=asks)
    card = words(client_of(scene.rita).get(reverse("approval", args=[held.pk])).text)
    assert len(held.action["post"]["actual_output"]) > 4000
    assert "Too long for an email" in card
    assert "an email has at most 4,000" in card
