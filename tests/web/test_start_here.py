"""The demo's first steps, and the button to continue as another person: only in the demo."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.core.requests import EscalationState
from agents.models import Escalation, Role, Run, Workspace
from agents.overview import pages as overview
from agents.people import workspaces
from tests.engine.scene import Scene, go
from tests.web.test_pages import client_of
from tests.web.verifying import verify_log
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def demo(settings: Any) -> None:
    settings.OPSCONSOLE_DEMO = True


def become(client: Client, name: str) -> int:
    return client.post(reverse("become", args=[name]), {"back": "/approvals/"}).status_code


@pytest.mark.slow
def test_the_steps_are_led_through_and_then_gone(
    scene: Scene, demo: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.add("auditor", Role.AUDITOR)
    client = client_of(scene.eve)

    assert "Continue as omar, operator" in client.get("/").content.decode()
    assert become(client, "omar") == 302
    home = client.get("/").content.decode()
    assert "Open Launch" in home
    go(scene.launch(goal="Which plan do I have?", token="asks-nobody"))
    assert "Open Launch" in client.get("/").content.decode()  # a run that needed no approval
    run = go(scene.launch(token="by-form"))

    home = client.get("/").content.decode()
    assert "Continue as rita, reviewer" in home
    assert "Continue as rita, reviewer" in client.get(reverse("run", args=[run.pk])).text
    # Not the queue, where it is the last of several.
    request = reverse("approval", args=[Escalation.objects.get(run=run).pk])
    assert f'name="back" value="{request}"' in home
    led = client.post(reverse("become", args=["rita"]), {"back": request})
    assert (led.status_code, led["Location"]) == (302, request)
    scene.decide(run)

    assert "Continue as auditor<" in client.get("/").content.decode()
    assert become(client, "auditor") == 302
    verify_log(client)
    assert "Finished" in words(client.get("/").text)
    monkeypatch.setattr(overview, "_FINISHED", timedelta(0))
    assert "Start here" not in client.get("/").content.decode()
    # What it shows stays invented, and is marked on every page, at both widths.
    assert words(client.get("/approvals/").text).count("auditor in Demo (demo data)") == 2
    Workspace.objects.filter(pk=scene.workspace.pk).update(is_demo=False)
    assert "demo data" not in client.get("/approvals/").text


def test_who_decides_after_the_button_is_who_they_became(scene: Scene, demo: None) -> None:
    run = go(scene.launch())
    card = Escalation.objects.get(run=run, state=EscalationState.OPEN)
    client = client_of(scene.omar)
    become(client, "rita")

    form = {"verdict": "adjust", "set.amount_minor": "800.00", "comment": "partly used"}
    client.post(reverse("decide", args=[card.pk]), {**form, "action_sha256": card.action_sha256})

    card.refresh_from_db()
    assert card.decided_by == scene.rita


@pytest.mark.parametrize("name", ["rita", "nobody", "simulated-reviewer"])
def test_nobody_becomes_anybody_without_the_demo_command(scene: Scene, name: str) -> None:
    workspaces.ensure_simulated_person(
        workspace=scene.workspace, role=Role.REVIEWER, at=timezone.now()
    )

    assert become(client_of(scene.eve), name) == 404
    assert "Start here" not in client_of(scene.eve).get("/").content.decode()


def test_in_the_demo_nobody_becomes_anybody_but_its_own_people(scene: Scene, demo: None) -> None:
    real = workspaces.add_workspace(desks=["refunds"], slug="real", name="Real", at=timezone.now())
    ada = User.objects.create_user("ada")
    workspaces.add_member(workspace=real, user=ada, role=Role.ADMIN, at=timezone.now())
    workspaces.ensure_simulated_person(
        workspace=scene.workspace, role=Role.REVIEWER, at=timezone.now()
    )

    assert become(client_of(scene.eve), "ada") == 404
    assert become(client_of(scene.eve), "simulated-reviewer") == 404
    assert become(client_of(ada), "rita") == 404
    assert become(Client(), "rita") == 302  # to the sign-in page
    assert Run.objects.count() == 0
