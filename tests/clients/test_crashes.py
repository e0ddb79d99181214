"""Agents of every framework, killed with -9 at each point and started anew: paid once, told so.

All at once, each under a key of its own. A framework's model words its call anew when it is
started again, and gives it another id.
"""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from agents.models import AgentCall, Escalation, ExternalAgent, Run
from tests.api.test_journey import make_agent
from tests.clients.model import Model, serving_model
from tests.clients.programs import needs_frameworks, programs, running_program
from tests.e2e.workers import PATIENCE, until
from tests.engine.scene import Scene, decide_request, patch_of, payments
from tests.processes import running
from tests.web.serving import serve

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, needs_frameworks]

NAMES = ("plain", "first", "langchain_agent", "openai_agent", "pydantic_agent")
KILLED = -9
REFUND = {"user_id": 42, "amount_usd": 1200.0}
LOOK = {"user_id": 42}


class Agents:
    """One of each kind, with a key for each."""

    def __init__(self, scene: Scene, place: Path, site: str, model: str) -> None:
        self.scene, self.place, self.site, self.model = scene, place, site, model
        made = {name: make_agent(scene, name.replace("_", "-")) for name in NAMES}
        self.rows: dict[str, ExternalAgent] = {name: agent for name, (agent, _) in made.items()}
        self.keys = {name: key for name, (_, key) in made.items()}

    @contextmanager
    def started(self, words: str, die: str = "") -> Iterator[dict[str, subprocess.Popen[str]]]:
        texts, found = programs(), dict[str, subprocess.Popen[str]]()
        named = {"OPSCONSOLE_URL": self.site, "OPENAI_BASE_URL": self.model, "DIE": die}
        with ExitStack() as stack:
            for name, key in self.keys.items():
                (place := self.place / name).mkdir(exist_ok=True)
                env = {**named, "OPSCONSOLE_KEY": key}
                program = running_program(place, texts[f"{name}.py"], words, **env)
                found[name] = stack.enter_context(program)
            yield found

    def held(self) -> list[Escalation]:
        """Return the request of each, once there is one."""
        open_ones = Escalation.objects.filter(state="open")
        until(lambda: open_ones.count() == len(NAMES))
        return list(open_ones)

    def decide(self) -> None:
        for request in self.held():
            decide_request(request, self.scene.rita, patch=patch_of(80000), comment="partly used")


def killed(children: dict[str, subprocess.Popen[str]]) -> None:
    for name, child in children.items():
        _, err = child.communicate(timeout=PATIENCE)
        assert child.returncode == KILLED, f"{name}: {err[-2000:]}"


def ended(children: dict[str, subprocess.Popen[str]]) -> None:
    for name, child in children.items():
        _, err = child.communicate(timeout=PATIENCE)
        assert child.returncode == 0, f"{name}: {err[-2000:]}"


@pytest.mark.parametrize(
    "point", ["before", "after", pytest.param("held", marks=pytest.mark.both), "decided", "told"]
)
def test_a_killed_agent_pays_once_and_says_so(scene: Scene, tmp_path: Path, point: str) -> None:
    model = Model(("get_refund_context", LOOK), ("issue_refund", REFUND))
    with serve() as site, serving_model(model) as address:
        agents = Agents(scene, tmp_path, site, address)
        with agents.started("charged twice", die=point) as first, ExitStack() as work:
            work.enter_context(running("manage.py", "work"))
            if point in ("held", "decided"):
                agents.held()
            if point == "decided":
                work.close()
                agents.decide()
            if point == "told":
                agents.decide()
            for child in first.values():
                if point in ("held", "decided"):
                    child.kill()
            killed(first)
        with agents.started("Paid two times.") as second, running("manage.py", "work"):
            if point in ("before", "after", "held"):
                agents.decide()
            ended(second)

    for name, agent in agents.rows.items():
        run = Run.objects.get(agent=agent)
        assert payments(run) == [80000], name
        assert Escalation.objects.filter(run=run).count() == 1, name
        assert (run.state, run.stop_reason) == ("done", "success"), name
        assert "800.00" in str(run.outcome), name
        refunds = AgentCall.objects.filter(run=run, key__startswith="issue_refund-")
        assert refunds.count() == 1, name
