"""Several processes want the same thing at once: one gets it, the others are told.

The same six processes run each race several times. A round's assertions hold in any
order of events and never depend on time. On SQLite one transaction writes at a time, and a lock
taken too late shows in every round: twenty rounds find no more than five.
"""

from collections import Counter
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents.core.limits import read_limits
from agents.core.requests import ENDED, EffectState, EscalationState, RunState
from agents.desks.refunds.limits import STRICT
from agents.desks.refunds.models import Charge, Refund
from agents.engine.lease import claim, length
from agents.models import Effect, Escalation, PolicyDraft, Role, Run
from agents.models.outside import SwitchStage
from agents.publishing.drafts import begin_draft, save_draft
from agents.runs import kill_switch
from tests.demo_book import open_demo_book
from tests.engine.scene import REFUND_500, Scene, fresh, go, mails, payments, recover
from tests.limits import UNCAPPED
from tests.processes import SIX, Contenders
from tests.settings import ON_POSTGRES

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]

ROUNDS = 20 if ON_POSTGRES else 5


@pytest.fixture
def scene(scene: Scene) -> Scene:
    scene.put_in_force(UNCAPPED)
    return scene


def reviewers(scene: Scene) -> list[str]:
    """Return the names of Rita and of five others who may decide."""
    others = [scene.add(f"rita{n}", Role.REVIEWER) for n in range(2, SIX + 1)]
    return ["rita", *(user.get_username() for user in others)]


@pytest.mark.proves("I18", "I52")
def test_of_six_reviewers_one_decides_and_the_others_are_told(
    scene: Scene, crowd: Contenders
) -> None:
    names = reviewers(scene)
    amounts = [70000 + n if n % 2 else 0 if n == 2 else None for n in range(SIX)]

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


@pytest.mark.proves("I1", "F12", "F13")
def test_of_six_workers_one_gets_the_run(scene: Scene, crowd: Contenders) -> None:
    for _ in range(ROUNDS):
        run = scene.launch(REFUND_500)

        said = crowd.meet("tests.races.contenders:advances", [[str(run.pk)]] * SIX)

        assert sorted(filter(None, said)) == [RunState.DONE]
        run = fresh(run)
        assert run.events.filter(kind="run.claimed").count() == 1
        assert (payments(run), mails(run)) == ([50000], [50000])


@pytest.mark.proves("I1", "F12")
def test_six_racing_workers_execute_each_step_once(scene: Scene, crowd: Contenders) -> None:
    """Each assumes the others dead at any moment: before, during and after a call."""
    for _ in range(ROUNDS):
        run = scene.launch(REFUND_500)
        claim(run.pk, owner="one that died", lease=length(), at=timezone.now())

        crowd.meet("tests.races.contenders:takes_over", [[str(run.pk)]] * SIX)

        run = run_to_rest(run)
        assert run.events.filter(kind="run.claimed").count() > 1
        assert payments(run) == [50000]
        # Only a person can tell what became of a mail whose worker was given up.
        assert (run.state, mails(run)) in [
            (RunState.DONE, [50000]),
            (RunState.WAITING, [50000]),
            (RunState.WAITING, []),
        ]
        assert (twice(run, "step.done"), twice(run, "effect.done")) == ([], [])


def twice(run: Run, kind: str) -> list[str]:
    """Return the keys that the run's record reports done more than once."""
    keys = Counter(run.events.filter(kind=kind).values_list("facts__key", flat=True))
    return [key for key, count in keys.items() if count > 1]


def run_to_rest(run: Run) -> Run:
    """Drive a run until it ends or waits for a person."""
    for _ in range(5):
        recover(run.pk)
        Run.objects.filter(pk=run.pk, state=RunState.QUEUED).update(wake_at=None)
        if go(run).state in (RunState.WAITING, *ENDED):
            break
    return fresh(run)


@pytest.mark.proves("I3")
def test_six_refunds_never_exceed_the_charge(scene: Scene, crowd: Contenders) -> None:
    for _ in range(ROUNDS):
        book = open_demo_book(at=timezone.now())
        wants = [[book.pk, 30000, f"{book.pk} key {n}"] for n in range(SIX)]

        said = crowd.meet("tests.races.contenders:refunds", wants)

        assert said.count("refund_exceeds_last_charge") == 2
        charge = Charge.objects.get(customer__book=book, customer__number=42)
        assert (charge.refunded_minor, charge.held_minor) == (120000, 0)


@pytest.mark.proves("I2")
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


@pytest.mark.proves("I4")
def test_runs_side_by_side_do_not_add_up_past_the_limit(scene: Scene, crowd: Contenders) -> None:
    """Six runs of 500 on one charge: two within the limit of 1000, the others wait."""
    for _ in range(ROUNDS):
        runs = [scene.launch(REFUND_500) for _ in range(SIX)]
        for run in runs[1:]:
            Run.objects.filter(pk=run.pk).update(book_id=runs[0].book_id)

        crowd.meet("tests.races.contenders:advances", [[str(run.pk)] for run in runs])

        assert payments(fresh(runs[0])) == [50000, 50000]
        waiting = Escalation.objects.filter(run__in=runs, state=EscalationState.OPEN)
        reasons = [escalation.review["deciding"]["reason"] for escalation in waiting]
        assert reasons == ["refunds_add_up"] * len(reasons)
        states = [fresh(run).state for run in runs]
        assert states.count(RunState.DONE) == 2
        assert states.count(RunState.WAITING) == 4


@pytest.mark.proves("I43")
@pytest.mark.parametrize("cap", ["launcher_daily_minor", "workspace_daily_minor"])
def test_runs_side_by_side_do_not_pass_the_cap_of_the_day(
    scene: Scene, crowd: Contenders, cap: str
) -> None:
    """Six runs of 500, each in its own book: the daily cap has room for two."""
    scene.put_in_force(read_limits({**STRICT.as_json(), cap: 100000}))
    runs = [scene.launch(REFUND_500) for _ in range(SIX)]

    crowd.meet("tests.races.contenders:advances", [[str(run.pk)] for run in runs])

    assert sum(amount for run in runs for amount in payments(fresh(run))) == 100000
    waiting = Escalation.objects.filter(state=EscalationState.OPEN)
    reasons = {escalation.review["deciding"]["reason"] for escalation in waiting}
    assert (waiting.count(), reasons) == (SIX - 2, {"unattended_cap_of_the_day"})


@pytest.mark.proves("I45")
@pytest.mark.parametrize("cap", ["launcher", "subject"])
def test_workers_side_by_side_open_no_more_requests_than_the_cap(
    scene: Scene, crowd: Contenders, cap: str
) -> None:
    """Six runs of one launcher about one customer ask a person at once: two may."""
    scene.put_in_force(read_limits({**STRICT.as_json(), f"open_per_{cap}": 2}))

    for _ in range(ROUNDS):
        runs = [scene.launch() for _ in range(SIX)]
        Run.objects.filter(pk__in=[run.pk for run in runs]).update(book_id=runs[0].book_id)

        crowd.meet("tests.races.contenders:advances", [[str(run.pk)] for run in runs])

        asked = Escalation.objects.filter(run__in=runs)
        assert asked.count() == 2
        ended = Counter(run_to_rest(run).stop_reason for run in runs)
        assert ended == {"": 2, f"too_many_open_requests:{cap}": SIX - 2}
        for escalation in asked:
            scene.decide(escalation.run, approve=False)


@pytest.mark.proves("I43")
def test_six_windows_stay_within_a_persons_day(scene: Scene, crowd: Contenders) -> None:
    scene.put_in_force(read_limits({**STRICT.as_json(), "reviewer_daily_minor": 160000}))
    runs = [go(scene.launch()) for _ in range(SIX)]
    asked = [Escalation.objects.get(run=run).pk for run in runs]

    crowd.meet("tests.races.contenders:decides", [[pk, "rita", 80000] for pk in asked])

    granted = Escalation.objects.filter(pk__in=asked, granted_minor__isnull=False)
    assert sum(escalation.granted_minor or 0 for escalation in granted) == 160000


@pytest.mark.proves("I43")
def test_two_decisions_stay_within_a_persons_limit(scene: Scene, crowd: Contenders) -> None:
    """Rita may grant 800: of six requests for 700 on one charge she can approve one."""
    runs = [go(scene.launch()) for _ in range(SIX)]
    Charge.objects.filter(customer__book=runs[0].book_id).update(amount_minor=10**6)
    Run.objects.filter(pk__in=[run.pk for run in runs]).update(book_id=runs[0].book_id)
    asked = [Escalation.objects.get(run=run).pk for run in runs]

    crowd.meet("tests.races.contenders:decides", [[pk, "rita", 70000] for pk in asked])

    assert Escalation.objects.filter(granted_minor=70000).count() == 1


@pytest.mark.proves("I30")
def test_no_write_starts_once_the_kill_switch_has_the_lock(scene: Scene, crowd: Contenders) -> None:
    """Five workers refund while an admin presses; only intents committed before are executed."""
    admin = scene.add("admin", Role.ADMIN)
    ended = set()

    for _ in range(ROUNDS):
        late, *runs = [scene.launch(REFUND_500).pk for _ in range(SIX)]
        workers = [["advances", str(run)] for run in runs]
        press = ["presses", scene.workspace.pk, "admin", [str(run) for run in runs]]

        said = crowd.meet("tests.races.contenders:does", [press, *workers])

        effects = Effect.objects.filter(run__in=runs)
        assert effects.count() == said[0] > 0
        assert not effects.exclude(state=EffectState.DONE).exists()
        ended |= set(Run.objects.filter(pk__in=runs).values_list("stop_reason", flat=True))
        assert go(Run.objects.get(pk=late)).stop_reason == "killed"
        release(scene, admin)
    assert ended <= {"killed", "success"}


def release(scene: Scene, admin: User) -> None:
    for stage in (SwitchStage.TRIAL, SwitchStage.OFF):
        kill_switch.release(
            workspace=scene.workspace, by=admin, reason="next", at=timezone.now(), to=stage
        )


def test_of_six_drafts_one_is_published(scene: Scene, crowd: Contenders) -> None:
    """None undoes another; the five that lost are kept."""
    names = ["ada", *(f"ada{n}" for n in range(2, SIX + 1))]
    admins = [scene.add(name, Role.ADMIN) for name in names]
    for _ in range(ROUNDS):
        drafts = []
        for days, admin in enumerate(admins, 20):
            asked: dict[str, Any] = {"by": admin, "at": timezone.now()}
            one = begin_draft(workspace=scene.workspace, **asked)
            document = {**STRICT.as_json(), "max_steps": days}
            save_draft(one, document=document, reason="More steps.", **asked)
            drafts.append(one)

        wants = [[one.pk, name] for one, name in zip(drafts, names, strict=True)]
        said = crowd.meet("tests.races.contenders:publishes", wants)

        assert sorted(said) == ["published", *["stale"] * 5]
        assert PolicyDraft.objects.count() == 5
        PolicyDraft.objects.all().delete()
