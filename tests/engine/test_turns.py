"""Which run goes next: a workspace with many runs does not hold up the others."""

import uuid
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from agents.engine.workers.worker import FairShare, in_turn
from agents.models import Event, Role, Run
from agents.people import workspaces
from tests.engine.scene import REFUND_500, Scene, has_ended, set_scene
from tests.engine.test_dispatch import work_until

FLOOD = 40


@pytest.fixture
def flooded(dispatch: str) -> tuple[Scene, Run]:
    """Return a scene with FLOOD queued runs, and one of another workspace that came later."""
    scene, at = set_scene(), timezone.now()
    for _ in range(FLOOD):
        scene.launch(REFUND_500)
    elsewhere = workspaces.add_workspace(
        desks=["refunds"], slug="other", name="Other", is_demo=True, at=at
    )
    workspaces.add_member(workspace=elsewhere, user=scene.omar, role=Role.OPERATOR, at=at)
    return scene, replace(scene, workspace=elsewhere).launch(REFUND_500)


@pytest.mark.proves("I49")
@given(
    waiting=st.dictionaries(st.integers(1, 5), st.integers(0, 30), max_size=5),
    held=st.dictionaries(st.integers(1, 5), st.integers(0, 12)),
    room=st.integers(0, 20),
    share=st.integers(1, 16),
)
def test_fewest_runs_go_first_within_their_share(
    waiting: dict[int, int], held: dict[int, int], room: int, share: int
) -> None:
    queues = {whose: [uuid.uuid4() for _ in range(count)] for whose, count in waiting.items()}
    owner = {run: whose for whose, runs in queues.items() for run in runs}

    turn = in_turn(queues, held, Counter(), room=room, share=share)

    after = Counter(held) + Counter(owner[run] for run in turn.runs)
    left = {whose: [run for run in runs if run not in turn.runs] for whose, runs in queues.items()}
    for whose, runs in queues.items():
        mine = [run for run in turn.runs if owner[run] == whose]
        assert mine == runs[: len(mine)]  # in order within each workspace
        assert not mine or after[whose] <= share
        for other in left:
            # A waiting workspace has at most one run fewer than any that got a slot.
            assert (
                not (mine and left[other])
                or after[whose] <= after[other] + 1
                or (after[other] >= share)
            )
    assert turn.is_held_back == (len(turn.runs) < room and any(left.values()))


@pytest.mark.proves("I49")
@pytest.mark.django_db(transaction=True)
@pytest.mark.both
@pytest.mark.parametrize("slots", [1, 10])
def test_a_flood_keeps_nobody_else_waiting(
    flooded: tuple[Scene, Run], settings: Any, slots: int
) -> None:
    scene, late = flooded
    settings.OPSCONSOLE_WORKER_CONCURRENCY = slots
    settings.OPSCONSOLE_DEMO_PACE = 0.3  # else a busy server gives out jobs slower than runs end

    first = Run.objects.filter(pk__in=FairShare().choose(()).runs, workspace=scene.workspace)
    assert first.count() == max(1, slots * 4 // 5), "four fifths, as the page says"

    work_until(lambda: has_ended(late))

    claims = Event.objects.filter(kind="run.claimed").order_by("pk")
    told = list(claims.values_list("run__workspace", "run", "at"))
    before = [whose for whose, *_ in told].index(late.workspace_id)
    assert before <= 2 * slots + 2, told
