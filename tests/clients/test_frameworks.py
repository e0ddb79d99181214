"""What frameworks do around a call: pauses, approvals of their own, ten calls side by side."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agents.external.calls import ProposedCall, outcome_of_call
from agents.models import AgentCall, Escalation, ExternalAgent, Run
from tests.api.test_journey import make_agent, open_request
from tests.clients.model import Model, serving_model
from tests.clients.programs import needs_frameworks, programs, running_program
from tests.e2e.workers import PATIENCE, until
from tests.engine.scene import Scene, decide_request, patch_of, payments
from tests.engine.test_external import publish_for_agents
from tests.processes import running
from tests.web.serving import serve

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, needs_frameworks]

LOOK = ("get_refund_context", {"user_id": 42})
REFUND = ("issue_refund", {"user_id": 42, "amount_usd": 1200})


class Place(NamedTuple):
    """An agent's home, the console and the model that it talks to."""

    scene: Scene
    home: Path
    agent: ExternalAgent
    model: Model
    env: dict[str, str]

    def run(self, text: str) -> tuple[int, str, str]:
        """Run a program to its end. Return its exit code and what it wrote."""
        with running_program(self.home, text, **self.env) as child:
            out, err = child.communicate(timeout=PATIENCE)
        return child.returncode, out, err

    def told(self, call: AgentCall) -> dict[str, Any]:
        return outcome_of_call(ProposedCall(call, call.run))

    def decide(self) -> None:
        request = open_request()
        decide_request(request, self.scene.rita, patch=patch_of(80000), comment="partly used")


@pytest.fixture
def place(scene: Scene, tmp_path: Path) -> Iterator[Place]:
    publish_for_agents(scene, max_tool_calls=6)  # of a run; a session goes on in another one
    agent, key = make_agent(scene)
    model = Model(LOOK, REFUND)
    with serve() as site, serving_model(model) as address, running("manage.py", "work"):
        env = {"OPSCONSOLE_URL": site, "OPSCONSOLE_KEY": key, "OPENAI_BASE_URL": address}
        yield Place(scene, tmp_path, agent, model, env)


@pytest.mark.parametrize("name", ["langchain_later", "openai_later", "pydantic_later"])
def test_agent_stopped_while_waiting_continues_at_restart(place: Place, name: str) -> None:
    text = programs()[f"{name}.py"]

    first = place.run(text)
    early = place.run(text)  # woken, and nobody has decided
    place.decide()
    until(lambda: payments(Run.objects.get(agent=place.agent)) == [80000])
    last = place.run(text)

    assert [code for code, _, _ in (first, early)] == [1, 1], first[2] + early[2]
    assert "A person has to decide" in first[2]
    assert last[0] == 0, last[2]
    until(lambda: Run.objects.get(agent=place.agent).state == "done")  # with or without it
    run = Run.objects.get(agent=place.agent)
    assert payments(run) == [80000]
    assert "800.00" in str(run.outcome)
    assert Escalation.objects.filter(run=run).count() == 1
    assert place.model.began == 1


TEN = [("issue_refund", {"user_id": 42, "amount_usd": 30 + n}) for n in range(1, 10)]


@pytest.mark.parametrize("name", ["langchain_agent", "openai_agent", "pydantic_agent"])
def test_ten_calls_of_one_message_keep_their_order_over_two_runs(place: Place, name: str) -> None:
    place.model.calls = (LOOK, *TEN)

    code, _, err = place.run(programs()[f"{name}.py"])

    assert code == 0, err
    calls = AgentCall.objects.filter(agent=place.agent, is_end=False).order_by("pk")
    told = [place.told(call) for call in calls]
    amounts = [one["proposed"].get("amount_usd") for one in told]
    assert amounts == [None, *(shape["amount_usd"] for _, shape in TEN)]
    # The look was done when the first of the money was ruled on, or that were refused.
    assert [one["status"] for one in told[:2]] == ["executed", "executed"]
    first, last = Run.objects.filter(agent=place.agent).order_by("created_at")
    assert (first.stop_reason, last.ended_at is not None) == ("session_continued", True)


APPROVED = """
async def never(*_): return False

tools = supervised_tools(session)
for tool in tools:
    tool.needs_approval = never
"""
SHAPES: list[dict[str, Any]] = [
    {"user_id": 42, "amount_usd": 30.0},
    {"user_id": 42, "amount_usd": 31},
    {"user_id": 42},
]


def test_every_argument_shape_is_asked_about(place: Place) -> None:
    place.model.calls = (LOOK, *(("issue_refund", shape) for shape in SHAPES), REFUND)
    text = programs()["openai_agent.py"]
    text = text.replace("agent = ", f"{APPROVED}\nagent = ")
    text = text.replace("tools=supervised_tools(session)", "tools=tools")

    with running_program(place.home, text, **place.env) as child:
        place.decide()
        _, err = child.communicate(timeout=PATIENCE)

    assert child.returncode == 0, err
    statuses = [place.told(call)["status"] for call in AgentCall.objects.filter(is_end=False)]
    assert statuses == ["executed", "executed", "executed", "not_executed", "executed"]
    assert payments(Run.objects.get(agent=place.agent)) == [3000, 3100, 80000]
