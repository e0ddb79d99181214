"""The demo model's replies in each role of the refund desk, and its failures on demand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agents.core.model_roles import role
from agents.core.requests import Json
from agents.desks.refunds.demo import (
    judge,
    planner,
    reporter,
    responder,
    router,
    step_agent,
    worker,
    writer,
)
from agents.desks.refunds.demo.goals import Misfortune, read_goal
from agents.llm.demo_model import NeverAnswers, RateLimited
from agents.llm.prompts import AT_DESK, read_prompt

PROMPTS = Path(__file__).parents[1] / "prompts"
BRIEF = (PROMPTS / "tools.1.md").read_text(encoding="utf-8").strip()  # beside its tools' own words
_ACTORS: dict[str, Callable[[Json], str]] = {
    "worker": worker.worker_reply,
    "writer": writer.writer_reply,
    "router": router.router_reply,
    "responder": responder.responder_reply,
    "planner": planner.planner_reply,
    "reporter": reporter.reporter_reply,
    "committer": step_agent.commitment_reply,
    "executor": step_agent.execution_reply,
    "assessor": step_agent.assessment_reply,
    "judge": judge.judge_reply,
}


def unless_it_fails(actor: Callable[[Json], str]) -> Callable[[Json], str]:
    """Return an actor that fails like a model server if its goal asks for that."""

    def answer(inputs: Json) -> str:
        match read_goal(inputs["goal"]).misfortune:
            case Misfortune.TIMEOUT:
                raise NeverAnswers
            case Misfortune.RATE_LIMIT:
                raise RateLimited
        return actor(inputs)

    return answer


for _name, _actor in _ACTORS.items():
    own = (PROMPTS / f"{_name}.md").exists()  # others are as at any desk
    instructions = read_prompt(PROMPTS, _name) if own else AT_DESK[_name]
    role(_name, prompt=instructions, demo=unless_it_fails(_actor), brief=BRIEF)
