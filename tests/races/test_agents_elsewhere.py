"""Many processes of one agent, many agents of one owner, and a process that dies as it proposes."""

import subprocess
import sys
from typing import Any

import pytest

from agents.core.notifications import Kind
from agents.external import calls
from agents.models import AgentCall, Delivery, Effect, Role, Run
from tests.engine.scene import Scene, decide_request, fresh, go, patch_of, payments, recover
from tests.engine.test_external import LOOK, Session, publish_for_agents, refund
from tests.notifications.telling import tell
from tests.processes import ROOT, contenders, environment
from tests.whole import died_at

MANY = 50
CARRYING = 20  # each has connections of its own for leases and work, and a server has a hundred
CALL = "tests.races.contenders:opens_and_proposes"
CARRY = "tests.races.contenders:opens_and_carries_out"


def drive(run: Run) -> None:
    while fresh(run).state == "queued":
        go(run)


@pytest.mark.proves("I55")
@pytest.mark.django_db(transaction=True)
@pytest.mark.postgres
@pytest.mark.slow
def test_many_processes_open_one_session_and_pay_once(scene: Scene) -> None:
    publish_for_agents(scene)
    agent = Session(scene, "before").agent
    with contenders(MANY) as crowd:
        looked = crowd.meet(CALL, [[agent.pk, "look", *LOOK]] * MANY)
    [(pk, _)] = {tuple(one) for one in looked}
    run = Run.objects.get(pk=pk)
    drive(run)
    with contenders(CARRYING) as crowd:
        paid = crowd.meet(CARRY, [[agent.pk, "pay", *refund(500)]] * CARRYING)
    drive(run)

    [(of, call)] = {tuple(one) for one in paid}
    assert of == pk
    assert AgentCall.objects.filter(run=run).count() == 2
    told = calls.outcome_of_call(calls.call_of(agent, call))
    assert told["status"] == "executed"
    assert payments(run) == [50000]
    assert Effect.objects.filter(run=run).count() == 1


@pytest.mark.proves("F47")
@pytest.mark.django_db(transaction=True)
@pytest.mark.both
@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "made", "most"),
    [
        ("propose.before_commit", CALL, 1),
        ("propose.after_commit", CALL, 1),
        ("propose.before_commit", CARRY, 200),
        ("propose.after_commit", CARRY, 200),
        ("gateway.before_call", CARRY, 200),
        ("gateway.after_call", CARRY, 200),
        ("journal.before_commit", CARRY, 200),
        ("journal.after_commit", CARRY, 200),
    ],
)
def test_a_process_that_is_killed_as_it_proposes_leaves_one_call(
    scene: Scene, point: str, made: str, most: int
) -> None:
    publish_for_agents(scene, max_tool_calls=most)
    session = Session(scene, "case")
    session.propose("look", LOOK)

    def propose() -> Any:
        given = [session.agent.pk, "pay", *refund(500)]
        program = f"import django; django.setup(); from {made.replace(':', ' import ')} as call; "
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
        recover(run.pk)
        drive(run)

    assert kept == (point != "propose.before_commit")
    call = AgentCall.objects.get(agent=session.agent, key="pay")
    runs = Run.objects.filter(agent=session.agent, reference="case").count()
    assert runs == (1 if most > 1 else 2)
    told = calls.outcome_of_call(calls.call_of(session.agent, call.pk))
    assert (told["status"], payments(call.run)) == ("executed", [50000])
    assert Effect.objects.filter(run__agent=session.agent).count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.both
@pytest.mark.slow
def test_overtaken_approval_pays_or_tells_its_giver(scene: Scene) -> None:
    mara = scene.add("mara", Role.REVIEWER)
    ends = []
    with contenders(2) as crowd:
        for number in range(6):
            session = Session(scene, f"case-{number}", name=f"agent-{number}")
            session.propose("k0", LOOK)
            session.propose("k1", refund(1200))
            session.propose("k2", refund(1100))
            first, second = session.run.escalations.order_by("pk")
            decide_request(second, scene.rita, comment="lower", patch=patch_of(80000))
            if number == 0:  # the rejection is first for certain
                decide_request(first, mara, approve=False, comment="no")
            elif number == 1:  # the payment is
                session.drive()
            rejects = ["decides", first.pk, "mara", None]
            race: Any = [["advances", str(session.run.pk)], rejects]
            crowd.meet("tests.races.contenders:does", race)
            session.drive()
            tell()
            told = Delivery.objects.filter(notification__escalation=second)
            told = told.filter(notification__kind=Kind.ASKED_AGAIN)
            who = list(told.values_list("user__username", flat=True))
            ends.append((payments(session.run), session.outcome("k2")["status"], who))

    paid: Any = ([80000], "executed", [])
    asked: Any = ([], "waiting", ["rita"])
    assert ends[:2] == [asked, paid]
    assert [end for end in ends if end not in (paid, asked)] == []


@pytest.mark.proves("I55")
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
