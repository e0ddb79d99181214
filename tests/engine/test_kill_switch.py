"""The kill switch: what it stops, which clocks it pauses, and how it is released."""

import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents import results
from agents.core.requests import EffectState, EscalationState, RunState
from agents.engine.runtime import crashpoints
from agents.engine.turns.answering import expire
from agents.engine.upkeep import sweep as sweeping
from agents.engine.upkeep.sweep import sweep
from agents.models import Effect, Escalation, Event, KillSwitch, Role, Run, Scope, SwitchStage
from agents.runs import kill_switch
from agents.sdk.desk import DESKS
from agents.shell import refusal
from tests.engine.dying import die_at
from tests.engine.far_side import wait_no_time
from tests.engine.memory import Crash
from tests.engine.scene import REFUND_500, Scene, fresh, go, in_thread, payments, recover

TOOLS = DESKS["refunds"].all_tools

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)


@pytest.fixture
def admin(scene: Scene) -> User:
    return scene.add("admin", Role.ADMIN)


def press(scene: Scene, admin: User, scope: Scope = Scope.WORKSPACE, target: str = "") -> None:
    scene.kill(admin, "it misbehaves", scope=scope, target=target)


def release(
    scene: Scene, admin: User, to: SwitchStage, scope: Scope = Scope.WORKSPACE, target: str = ""
) -> None:
    kill_switch.release(
        workspace=scene.workspace,
        by=admin,
        reason="it is mended",
        at=timezone.now(),
        to=to,
        scope=scope,
        target=target,
    )


def waiting(run: Run) -> Escalation:
    return Escalation.objects.get(run=go(run))


def age(escalation: Escalation, by: timedelta) -> None:
    """Let time pass for a request by moving all its times back."""
    escalation.refresh_from_db()
    for name in ("expires_at", "frozen_at"):
        if moved := getattr(escalation, name):
            setattr(escalation, name, moved - by)
    escalation.save(update_fields=["expires_at", "frozen_at"])


@pytest.mark.proves("I30")
@pytest.mark.parametrize(
    ("scope", "target", "stopped"),
    [
        (Scope.WORKSPACE, "", True),
        (Scope.PATTERN, "supervisor", True),
        (Scope.PATTERN, "routing", False),
        (Scope.TOOL, "issue_refund", True),
    ],
)
def test_a_switch_stops_the_writes_of_its_scope(
    scene: Scene, admin: User, scope: Scope, target: str, stopped: bool
) -> None:
    press(scene, admin, scope, target)

    run = go(scene.launch(REFUND_500))

    assert run.stop_reason == ("killed" if stopped else "success")
    assert payments(run) == ([] if stopped else [50000])


@pytest.mark.both
@pytest.mark.proves("I30")
@pytest.mark.parametrize("is_bound", [True, False])
def test_unmade_call_of_a_dead_worker_stays_unmade(
    scene: Scene, admin: User, monkeypatch: pytest.MonkeyPatch, is_bound: bool
) -> None:
    wait_no_time(monkeypatch)
    if not is_bound:  # by what is released: its first worker may still stand within the call
        pay = replace(TOOLS["issue_refund"], release=None)
        monkeypatch.setitem(TOOLS, "issue_refund", pay)
    run = scene.launch(REFUND_500)
    die_at(2, only="gateway.before_call")  # it looks the customer up before paying
    try:
        with pytest.raises(Crash):
            go(run)
    finally:
        crashpoints.watch(None)
    assert Effect.objects.get().state == EffectState.INTENDED
    press(scene, admin)
    recover(run.pk)

    settled = (
        ("killed", EffectState.REFUSED, []) if is_bound else ("", EffectState.UNKNOWN, [run.pk])
    )
    asked = Escalation.objects.filter(kind="effect_unknown").values_list("run", flat=True)
    assert (go(run).stop_reason, Effect.objects.get().state, list(asked)) == settled
    assert payments(run) == []


def test_call_of_a_hung_worker_is_not_made(scene: Scene, settings: Any) -> None:
    settings.OPSCONSOLE_LEASE_SECONDS = 1
    run, reached = scene.launch(REFUND_500), list[str]()

    def stand_still(point: str) -> None:
        reached.append(point)
        if reached.count("gateway.before_call") == 2 and point == "gateway.before_call":
            time.sleep(1.1)
            in_thread(lambda: recover(run.pk))  # from now on another worker may take it

    crashpoints.watch(stand_still)
    try:
        left = go(run).state
    finally:
        crashpoints.watch(None)

    assert (left, payments(run)) == (RunState.QUEUED, [])
    assert (go(run).state, payments(run)) == (RunState.DONE, [50000])


@pytest.mark.both
def test_a_frozen_request_does_not_expire_and_gets_its_time_back(scene: Scene, admin: User) -> None:
    escalation = waiting(scene.launch())
    left = escalation.expires_at - timezone.now()
    press(scene, admin)
    age(escalation, HOUR)

    sweep()
    assert results.result(fresh(escalation.run))["escalation"]["frozen"] is True
    release(scene, admin, SwitchStage.TRIAL)
    escalation.refresh_from_db()
    assert (escalation.state, escalation.frozen_at is None) == (EscalationState.OPEN, False)
    release(scene, admin, SwitchStage.OFF)

    escalation.refresh_from_db()
    assert escalation.frozen_at is None
    assert abs(escalation.expires_at - timezone.now() - left) < timedelta(seconds=30)


def test_what_was_overdue_before_the_press_expires(scene: Scene, admin: User) -> None:
    escalation = waiting(scene.launch())
    age(escalation, 9 * HOUR)

    press(scene, admin)
    sweep()

    escalation.refresh_from_db()
    assert escalation.state == EscalationState.EXPIRED


@pytest.mark.both
def test_a_press_between_the_look_and_the_expiry_is_seen(scene: Scene, admin: User) -> None:
    escalation = waiting(scene.launch())
    press(scene, admin)
    age(escalation, 9 * HOUR)

    assert expire(escalation.pk, at=timezone.now()) is False

    escalation.refresh_from_db()
    assert escalation.state == EscalationState.OPEN


@pytest.mark.both
def test_frozen_requests_do_not_keep_the_sweep_from_others(
    scene: Scene, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = waiting(scene.launch())
    press(scene, admin, Scope.PATTERN, "supervisor")
    other = waiting(scene.launch("Which way is your office?", pattern="routing"))
    age(frozen, 2 * 24 * HOUR)
    age(other, 24 * HOUR)
    monkeypatch.setattr(sweeping, "BATCH", 1)

    sweep()

    other.refresh_from_db()
    assert other.state == EscalationState.EXPIRED


@pytest.mark.both
def test_of_two_switches_the_last_to_go_starts_the_clock(scene: Scene, admin: User) -> None:
    escalation = waiting(scene.launch())
    press(scene, admin)
    press(scene, admin, Scope.PATTERN, "supervisor")

    release(scene, admin, SwitchStage.TRIAL)
    release(scene, admin, SwitchStage.OFF)
    escalation.refresh_from_db()
    assert escalation.frozen_at is not None

    release(scene, admin, SwitchStage.TRIAL, Scope.PATTERN, "supervisor")
    release(scene, admin, SwitchStage.OFF, Scope.PATTERN, "supervisor")
    escalation.refresh_from_db()
    assert escalation.frozen_at is None


@pytest.mark.both
@pytest.mark.proves("I30")
def test_on_trial_new_runs_write_and_older_ones_do_not(scene: Scene, admin: User) -> None:
    press(scene, admin)
    older = scene.launch(REFUND_500)

    release(scene, admin, SwitchStage.TRIAL)
    newer = go(scene.launch(REFUND_500))
    older = go(older)

    assert (newer.state, older.stop_reason) == (RunState.DONE, "killed")


@pytest.mark.proves("I30")
def test_releasing_starts_nothing_again(scene: Scene, admin: User) -> None:
    approved, held = waiting(scene.launch()).run, waiting(scene.launch())
    scene.decide(approved)
    press(scene, admin)
    go(approved)

    release(scene, admin, SwitchStage.TRIAL)
    release(scene, admin, SwitchStage.OFF)
    sweep()
    after = [go(approved), go(held.run)]

    assert [(run.state, run.stop_reason) for run in after] == [
        ("stopped", "killed"),
        ("waiting", ""),
    ]
    assert [payments(run) for run in after] == [[], []]


def test_every_stage_is_on_record_with_who_and_why(scene: Scene, admin: User) -> None:
    waiting(scene.launch())
    press(scene, admin)
    release(scene, admin, SwitchStage.TRIAL)
    release(scene, admin, SwitchStage.OFF)

    said = Event.objects.filter(run=None, kind__startswith="kill_switch").order_by("seq")
    assert [(event.kind, event.actor, event.facts["deadlines"]) for event in said] == [
        ("kill_switch.on", "admin", 1),
        ("kill_switch.trial", "admin", 0),
        ("kill_switch.off", "admin", 1),
    ]
    assert said[0].facts["why"] == "it misbehaves"


@pytest.mark.parametrize(
    ("stages", "code"),
    [
        ([SwitchStage.OFF], "stage"),
        ([SwitchStage.TRIAL], "stage"),
        ([SwitchStage.ON, SwitchStage.ON], "on"),
        ([SwitchStage.ON, SwitchStage.OFF], "stage"),
        ([SwitchStage.ON, SwitchStage.TRIAL, SwitchStage.TRIAL], "stage"),
    ],
)
def test_a_stage_that_does_not_come_next_is_refused(
    scene: Scene, admin: User, stages: list[SwitchStage], code: str
) -> None:
    def take(stage: SwitchStage) -> None:
        if stage is SwitchStage.ON:
            press(scene, admin)
        else:
            release(scene, admin, stage)

    for stage in stages[:-1]:
        take(stage)
    events = Event.objects.count()

    with pytest.raises(refusal.Refused) as refused:
        take(stages[-1])

    assert refused.value.code == code
    assert Event.objects.count() == events


@pytest.mark.parametrize(
    ("who", "scope", "target", "reason", "code"),
    [
        ("rita", Scope.WORKSPACE, "", "why", "not_permitted"),
        ("eve", Scope.WORKSPACE, "", "why", "not_permitted"),
        ("admin", Scope.WORKSPACE, "", " ", "no_reason"),
        ("admin", Scope.WORKSPACE, "", "r" * 501, "long_reason"),
        ("admin", Scope.WORKSPACE, "", "a\x00b", "bad_reason"),
        ("admin", Scope.WORKSPACE, "supervisor", "why", "no_target"),
        ("admin", Scope.PATTERN, "guess", "why", "no_target"),
        ("admin", Scope.TOOL, "get_refund_context", "why", "no_target"),
    ],
)
def test_who_may_not_and_what_stops_nothing_is_refused(
    scene: Scene, admin: User, who: str, scope: Scope, target: str, reason: str, code: str
) -> None:
    with pytest.raises(refusal.Refused) as refused:
        scene.kill(User.objects.get(username=who), reason, scope=scope, target=target)

    assert refused.value.code == code
    assert not KillSwitch.objects.exists()
