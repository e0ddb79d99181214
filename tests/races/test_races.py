"""Many want the same thing at once, in processes of their own: one gets it, the others are told.

Each race is run twenty times by the same six processes. What a round asserts holds in every
order of events; nothing is asserted on time.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents import operations
from agents.core.states import EffectState, EscalationState, RunState
from agents.desk.books import open_demo_book
from agents.desk.models import Charge, Refund
from agents.models import Effect, Escalation, Run
from agents.models.kill_switch import Stage
from tests.engine.scene import REFUND_500, Scene, fresh, go, mailed, paid, recover, set_scene
from tests.processes import Contenders, contenders

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]

ROUNDS = 20
SIX = 6


@pytest.fixture(scope="module")
def crowd(django_db_setup: None) -> Iterator[Contenders]:
    with contenders(SIX) as crowd:
        yield crowd


@pytest.fixture
def scene() -> Scene:
    return set_scene()


def reviewers(scene: Scene) -> list[str]:
    """Return the names of Rita and of five others who may decide."""
    others = [User.objects.create_user(f"rita{n}") for n in range(2, SIX + 1)]
    for user in others:
        operations.add_member(
            workspace=scene.workspace, user=user, role="reviewer", at=timezone.now()
        )
    return ["rita", *(user.get_username() for user in others)]


def test_of_six_reviewers_one_decides_and_the_others_are_told(
    scene: Scene, crowd: Contenders
) -> None:
    names = reviewers(scene)
    amounts = [70000 + n if n % 2 else None for n in range(SIX)]

    for _ in range(ROUNDS):
        run = go(scene.launch())
        escalation = Escalation.objects.get(run=run)
        wants = [[escalation.pk, *want] for want in zip(names, amounts, strict=True)]

        said = crowd.meet("tests.races.contenders:decides", wants)

        escalation.refresh_from_db()
        won = [word for word in said if not word.startswith("late")]
        assert won == [escalation.state]
        assert escalation.decided_by is not None
        late = f"late after {escalation.decided_by.get_username()}"
        assert [word for word in said if word != won[0]] == [late] * 5
        assert run.events.filter(kind="escalation.decided").count() == 1
        assert run.events.filter(kind="decision.refused").count() == 5


def test_of_six_workers_one_gets_the_run(scene: Scene, crowd: Contenders) -> None:
    for _ in range(ROUNDS):
        run = scene.launch(REFUND_500)

        said = crowd.meet("tests.races.contenders:advances", [[str(run.pk)]] * SIX)

        assert sorted(filter(None, said)) == [RunState.DONE]
        run = fresh(run)
        assert run.events.filter(kind="run.claimed").count() == 1
        assert (paid(run), mailed(run)) == ([50000], [50000])


def test_six_workers_who_take_a_run_from_each_other_execute_no_step_twice(
    scene: Scene, crowd: Contenders
) -> None:
    """Each holds the others for dead, at any moment: before an intent, within a call, after it."""
    taken = 0
    for _ in range(ROUNDS):
        run = scene.launch(REFUND_500)

        crowd.meet("tests.races.contenders:takes_over", [[str(run.pk)]] * SIX)

        run = left(run)
        taken += run.events.filter(kind="run.claimed").count() - 1
        assert paid(run) == [50000]
        # Of a mail that was under way when its worker was given up, only a person can tell.
        assert (run.state, mailed(run)) in [
            (RunState.DONE, [50000]),
            (RunState.WAITING, [50000]),
            (RunState.WAITING, []),
        ]
        steps = list(run.effects.values_list("step", flat=True))
        assert len(steps) == len(set(steps))
    assert taken > 0


def left(run: Run) -> Run:
    """Return the run as it is once nobody but a person can take it further."""
    for _ in range(5):
        recover(run.pk)
        Run.objects.filter(pk=run.pk, state=RunState.QUEUED).update(wake_at=None)
        if go(run).state in (RunState.DONE, RunState.WAITING):
            break
    return fresh(run)


def test_six_refunds_never_exceed_the_charge(scene: Scene, crowd: Contenders) -> None:
    for _ in range(ROUNDS):
        book = open_demo_book(at=timezone.now())
        wants = [[book.pk, 30000, f"{book.pk} key {n}"] for n in range(SIX)]

        said = crowd.meet("tests.races.contenders:refunds", wants)

        assert said.count("refund_exceeds_last_charge") == 2
        charge = Charge.objects.get(customer__book=book, customer__number=42)
        assert (charge.refunded_minor, charge.held_minor) == (120000, 0)


def test_one_key_pays_once(scene: Scene, crowd: Contenders) -> None:
    for _ in range(ROUNDS):
        book = open_demo_book(at=timezone.now())

        said = crowd.meet(
            "tests.races.contenders:refunds", [[book.pk, 30000, f"{book.pk} key"]] * SIX
        )

        assert len(set(said)) == 1
        assert Refund.objects.get(charge__customer__book=book).amount_minor == 30000
        charge = Charge.objects.get(customer__book=book, customer__number=42)
        assert (charge.refunded_minor, charge.held_minor) == (30000, 0)


def test_runs_side_by_side_do_not_add_up_past_the_limit(scene: Scene, crowd: Contenders) -> None:
    """Six runs of 500 on one charge: two within the limit of 1000, the others wait."""
    for _ in range(ROUNDS):
        runs = [scene.launch(REFUND_500) for _ in range(SIX)]
        for run in runs[1:]:
            Run.objects.filter(pk=run.pk).update(book_id=runs[0].book_id)

        crowd.meet("tests.races.contenders:advances", [[str(run.pk)] for run in runs])

        assert paid(fresh(runs[0])) == [50000, 50000]
        waiting = Escalation.objects.filter(run__in=runs, state=EscalationState.OPEN)
        reasons = [escalation.review["deciding"]["reason"] for escalation in waiting]
        assert reasons == ["refunds_add_up"] * len(reasons)
        states = [fresh(run).state for run in runs]
        assert states.count(RunState.DONE) == 2
        assert states.count(RunState.WAITING) == 4


def test_no_write_starts_once_the_kill_switch_has_the_lock(scene: Scene, crowd: Contenders) -> None:
    """Five workers refund while an admin presses; what was intended by then is all there is."""
    admin = User.objects.create_user("admin")
    operations.add_member(workspace=scene.workspace, user=admin, role="admin", at=timezone.now())
    ended = set()

    for _ in range(ROUNDS):
        runs = [scene.launch(REFUND_500).pk for _ in range(SIX - 1)]
        workers = [["advances", str(run)] for run in runs]
        press = ["presses", scene.workspace.pk, "admin", [str(run) for run in runs]]

        said = crowd.meet("tests.races.contenders:does", [press, *workers])

        effects = Effect.objects.filter(run__in=runs)
        assert effects.count() == said[0] > 0
        assert not effects.exclude(state=EffectState.DONE).exists()
        ended |= set(Run.objects.filter(pk__in=runs).values_list("stop_reason", flat=True))
        release(scene, admin)
    assert ended <= {"killed", "success"}
    assert "killed" in ended  # a press may come after the last write of a round, not of all


def release(scene: Scene, admin: User) -> None:
    for stage in (Stage.TRIAL, Stage.OFF):
        operations.release(
            workspace=scene.workspace, by=admin, reason="next", at=timezone.now(), to=stage
        )
