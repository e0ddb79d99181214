"""A change and its event are atomic: aborted at any write, neither exists alone."""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any, TypeAlias

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.utils import timezone

from agents.core.requests import EscalationState, RunState
from agents.desks.refunds.limits import STRICT
from agents.engine.lease import claim
from agents.engine.turns.answering import expire
from agents.engine.upkeep.sweep import sweep
from agents.models import Escalation, Role, Run, SwitchStage
from agents.people import members, workspaces
from agents.requests import sharing
from agents.requests.deciding import AlreadyDecided
from agents.runs import kill_switch, launching
from agents.shell import refusal
from tests import checker
from tests.engine.aborting import breaking
from tests.engine.memory import Crash
from tests.engine.scene import (
    REFUND_500,
    Scene,
    decide_request,
    fresh,
    go,
    has_ended,
    payments,
    recover,
    set_scene,
)
from tests.limits import UNCAPPED, first_limit

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

Act: TypeAlias = Callable[[], object]

# State that events tell of; leases, attempts and counters are not part of it.
_DRIVEN = {
    *("lease_owner", "lease_ends_at", "fence", "attempts", "wake_at"),
    *("event_count", "head_hash", "seconds", "tokens_lost"),
}
_TABLES = ("run", "step", "escalation", "effect", "membership", "policyversion", "workspace")
TABLES = [f"agents_{name}" for name in (*_TABLES, "killswitch")]
numbers = count(1)


@pytest.fixture
def scene() -> Scene:
    scene = set_scene()
    for user in (scene.rita, scene.omar):
        user.refresh_from_db()
    return scene


@pytest.fixture
def ada(scene: Scene) -> User:
    return somebody(scene, Role.ADMIN)


def somebody(scene: Scene, role: Role | None = None) -> User:
    user = User.objects.create_user(f"somebody-{next(numbers)}")
    if role:
        workspaces.add_member(workspace=scene.workspace, user=user, role=role, at=timezone.now())
    return user


def state() -> dict[str, list[Any]]:
    """Return every row that events tell of."""
    found: dict[str, list[Any]] = {}
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"SELECT * FROM {table} ORDER BY id")  # noqa: S608 - names of our own
            kept = [i for i, column in enumerate(cursor.description) if column[0] not in _DRIVEN]
            found[table] = [[row[i] for i in kept] for row in cursor.fetchall()]
    return found


def count_events() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM agents_event")
        return int(cursor.fetchone()[0])


def open_request(scene: Scene) -> Escalation:
    run = go(scene.launch())
    return Escalation.objects.get(run=run, state=EscalationState.OPEN)


def deciding(scene: Scene, ada: User, *, approve: bool = True) -> Act:
    escalation = open_request(scene)
    return lambda: decide_request(
        escalation,
        scene.rita,
        approve=approve,
        patch={"amount_minor": 80000} if approve else None,
        comment="partly used",
    )


def refused_decision(scene: Scene, ada: User) -> Act:
    escalation = open_request(scene)

    def decide() -> None:
        with suppress(refusal.Refused):
            decide_request(escalation, scene.eve)

    return decide


def overdue_decision(scene: Scene, ada: User) -> Act:
    act = deciding(scene, ada)
    Escalation.objects.update(expires_at=timezone.now() - timedelta(minutes=1))

    def decide() -> None:
        with suppress(AlreadyDecided):
            act()

    return decide


def claiming(scene: Scene, ada: User) -> Act:
    escalation = open_request(scene)
    return lambda: sharing.claim(escalation_id=escalation.pk, by=scene.rita, at=timezone.now())


def releasing(scene: Scene, ada: User) -> Act:
    escalation = open_request(scene)
    claimed: dict[str, Any] = {"escalation_id": escalation.pk, "by": scene.rita}
    sharing.claim(**claimed, at=timezone.now())
    return lambda: sharing.release_claim(**claimed, at=timezone.now())


def expiring(scene: Scene, ada: User) -> Act:
    escalation = open_request(scene)
    return lambda: expire(escalation.pk, at=timezone.now())


def cancelling(scene: Scene, ada: User) -> Act:
    run = open_request(scene).run
    return lambda: launching.cancel(
        run_id=run.pk, by=scene.omar, reason="enough", at=timezone.now()
    )


def switching(to: SwitchStage) -> Callable[[Scene, User], Act]:
    """Move a switch to a stage, with a request whose clock it stops or starts."""

    def prepare_act(scene: Scene, ada: User) -> Act:
        open_request(scene)
        common: dict[str, Any] = {"workspace": scene.workspace, "by": ada, "reason": "look"}
        acts: dict[SwitchStage, Act] = {
            SwitchStage.ON: lambda: kill_switch.kill(**common, at=timezone.now()),
            SwitchStage.TRIAL: lambda: kill_switch.release(
                **common, to=SwitchStage.TRIAL, at=timezone.now()
            ),
            SwitchStage.OFF: lambda: kill_switch.release(
                **common, to=SwitchStage.OFF, at=timezone.now()
            ),
        }
        for stage in SwitchStage:  # continuing from the previous one
            if stage is to:
                break
            with suppress(refusal.Refused):
                acts[stage]()
        return acts[to]

    return prepare_act


def claimed_by_a_worker(scene: Scene, ada: User) -> Act:
    run = scene.launch()
    lease = timedelta(minutes=1)
    return lambda: claim(run.pk, owner="worker", lease=lease, at=timezone.now())


def requeuing(scene: Scene, ada: User) -> Act:
    # One is overdue at a time, as leftovers of earlier ones would be queued first.
    Run.objects.update(lease_ends_at=timezone.now() + timedelta(hours=1))
    run = scene.launch()
    claim(run.pk, owner="worker", lease=timedelta(minutes=-1), at=timezone.now())
    return sweep


def joining(scene: Scene, ada: User) -> Act:
    user = somebody(scene)
    at = timezone.now()
    return lambda: members.join(
        workspace=scene.workspace, user=user, role=Role.REVIEWER, desk_limits=first_limit(5), at=at
    )


def changing_role(scene: Scene, ada: User) -> Act:
    user = somebody(scene, Role.VIEWER)
    return lambda: members.set_role(
        workspace=scene.workspace, user=user, role=Role.OPERATOR, at=timezone.now()
    )


def changing_limit(scene: Scene, ada: User) -> Act:
    user = somebody(scene, Role.REVIEWER)
    return lambda: members.set_limit(
        workspace=scene.workspace,
        user=user,
        desk="refunds",
        currency="USD",
        limit_minor=7,
        at=timezone.now(),
    )


def publishing(scene: Scene, ada: User) -> Act:
    limits = replace(STRICT, max_steps=100 + next(numbers))
    return lambda: scene.publish(limits.as_json(), ada)


OPERATIONS: dict[str, Callable[[Scene, User], Act]] = {
    "launch": lambda scene, ada: lambda: scene.launch(token=f"t{next(numbers)}"),
    "launch without a tool": lambda scene, ada: (
        lambda: scene.launch(REFUND_500, off=["issue_refund"])
    ),
    "decide": deciding,
    "reject": lambda scene, ada: deciding(scene, ada, approve=False),
    "a decision that is refused": refused_decision,
    "a decision that is too late": overdue_decision,
    "claim": claiming,
    "release a claim": releasing,
    "expire": expiring,
    "cancel": cancelling,
    "kill": switching(SwitchStage.ON),
    "try out": switching(SwitchStage.TRIAL),
    "release": switching(SwitchStage.OFF),
    "a worker's claim": claimed_by_a_worker,
    "a worker that went quiet": requeuing,
    "publish a policy": publishing,
    "join": joining,
    "another role": changing_role,
    "another limit": changing_limit,
    "another workspace": lambda scene, ada: (
        lambda: workspaces.add_workspace(
            desks=["refunds"], slug=f"w{next(numbers)}", name="W", at=timezone.now()
        )
    ),
}
# One of each way to write; the others send the same statements.
EACH_WAY = {"launch", "decide", "kill", "a worker's claim", "a worker that went quiet", "join"}


def cut_off() -> OperationalError:
    return OperationalError("server closed the connection unexpectedly")


def assert_told(before: tuple[dict[str, list[Any]], int], where: str) -> None:
    """Check that nothing has changed without an event, and that all rows are consistent."""
    rows, events = before
    now = state()
    changed = [table for table in TABLES if now[table] != rows[table]]
    assert count_events() > events or not changed, (
        f"{where}: {changed} changed and no event records it"
    )
    with connection.cursor() as cursor:
        assert checker.violations(cursor) == [], where


@pytest.mark.proves("I32")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.both] * (name in EACH_WAY)) for name in OPERATIONS],
)
def test_broken_operation_leaves_no_unrecorded_change(scene: Scene, ada: User, name: str) -> None:
    for number in count(1):
        act = OPERATIONS[name](scene, ada)
        before = state(), count_events()
        with breaking(number, Crash) as broken, suppress(Crash):
            act()
        assert_told(before, f"{number}: {broken.broke_at}")
        if not broken.broke_at:
            break

    assert count_events() > before[1]
    assert broken.count >= 2, "a change and its event are two writes at least"


def to_the_end(scene: Scene, run: Run) -> None:
    for _ in range(12):
        recover(run.pk)
        Run.objects.filter(pk=run.pk, state=RunState.QUEUED).update(wake_at=None)
        if go(run).state == RunState.WAITING:  # whether the mail left cannot be told by its key
            scene.decide(run, amount_minor=None)
        if has_ended(run):
            return
    raise AssertionError(f"it never ended: {fresh(run).state}")


@pytest.mark.proves("I24", "I32", "F20")
@pytest.mark.both
@pytest.mark.parametrize("error", [Crash, cut_off], ids=["a worker dies", "a connection is cut"])
def test_run_broken_at_any_write_pays_once(
    scene: Scene, error: Callable[[], BaseException]
) -> None:
    reached: Counter[str] = Counter()
    scene.put_in_force(UNCAPPED)
    for number in count(1):
        run = scene.launch(REFUND_500)
        before = state(), count_events()
        with breaking(number, error) as broken, suppress(Crash, OperationalError):
            go(run)
        assert_told(before, f"{number}: {broken.broke_at}")
        to_the_end(scene, run)
        came_to = fresh(run).stop_reason, payments(run)
        assert came_to == ("success", [50000]), f"{number}: {broken.broke_at}"
        reached.update(_table(broken.broke_at))
        if not broken.broke_at:
            break

    assert {"agents_run", "agents_step", "agents_effect", "agents_event"} <= set(reached)
    assert number > 24


def _table(sql: str) -> Iterable[str]:
    return [word.strip('"') for word in sql.split()[1:3] if word.startswith('"')]
