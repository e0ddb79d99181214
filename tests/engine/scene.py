"""A workspace with its people, and helpers to drive a refund with the demo model."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from threading import Thread
from typing import Any
from unittest import mock
from uuid import UUID

from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Model
from django.utils import timezone

from agents import llm
from agents.core.compat_0_2 import FIRST_DESK
from agents.core.decisions import Decision
from agents.core.limits import Limits
from agents.core.requests import ENDED, EscalationState, Json, RunState
from agents.engine.runtime.database import Pool, close_connections
from agents.engine.turns.advance import run_once
from agents.engine.upkeep.sweep import sweep
from agents.engine.workers.worker import claimable
from agents.models import Escalation, KillSwitch, PolicyVersion, Role, Run, Workspace
from agents.people import workspaces
from agents.publishing import versions as publishing
from agents.requests import deciding
from agents.runs import kill_switch, launching
from agents.sdk.desk import DESKS
from tests.database import make_once
from tests.limits import first_limit

if FIRST_DESK in DESKS:  # a part of the suite runs without
    from agents.desks.refunds import billing
    from agents.desks.refunds.models import Refund, SentMail
    from agents.desks.refunds.scenarios import BY_KEY

REFUND_1200 = "User Anna (user_id=42) requests a refund of 1200 USD for the annual plan."
REFUND_500 = "User Anna (user_id=42) requests a refund of 500 USD for the annual plan."


@dataclass(frozen=True)
class Scene:
    """The demo workspace: Rita reviews up to 800, Omar operates, Eve is a viewer."""

    workspace: Workspace
    rita: User
    omar: User
    eve: User

    def add(self, name: str, role: Role, **more: Any) -> User:
        """Add a person to the workspace."""
        user, at = User.objects.create_user(name), timezone.now()
        workspaces.add_member(workspace=self.workspace, user=user, role=role, at=at, **more)
        return user

    def publish(self, document: Json, by: User) -> PolicyVersion:
        where, at = self.workspace, timezone.now()
        return publishing.publish_policy(workspace=where, document=document, by=by, at=at)

    def put_in_force(self, limits: Limits) -> None:
        """Let new runs follow a policy that nobody published."""
        version = publishing.policy_version(self.workspace, limits, at=timezone.now())
        Workspace.objects.filter(pk=self.workspace.pk).update(policy=version)

    def kill(self, by: User, reason: str, **more: Any) -> KillSwitch:
        where, at = self.workspace, timezone.now()
        return kill_switch.kill(workspace=where, by=by, reason=reason, at=at, **more)

    def launch(
        self,
        goal: str = REFUND_1200,
        *,
        pattern: str = "supervisor",
        desk: str = FIRST_DESK,
        subject: int | str | None = 42,
        by: User | None = None,
        **options: Any,
    ) -> Run:
        return launching.launch(
            workspace=self.workspace,
            pattern=pattern,
            goal=goal,
            desk=desk,
            subject=subject,
            by=by or self.omar,
            at=timezone.now(),
            options=launching.LaunchOptions(**options),
        )

    def launch_under(self, limits: Limits, goal: str = REFUND_500, **more: Any) -> Run:
        """Launch a run under other limits than the published ones."""
        at = timezone.now()
        policy = workspaces.policy_version(self.workspace, limits, at=at, is_replay=True)
        return self.launch(goal, policy=policy, **more)

    def launch_scenario(self, key: str) -> Run:
        """Launch a scenario of the gallery by its key."""
        one = BY_KEY[key]
        return self.launch(
            one.goal,
            pattern=one.pattern,
            subject=one.subject or None,
            workflow=one.workflow,
            off=one.off,
        )

    def done_refund(self) -> Run:
        """Return a finished refund within the limit; it is made once."""
        return make_once("done refund", lambda: go(self.launch(REFUND_500)))

    def decided_refund(self, **decision: Any) -> Run:
        """Return the run of a refund that Rita has decided, driven on."""
        run = go(self.launch())
        self.decide(run, **decision)
        return go(run)

    def decide(self, run: Run, *, approve: bool = True, amount_minor: int | None = 80000) -> None:
        escalation = Escalation.objects.get(run=run, state=EscalationState.OPEN)
        patch = patch_of(amount_minor if approve and escalation.amount_minor else None)
        comment = "partly used"
        decide_request(escalation, self.rita, approve=approve, patch=patch, comment=comment)


def decide_request(held: Escalation, by: User, *, approve: bool = True, **more: Any) -> Escalation:
    """Decide a request now."""
    at = timezone.now()
    return deciding.decide(
        escalation_id=held.pk, by=by, at=at, wanted=Decision(approve=approve, **more)
    )


def set_scene() -> Scene:
    """Make the workspace and its three people."""
    return make_once("scene", _new_scene)


def _new_scene() -> Scene:
    at = timezone.now()
    workspace = workspaces.ensure_demo_workspace(at=at)
    people = {name: User.objects.create_user(name) for name in ("rita", "omar", "eve")}
    limits = {Role.REVIEWER: 80000} if FIRST_DESK in DESKS else {}
    roles = {"rita": Role.REVIEWER, "omar": Role.OPERATOR, "eve": Role.VIEWER}
    for name, role in roles.items():
        workspaces.add_member(
            workspace=workspace,
            user=people[name],
            role=role,
            desk_limits=first_limit(limits.get(role)),
            at=at,
        )
    return Scene(workspace, **people)


def go(run: Run) -> Run:
    """Advance a run once, like a worker, and return it reloaded."""

    async def once() -> None:
        try:
            await run_once(run.pk)
        finally:
            await llm.close()
            close_connections()

    asyncio.run(once())
    return fresh(run)


def fresh(run: Run) -> Run:
    return Run.objects.select_related("policy", "workspace").get(pk=run.pk)


def claimable_runs(limit: int) -> list[UUID]:
    """Return runs that a worker may claim now."""
    return list(claimable().order_by("created_at", "pk").values_list("pk", flat=True)[:limit])


def recover(run_id: UUID) -> None:
    """Expire the dead worker's lease, and sweep."""
    gone = Run.objects.filter(pk=run_id, state=RunState.RUNNING)
    gone.update(lease_ends_at=timezone.now() - timedelta(minutes=1))
    sweep()


def has_ended(run: Run) -> bool:
    return fresh(run).state in ENDED


def payments(run: Run) -> list[int]:
    """Return what the desk has paid in the run's book, in minor units."""
    refunds = Refund.objects.filter(charge__customer__book_id=run.book_id, state="paid")
    return list(refunds.order_by("pk").values_list("amount_minor", flat=True))


def mails(run: Run) -> list[int | None]:
    """Return the amounts of the mails sent in the run's book; None for a reply."""
    mails = SentMail.objects.filter(book_id=run.book_id, state="sent")
    return list(mails.order_by("pk").values_list("amount_minor", flat=True))


def in_thread(work: Callable[[], object]) -> None:
    """Run database work from a hook on the event loop, where the ORM refuses to work."""
    failed: list[BaseException] = []

    def work_guarded() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)
        finally:
            connection.close()

    thread = Thread(target=work_guarded)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


def patch_of(amount_minor: int | None) -> dict[str, object] | None:
    """Return the patch for granting an amount of a refund; None: as requested."""
    return None if amount_minor is None else {"amount_minor": amount_minor}


def columns_of(row: Model) -> dict[str, object]:
    """Return the columns of a row as its object holds them."""
    return {name: value for name, value in vars(row).items() if name[0] != "_"}


def refund_by_phone(run: Run, amount_minor: int = 120000) -> None:
    """Refund Anna's charge without a run, in this run's book."""
    billing.pay(
        book_id=run.book_id,
        customer_number=42,
        amount_minor=amount_minor,
        currency="USD",
        reason="by phone",
        key=f"by phone {amount_minor}",
        at=timezone.now(),
    )


def on_the_charge_of(first: Run, run: Run) -> Run:
    """Move a queued run to another one's book, as each demo run has its own copy."""
    Run.objects.filter(pk=run.pk).update(book_id=first.book_id)
    return fresh(run)


ELSEWHERE = Pool(1, "elsewhere")  # the second worker's database threads


def go_elsewhere(run: Run) -> None:
    """Drive a run as a second worker while the first is within a commit."""

    async def once() -> None:
        try:
            await run_once(run.pk)
        finally:
            await llm.close()

    # On SQLite a worker has one database thread, which the first one occupies here.
    with mock.patch("agents.engine.runtime.database.DATABASE_THREADS", ELSEWHERE):
        asyncio.run(once())
    ELSEWHERE.close_connections()
