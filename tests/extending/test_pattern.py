"""The pattern of docs/extending.md: its own words, the whole engine, and a crash anywhere."""

import asyncio
import json
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from agents.core.requests import Json, Reply, Request, RunState
from agents.engine.drive import drive
from agents.models import Escalation, Run
from agents.patterns import PATTERNS, Brief, Notes
from tests.engine.dying import (
    AROUND_CALLS_AND_COMMITS,
    die_everywhere,
    result_and_steps,
    to_the_end,
)
from tests.engine.memory import MemoryWorld
from tests.engine.scene import Scene, go, set_scene
from tests.limits import SUPERVISED

AGREED = "Customer 42 asks whether a refund of the annual plan is due."
LATE = "Customer 7 asks whether a refund is due."


@pytest.mark.parametrize(
    ("second", "ended"),
    [
        ('{"due": "yes"}', {"due": "yes", "answer": "Refund due: yes (both readers agree)."}),
        ('{"due": "maybe"}', "invalid_reading"),
        ("not JSON", "invalid_reading"),
        (Reply(failed="llm_timeout"), "llm_timeout"),
    ],
)
def test_pattern_answers_on_agreement_and_stops_unread(second: Json, ended: Json) -> None:
    said = {"read/first/ask": '{"due": "yes"}', "read/second/ask": second}

    def perform(key: str, effect: Request) -> Json:
        if key in said:
            return said[key] if isinstance(said[key], Reply) else {"text": said[key]}
        return {"allows": True, "key": key}

    flow = PATTERNS["two_readers"](Brief(AGREED, SUPERVISED, {}, bound={"user_id": 42}), Notes())
    strand = asyncio.run(drive(flow, MemoryWorld(perform)))

    assert strand.outcome is not None
    assert (strand.outcome.stopped or strand.outcome.value) == ended


def launch_run(scene: Scene, goal: str, subject: int) -> Run:
    return scene.launch(goal, pattern="two_readers", subject=subject)


@pytest.mark.django_db(transaction=True)
def test_a_person_decides_where_the_readers_differ() -> None:
    scene = set_scene()
    run = go(launch_run(scene, LATE, 7))
    assert run.state == RunState.WAITING

    scene.decide(run, amount_minor=None)
    run = go(run)

    assert run.outcome == {
        "due": "yes",
        "answer": "Refund due: yes (decided by rita).",
        "came_of": "answered",
    }


@pytest.mark.django_db(transaction=True)
def test_a_person_who_says_no_ends_it() -> None:
    scene = set_scene()
    run = go(launch_run(scene, LATE, 7))

    scene.decide(run, approve=False)

    assert go(run).stop_reason == "person_rejected"


@pytest.mark.django_db(transaction=True)
@pytest.mark.slow
def test_a_crash_at_any_point_changes_nothing() -> None:
    scene = set_scene()

    points, (_, asked) = die_everywhere(
        lambda: launch_run(scene, LATE, 7),
        lambda run: (result_and_steps(run), Escalation.objects.filter(run=run).count()),
        lambda run: scene.decide(run, amount_minor=None),
    )

    assert set(points) >= AROUND_CALLS_AND_COMMITS
    assert len(points) > 9  # the number of parallel commits is a race
    assert asked == 1


@pytest.mark.django_db(transaction=True)
def test_pattern_gets_page_and_command_for_free() -> None:
    scene = set_scene()
    run = launch_run(scene, LATE, 7)
    to_the_end(run, lambda run: scene.decide(run, amount_minor=None))
    client = Client()
    client.force_login(User.objects.get(pk=scene.omar.pk))

    page = client.get(f"/runs/{run.pk}/").content.decode()
    form = client.get("/launch/").content.decode()
    out = StringIO()
    call_command("run_pattern", "two_readers", goal=AGREED, subject=42, json=True, stdout=out)
    plain = StringIO()
    call_command("run_pattern", "two_readers", goal=AGREED, subject=42, stdout=plain)

    assert "Two readers" in page
    assert "Step “read”, first: model asked" in page
    assert "Say refund is due" in page
    assert "The readers differ: the first says yes" in page
    assert "Refund due: yes (decided by rita)." in page
    assert '<option value="two_readers">Two readers</option>' in form
    assert json.loads(out.getvalue())["answer"] == "Refund due: yes (both readers agree)."
    assert "reader second, ok True, due yes" in plain.getvalue()
