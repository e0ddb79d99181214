"""Input that no honest browser sends is answered, and changes nothing."""

import pytest
from django.test import Client
from django.urls import reverse

from agents.core.requests import EscalationState, RunState
from agents.models import Escalation, Role, Run
from tests.engine.scene import Scene, fresh, go
from tests.web.test_pages import client_of, form, waiting

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]

NUL = "a\x00b"


@pytest.mark.proves("W16")
@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("runs", {"text": NUL}),
        ("search", {"q": NUL}),
        ("runs", {"stop_reason": NUL}),
        ("runs", {"launcher": NUL}),
        ("runs", {"subject": "9" * 5000}),
        ("runs", {"before": "0001-01-01T00:00+14:00_" + "0" * 32}),
        ("runs", {"before": f"{NUL}_{NUL}"}),
        ("audit", {"actor": NUL}),
        ("audit", {"run": NUL}),
        ("audit", {"since": "0001-01-01T00:00+14:00"}),
        ("audit", {"until": "9999-12-31T23:59-14:00"}),
        ("audit", {"before": "9" * 5000}),
    ],
)
def test_a_list_answers_whatever_it_is_asked(
    scene: Scene, name: str, asked: dict[str, str]
) -> None:
    user = scene.add("auditor", Role.AUDITOR)

    assert client_of(user).get(reverse(name), asked).status_code == 200


@pytest.mark.parametrize("number", [2**63, 10**30])
def test_a_number_that_no_row_has_is_not_found(scene: Scene, number: int) -> None:
    client = client_of(scene.rita)

    assert client.get(reverse("approval", args=[number])).status_code == 404
    assert client.post(reverse("decide", args=[number])).status_code == 404


@pytest.mark.proves("W13")
@pytest.mark.parametrize(
    "fields",
    [
        {"comment": NUL},
        {"comment": NUL, "verdict": "reject"},
        {"set.amount_minor": NUL},
        {"set.amount_minor": "9" * 5000},
        {"verdict": NUL},
        {"action_sha256": NUL},
    ],
)
def test_a_decision_with_odd_text_is_refused(scene: Scene, fields: dict[str, str]) -> None:
    escalation = waiting(scene)

    answered = client_of(scene.rita).post(
        reverse("decide", args=[escalation.pk]), form(escalation, **fields)
    )

    assert answered.status_code == 422
    assert Escalation.objects.get(pk=escalation.pk).state == EscalationState.OPEN


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        ("hand-over", {"to": f"person:{NUL}"}),
        ("hand-over", {"to": f"team:{NUL}"}),
        ("hand-over", {"to": "everybody", "note": NUL}),
        ("comment", {"text": NUL}),
        ("snooze", {"minutes": NUL}),
    ],
)
def test_odd_text_about_a_request_is_refused(
    scene: Scene, action: str, fields: dict[str, str]
) -> None:
    at = reverse(action, args=[waiting(scene).pk])

    assert client_of(scene.rita).post(at, fields).status_code in (409, 422)


def test_a_run_is_not_stopped_for_a_reason_that_cannot_be_kept(scene: Scene) -> None:
    run = go(scene.launch())

    answered = client_of(scene.omar).post(reverse("cancel", args=[run.pk]), {"reason": NUL})

    assert answered.status_code == 422
    assert fresh(run).state == RunState.WAITING


@pytest.mark.parametrize(
    "fields",
    [
        {"token": "٤" * 10, "goal": "g", "subject": "42"},
        {"token": "a1b2", "goal": NUL, "subject": "42"},
        {"token": "a1b2", "scenario": NUL},
        {"token": "a1b2", "goal": "g", "subject": NUL},
    ],
)
def test_a_launch_with_odd_text_is_refused(scene: Scene, fields: dict[str, str]) -> None:
    answered = client_of(scene.omar).post(reverse("launch"), fields)

    assert answered.status_code == 422
    assert not Run.objects.exists()


def test_signing_in_with_odd_text_is_refused() -> None:
    answered = Client().post(reverse("sign-in"), {"username": NUL, "password": NUL})

    assert answered.status_code == 200
