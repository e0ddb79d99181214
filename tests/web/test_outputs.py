"""A workflow's output in the inbox: shown, approved, corrected or rejected."""

from __future__ import annotations

import pytest
from django.urls import reverse

from agents.core.states import EscalationState, RunState
from agents.models import Escalation, Role
from agents.shell import refusal
from agents.shell.formats import split_output
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene, decide_request, fresh, go
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)

MEMO = "Anna (user_id=42) asks for a policy exception."
ASKS = "Anna (customer 42) asks: tell me frankly, is my plan still right for me?"


def open_request(scene: Scene, goal: str = MEMO, workflow: str = "exception-memo") -> Escalation:
    run = go(scene.launch(goal, pattern="workflow", workflow=workflow))
    return Escalation.objects.get(run=run, state=EscalationState.OPEN)


def form(escalation: Escalation, **fields: str) -> dict[str, str]:
    return {
        "verdict": "approve",
        "comment": "",
        "correction": "",
        "action_sha256": escalation.action_sha256,
        **fields,
    }


def test_the_person_sees_the_output_and_what_it_is_held_against(scene: Scene) -> None:
    escalation = open_request(scene)

    page = client_of(scene.rita).get(reverse("approval", args=[escalation.pk])).text

    assert "Approve the result of the step memo" in page
    assert "Recommendation: keep to the terms." in page
    assert "No deviations found." in page
    assert "Send back to the agent" in page
    assert "The policy checks any later step." in page  # a rejection leaves none
    assert "Why not? required" in words(page)


def test_json_that_ends_an_output_is_shown_as_its_fields(scene: Scene) -> None:
    escalation = open_request(scene)
    ada = client_of(scene.add("ada", Role.ADMIN))

    card = ada.get(reverse("approval", args=[escalation.pk])).text
    run = ada.get(reverse("run", args=[escalation.run_id])).text
    case = ada.get(reverse("case", args=[escalation.run_id])).text

    assert "<dt>Recommendation</dt><dd>keep to the terms</dd>" in card
    for page in (card, run, case):
        assert "&quot;recommendation&quot;" not in page
        assert "keep to the terms" in page


@pytest.mark.parametrize(
    ("text", "prose", "fields"),
    [
        ("Keep to it.", "Keep to it.", {}),
        (
            'Pay.\n\n{"sum_minor": 500, "why": "too_late"}',
            "Pay.",
            {"Sum": "USD 5.00", "Why": "too late"},
        ),
        (
            'Pay.\n```json\n{"fee": null,\n "to": ["a", "b"]}\n```',
            "Pay.",
            {"Fee": "none", "To": "a, b"},
        ),
        ('{"is_final": true}', "", {"Is final": "yes"}),
        ('Pay.\n{"a": 1, "a": 2}', 'Pay.\n{"a": 1, "a": 2}', {}),
        ("Say {hello}\n{to} him", "Say {hello}\n{to} him", {}),
    ],
)
def test_an_output_is_words_and_fields(text: str, prose: str, fields: dict[str, str]) -> None:
    assert split_output(text) == (prose, fields)


def test_what_the_judge_asks_is_in_the_inbox(scene: Scene) -> None:
    escalation = open_request(scene, ASKS, "customer-reply")
    rita = client_of(scene.rita)

    assert escalation.kind == "question"
    assert "The tone is a matter of taste." in rita.get(reverse("approvals")).text
    assert "Thank you for your question" in (
        rita.get(reverse("approval", args=[escalation.pk])).text
    )


def test_an_approved_output_is_what_comes_out(scene: Scene) -> None:
    escalation = open_request(scene)

    client_of(scene.rita).post(reverse("decide", args=[escalation.pk]), form(escalation))

    run = go(escalation.run)
    assert run.state == RunState.DONE
    assert run.outcome
    assert run.outcome["answer"] == "No money was moved."
    assert run.outcome["note"] == escalation.action["post"]["actual_output"]
    assert run.outcome["approved_by"] == "rita"
    page = client_of(scene.rita).get(reverse("run", args=[run.pk])).text
    assert "The agent’s own note, approved by rita" in words(page)


def test_what_was_approved_before_is_not_shown_as_refused(scene: Scene) -> None:
    first = open_request(scene)
    rita = client_of(scene.rita)
    rita.post(reverse("decide", args=[first.pk]), form(first))
    second = open_request(scene)
    rita.post(reverse("decide", args=[second.pk]), form(second, verdict="reject", comment="no"))

    page = rita.get(reverse("approval", args=[open_request(scene).pk])).text

    before = page.partition("Earlier decisions")[2]
    assert before.index('data-role="block"') < before.index(">draft rejected<")
    assert before.index('data-role="human"') < before.index(">draft approved<")
    assert before.count('data-role="block"') == 1


def test_an_erased_reason_is_not_quoted(scene: Scene) -> None:
    escalation = open_request(scene)
    wanted = form(escalation, verdict="reject", comment="Not so.")
    client_of(scene.rita).post(reverse("decide", args=[escalation.pk]), wanted)
    run = go(escalation.run)

    command("erase_subject", scene.workspace.slug, run.subject_key, "--reason", "asked for")

    ada = client_of(scene.add("ada", Role.ADMIN))
    page = words(ada.get(reverse("case", args=[run.pk])).text)
    assert "The workflow was stopped at step “memo”. The text was erased on" in page


def test_a_correction_runs_the_step_again_and_asks_again(scene: Scene) -> None:
    escalation = open_request(scene)
    wanted = form(escalation, verdict="adjust", correction="Name the window.")

    answered = client_of(scene.rita).post(reverse("decide", args=[escalation.pk]), wanted)

    assert answered.status_code == 302
    run = go(escalation.run)
    again = Escalation.objects.get(run=run, state=EscalationState.OPEN)
    assert (run.state, again.action["round"]) == (RunState.WAITING, 2)
    escalation.refresh_from_db()
    assert escalation.state == EscalationState.ADJUSTED
    ada = client_of(scene.add("ada", Role.ADMIN))
    page = ada.get(answered["Location"]).text
    assert "Sent back to the agent with instructions." in page
    assert ">draft sent back<" in ada.get(reverse("approval", args=[again.pk])).text
    told = [reverse("approval", args=[escalation.pk]), reverse("approval", args=[again.pk])]
    told += [reverse(name, args=[run.pk]) for name in ("run", "case")]
    for place in (*told, reverse("audit")):
        assert "“Name the window.”" in words(ada.get(place).text), place


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"verdict": "adjust"}, "Write what should be different."),
        ({"verdict": "adjust", "correction": "x" * 2001}, "at most 2000 characters"),
        ({"verdict": "reject"}, "Enter a reason for the rejection."),
        ({"action_sha256": "0" * 64}, "changed since you opened it"),
    ],
)
def test_an_answer_that_says_too_little_is_refused_where_it_lacks(
    scene: Scene, fields: dict[str, str], says: str
) -> None:
    escalation = open_request(scene)
    rita = client_of(scene.rita)

    answered = rita.post(reverse("decide", args=[escalation.pk]), form(escalation, **fields))

    assert answered.status_code == 422
    assert says in answered.text
    assert fresh(escalation.run).state == RunState.WAITING


def test_only_an_output_can_be_corrected(scene: Scene) -> None:
    refund = Escalation.objects.get(run=go(scene.launch()))

    with pytest.raises(refusal.Refused, match="Only an email or the result of a step"):
        decide_request(refund, scene.rita, correction="pay more")
