"""One action that nobody has to decide: an agent elsewhere refunds what is left of a charge."""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from django.utils import timezone

from agents.core.requests import Json
from agents.desks.refunds.models import Charge
from agents.engine.runtime import crashpoints
from agents.engine.turns.advance import run_once
from agents.external import keys
from agents.external.carrying import carrying_out
from agents.external.sessions import open_session, propose
from agents.models import Effect, Run
from bench import databases
from bench.counting import count_statements
from bench.ours import Contestant

WARM, TIMED, COUNTED = 3, 20, 10  # actions, each in a session of its own
LEFT_MINOR, LEFT_USD = 5_000, 50  # of each charge


@contextmanager
def web_process() -> Iterator[None]:
    """Carry out calls as a web process does, whose event loop has a thread here."""
    opened, loop, ended = Event(), asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with carrying_out():
            opened.set()
            await ended.wait()

    serving = Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    serving.start()
    opened.wait()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(ended.set)
        serving.join()
        loop.close()


class Sessions:
    """An agent's sessions, one a customer, each with the context read that a refund rests on."""

    def __init__(self, url: str, count: int) -> None:
        customers = range(1, count + 1)
        home = Contestant(url, customers)
        crashpoints.watch(None)  # no run's clock is read here
        ours = Charge.objects.filter(customer__book=home.workspace.book_id)
        ours.update(amount_minor=LEFT_MINOR)
        self.agent = keys.set_agent(
            workspace=home.workspace,
            name="bench",
            desk="refunds",
            owner=home.omar,
            at=timezone.now(),
        )
        self.open = [self._open(customer) for customer in customers]

    def _open(self, customer: int) -> Run:
        run = open_session(
            agent=self.agent,
            reference=str(customer),
            goal="Refund the rest.",
            subject=str(customer),
            at=timezone.now(),
        )
        asyncio.run(run_once(run.pk))
        self._propose(run, "read", "get_refund_context", {"user_id": customer})
        asyncio.run(run_once(run.pk))
        return run

    def refund(self, count: int) -> None:
        """Propose a refund in so many sessions, in a process that carries each out."""
        for _ in range(count):
            run = self.open.pop()
            args = {"user_id": int(run.subject_key), "amount_usd": LEFT_USD, "reason": "not used"}
            self._propose(run, "refund", "issue_refund", args)

    def _propose(self, run: Run, key: str, name: str, args: Json) -> None:
        at = timezone.now()
        propose(agent=self.agent, run_id=run.pk, key=key, name=name, args=args, at=at)

    def check(self) -> None:
        """Prove that each refund was paid without a person, or stop the benchmark."""
        alone = Effect.objects.filter(run__workspace=self.agent.workspace, escalation=None)
        paid = alone.filter(tool="issue_refund", state="done").count()
        if paid != WARM + TIMED + COUNTED:
            raise SystemExit(f"{paid} refunds were paid without a person")


def main() -> None:
    """Print what one costs at DATABASE_URL, as JSON: from the proposal until it is carried out."""
    url = os.environ["DATABASE_URL"]
    sessions = Sessions(url, WARM + TIMED + COUNTED)
    with web_process():
        sessions.refund(WARM)
        began, cpu = time.perf_counter(), time.process_time()
        sessions.refund(TIMED)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        with databases.count_writes(url) as written, count_statements() as asked:
            sessions.refund(COUNTED)
    sessions.check()
    found = {
        "actions_per_second": TIMED / seconds,
        "statements": asked.statements / COUNTED,
        "trips": asked.trips / COUNTED,
        "commits": asked.commits / COUNTED,
        "kilobytes": written[0].bytes / COUNTED / 1000,
        "cpu_ms": cpu / TIMED * 1000,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
