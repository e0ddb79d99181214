"""The five phases in the engine: whatever is corrected, a mail is sent once."""

import json
from typing import Any

import pytest

from agents.core.json_forms import sha256
from agents.desks.refunds.models import SentMail
from agents.models import Event
from agents.models.record import facts_of
from tests.conformance import phases
from tests.conformance.harness import final, tool
from tests.conformance.replay_server import ReplayServer
from tests.engine.scene import Scene, go

pytestmark = pytest.mark.django_db(transaction=True)

COMMITTED = json.dumps({"scope_in": ["send_reply"], "confidence": "high"})
MET = json.dumps({"met_commitment": True})
CONTINUE = json.dumps({"verdict": "continue"})
REORIENT = json.dumps({"verdict": "reorient", "correction": "mind the tone", "reason": "rude"})
MEMO = "Anna (user_id=42) asks for an exception."
DRAFT = [COMMITTED, "Hello.", MET]


def sending(message: str) -> str:
    return tool("send_reply", user_id=42, message=message)


def reply(*sends: str, judge: list[str]) -> dict[str, Any]:
    """Return a workflow of two steps: one writes a text, the other sends it."""
    send = {"kind": "goal", "name": "send", "description": "Send it.", "mode": "llm"}
    return {
        "id": "reply",
        "title": "Write to Anna.",
        "steps": [
            {"kind": "goal", "name": "draft", "description": "Draft it.", "mode": "llm"},
            {**send, "tools": ["send_reply"]},
        ],
        "agent_llm": [*DRAFT, COMMITTED, *sends],
        "supervisor_llm": [CONTINUE, *judge],
        "human": {"channel": "unbuffered"},
    }


def test_a_reorient_does_not_send_the_same_reply_again(server: ReplayServer, scene: Scene) -> None:
    hello = sending("Hello.")
    case = reply(hello, final("sent"), MET, hello, final("sent"), MET, judge=[REORIENT, CONTINUE])

    played = phases.play(case, server, scene, strict=True)

    assert played.result["status"] == "ok"
    assert [mail.body for mail in SentMail.objects.all()] == ["Hello."]
    assert played.rounds[-1]["tools"][0]["observation"]["status"] == "ok"


@pytest.mark.parametrize("place", [1, 4], ids=["draft", "call"])
@pytest.mark.parametrize("word", ["max_tokens", "SAFETY", "banana"])
def test_a_letter_cut_short_is_not_sent(
    server: ReplayServer, scene: Scene, word: str, place: int
) -> None:
    case = reply(sending("Hello."), final("sent"), MET, judge=[CONTINUE])
    half = {"text": case["agent_llm"][place], "finish_reason": word}
    case["agent_llm"][place:] = [half] * 4

    played = phases.play(case, server, scene, strict=True)

    assert played.result["stop_reason"].startswith("llm_")
    assert not SentMail.objects.exists()


@pytest.mark.parametrize(
    ("approve", "said"),
    [
        (True, ["human.asked", "human.answered", "step.accepted"]),
        (False, ["human.asked", "human.answered", "step.halted"]),
    ],
)
def test_the_record_holds_who_was_asked_and_what_came_of_it(
    scene: Scene, approve: bool, said: list[str]
) -> None:
    run = go(scene.launch(MEMO, pattern="workflow", workflow="exception-memo"))
    scene.decide(run, approve=approve, amount_minor=None)
    go(run)

    lines = Event.objects.filter(run=run, facts__step="memo").order_by("seq")
    assert list(lines.values_list("kind", flat=True))[-3:] == said
    answered = lines.get(kind="human.answered").facts
    assert answered["by"] == "rita"
    assert answered["decision"] == ("approved" if approve else "rejected")


@pytest.mark.proves("I31")
def test_the_record_binds_a_run_to_its_document(server: ReplayServer, scene: Scene) -> None:
    played = phases.play(reply(judge=[]), server, scene, strict=True)

    assert played.run
    queued = Event.objects.get(run=played.run, kind="run.queued")
    assert facts_of(queued)["workflow_sha256"] == sha256(played.run.workflow)
