"""The policy's masks apply before anything is stored, at every entry point."""

import json
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone

from agents import llm
from agents.core.limits import BadPolicy, read_limits
from agents.core.redact import KINDS, PSEUDONYM
from agents.core.requests import EscalationState, RunState
from agents.desks.reference.desk import REFERENCE
from agents.desks.refunds.limits import STRICT
from agents.desks.refunds.models import Customer
from agents.engine.upkeep.sweep import settle_orphan
from agents.models import (
    Effect,
    Escalation,
    Event,
    MaskedValue,
    PolicyVersion,
    Run,
    Step,
    Workspace,
)
from agents.models import SwitchStage as KillStage
from agents.publishing import versions as publishing
from agents.results import result
from agents.runs import kill_switch, launching
from tests.engine.scene import REFUND_1200, Scene, decide_request, go
from tests.llm.asking import send, serving
from tests.privacy.searching import places_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

CARD, IBAN, MAIL = "4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00", "eve@elsewhere.example"
ALL = f"card {CARD}, account {IBAN}, write to {MAIL}"
SECRETS = (CARD, IBAN, MAIL)


def completion(content: str, *, model: str = "stand-in", **more: Any) -> str:
    """Return the body of a model's answer."""
    choice = {"message": {"content": content, **more}, "finish_reason": "stop"}
    return json.dumps({"model": model, "choices": [choice]})


def test_the_goal_is_masked(scene: Scene) -> None:
    run = scene.launch(f"{REFUND_1200} {ALL}")

    kept = PSEUDONYM.sub("…", run.goal)
    assert kept.endswith("card [card number], account …, write to …")


@pytest.mark.proves("I36")
def test_what_a_person_types_is_masked_and_no_table_holds_it(scene: Scene) -> None:
    run = go(scene.launch(f"{REFUND_1200} {ALL}"))
    held = Escalation.objects.get(run=run, state=EscalationState.OPEN)

    decide_request(held, scene.rita, patch={"amount_minor": 500_00}, comment=ALL)
    run = go(run)

    assert run.state == RunState.DONE
    assert {secret: places_of(secret) for secret in SECRETS} == {secret: [] for secret in SECRETS}


def test_the_reason_for_stopping_a_run_is_masked(scene: Scene) -> None:
    run = go(scene.launch())

    launching.cancel(run_id=run.pk, by=scene.omar, reason=ALL, at=timezone.now())

    assert {secret: places_of(secret) for secret in SECRETS} == {secret: [] for secret in SECRETS}


def test_the_reasons_at_a_kill_switch_are_masked(scene: Scene, ada: User) -> None:
    at = timezone.now()

    switch = kill_switch.kill(workspace=scene.workspace, by=ada, reason=ALL, at=at)
    kill_switch.release(workspace=scene.workspace, by=ada, reason=ALL, at=at, to=KillStage.TRIAL)

    assert switch.reason == "card [card number], account [IBAN], write to [e-mail]"
    assert {secret: places_of(secret) for secret in SECRETS} == {secret: [] for secret in SECRETS}


def test_a_kill_switch_works_under_a_policy_that_nobody_can_read(scene: Scene, ada: User) -> None:
    PolicyVersion.objects.update(document={"profile": ["from another time"]})
    workspace = Workspace.objects.get()

    switch = kill_switch.kill(workspace=workspace, by=ada, reason=ALL, at=timezone.now())

    assert switch.reason == "card [card number], account [IBAN], write to [e-mail]"


def test_a_policy_that_masks_nothing_leaves_a_reason_as_it_is(scene: Scene, ada: User) -> None:
    document = {**STRICT.as_json(), "redaction": []}
    at, workspace = timezone.now(), scene.workspace
    publishing.publish_policy(workspace=workspace, document=document, by=ada, at=at)

    switch = kill_switch.kill(workspace=workspace, by=ada, reason=ALL, at=at)

    assert switch.reason == ALL


def test_what_was_looked_for_in_the_record_is_masked(scene: Scene, ada: User) -> None:
    client = Client()
    client.force_login(ada)

    answered = client.post(reverse("export"), {"person": MAIL, "event": CARD})

    assert answered.status_code == 200
    assert Event.objects.get(kind="audit.exported").facts["filter"] == {
        "person": "[e-mail]",
        "event": "[card number]",
    }


def test_a_workflow_that_somebody_wrote_is_masked(scene: Scene) -> None:
    step = {"kind": "goal", "name": "draft", "description": f"Draft it. {ALL}"}
    document = {"name": "own", "sequences": [{"name": "write", "steps": [step]}]}

    run = scene.launch("A letter to Anna (42).", pattern="workflow", workflow=document)

    assert "[card number]" in json.dumps(run.workflow)
    assert {secret: places_of(secret) for secret in SECRETS} == {secret: [] for secret in SECRETS}


@pytest.mark.proves("I36")
@pytest.mark.parametrize("letters", [ALL, "".join(f"\\u{ord(c):04x}" for c in ALL)])
def test_what_a_model_says_is_masked(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, letters: str
) -> None:
    async def ask(question: llm.Question, *, timeout: float) -> llm.ModelAnswer:
        said = f'{{"kind": "final", "answer": "{letters}"}}'
        return llm.ModelAnswer(said, "scripted", 1, 1, 0, demo=True)

    monkeypatch.setattr(llm, "ask", ask)

    run = go(scene.launch())

    replies = [step.reply for step in Step.objects.filter(run=run, kind="ask")]
    assert replies
    assert all(reply and "[card number]" in reply["text"] for reply in replies)
    assert {secret: places_of(secret) for secret in SECRETS} == {secret: [] for secret in SECRETS}


@pytest.mark.proves("I36")
def test_what_a_tool_returns_is_masked(scene: Scene) -> None:
    run = scene.launch()
    Customer.objects.filter(book=run.book, number=42).update(name=f"Anna {CARD}")

    run = go(run)

    seen = run.steps.get(kind="use", asked__tool="get_refund_context")
    assert seen.reply is not None
    assert seen.reply["user"]["name"] == "Anna [card number]"
    in_runs = [place for place in places_of(CARD) if not place.startswith("desk_")]
    assert in_runs == []


def test_the_address_a_mail_went_to_stays_with_the_desk(scene: Scene) -> None:
    run = scene.decided_refund()

    sent = Effect.objects.get(run=run, tool="send_refund_email")
    assert sent.result is not None
    assert PSEUDONYM.fullmatch(sent.result["email"]["to"])
    found = {place.split(" ")[0] for place in places_of("anna@example.com")}
    assert found == {"desk_customer.email", "desk_sentmail.to"}


def test_what_is_found_by_a_key_is_masked(scene: Scene) -> None:
    run = scene.decided_refund()
    sent = Effect.objects.get(run=run, tool="send_refund_email")
    Effect.objects.filter(pk=sent.pk).update(
        state="intended", settled_at=None, intended_at=timezone.now() - timedelta(hours=1)
    )

    kept = MaskedValue.objects.filter(run=run)
    kept.delete()

    settle_orphan(Effect.objects.get(pk=sent.pk))

    again = Effect.objects.get(pk=sent.pk)
    assert again.result == sent.result
    assert {one.name for one in kept.all()} == set(PSEUDONYM.findall(json.dumps(again.result)))


def test_a_policy_names_what_it_masks() -> None:
    shipped = {"card_numbers": "gone", "ibans": "name", "emails": "name"}
    assert STRICT.redaction == STRICT.of("workflow", "refunds").redaction == shipped
    assert set(REFERENCE.redaction.values()) == {"off"}
    for wrong in (["names"], {"names": "gone"}):
        with pytest.raises(BadPolicy, match="redaction has no 'names'"):
            read_limits({**STRICT.as_json(), "redaction": wrong})
    with pytest.raises(BadPolicy, match="emails cannot be 'masked': it is off, name, gone"):
        read_limits({**STRICT.as_json(), "redaction": {"emails": "masked"}})
    silent = {"emails": "name"}
    for document in ({"redaction": silent}, {"patterns": {"workflow": {"redaction": silent}}}):
        with pytest.raises(BadPolicy, match="has no treatment of card_numbers, ibans"):
            read_limits({**STRICT.as_json(), **document})


def test_old_policy_without_names_keeps_its_meaning() -> None:
    before = read_limits({**STRICT.as_json(), "redaction": ["ibans"], "patterns": {}})

    assert before.redaction == {"card_numbers": "off", "ibans": "gone", "emails": "off"}


def test_a_policy_from_before_masks_nothing(scene: Scene) -> None:
    document: dict[str, Any] = STRICT.as_json()
    del document["redaction"]

    assert set(read_limits(document).redaction.values()) == {"off"}
    assert Run.objects.count() == 0


@pytest.mark.proves("I36")
@pytest.mark.parametrize("redaction", [KINDS, ()])
def test_the_key_of_the_model_is_kept_nowhere_whoever_writes_it(
    scene: Scene, ada: User, settings: Any, redaction: Any
) -> None:
    key = "opaque-value-of-the-key"
    settings.OPENAI_API_KEY = key
    document = {**STRICT.as_json(), "redaction": list(redaction)}
    at = timezone.now()
    publishing.publish_policy(workspace=scene.workspace, document=document, by=ada, at=at)
    broken = "opaque-value-of-\nthe-key"

    run = scene.launch(f"{REFUND_1200} It is {key}, {broken} or {key.upper()}.")

    assert places_of(key) == places_of("-\nthe-key") == places_of(key.upper()) == []
    assert run.goal.endswith("It is [secret], [secret] or [secret].")


KEY = "opaque-value-of-the-key"
ECHOES: dict[str, tuple[int, str]] = {
    "an error": (400, json.dumps({"error": {"message": f"Incorrect API key: {KEY}"}})),
    "a refused key": (401, f"{KEY} is wrong"),
    "an error page": (502, f"<html>{KEY}</html>"),
    "the name of the model": (200, completion("{}", model=f"{KEY}-mini")),
    "the text": (200, completion(f"No: {KEY}")),
    "an action": (200, completion(json.dumps({"kind": "final", "answer": KEY}))),
    "an unasked call": (200, completion("{}", tool_calls=[{"name": KEY}])),
    "a call that is cut": (200, completion("{}", tool_calls=["x" * 485 + KEY])),
    "a name that is cut": (200, completion("{}", model="x" * 88 + KEY)),
    "a broken reply": (200, f"{KEY} {{"),
}


@pytest.mark.proves("I36")
@pytest.mark.parametrize("where", ECHOES)
def test_key_quoted_by_a_server_is_stored_nowhere(
    scene: Scene, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    status, body = ECHOES[where]

    def respond(handler: BaseHTTPRequestHandler) -> None:
        send(handler, body.encode(), status=status, retry_after=KEY, x_request_id=KEY)

    run = scene.launch("Which plan has Anna (user_id=42)?")
    with (
        serving(respond) as (url, calls),
        override_settings(OPENAI_BASE_URL=url, OPENAI_API_KEY=KEY),
        caplog.at_level("DEBUG", logger="agents"),
    ):
        run = go(run)

        assert calls
        assert places_of(KEY) == places_of(KEY[:12]) == []
    assert KEY not in caplog.text
    assert KEY not in json.dumps(result(run))
