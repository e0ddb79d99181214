"""Mistakes in a newcomer's functions during runs: each is reported in a sentence."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from agents.engine.desk import registry
from agents.management.commands import startdesk
from agents.models import Escalation, Role, Run
from agents.publishing import versions as publishing
from agents.shell import refusal
from tests.engine.scene import Scene, decide_request, go, set_scene
from tests.web.test_pages import client_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
WORDS = {"name": "samples", "title": "Samples", "console": "/opt/opsconsole"}
TOOL = "@desk.tool("
KNOWN = (
    "import dataclasses\n\n\n@dataclasses.dataclass(frozen=True)\nclass Known:\n    employed: bool"
)
FACTS = KNOWN + "\n\n\n@desk.facts\ndef gather(subject, asked) -> Known:\n    {}\n\n\n@desk.tool("
EVIDENCE = "@desk.evidence\ndef show(limits):\n    {}\n\n\ndesk.scenario("
DONE = 'return {"status": "ok"}'
RULE = "return within("


@pytest.fixture
def scene(no_desk_left: None) -> Scene:
    scene = set_scene()
    scene.add("ada", Role.ADMIN)
    return scene


def launch(scene: Scene, place: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> Run:
    """Launch the skeleton's scenario with a newcomer's code in place of a part."""
    text = startdesk.fill("desk.py.txt", WORDS)
    assert old in text
    (place / "samples").mkdir()
    (place / "samples" / "__init__.py").touch()
    (place / "samples" / "desk.py").write_text(text.replace(old, new))
    monkeypatch.syspath_prepend(str(place))
    from samples.desk import desk  # type: ignore[import-not-found]

    registry.enter_desk(desk)
    ada = scene.workspace.memberships.get(user__username="ada").user
    assert scene.workspace.policy
    document = {**scene.workspace.policy.document, "desks": {"samples": desk.document()}}
    at = timezone.now()
    publishing.publish_policy(workspace=scene.workspace, document=document, by=ada, at=at)
    return scene.launch(desk.scenarios[0].goal, desk="samples", subject="anna")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (TOOL, FACTS.format("return {}['employed']"), "could not gather its facts (KeyError)"),
        (TOOL, FACTS.format("return {'employed': True}"), "could not gather its facts (TypeError)"),
        (RULE, "return limits.mots and within(", "could not be asked (AttributeError)"),
        (RULE, "return bool(limits) or within(", "could not be asked (TypeError)"),
        (RULE, "return 'yes' or within(", "could not be asked (TypeError)"),
    ],
)
def test_what_cannot_be_judged_is_blocked_with_a_reason(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, why: str
) -> None:
    run = go(launch(scene, tmp_path, monkeypatch, old, new))

    page = client_of(scene.omar).get(reverse("run", args=[run.pk]))
    assert (run.state, run.effects.count()) == ("stopped", 0)
    assert why in page.text


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("desk.scenario(", EVIDENCE.format("return limits.mots"), "AttributeError"),
        ("desk.scenario(", EVIDENCE.format("return [limits.most]"), "TypeError"),
        ("Lower()", "Lower(least=lambda case: 1 / 0)", 'value="approve"'),
        ("Lower()", "Lower(least=lambda case: '3')", 'value="approve"'),
    ],
)
def test_a_card_stands_without_what_cannot_be_shown(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, shown: str
) -> None:
    run = go(launch(scene, tmp_path, monkeypatch, old, new))
    held = Escalation.objects.get(run=run)

    page = client_of(scene.rita).get(reverse("approval", args=[held.pk]))

    assert (page.status_code, shown in page.text) == (200, True)
    decide_request(held, scene.rita, comment="")
    assert go(run).state == "done"


@pytest.mark.parametrize(
    "result",
    ["return None", 'return {"sent": 20}', 'return {"status": pieces, "x": {1}}', "return 1 / 0"],
)
def test_a_tool_that_returns_no_receipt_is_asked_about(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: str
) -> None:
    run = go(launch(scene, tmp_path, monkeypatch, DONE, result))
    held = Escalation.objects.get(run=run)
    decide_request(held, scene.rita, comment="")

    run = go(run)

    asked = Escalation.objects.get(run=run, state="open")
    page = client_of(scene.rita).get(reverse("approval", args=[asked.pk]))
    assert run.effects.get().state == "unknown"
    assert "Did this take effect" in page.text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("find=PEOPLE.get", "find=lambda key: PEOPLE[key]"),
        ("find=PEOPLE.get", "find=PEOPLE.get, search=lambda text: 1 / 0"),
        ("find=PEOPLE.get", "find=PEOPLE.get, search=lambda text: None"),
        ("find=PEOPLE.get", "find=lambda key: 'Anna'"),
        ('label="{name}"', 'label="{nmae}"'),
    ],
)
def test_launch_page_reports_a_failed_look_up(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    with suppress(refusal.Refused):
        launch(scene, tmp_path, monkeypatch, old, new)
    form: dict[str, Any] = {"workspace": "demo", "pattern": "supervisor", "desk": "samples"}

    page = client_of(scene.omar).post(
        reverse("launch"), {**form, "subject": "zoe", "goal": "Send Zoe samples."}
    )

    assert page.status_code == 422
    assert "zoe" in page.text
