"""Everything that can happen to runs, in random order, drawn with a seed and weights.

Engine, desk, policy and demo model are real. The clock of whoever acts
can be moved; leases and expiry use the database's.
"""

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from unittest import mock

from django.core.management import call_command
from django.db import connection
from django.db.models import Count, QuerySet
from django.utils import timezone

from agents.audit import protection
from agents.audit.copies import csv_lines
from agents.core.decisions import Decision
from agents.core.requests import ENDED, EscalationState, RunState
from agents.desks.refunds import billing
from agents.engine.runtime import crashpoints
from agents.engine.upkeep.sweep import sweep
from agents.models import Escalation, Event, PolicyVersion, Run, Workspace
from agents.models.outside import SwitchStage
from agents.people import members, workspaces
from agents.requests import deciding
from agents.runs import launching
from agents.runs.kill_switch import kill, release
from agents.shell import refusal
from tests import checker
from tests.checker import record as copies
from tests.engine.dying import die_at
from tests.engine.memory import Crash
from tests.engine.scene import fresh, go, go_elsewhere, in_thread, on_the_charge_of, patch_of
from tests.engine.tiered import TIERS, set_tiered
from tests.limits import with_limits

GOALS = (
    ("supervisor", "User Anna (user_id=42) requests a refund of 1200 USD for the annual plan."),
    ("supervisor", "User Anna (user_id=42) requests a refund of 1000 USD for the annual plan."),
    ("supervisor", "User Anna (user_id=42) requests a refund of 500 USD for the annual plan."),
    ("routing", "Anna (customer 42) is not sure who handles this: he wants his invoice explained."),
    ("routing", "Customer 42 asks what the weather will be."),
)
# Above USD 1,100.00 two of finance decide (Finn and Faye); above 500.00 Lena, who leads, may too.
PEOPLE = ("finn", "faye", "lena", "rita", "omar", "eve", "ada")
ROUNDS = 30  # more than an undisturbed run takes to end
SEEN = ("state", "stop_reason", "outcome", "ended_at", "steps__count")  # of a run that has ended
_real_now = timezone.now


class Engine:
    """Launch, advance, decide, expire, crash, deliver twice, take over, stop, change, jump."""

    def __init__(self, seed: int) -> None:
        protection.unprotect(connection)
        call_command("flush", interactive=False, verbosity=0)  # with the triggers again in place
        tiered = set_tiered()
        self.scene = tiered.scene
        self.people = {name: getattr(tiered, name) for name in ("finn", "faye", "lena", "ada")}
        self.people |= {name: getattr(tiered.scene, name) for name in ("rita", "omar", "eve")}
        self.chance = random.Random(seed)  # noqa: S311 - makes a storm, guards nothing
        self.runs: list[Run] = []
        self.ahead = timedelta()
        self.ended: dict[Any, Any] = {}
        self.done: list[str] = []
        self.deaths = Counter[str]()

    def live(self, steps: int) -> Counter[str]:
        """Perform this many actions, then finish all runs. Return what the record holds.

        That is a count of event kinds and of request states.
        """
        rules = [getattr(self, name) for name in WEIGHTS]
        with mock.patch("django.utils.timezone.now", self.now):
            for rule in self.chance.choices(rules, list(WEIGHTS.values()), k=steps):
                self.done.append(rule.__name__)
                rule()
                self.everything_is_true()
            self.to_the_end()
        kinds = Event.objects.values_list("kind", flat=True)
        states = Escalation.objects.values_list("state", flat=True)
        return self.deaths + Counter([*kinds, *states])

    def now(self) -> datetime:
        return _real_now() + self.ahead

    def a_run(self) -> Run:
        """Return a run, preferring the newest, as the oldest have ended."""
        if not self.runs:
            self.launch()
        return self.chance.choice(self.runs[-4:] if self.chance.random() < 0.8 else self.runs)

    def a_request(self, *, seconded: bool = False) -> Escalation | None:
        """Return a waiting request, or one waiting for a second approval, if any."""
        waiting = still_open().select_related("run", "approval")
        found = list(waiting.exclude(approval=None) if seconded else waiting)
        return self.chance.choice(found) if found else None

    def perhaps(self, run: Run) -> None:
        """Let a worker continue a run: now, later, or after its charge shrank or vanished."""
        when = self.chance.random()
        if when < 0.15:
            self.refund_elsewhere(run)
        if when < 0.75:
            go(run)

    def launch_run(self, goal: tuple[str, str]) -> Run:
        self.scene.workspace.refresh_from_db()  # under the current policy
        self.runs.append(self.scene.launch(goal[1], pattern=goal[0]))
        return self.runs[-1]

    def launch(self) -> None:
        self.perhaps(self.launch_run(self.chance.choices(GOALS, (6, 3, 3, 1, 1))[0]))

    def launch_on_the_same_charges(self) -> None:
        first = self.a_run()
        self.runs[-1] = on_the_charge_of(first, self.launch_run(GOALS[2]))

    def work(self) -> None:
        go(self.a_run())

    def deliver_twice(self) -> None:
        """Deliver a job twice, even long after its run has ended."""
        run = self.a_run()
        events = [go(run).event_count, go(run).event_count]
        if fresh(run).state in (RunState.WAITING, *ENDED):
            assert events[0] == events[1]

    def crash(self) -> None:
        run = self.a_run() if self.chance.random() < 0.5 else self.launch_run(GOALS[0])
        die_at(self.chance.randint(1, 12))
        try:
            go(run)
        except Crash:
            self.deaths["crash"] += 1
        crashpoints.watch(None)

    def take_over(self) -> None:
        """Let a second worker take a run that the first still drives."""
        run, number = self.a_run(), self.chance.randint(1, 12)
        crashpoints.watch(nth(number, lambda: in_thread(lambda: overtake(run))))
        go(run)
        crashpoints.watch(None)

    def recover_all(self) -> None:
        let_leases_run_out()
        sweep()

    def decide(self) -> None:
        """Give any answer in anyone's name, even to a request decided long ago."""
        for escalation in Escalation.objects.filter(run=self.a_run()).order_by("pk"):
            say = self.chance.choice(("yes", "part", "more", "no", "back"))
            amount = self.chance.choice((1, 50000, 80001)) if say == "part" else None
            who = self.chance.choice(PEOPLE)
            self.answer(escalation, who, say, 10**10 if say == "more" else amount)

    def approve(self) -> None:
        """Let two people approve the same terms, or only the first of them."""
        if request := self.a_request():
            amount = self.chance.choice((None, None, 50000, 80000))
            for who in self.chance.sample(PEOPLE[:3], self.chance.choice((1, 1, 2))):
                self.answer(request, who, "part" if amount else "yes", amount)
            self.perhaps(request.run)

    def second(self) -> None:
        if request := self.a_request(seconded=True):
            assert request.approval is not None
            granted = request.approval.granted_minor
            same = None if granted == request.amount_minor else granted
            self.answer(request, self.chance.choice(PEOPLE[:2]), "part" if same else "yes", same)
            self.perhaps(request.run)

    def send_back(self) -> None:
        if request := self.a_request():
            self.answer(request, "rita", "back")
            self.perhaps(request.run)

    def answer(self, request: Escalation, who: str, say: str, amount: int | None = None) -> None:
        approve = say not in ("no", "back")
        with suppress(refusal.Refused):
            deciding.decide(
                escalation_id=request.pk,
                by=self.people[who],
                at=self.now(),
                wanted=Decision(
                    approve=approve,
                    send_back=say == "back",
                    patch=patch_of(amount if approve and request.amount_minor else None),
                    comment="as the customer asked",
                ),
            )

    def leave_finance(self) -> None:
        """Remove the first approver from finance before the second approves."""
        if request := self.a_request():
            about: Any = {"workspace": self.scene.workspace, "slug": "finance", "at": self.now()}
            finn = [self.people["finn"]]
            self.answer(request, "finn", "yes")
            members.set_team(**about, remove=finn)
            self.answer(request, "faye", "yes")
            members.set_team(**about, add=finn)

    def expire(self) -> None:
        if request := self.a_request():
            still_open().filter(pk=request.pk).update(expires_at=_real_now())
            sweep()
            self.perhaps(request.run)

    def be_silent(self) -> None:
        """Let a tier miss its deadline, so that the next one is asked."""
        climbing = still_open().exclude(climbs_at=None)
        if not climbing.exists():
            go(self.launch_run(GOALS[1]))
        climbing.update(climbs_at=_real_now())
        sweep()

    def cancel(self) -> None:
        about: Any = {"by": self.scene.omar, "reason": "enough", "at": self.now()}
        with suppress(refusal.Refused):
            launching.cancel(run_id=self.a_run().pk, **about)

    def kill_switch(self) -> None:
        """Press the switch, act on what it stops, and release it fully or on trial."""
        self.press(SwitchStage.ON)
        for rule in self.chance.choices((self.approve, self.work, self.launch), k=2):
            rule()
        for stage in (SwitchStage.TRIAL, SwitchStage.OFF)[: self.chance.choice((1, 2, 2))]:
            self.press(stage)

    def press(self, to: SwitchStage) -> None:
        press = kill if to is SwitchStage.ON else partial(release, to=to)
        about: Any = {"workspace": self.scene.workspace, "by": self.people["ada"]}
        with suppress(refusal.Refused):  # released without having been pressed
            press(**about, reason="look", at=self.now())

    def change_policy(self) -> None:
        limit, hours = self.chance.choice((10000, 50000, 100000)), self.chance.choice((1, 24))
        limits = with_limits(auto_limit_minor=limit)
        limits = replace(limits, escalation_seconds=hours * 3600, tiers=TIERS)
        workspace = self.scene.workspace
        found = PolicyVersion.objects.filter(document=limits.as_json()).first()
        version = found or workspaces.policy_version(workspace, limits, at=self.now())
        Workspace.objects.filter(pk=workspace.pk).update(policy=version)

    def shrink(self) -> None:
        """Refund an approved amount elsewhere before the run carries it out."""
        if request := self.a_request():
            for who in PEOPLE[:2]:
                self.answer(request, who, "yes")
            self.refund_elsewhere(request.run, 120000)
            go(request.run)

    def refund_elsewhere(self, run: Run | None = None, amount: int = 0) -> None:
        run, amount = run or self.a_run(), amount or self.chance.choice((1, 30000, 120000))
        with suppress(billing.RefundRefused):
            billing.pay(
                book_id=run.book_id,
                customer_number=42,
                amount_minor=amount,
                currency="USD",
                reason="by phone",
                key=f"phone {run.pk} {amount}",
                at=self.now(),
            )

    def jump(self) -> None:
        self.ahead = timedelta(minutes=self.chance.choice((-60, 0, 60)))

    def everything_is_true(self) -> None:
        with connection.cursor() as cursor:
            assert checker.violations(cursor) == []
        ended = Run.objects.filter(state__in=ENDED)
        for key, *seen in ended.annotate(Count("steps")).values_list("pk", *SEEN):
            assert self.ended.setdefault(key, seen) == seen

    def to_the_end(self) -> None:
        """Finish everything and check that nothing is stuck, held or unknown."""
        self.ahead = timedelta()
        for stage in (SwitchStage.TRIAL, SwitchStage.OFF):
            self.press(stage)
        for _ in range(ROUNDS):
            self.recover_all()
            left = list(Run.objects.exclude(state__in=ENDED))
            if not left:
                break
            for run in left:
                if go(run).state == RunState.WAITING:
                    for request in still_open().filter(run=run):
                        self.answer(request, "ada", "no")
        assert [(run.state, run.wake_at) for run in Run.objects.exclude(state__in=ENDED)] == []
        with connection.cursor() as cursor:
            dump = checker.read(cursor)
        self.everything_is_true()
        assert [charge for charge in dump.charges if charge["held_minor"]] == []
        assert {effect["state"] for effect in dump.effects} <= {"done", "refused"}
        events = Event.objects.order_by("pk").select_related("run").prefetch_related("texts")
        table = "".join(csv_lines(events, list(events.values_list("pk", flat=True))))
        assert list(copies.copy_is_whole(table, dump)) == []


# The weight of each action; most are about runs that wait for people.
WEIGHTS = {
    "launch": 16,
    "launch_on_the_same_charges": 4,
    "work": 8,
    "deliver_twice": 3,
    "crash": 6,
    "take_over": 4,
    "recover_all": 8,
    "decide": 6,
    "approve": 16,
    "second": 8,
    "leave_finance": 3,
    "send_back": 5,
    "expire": 4,
    "be_silent": 6,
    "cancel": 2,
    "kill_switch": 3,
    "change_policy": 3,
    "shrink": 3,
    "refund_elsewhere": 3,
    "jump": 4,
}


def still_open() -> QuerySet[Escalation]:
    return Escalation.objects.filter(state=EscalationState.OPEN).order_by("pk")


def nth(number: int, work: Callable[[], object]) -> Callable[[str], None]:
    """Return a hook that calls `work` at the `number`-th crash point."""
    left = [number]

    def hook(name: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            work()

    return hook


def overtake(run: Run) -> None:
    """Expire the run's lease and drive it elsewhere; its own bells reach nobody."""

    let_leases_run_out()
    sweep()
    go_elsewhere(run)


def let_leases_run_out() -> None:
    """Expire every lease by the database's clock, whatever the worker's clock says."""
    running = Run.objects.filter(state=RunState.RUNNING)
    running.update(lease_ends_at=_real_now() - timedelta(minutes=1))
