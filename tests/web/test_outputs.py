"""A workflow's output in the inbox: approved, corrected or rejected."""

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from agents.core.requests import EscalationState, RunState
from agents.models import Escalation, Run
from agents.shell import refusal
from agents.shell.formats import split_output
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene, decide_request, fresh, go
from tests.golden import Golden
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)

MEMO = "Anna (user_id=42) asks for a policy exception."


def open_request(scene: Scene, goal: str = MEMO, workflow: str = "exception-memo") -> Escalation:
    run = go(scene.launch(goal, pattern="workflow", workflow=workflow))
    return Escalation.objects.get(run=run, state=EscalationState.OPEN)


def form(escalation: Escalation, **fields: str) -> dict[str, str]:
    given = {"verdict": "approve", "comment": "", "correction": ""}
    return {**given, "action_sha256": escalation.action_sha256, **fields}


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
        ('{"is_final": true, "amount": 0}', "", {"Is final": "yes", "Amount": "none"}),
        ('Pay.\n{"a": 1, "a": 2}', 'Pay.\n{"a": 1, "a": 2}', {}),
        ("Say {hello}\n{to} him", "Say {hello}\n{to} him", {}),
    ],
)
def test_an_output_is_words_and_fields(text: str, prose: str, fields: dict[str, str]) -> None:
    assert split_output(text) == (prose, fields)


def test_an_approved_output_is_what_comes_out(scene: Scene) -> None:
    escalation = open_request(scene)

    client_of(scene.rita).post(reverse("decide", args=[escalation.pk]), form(escalation))

    run = go(escalation.run)
    assert run.state == RunState.DONE
    assert run.outcome
    assert run.outcome["note"] == escalation.action["post"]["actual_output"]
    assert run.outcome["approved_by"] == "rita"


def test_earlier_decisions_are_told_as_they_were(scene: Scene, golden: Golden) -> None:
    rita = client_of(scene.rita)
    for verdict in ("approve", "reject"):
        one = open_request(scene)
        rita.post(reverse("decide", args=[one.pk]), form(one, verdict=verdict, comment="as we do"))

    one = open_request(scene)
    Run.objects.update(book=one.run.book_id)  # each launch of a demo has its own

    page = rita.get(reverse("approval", args=[one.pk])).text

    golden.check("card/earlier-decisions", {"rita": page})
    chips = page.partition('id="evidence"')[2]
    assert (chips.count('data-role="block"'), chips.count('data-role="human"')) == (1, 1)


def test_an_erased_reason_is_not_quoted(scene: Scene, ada: User) -> None:
    escalation = open_request(scene)
    wanted = form(escalation, verdict="reject", comment="Not so.")
    client_of(scene.rita).post(reverse("decide", args=[escalation.pk]), wanted)
    run, case = go(escalation.run), reverse("case", args=[escalation.run_id])
    assert "Not so." in client_of(ada).get(case).text

    command("erase_subject", scene.workspace.slug, run.subject_key, "--reason", "asked for")

    assert "Not so." not in client_of(ada).get(case).text


def test_a_correction_runs_the_step_again(scene: Scene, ada: User) -> None:
    escalation = open_request(scene)
    wanted = form(escalation, verdict="adjust", correction="Name the window.")

    answered = client_of(scene.rita).post(reverse("decide", args=[escalation.pk]), wanted)

    assert answered.status_code == 302
    run = go(escalation.run)
    again = Escalation.objects.get(run=run, state=EscalationState.OPEN)
    assert (run.state, again.action["round"]) == (RunState.WAITING, 2)
    escalation.refresh_from_db()
    assert escalation.state == EscalationState.ADJUSTED
    told = [reverse("approval", args=[one.pk]) for one in (escalation, again)]
    told += [reverse(name, args=[run.pk]) for name in ("run", "case")]
    for place in (*told, reverse("audit")):
        assert "“Name the window.”" in words(client_of(ada).get(place).text), place


def test_an_answer_that_says_too_little_is_refused(scene: Scene, golden: Golden) -> None:
    escalation, rita = open_request(scene), client_of(scene.rita)
    pages = {"asked": rita.get(reverse("approval", args=[escalation.pk])).text}
    refused: dict[str, dict[str, str]] = {
        "no correction": {"verdict": "adjust"},
        "a long one": {"verdict": "adjust", "correction": "x" * 2001},
        "no reason": {"verdict": "reject"},
        "an older page": {"action_sha256": "0" * 64},
    }
    for name, fields in refused.items():
        sent = form(escalation, **fields)
        answered = rita.post(reverse("decide", args=[escalation.pk]), sent)
        assert answered.status_code == 422, name
        pages[name] = answered.text

    golden.check("card/refused-output", pages)
    assert fresh(escalation.run).state == RunState.WAITING


def test_only_an_output_can_be_corrected(scene: Scene) -> None:
    refund = Escalation.objects.get(run=go(scene.launch()))

    with pytest.raises(refusal.Refused) as no:
        decide_request(refund, scene.rita, correction="pay more")

    assert no.value.code == "no_correction"
