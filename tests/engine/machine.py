"""Everything that can happen to runs, in any order, as a state machine for hypothesis.

The engine, the desk, the policy and the demo model are the real ones. The clock of whoever acts
can be moved; leases and expiry use the database's.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from unittest import mock

from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from agents import operations
from agents.audit import protection
from agents.core.states import ENDED, EscalationState, RunState
from agents.desks.refunds import refunds
from agents.desks.refunds.profiles import STRICT
from agents.engine import crashpoints
from agents.engine.sweep import sweep
from agents.models import Escalation, Event, PolicyVersion, Run, Workspace
from agents.models.kill_switch import Stage
from agents.web.audit.export import as_csv
from tests import checker
from tests.checker import record as copies
from tests.engine.dying import die_at
from tests.engine.memory import Crash
from tests.engine.scene import (
    Scene,
    fresh,
    go,
    go_elsewhere,
    in_thread,
    on_the_charge_of,
    patch_of,
    set_scene,
)

GOALS = (
    ("supervisor", "User Anna (user_id=42) requests a refund of 1200 USD for the annual plan."),
    ("supervisor", "User Anna (user_id=42) requests a refund of 500 USD for the annual plan."),
    ("supervisor", "User Anna (user_id=42) requests a refund of 1000 USD for the annual plan."),
    ("routing", "Customer 42 wants the monthly charge refunded. Try the wrong desk first."),
    ("routing", "Customer 42 asks what the weather will be."),
)
PEOPLE = ("rita", "omar", "eve", "ada")  # Ada is an admin, and may decide too
ROUNDS = 30  # more than any run takes to end once nothing happens to it any more
REFUSALS = (operations.Refused, operations.AlreadyDecided, operations.Claimed)

runs_up_to_12 = st.integers(min_value=1, max_value=12)
_real_now = timezone.now


class Engine(RuleBasedStateMachine):
    """Launch, advance, decide, expire, crash, deliver twice, take over, stop, change, jump."""

    runs: Bundle[Run] = Bundle("runs")

    @initialize()
    def begin(self) -> None:
        protection.unprotect(connection)
        call_command("flush", interactive=False, verbosity=0)  # and the triggers are back
        self.scene: Scene = set_scene()
        scene, ada = self.scene, User.objects.create_user("ada")
        self.people = {"rita": scene.rita, "omar": scene.omar, "eve": scene.eve, "ada": ada}
        operations.add_member(
            workspace=self.scene.workspace, user=self.people["ada"], role="admin", at=self.now()
        )
        self.ahead = timedelta()
        self.ended: dict[Any, Any] = {}
        self.clock = mock.patch("django.utils.timezone.now", self.now)
        self.clock.start()

    def now(self) -> datetime:
        return _real_now() + getattr(self, "ahead", timedelta())

    def launched(self, goal: tuple[str, str]) -> Run:
        self.scene.workspace.refresh_from_db()  # for the policy of now
        return self.scene.launch(goal[1], pattern=goal[0])

    @rule(target=runs, goal=st.sampled_from(GOALS))
    def launch(self, goal: tuple[str, str]) -> Run:
        return self.launched(goal)

    @rule(target=runs, first=runs)
    def launch_on_the_same_charges(self, first: Run) -> Run:
        run = self.launched(GOALS[1])
        return on_the_charge_of(first, run)

    @rule(run=runs)
    def work(self, run: Run) -> None:
        go(run)

    @rule(run=runs)
    def deliver_twice(self, run: Run) -> None:
        """One job comes again, also long after its run has ended."""
        events = [go(run).event_count, go(run).event_count]
        if fresh(run).state in (RunState.WAITING, *ENDED):
            assert events[0] == events[1]

    @rule(run=runs, number=runs_up_to_12)
    def crash(self, run: Run, number: int) -> None:
        die_at(number)
        with suppress(Crash):
            go(run)
        crashpoints.watch(None)

    @rule(run=runs, number=runs_up_to_12)
    def take_over(self, run: Run, number: int) -> None:
        """A second worker takes the run while the first still believes it has it."""
        crashpoints.watch(nth(number, lambda: in_thread(lambda: overtake(run))))
        go(run)
        crashpoints.watch(None)

    @rule()
    def recover_all(self) -> None:
        let_leases_run_out()
        sweep()

    @rule(
        run=runs,
        who=st.sampled_from(PEOPLE),
        approve=st.booleans(),
        amount=st.sampled_from([None, 1, 50000, 80000, 80001, 120000, 10**10]),
    )
    def decide(self, run: Run, who: str, approve: bool, amount: int | None) -> None:
        for escalation in Escalation.objects.filter(run=run):
            with suppress(*REFUSALS):
                operations.decide(
                    escalation_id=escalation.pk,
                    by=self.people[who],
                    approve=approve,
                    patch=patch_of(amount if approve and escalation.amount_minor else None),
                    comment="as the customer asked",
                    at=self.now(),
                )

    @rule(run=runs)
    def expire(self, run: Run) -> None:
        still_open = Escalation.objects.filter(run=run, state=EscalationState.OPEN)
        still_open.update(expires_at=_real_now() - timedelta(seconds=1))
        sweep()

    @rule(run=runs)
    def cancel(self, run: Run) -> None:
        with suppress(operations.Refused):
            operations.cancel(run_id=run.pk, by=self.scene.omar, reason="enough", at=self.now())

    @rule(to=st.sampled_from(Stage))
    def kill_switch(self, to: Stage) -> None:
        press = operations.kill if to is Stage.ON else partial(operations.release, to=to)
        with suppress(operations.Refused):  # released without having been pressed
            press(
                workspace=self.scene.workspace,
                by=self.people["ada"],
                reason="look",
                at=self.now(),
            )

    @rule(limit=st.sampled_from([10000, 50000, 100000]), hours=st.sampled_from([1, 24]))
    def change_policy(self, limit: int, hours: int) -> None:
        limits = replace(STRICT, first={"auto_limit_minor": limit}, escalation_seconds=hours * 3600)
        workspace = self.scene.workspace
        found = PolicyVersion.objects.filter(document=limits.as_json()).first()
        version = found or operations.policy_version(workspace, limits, at=self.now())
        Workspace.objects.filter(pk=workspace.pk).update(policy=version)

    @rule(run=runs, amount=st.sampled_from([1, 30000, 120000]))
    def refund_elsewhere(self, run: Run, amount: int) -> None:
        with suppress(refunds.RefundRefused):
            refunds.pay(
                book_id=run.book_id,
                customer_number=42,
                amount_minor=amount,
                currency="USD",
                reason="by phone",
                key=f"phone {run.pk} {amount}",
                at=self.now(),
            )

    @rule(minutes=st.sampled_from([-60, 0, 60]))
    def jump(self, minutes: int) -> None:
        self.ahead = timedelta(minutes=minutes)

    @invariant()
    def everything_is_true(self) -> None:
        with connection.cursor() as cursor:
            assert checker.violations(cursor) == []

    @invariant()
    def what_ended_stays_as_it_is(self) -> None:
        for run in Run.objects.filter(state__in=ENDED):
            seen = (run.state, run.stop_reason, run.outcome, run.ended_at, run.steps.count())
            assert self.ended.setdefault(run.pk, seen) == seen

    def teardown(self) -> None:
        """Let everything come to its end: nothing is stuck, held or unknown."""
        if not hasattr(self, "clock"):
            return
        crashpoints.watch(None)
        try:
            self._to_the_end()
        finally:
            self.clock.stop()

    def _to_the_end(self) -> None:
        self.ahead = timedelta()
        for stage in (Stage.TRIAL, Stage.OFF):
            self.kill_switch(stage)
        for _ in range(ROUNDS):
            self.recover_all()
            left = list(Run.objects.exclude(state__in=ENDED))
            if not left:
                break
            for run in left:
                if go(run).state == RunState.WAITING:
                    self.decide(run, "ada", False, None)
        assert [(run.state, run.wake_at) for run in Run.objects.exclude(state__in=ENDED)] == []
        with connection.cursor() as cursor:
            dump = checker.read(cursor)
        self.everything_is_true()
        assert [charge for charge in dump.charges if charge["held_minor"]] == []
        assert {effect["state"] for effect in dump.effects} <= {"done", "refused"}
        assert list(copies.copied(as_csv(Event.objects.order_by("pk")), dump)) == []


def nth(number: int, work: Callable[[], object]) -> Callable[[str], None]:
    """Return a hook that does `work` when a crash point is reached for the `number`-th time."""
    left = [number]

    def hook(name: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            work()

    return hook


def overtake(run: Run) -> None:
    """Let the run's lease run out and drive it elsewhere. Its own bells reach nobody."""

    let_leases_run_out()
    sweep()
    go_elsewhere(run)


def let_leases_run_out() -> None:
    """End every lease by the database's clock, whatever the clock of the worker says."""
    running = Run.objects.filter(state=RunState.RUNNING)
    running.update(lease_ends_at=_real_now() - timedelta(minutes=1))
