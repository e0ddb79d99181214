"""A letter in the agent's own words: a person sends, corrects or rejects it."""

import json

import pytest
from django.test import override_settings
from django.urls import reverse

from agents.core.requests import Json, RunState
from agents.desks.refunds.models import SentMail
from agents.models import Effect, Escalation
from tests.engine.faulty import advance_all, as_demo, faulty_server
from tests.engine.scene import Scene, go
from tests.golden import Golden
from tests.privacy.searching import places_of
from tests.web.test_outputs import form, open_request
from tests.web.test_pages import client_of

pytestmark = pytest.mark.django_db(transaction=True)

ASKS = "Anna (customer 42) asks for her last charge to be explained in plain words."
OWN_KEY = "opaque-value-of-the-key"
OURS = "Hello Anna,\n\nyour plan is annual_enterprise. Call +1 900 555 0100 with questions."


@pytest.mark.proves("I10")
@pytest.mark.parametrize("verdict", ["approve", "adjust"])
def test_what_a_person_lets_out_is_what_is_sent(scene: Scene, golden: Golden, verdict: str) -> None:
    escalation = open_request(scene, ASKS, "customer-reply")
    wanted = form(escalation, verdict=verdict, correction=OURS.replace("\n", "\r\n"))

    client_of(scene.rita).post(reverse("decide", args=[escalation.pk]), wanted)

    run = go(escalation.run)
    assert (run.state, run.stop_reason) == (RunState.DONE, "success")
    body = escalation.action["args"]["message"] if verdict == "approve" else OURS
    assert [mail.body for mail in SentMail.objects.all()] == [body]
    effect = Effect.objects.get(run=run, tool="send_reply")
    assert effect.escalation_id == escalation.pk
    card = client_of(scene.rita).get(reverse("approval", args=[escalation.pk])).text
    golden.check(f"card/email-{verdict}", {"rita": card})


@pytest.mark.proves("I41")
def test_letter_that_would_lose_words_is_refused(scene: Scene, golden: Golden) -> None:
    escalation, rita = open_request(scene, ASKS, "customer-reply"), client_of(scene.rita)
    pages = {"asked": rita.get(reverse("approval", args=[escalation.pk])).text}
    own = "Hello Anna,\n\nwrite to help@shop.example with 4111 1111 1111 1111."

    for name, text in {"with a card number": own, "an empty one": " "}.items():
        wanted = form(escalation, verdict="adjust", correction=text)
        answered = rita.post(reverse("decide", args=[escalation.pk]), wanted)
        assert answered.status_code == 422, name
        assert text.replace("\n", "&#10;") in answered.text or text in answered.text
        pages[name] = answered.text

    golden.check("card/refused-email", pages)
    escalation.refresh_from_db()
    assert escalation.state == "open"
    assert not SentMail.objects.exists()
    own = "Hello Anna,\n\nwrite to help@shop.example with questions."
    wanted = form(escalation, verdict="adjust", correction=own)
    rita.post(reverse("decide", args=[escalation.pk]), wanted)
    go(escalation.run)
    assert [mail.body for mail in SentMail.objects.all()] == [own]


EDITED = {
    "an amount of the ledger": "Hello Anna,\n\nyou paid USD 1,200.00.",
    "no currency code": "Hello Anna,\n\nwe paid $900.",
    "an amount that no record has": "Hello Anna,\n\nwe paid 900.00 USD.",
    "a card number": "Hello Anna,\n\ncard 4111 1111 1111 1111.",
    "a letter that reverses": "Hello \u202eAnna.",
}


def test_an_email_is_judged_while_it_is_edited(scene: Scene, golden: Golden) -> None:
    escalation, rita = open_request(scene, ASKS, "customer-reply"), client_of(scene.rita)
    place = reverse("judge-letter", args=[escalation.pk])

    judged = {name: rita.post(place, {"correction": text}).text for name, text in EDITED.items()}

    golden.check("card/judged-email", judged)
    refused = [name for name, page in judged.items() if 'data-allowed="no"' in page]
    assert refused == ["a card number", "a letter that reverses"]
    assert not escalation.run.events.filter(kind="decision.refused").exists()


@pytest.mark.proves("I36")
def test_letter_with_masks_is_not_sent_as_it_stands(scene: Scene, golden: Golden) -> None:
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

    golden.check("card/masked-email", {"rita": page.text})
    assert page.status_code == 422
    assert "".join(places_of(OWN_KEY) + places_of("4111 1111") + places_of("\\u0034")) == ""
    assert not SentMail.objects.exists()
    client_of(scene.rita).post(
        reverse("decide", args=[held.pk]), form(held, verdict="adjust", correction=OURS)
    )
    assert go(run).stop_reason == "success"
    assert [mail.body for mail in SentMail.objects.all()] == [OURS]


@pytest.mark.proves("I46")
def test_a_letter_too_long_to_be_sent_says_so(scene: Scene, golden: Golden) -> None:
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

    assert run.state == RunState.STOPPED
    assert not SentMail.objects.exists()
    held, rita = Escalation.objects.get(run=asks), client_of(scene.rita)
    assert len(held.action["post"]["actual_output"]) > 4000
    golden.check(
        "card/too-long",
        {
            "run": rita.get(reverse("run", args=[run.pk])).text,
            "card": rita.get(reverse("approval", args=[held.pk])).text,
        },
    )
