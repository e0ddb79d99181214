"""Several hosts, simulated on one: three workers, PostgreSQL."""

from contextlib import ExitStack

import pytest

from agents.core.requests import RunState
from tests.conformance import harness
from tests.e2e.workers import SCRIPT, Held, reach, settings_of, until
from tests.engine.scene import Scene, payments, set_scene
from tests.processes import running

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.parametrize("dispatch", ["procrastinate"], indirect=True),
]


@pytest.fixture
def scene(dispatch: str) -> Scene:
    return set_scene()


def test_three_workers_share_the_runs(scene: Scene) -> None:
    wanted = SCRIPT[0], SCRIPT[1].replace("1200", "500"), SCRIPT[2].replace("800", "500")
    lines = [*wanted, SCRIPT[3].replace("800", "500")]
    with harness.replaying() as server, ExitStack() as stack:
        names = ["one", "two", "three"]
        held = [Held(lines * 9, 0) for _ in names]
        for name, session in zip(names, held, strict=True):
            server.sessions[name] = session
            alone = settings_of(server, OPSCONSOLE_WORKER_CONCURRENCY="1")
            alone["OPENAI_BASE_URL"] = server.base_url(name)
            stack.enter_context(running("manage.py", "work", **alone))
        runs = [scene.launch("Refund 500 USD to user_id=42.") for _ in range(9)]
        until(lambda: all(session.requests for session in held))  # each has a run of its own
        for session in held:
            session.may_go_on.set()
        reach(RunState.DONE, *runs)

    assert sum(session.requests for session in held) == 9 * len(lines)
    assert [payments(run) for run in runs] == [[50000]] * 9
