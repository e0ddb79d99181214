"""A call that the process carries out in which it is proposed, and the calls that it leaves."""

import asyncio
from collections.abc import Callable
from threading import Event, Timer
from typing import Any

import pytest

from agents.core.requests import EffectState, RunState
from agents.desks.refunds import billing
from agents.engine.turns import advance
from agents.external import carrying
from agents.models import AgentCall, Effect, Role
from agents.models import Event as Line
from bench.action.__main__ import web_process
from tests.engine.scene import Scene, fresh, payments
from tests.engine.test_external import LOOK, Session, publish_for_agents, refund

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.fixture
def session(scene: Scene) -> Session:
    """Return a session whose agent has looked, and may refund without a person."""
    publish_for_agents(scene)
    session = Session(scene)
    session.propose("look", LOOK)
    return session


def kinds_of(session: Session) -> list[str]:
    lines = Line.objects.filter(run=session.run).order_by("seq")
    return [kind for kind in lines.values_list("kind", flat=True) if kind != "step.done"]


def test_simple_call_is_carried_out_where_it_is_proposed(session: Session) -> None:
    before = len(kinds_of(session))

    with web_process():
        session.put("pay", refund(500))

    assert session.outcome("pay")["status"] == "executed"
    assert (fresh(session.run).state, payments(session.run)) == (RunState.WAITING, [50000])
    assert kinds_of(session)[before:] == [
        *("run.queued", "run.claimed", "step.begun", "effect.intended"),
        *("effect.done", "call.answered", "step.begun", "run.waiting"),
    ]


def needs_a_person(session: Session, *_: Any) -> float:
    return 1200


def is_stopped(session: Session, scene: Scene, *_: Any) -> float:
    scene.kill(scene.add("admin", Role.ADMIN), "stop")
    return 500


def is_switched_off(session: Session, scene: Scene, settings: Any, *_: Any) -> float:
    settings.OPSCONSOLE_CARRY_OUT = False
    return 500


def finds_no_room(
    session: Session, scene: Scene, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> float:
    monkeypatch.setattr(carrying, "MOST", 0)
    return 500


def awaits_under_locks(
    session: Session, scene: Scene, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> float:
    async def awaits(*_: Any) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(advance._ExecutorHere, "do", awaits)
    return 500


def comes_after_another(session: Session, *_: Any) -> float:
    session.put("other", refund(100))
    return 500


WAYS = [needs_a_person, is_stopped, is_switched_off, finds_no_room]
WAYS += [awaits_under_locks, comes_after_another]


@pytest.mark.parametrize("way", WAYS)
def test_call_that_is_not_simple_is_left_to_a_worker(
    session: Session,
    scene: Scene,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    way: Callable[..., float],
) -> None:
    amount = way(session, scene, settings, monkeypatch)

    with web_process():
        session.put("pay", refund(amount))

    assert fresh(session.run).state == RunState.QUEUED
    assert not Effect.objects.filter(run=session.run).exists()
    assert AgentCall.objects.filter(run=session.run, key="pay").count() == 1


@pytest.mark.parametrize("drain", [30, 0])
def test_process_that_is_told_to_stop_drains_its_calls(
    session: Session, monkeypatch: pytest.MonkeyPatch, settings: Any, drain: int
) -> None:
    settings.OPSCONSOLE_DRAIN_SECONDS = drain
    pay, begun, may_end = billing.pay, Event(), Event()

    def slowly(**given: Any) -> Any:
        begun.set()
        may_end.wait(60)
        return pay(**given)

    monkeypatch.setattr(billing, "pay", slowly)
    monkeypatch.setattr(carrying, "HOLD", 0.01)
    with web_process():
        session.put("pay", refund(500))
        assert session.outcome("pay")["status"] == "waiting"
        begun.wait(60)
        if drain:
            Timer(0.3, may_end.set).start()

    run, effect = fresh(session.run), Effect.objects.get(run=session.run)
    ended, cut = (RunState.WAITING, EffectState.DONE), (RunState.QUEUED, EffectState.INTENDED)
    assert (run.state, effect.state) == (ended if drain else cut)
    may_end.set()
    session.drive()
    assert session.outcome("pay")["status"] == "executed"
    assert payments(session.run) == [50000]
