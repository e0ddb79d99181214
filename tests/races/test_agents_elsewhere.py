"""Many processes of one agent, many agents of one owner, and a process that dies as it proposes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from agents import operations
from agents.models import AgentCall, Effect, Run
from tests.engine.scene import Scene, fresh, go, payments
from tests.engine.test_external import LOOK, Session, publish_for_agents, refund
from tests.processes import ROOT, contenders, environment
from tests.whole import died_at

MANY = 50
CALL = "tests.races.contenders:opens_and_proposes"


def drive(run: Run) -> None:
    while fresh(run).state == "queued":
        go(run)


@pytest.mark.django_db(transaction=True)
@pytest.mark.postgres
@pytest.mark.slow
def test_fifty_processes_open_one_session_and_pay_once(scene: Scene) -> None:
    publish_for_agents(scene)
    agent = Session(scene, "before").agent
    with contenders(MANY) as crowd:
        looked = crowd.meet(CALL, [[agent.pk, "look", *LOOK]] * MANY)
        [(pk, _)] = {tuple(one) for one in looked}
        run = Run.objects.get(pk=pk)
        drive(run)
        paid = crowd.meet(CALL, [[agent.pk, "pay", *refund(500)]] * MANY)
    drive(run)

    [(of, call)] = {tuple(one) for one in paid}
    assert of == pk
    assert AgentCall.objects.filter(run=run).count() == 2
    told = operations.outcome_of_call(operations.call_of(agent, call))
    assert told["status"] == "executed"
    assert payments(run) == [50000]
    assert Effect.objects.filter(run=run).count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.both
@pytest.mark.slow
@pytest.mark.parametrize("point", ["propose.before_commit", "propose.after_commit"])
@pytest.mark.parametrize("most", [200, 1])
def test_a_process_that_is_killed_as_it_proposes_leaves_one_call(
    scene: Scene, point: str, most: int
) -> None:
    publish_for_agents(scene, max_tool_calls=most)
    session = Session(scene, "case")
    session.propose("look", LOOK)

    def propose() -> Any:
        given = [session.agent.pk, "pay", *refund(500)]
        program = f"import django; django.setup(); from {CALL.replace(':', ' import ')} as call; "
        return subprocess.run(
            [sys.executable, "-c", f"{program}call(*{given!r})"],
            cwd=ROOT,
            env=environment(OPSCONSOLE_CRASH_AT=point),
            timeout=120,
        ).returncode

    assert propose() == 137
    died_at.add(point)
    kept = AgentCall.objects.filter(agent=session.agent, key="pay").count()
    session.put("pay", refund(500))
    for run in Run.objects.filter(agent=session.agent, reference="case"):
        drive(run)

    assert kept == (point == "propose.after_commit")
    call = AgentCall.objects.get(agent=session.agent, key="pay")
    runs = Run.objects.filter(agent=session.agent, reference="case").count()
    assert runs == (1 if most > 1 else 2)
    told = operations.outcome_of_call(operations.call_of(session.agent, call.pk))
    assert (told["status"], payments(call.run)) == ("executed", [50000])
    assert Effect.objects.filter(run__agent=session.agent).count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.both
def test_ten_agents_of_one_owner_share_one_cap(scene: Scene) -> None:
    publish_for_agents(scene, caps={"USD": {"launcher_daily_minor": 100000}})
    told = []
    for number in range(10):
        session = Session(scene, f"case-{number}", name=f"agent-{number}")
        session.propose("k0", LOOK)
        told.append(session.propose("k1", refund(500))["status"])

    assert told == ["executed"] * 2 + ["waiting"] * 8
