"""The tool and rules of docs/extending.md in the whole engine, with a crash anywhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import override_settings

from agents.core.rulings import Ruling, RulingKind
from agents.core.states import EscalationState, RunState
from agents.desks.refunds.known import RefundFacts
from agents.desks.refunds.models import Customer
from agents.desks.refunds.profiles import STRICT
from agents.engine import crashpoints
from agents.models import Escalation, Role, Run
from agents.policies import RULES, review
from tests.conformance.replay_server import ReplayServer
from tests.engine.dying import die_at
from tests.engine.memory import Crash
from tests.engine.scene import REFUND_500, Scene, fresh, go, has_ended, recover, set_scene

TEXT = "Prefers to be written to."
NOTE = {"kind": "tool", "name": "add_note", "args": {"user_id": 42, "text": TEXT}}
CONTEXT = {"kind": "tool", "name": "get_refund_context", "args": {"user_id": 42}}
DONE = {"kind": "final", "answer": "A note is on the file."}
GOAL = "Put a note on the file of user_id=42."

transactional = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def note_action(text: str = "Called twice.") -> dict[str, Any]:
    return {**NOTE, "args": {**NOTE["args"], "text": text}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TEXT, "short_note"),
        ("x" * 501, "note_too_long"),
        ("The card is 4111 1111 1111 1111.", "note_with_card"),
    ],
)
def test_a_note_is_short_and_holds_no_card(text: str, reason: str) -> None:
    ruling = RULES["notes.short"](note_action(text), RefundFacts(subject=42), STRICT)

    assert ruling is not None
    assert ruling.reason == reason


@pytest.mark.parametrize(
    ("country", "verdict"), [("US", None), ("FR", RulingKind.ESCALATE), ("", 1)]
)
def test_a_refund_abroad_waits_for_a_person(country: str, verdict: RulingKind | None) -> None:
    action = {"kind": "tool", "name": "issue_refund", "args": {"amount_minor": 100}}

    ruling: Ruling | None = RULES["abroad.needs_person"](
        action, RefundFacts(country=country), STRICT
    )

    assert (ruling.verdict if ruling else None) == verdict


def test_a_tool_that_no_rule_speaks_of_is_blocked() -> None:
    reviewed = review(NOTE, RefundFacts(subject=42), STRICT)

    assert reviewed.deciding.reason == "unknown_tool_for_supervisor:add_note"
    assert not reviewed.allows


@pytest.fixture
def scene() -> Scene:
    found = set_scene()
    found.add("ada", Role.ADMIN)
    return found


def publish(scene: Scene, *, tools: Sequence[str] = (), rules: Sequence[str] = ()) -> None:
    """Add tools and rules to the policy, like `manage.py publish_policy`."""
    document = STRICT.as_json()
    document["proposable"] += tools
    document["executable"] += tools
    document["rules"] += rules
    ada = User.objects.get(username="ada")
    scene.publish(document, ada)


def script_model(server: ReplayServer, name: str, *said: Any) -> Any:
    """Make the worker model reply with these in turn."""
    server.load(name, [json.dumps(one) for one in said])
    return override_settings(OPENAI_BASE_URL=server.base_url(name), OPENAI_API_KEY="any")


def notes(folder: Path) -> list[str]:
    """Return the texts of the notes in the folder."""
    found = sorted((folder / "notes").glob("*.json"))
    return [json.loads(file.read_text())["note"]["text"] for file in found]


class TestNote:
    """A note through the gateway: reviewed, in the ledger, once per key."""

    pytestmark = transactional

    def test_it_is_kept_with_a_ledger_row_and_its_key(
        self, scene: Scene, server: ReplayServer, settings: Any, tmp_path: Path
    ) -> None:
        settings.DATA_DIR = tmp_path
        publish(scene, tools=["add_note"], rules=["notes.short"])

        with script_model(server, "note", CONTEXT, NOTE, DONE):
            run = go(scene.launch(GOAL))

        effect = run.effects.get()
        assert (run.state, run.stop_reason) == (RunState.DONE, "success")
        assert (effect.tool, effect.state, effect.subject_key) == ("add_note", "done", "42")
        assert effect.key == f"{run.pk}:2/execute"
        assert (effect.review.reply or {})["deciding"]["rule"] == "notes.short"
        assert notes(tmp_path) == [TEXT]

    def test_the_model_is_told_of_it(
        self, scene: Scene, server: ReplayServer, settings: Any, tmp_path: Path
    ) -> None:
        settings.DATA_DIR = tmp_path
        publish(scene, tools=["add_note"], rules=["notes.short"])

        with script_model(server, "told", CONTEXT, DONE):
            run = go(scene.launch(GOAL))

        told = "user_id (int), text (str): Puts a short note on the customer's file."
        assert run.steps.get(key="1/propose").asked["guide"]["more_tools"] == {"add_note": told}

    @pytest.mark.parametrize(
        ("tools", "rules", "ended"),
        [
            ([], ["notes.short"], "success"),
            (["add_note"], [], "supervisor_block:unknown_tool_for_supervisor:add_note"),
        ],
    )
    def test_it_takes_both_a_place_on_the_lists_and_a_rule(
        self,
        scene: Scene,
        server: ReplayServer,
        settings: Any,
        tmp_path: Path,
        tools: list[str],
        rules: list[str],
        ended: str,
    ) -> None:
        settings.DATA_DIR = tmp_path
        publish(scene, tools=tools, rules=rules)

        with script_model(server, "shut", CONTEXT, NOTE, DONE):
            run = go(scene.launch(GOAL))

        assert run.stop_reason == ended
        assert not run.effects.exists()
        assert notes(tmp_path) == []

    def test_a_stranger_gets_no_note(
        self, scene: Scene, server: ReplayServer, settings: Any, tmp_path: Path
    ) -> None:
        settings.DATA_DIR = tmp_path
        publish(scene, tools=["add_note"], rules=["notes.short"])
        stranger = {**NOTE, "args": {"user_id": 7, "text": TEXT}}

        with script_model(server, "stranger", CONTEXT, stranger, DONE):
            run = go(scene.launch(GOAL))

        assert run.stop_reason == "supervisor_block:subject_mismatch"
        assert notes(tmp_path) == []

    @pytest.mark.slow
    def test_a_crash_at_any_point_keeps_one_note(
        self, scene: Scene, server: ReplayServer, settings: Any, tmp_path: Path
    ) -> None:
        publish(scene, tools=["add_note"], rules=["notes.short"])
        points: list[str] = []

        def to_the_end(run: Run, said: list[Any]) -> list[str]:
            for _ in range(8):
                left = said[run.steps.filter(kind="ask", ended_at__isnull=False).count() :]
                try:
                    with script_model(server, str(run.pk), *left):
                        go(run)
                except Crash:
                    recover(run.pk)
                if has_ended(run):
                    return list(run.steps.order_by("position").values_list("key", flat=True))
            raise AssertionError(f"it never ended: {fresh(run).state}")

        settings.DATA_DIR = tmp_path / "calm"
        crashpoints.watch(points.append)
        expected = to_the_end(scene.launch(GOAL), [CONTEXT, NOTE, DONE])
        assert len(points) > 12

        for number in range(1, len(points) + 1):
            settings.DATA_DIR = tmp_path / str(number)
            run = scene.launch(GOAL)
            die_at(number)
            steps = to_the_end(run, [CONTEXT, NOTE, DONE])
            crashpoints.watch(None)
            where = f"{number}: {points[number - 1]}"
            assert steps == expected, where
            assert notes(settings.DATA_DIR) == [TEXT], where
            assert [e.state for e in run.effects.all()] == ["done"], where
            assert fresh(run).stop_reason == "success", where


class TestAbroad:
    """A refund to another country through the whole engine."""

    pytestmark = transactional

    def test_it_waits_for_rita_and_is_paid_once_she_agrees(self, scene: Scene) -> None:
        publish(scene, rules=["abroad.needs_person"])
        run = scene.launch(REFUND_500)
        Customer.objects.filter(book_id=run.book_id, number=42).update(country="FR")

        run = go(run)
        held = Escalation.objects.get(run=run, state=EscalationState.OPEN)
        scene.decide(run, amount_minor=None)
        run = go(run)

        assert held.review["deciding"]["reason"] == "refund_abroad"
        assert "lives in FR" in held.review["deciding"]["sentence"]
        assert (run.state, run.effects.get(tool="issue_refund").state) == (RunState.DONE, "done")

    def test_at_home_nobody_is_asked(self, scene: Scene) -> None:
        publish(scene, rules=["abroad.needs_person"])

        run = go(scene.launch(REFUND_500))

        assert run.state == RunState.DONE
        assert not run.escalations.exists()
