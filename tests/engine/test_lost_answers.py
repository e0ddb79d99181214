"""PostgreSQL commits and its answer is lost: the work is found and not repeated."""

from contextlib import suppress
from itertools import count

import pytest
from django.db import OperationalError

from agents.core.requests import RunState
from agents.models import Escalation, Run
from tests.engine.cutting import between
from tests.engine.scene import (
    REFUND_500,
    Scene,
    fresh,
    go,
    has_ended,
    mails,
    payments,
    recover,
    set_scene,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres, pytest.mark.slow]


def settle(scene: Scene, run: Run) -> bool:
    """Finish a run, asking a person where nobody else can tell. Return whether one was asked.

    Only mails need that: one that was begun and is not found is never sent again.
    """
    for _ in range(12):
        recover(run.pk)
        Run.objects.filter(pk=run.pk, state=RunState.QUEUED).update(wake_at=None)
        if go(run).state == RunState.WAITING or has_ended(run):
            break
    asked = Escalation.objects.filter(run=run).first()
    if asked:
        assert (asked.kind, asked.action["name"]) == ("effect_unknown", "send_refund_email")
        scene.decide(run, approve=bool(mails(run)), amount_minor=None)
        go(run)
    return asked is not None


@pytest.mark.proves("F20")
def test_commit_with_a_lost_answer_happens_once() -> None:
    scene, asked = set_scene(), 0
    with between() as proxy:
        for number in count(1):
            run = scene.launch(REFUND_500)
            proxy.arm(number)
            with suppress(OperationalError):  # where the claim's answer is lost, the lease runs out
                go(run)
            was_cut = proxy.has_cut
            proxy.arm(0)
            needed_a_person = settle(scene, run)
            asked += needed_a_person

            assert has_ended(run), number
            assert payments(run) == [50000], number
            assert len(mails(run)) <= 1, number
            if not needed_a_person:
                assert (fresh(run).stop_reason, mails(run)) == ("success", [50000]), number
            if not was_cut:
                break

    assert number > 6
    assert asked <= 2
