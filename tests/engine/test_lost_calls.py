"""A call whose far side may still be at work when the connection or the worker is gone."""

from __future__ import annotations

from functools import partial

import pytest
from django.utils import timezone

from agents import operations
from agents.core.states import EffectState
from agents.models import Effect, Role, Run
from tests.engine.scene import REFUND_500, Scene, go, payments
from tests.engine.test_cut_calls import cut

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def test_what_was_stopped_during_a_call_is_not_called_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = scene.add("admin", Role.ADMIN)

    def press() -> None:
        scene.kill(admin, "it misbehaves")

    keys = cut(monkeypatch, "issue_refund", times=1, after=False, meanwhile=press)

    run = go(scene.launch(REFUND_500))

    assert (run.stop_reason, payments(run), len(keys)) == ("killed", [], 1)
    assert Effect.objects.get(run=run).state == EffectState.REFUSED


def cancel(scene: Scene) -> None:
    run = Run.objects.get()
    operations.cancel(run_id=run.pk, by=scene.omar, reason="by phone", at=timezone.now())


def test_what_was_cancelled_during_a_call_is_not_called_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = partial(cancel, scene)
    keys = cut(monkeypatch, "issue_refund", times=1, after=False, meanwhile=stop)

    run = go(scene.launch(REFUND_500))

    assert (run.stop_reason, payments(run), len(keys)) == ("cancelled", [], 1)
