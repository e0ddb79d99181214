"""Reviewers, workers, agents, an admin, the clock and the archive compete over one charge."""

import random
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from agents.audit.verify import prove
from agents.core.requests import ENDED, EscalationState, RunState
from agents.desks.refunds.models import Charge
from agents.engine.upkeep.sweep import sweep
from agents.models import Archive, Effect, Escalation, Role, Run, Workspace
from agents.models.outside import SwitchStage
from agents.models.runs import UNSETTLED
from agents.requests import deciding
from agents.runs import kill_switch
from tests import checker
from tests.engine.scene import REFUND_500, Scene, decide_request, fresh, go
from tests.engine.test_external import LOOK, Session, publish_for_agents, refund
from tests.processes import Contenders

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]

STORMS, ROUNDS = 4, 10


@pytest.mark.proves("I41", "I54")
@pytest.mark.parametrize("seed", range(STORMS))
def test_whatever_meets_each_yes_comes_to_something(
    scene: Scene, crowd: Contenders, seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)  # noqa: S311 - makes a storm, guards nothing
    ada, mara = scene.add("ada", Role.ADMIN), scene.add("mara", Role.REVIEWER)
    runs = [go(scene.launch()) for _ in range(4)] + [scene.launch(REFUND_500) for _ in range(2)]
    publish_for_agents(scene)
    session = Session(scene, "case")
    session.propose("look", LOOK)
    runs.append(session.run)
    Charge.objects.filter(customer__book=runs[0].book_id).update(amount_minor=300000)
    Run.objects.filter(pk__in=[run.pk for run in runs]).update(book_id=runs[0].book_id)

    early = Escalation.objects.get(run=runs[0])  # its run has ended before the first archive
    decide_request(early, scene.rita, approve=False, comment="enough")
    assert go(runs[0]).state in ENDED

    for number in range(ROUNDS):
        waiting = list(Escalation.objects.filter(state=EscalationState.OPEN).order_by("pk"))
        ready = list(Run.objects.filter(state=RunState.QUEUED).order_by("pk")) or runs
        if waiting and chance.random() < 0.5:  # one that expires just now
            soon = timezone.now() + timedelta(milliseconds=chance.randrange(60))
            Escalation.objects.filter(pk=chance.choice(waiting).pk).update(expires_at=soon)
        asked: list[list[Any]] = [
            ["decides", chance.choice(waiting).pk, who, chance.choice([70000, 80000, 120000])]
            for who in ("rita", mara.get_username())
            if waiting
        ]
        pays = [session.agent.pk, f"pay-{number}", *refund(100 + number)]
        asked += [["opens_and_carries_out", *pays], ["advances", str(chance.choice(runs).pk)]]
        asked += [["stops_writes", scene.workspace.pk, "ada"]] if number == 2 else [["sweeps"]]
        asked += [["archives", scene.workspace.pk, str(tmp_path)]]
        asked += [["advances", str(chance.choice(ready).pk)]] * (6 - len(asked))
        crowd.meet("tests.races.contenders:does", asked[:6])
        if number == 2:
            for stage in (SwitchStage.TRIAL, SwitchStage.OFF):
                at = timezone.now()
                kill_switch.release(workspace=scene.workspace, by=ada, reason="on", at=at, to=stage)

    session.end("enough")
    to_the_end(scene, runs)
    scene.add("late", Role.AUDITOR)  # a newer head, as one may seal a later end
    (last,) = crowd.meet("tests.races.contenders:archives", [[scene.workspace.pk, str(tmp_path)]])
    assert last.isdigit(), last
    unknown = Effect.objects.filter(state__in=UNSETTLED).values_list("run", flat=True)
    left = Run.objects.filter(archived_at=None).exclude(pk__in=unknown)
    assert [(run.pk, run.state, run.ended_at) for run in left] == []
    assert Archive.objects.count() > 1, "some were archived while others went on"
    every = Run.objects.all()
    proof = prove(runs=every, workspaces=Workspace.objects.all(), file=tmp_path / "heads")
    assert [str(fault) for fault in proof.faults] == []
    with connection.cursor() as cursor:
        assert checker.violations(cursor) == []


def to_the_end(scene: Scene, runs: list[Run]) -> None:
    """Reject what still waits, and let every run come to its end."""
    for _ in range(20):
        sweep()
        left = [run for run in runs if fresh(run).state not in ENDED]
        if not left:
            return
        for run in left:
            go(run)
        for open_one in Escalation.objects.filter(state=EscalationState.OPEN):
            with suppress(deciding.AlreadyDecided):  # its time was over
                decide_request(open_one, scene.rita, approve=False, comment="enough")
    raise AssertionError([fresh(run).state for run in runs])
