"""opsconsole's engine, in this process: launch, advance, decide, advance."""

import asyncio
import json
import time
import uuid
from contextvars import ContextVar
from functools import partial

from django.contrib.auth.models import User
from django.utils import timezone

from agents import llm
from agents.core.decisions import Decision
from agents.core.requests import RunState
from agents.db.compiled import CompiledSelect, Param
from agents.engine.runtime import crashpoints
from agents.engine.runtime.database import close_connections, in_database
from agents.engine.turns.advance import run_once
from agents.models import Escalation, Role, Run, Workspace
from agents.people import workspaces
from agents.requests import deciding
from agents.runs import launching
from bench import desk
from bench.work import GRANTED_MINOR, Queue, Timing, Watch, answer_of, goal

_watch: ContextVar[Watch] = ContextVar("watch")
# A page names the escalation that it is about.
_ASKED = CompiledSelect(
    lambda: Escalation.objects.filter(run=Param("run"), state="open").only("pk")
)


class Contestant:
    """A workspace of its own, under the strict policy, with somebody to launch and to decide."""

    def __init__(self, url: str, customers: range) -> None:
        suffix, at = uuid.uuid4().hex[:12], timezone.now()
        self.workspace = workspaces.add_workspace(
            desks=["refunds"], slug=f"bench-{suffix}", name="Bench", at=at
        )
        self.omar = self._person(f"omar-{suffix}", Role.OPERATOR)
        self.rita = self._person(f"rita-{suffix}", Role.REVIEWER)
        desk.enter_customers(self.workspace.book_id, customers)
        crashpoints.watch(_note)
        llm.ask = _answer

    def _person(self, name: str, role: Role) -> User:
        user = User.objects.create_user(name)
        workspaces.add_member(workspace=self.workspace, user=user, role=role, at=timezone.now())
        return user

    def run(self, customers: range, *, at_once: int) -> Timing:
        """Take one run a customer from its launch to its end, `at_once` side by side."""
        timing, queue = Timing(), Queue(customers)

        async def one_after_another() -> None:
            for customer in queue:
                watch = Watch()
                await self._refund(customer, watch)
                timing.add(watch)

        async def all_of_them() -> None:
            started = time.perf_counter()
            await asyncio.gather(*(one_after_another() for _ in range(at_once)))
            timing.seconds = time.perf_counter() - started

        asyncio.run(all_of_them())
        close_connections()  # a server counts what a connection wrote at the latest when it ends
        return timing

    async def _refund(self, customer: int, watch: Watch) -> None:
        _watch.set(watch)
        watch.begin_launch()
        run = await in_database(partial(_launch, self.workspace, self.omar, customer))
        await _expect(run, RunState.WAITING)
        watch.begin_decision()
        await in_database(partial(_decide, run, self.rita))
        await _expect(run, RunState.DONE)

    def close(self, runs: int) -> None:
        desk.check(self.workspace.book_id, runs)


def _launch(workspace: Workspace, by: User, customer: int) -> Run:
    return launching.launch(
        desk="refunds",
        workspace=workspace,
        pattern="supervisor",
        goal=goal(customer),
        subject=customer,
        by=by,
        at=timezone.now(),
    )


def _decide(run: Run, by: User) -> None:
    """Grant less than was asked for."""
    deciding.decide(
        escalation_id=_ASKED.get(run=run.pk).pk,
        by=by,
        at=timezone.now(),
        wanted=Decision(approve=True, patch={"amount_minor": GRANTED_MINOR}, comment="partly used"),
    )


async def _expect(run: Run, state: RunState) -> None:
    came_to = await run_once(run.pk)
    if came_to != state:
        raise SystemExit(f"run {run.pk} is {came_to}, not {state}")


async def _answer(question: llm.Question, *, timeout: float) -> llm.ModelAnswer:
    """Answer in a server's place: everybody's model is a plain function here."""
    step = question.inputs["state_summary"]["steps_completed"]
    customer = int(question.inputs["goal"].split()[1])
    return llm.ModelAnswer(json.dumps(answer_of(step, customer)), "scripted", 1, 1, 0, demo=False)


def _note(point: str) -> None:
    if point in ("model.before_call", "gateway.before_call"):
        _watch.get().end_wait()
