"""The workflow over scripted replies: what follows each round, and what is never repeated."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agents.core.requests import Ask, Request, Review, Say, Strand, Use
from agents.desks.refunds.limits import STRICT
from agents.engine.drive import drive
from agents.patterns import PATTERNS, Brief, Notes
from agents.tools import specs
from tests.engine.memory import MemoryWorld

LIMITS = STRICT.of("workflow", "refunds")
COMMITTED = json.dumps({"scope_in": ["send_reply"], "confidence": "high"})
MET = json.dumps({"met_commitment": True})
CONTINUE = json.dumps({"verdict": "continue"})
REORIENT = json.dumps({"verdict": "reorient", "correction": "say please", "reason": "rude"})
SEND = {"kind": "tool", "name": "send_reply", "args": {"user_id": 42, "message": "hello"}}
FINAL = json.dumps({"kind": "final", "answer": "sent"})

Answers = dict[str, list[str]]


def workflow_of(**step: Any) -> dict[str, Any]:
    whole = {"kind": "goal", "name": "draft", "description": "Write it.", "mode": "by_model"}
    return {"name": "wf", "sequences": [{"name": "s", "steps": [{**whole, **step}]}]}


def playing(
    answers: Answers, asked: list[Ask], said: list[str], *, objection: str = "", seen: Any = None
) -> Callable[[str, Request], Any]:
    """Return a world in which each role says its lines in turn and repeats the last.

    `objection` is the policy's to every output, `seen` what every tool answers.
    """

    def perform(key: str, effect: Request) -> Any:
        match effect:
            case Ask():
                asked.append(effect)
                lines = answers[effect.role]
                return {"text": lines.pop(0) if len(lines) > 1 else lines[0]}
            case Review():
                fine = {"decision": "approve", "allows": True, "action": effect.action}
                ruling = dict.fromkeys(("verdict", "rule", "reason", "observed", "limit"))
                if objection and effect.action["kind"] == "final":
                    revised = {"answer": "Nothing was done.", "note": effect.action["answer"]}
                    fine |= {"decision": "escalate", "allows": False}
                    fine["action"] = {**effect.action, **revised}
                    ruling |= {"observed": objection}
                return {**fine, "key": key, "deciding": {**ruling, "sentence": "", "risk": 0}}
            case Use():
                return seen or {"status": "ok"}
            case Say():
                said.append(effect.kind)
        return None

    return perform


class Play:
    """A workflow being driven in memory."""

    def __init__(
        self,
        document: Any,
        limits: Any = LIMITS,
        *,
        objection: str = "",
        seen: Any = None,
        **answers: list[str],
    ) -> None:
        usual = {"committer": [COMMITTED], "executor": ["out"], "assessor": [MET]}
        self.asked: list[Ask] = []
        self.said: list[str] = []  # kinds of the recorded lines
        lines = {**usual, "judge": [CONTINUE], **answers}
        known: dict[str, Any] = {"objection": objection, "seen": seen}
        self.world = MemoryWorld(playing(lines, self.asked, self.said, **known))
        self.brief = Brief("goal", limits, specs("refunds"), workflow=document)
        self.notes = Notes()

    def go(self, **decision: Any) -> Strand:
        if decision:
            self.world.decide(by="rita", **decision)
        self.asked.clear()
        self.notes = Notes()
        return asyncio.run(drive(PATTERNS["workflow"](self.brief, self.notes), self.world))

    @property
    def roles(self) -> list[str]:
        return [ask.role for ask in self.asked]


@pytest.mark.proves("I10")
def test_no_judge_overrules_what_the_policy_says_of_an_output() -> None:
    play = Play(workflow_of(), judge=[CONTINUE], objection="USD 5 was refunded")

    assert play.go().outcome is None

    [held] = play.world.waiting.values()
    assert (held.kind, held.action["triggers"]) == ("output", ["ledger:USD 5 was refunded"])

    ended = play.go(decision="approved", comment="").outcome
    assert ended
    assert (ended.value["answer"], ended.value["note"]) == ("Nothing was done.", "out")


ERRORS = [{"status": "error", "error": "mail_rejected"}, {"error": "context_not_found_for_user:9"}]


@pytest.mark.parametrize("seen", [*ERRORS, {"status": "ok"}, {"user": {"id": 42}, "error": ""}])
@pytest.mark.parametrize("pattern", ["workflow", "supervisor"])
def test_a_call_that_reports_an_error_is_not_ok(pattern: str, seen: Any) -> None:
    said = [json.dumps(SEND), FINAL]
    play = Play(workflow_of(tools=["send_reply"]), seen=seen, executor=said, worker=said)
    limits = replace(STRICT.of(pattern, "refunds"), proposable=("send_reply",))
    play.brief = replace(play.brief, limits=limits)

    asyncio.run(drive(PATTERNS[pattern](play.brief, play.notes), play.world))

    [called] = [line for line in play.notes.trace if line.get("tool") == "send_reply"]
    assert called["ok"] is (seen not in ERRORS)


def test_repeated_call_after_a_correction_is_recalled() -> None:
    again = [json.dumps(SEND), FINAL, json.dumps(SEND), FINAL]
    play = Play(workflow_of(tools=["send_reply"]), executor=again, judge=[REORIENT, CONTINUE])

    strand = play.go()

    assert strand.outcome
    assert strand.outcome.value["answer"] == "sent"
    assert [key for key in play.world.calls if "/execute" in key and "draft/1" in key] == [
        "draft/1/execute"
    ]
    recalled = play.asked[-3].inputs["done"]
    assert [call.get("recalled", False) for call in recalled] == [False, True]
