"""Many want the same thing at once, in processes of their own: one gets it, the others are told."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents import operations
from agents.core.states import EffectState, EscalationState, RunState
from agents.desk.books import open_demo_book
from agents.desk.models import Charge, Refund
from agents.models import Effect, Escalation
from tests.engine.scene import REFUND_500, Scene, fresh, go, mailed, paid, set_scene
from tests.processes import together

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

ROUNDS = 3


@pytest.fixture
def scene() -> Scene:
    return set_scene()


def reviewers(scene: Scene, count: int) -> list[str]:
    """Return the names of Rita and of others who may decide."""
    others = [User.objects.create_user(f"rita{n}") for n in range(2, count + 1)]
    for user in others:
        operations.add_member(
            workspace=scene.workspace, user=user, role="reviewer", at=timezone.now()
        )
    return ["rita", *(user.get_username() for user in others)]


@pytest.mark.parametrize("_round", range(ROUNDS))
def test_of_six_reviewers_one_decides_and_the_others_are_told(scene: Scene, _round: int) -> None:
    run = go(scene.launch())
    escalation = Escalation.objects.get(run=run)
    names = reviewers(scene, 6)
    wants = [[escalation.pk, name, 70000 + n if n % 2 else None] for n, name in enumerate(names)]

    said = together("tests.races.contenders:decides", wants)

    escalation.refresh_from_db()
    won = [word for word in said if not word.startswith("late")]
    assert won == [escalation.state]
    assert escalation.decided_by is not None
    late = f"late after {escalation.decided_by.get_username()}"
    assert [word for word in said if word != won[0]] == [late] * 5
    assert run.events.filter(kind="escalation.decided").count() == 1
    assert run.events.filter(kind="decision.refused").count() == 5


@pytest.mark.parametrize("_round", range(ROUNDS))
def test_of_six_workers_one_gets_the_run(scene: Scene, _round: int) -> None:
    run = scene.launch(REFUND_500)

    said = together("tests.races.contenders:advances", [[str(run.pk)]] * 6)

    assert sorted(filter(None, said)) == [RunState.DONE]
    run = fresh(run)
    assert run.events.filter(kind="run.claimed").count() == 1
    assert (paid(run), mailed(run)) == ([50000], [50000])


@pytest.mark.parametrize("_round", range(ROUNDS))
def test_six_refunds_never_exceed_the_charge(scene: Scene, _round: int) -> None:
    book = open_demo_book(at=timezone.now())

    said = together(
        "tests.races.contenders:refunds", [[book.pk, 30000, f"key {n}"] for n in range(6)]
    )

    assert said.count("refund_exceeds_last_charge") == 2
    charge = Charge.objects.get(customer__book=book, customer__number=42)
    assert (charge.refunded_minor, charge.held_minor) == (120000, 0)


@pytest.mark.parametrize("_round", range(ROUNDS))
def test_one_key_pays_once(scene: Scene, _round: int) -> None:
    book = open_demo_book(at=timezone.now())

    said = together("tests.races.contenders:refunds", [[book.pk, 30000, "one key"]] * 6)

    assert len(set(said)) == 1
    assert Refund.objects.get(charge__customer__book=book).amount_minor == 30000
    charge = Charge.objects.get(customer__book=book, customer__number=42)
    assert (charge.refunded_minor, charge.held_minor) == (30000, 0)


@pytest.mark.parametrize("_round", range(ROUNDS))
def test_runs_side_by_side_do_not_add_up_past_the_limit(scene: Scene, _round: int) -> None:
    """Four runs of 500 on one charge: two within the limit of 1000, the others wait."""
    runs = [scene.launch(REFUND_500) for _ in range(4)]
    for run in runs[1:]:
        type(run).objects.filter(pk=run.pk).update(book_id=runs[0].book_id)

    together("tests.races.contenders:advances", [[str(run.pk)] for run in runs])

    assert paid(fresh(runs[0])) == [50000, 50000]
    waiting = Escalation.objects.filter(run__in=runs, state=EscalationState.OPEN)
    reasons = [escalation.review["deciding"]["reason"] for escalation in waiting]
    assert reasons == ["refunds_add_up"] * len(reasons)
    states = sorted(fresh(run).state for run in runs)
    assert states == [RunState.DONE, RunState.DONE, RunState.WAITING, RunState.WAITING]


@pytest.mark.parametrize("_round", range(ROUNDS))
def test_no_write_starts_once_the_kill_switch_has_the_lock(scene: Scene, _round: int) -> None:
    """Five workers refund while an admin presses; what was intended by then is all there is."""
    admin = User.objects.create_user("admin")
    operations.add_member(workspace=scene.workspace, user=admin, role="admin", at=timezone.now())
    runs = [scene.launch(REFUND_500) for _ in range(5)]
    workers = [["advances", str(run.pk)] for run in runs]

    said = together(
        "tests.races.contenders:does",
        [["presses", scene.workspace.pk, "admin"], *workers],
    )

    effects = Effect.objects.filter(run__in=runs)
    assert effects.count() == said[0] > 0
    assert not effects.exclude(state=EffectState.DONE).exists()
    ended = {fresh(run).stop_reason for run in runs}
    assert ended <= {"killed", "success"}
    assert "killed" in ended
