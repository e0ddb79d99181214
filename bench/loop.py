"""A plain loop with the supervised graph's promises and the console's own work: a floor.

It drives the graph's two nodes without LangGraph and keeps the state of a thread in one row. What
the console does beside (`ADDED`) is done here too, and its statements travel with the transactions
that are there anyway. It does that work and does not prove it: writes check no fence, the switch
is read outside the lock, a question is a constant of the usual size. So it says how fast a run
could be, not how fast the engine should be.
"""

import json
import time
import uuid
from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db import connections, transaction
from django.utils import timezone
from langchain_core.runnables import RunnableConfig

from agents.core.json_forms import Action, encode
from agents.core.requests import Json
from agents.core.reviews import Consent, Facts, ReviewResult
from agents.db import driver
from agents.db.compiled import send_columns
from agents.engine import deciders as escalating
from agents.engine import kill_switch, redaction
from agents.models.notifications import Notification
from agents.policies import NO_CONSENT
from bench import graph, supervised
from bench.supervised.case import Case, lock_case
from bench.supervised.facts import LIMITS
from bench.supervised.record import Change
from bench.supervised.steps import settling
from bench.work import (
    ADDED,
    CAP,
    CLAIMS,
    MASKING,
    NOTICE,
    STEPS,
    SWITCHES,
    Queue,
    Timing,
    Watch,
    goal,
)

TABLES = (
    "bench_states (thread TEXT PRIMARY KEY, state TEXT NOT NULL)",
    "bench_leases (thread TEXT PRIMARY KEY, fence INTEGER, owner TEXT, ends DOUBLE PRECISION)",
    "bench_turns (thread TEXT, n INTEGER, body TEXT NOT NULL, PRIMARY KEY (thread, n))",
)
QUESTION: Json = {  # of the size that a question of the supervisor has
    "goal": "x" * 70,
    "state_summary": {"steps_completed": 1, "last_step": {"k": "v" * 400}},
    "guide": "g" * 900,
    "recent_step_summaries": [{"step": 1, "a": "b" * 200}] * 3,
}


class Paused(Exception):
    """The thread waits for a person."""

    def __init__(self, asked: Json) -> None:
        super().__init__()
        self.asked = asked


class Contestant(supervised.Contestant):
    """The supervised graph's nodes, driven by a loop."""

    def __init__(self, url: str, customers: range, added: Collection[str] = ADDED) -> None:
        self.added = added
        self.unsent: dict[str, list[Change]] = {}  # for the next transaction of a thread
        self.reviews: dict[str, list[Json]] = {}  # of its turn
        super().__init__(url, customers)
        for table in TABLES:
            _send(f"CREATE TABLE IF NOT EXISTS {table}")

    def _one_after_another(self, queue: Queue, timing: Timing) -> None:
        for customer in queue:
            watch = Watch()
            self._take_through(customer, watch)
            timing.add(watch)
        connections.close_all()

    def _take_through(self, customer: int, watch: Watch) -> None:
        graph.watching.set(watch)
        thread = str(uuid.uuid4())
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        begin: graph.State = {
            "goal": goal(customer),
            "customer": customer,
            "action": {},
            "history": [],
        }
        watch.begin_launch()
        self.launch(thread, customer)
        asked = self._drive(thread, begin, config)
        if asked is None:
            raise SystemExit(f"run {thread} did not wait for a person")
        watch.begin_decision()
        self.decide(thread, asked)
        found = _send("SELECT state FROM bench_states WHERE thread = %s", thread)
        [(kept,)] = found.fetchall()
        self._drive(thread, {**begin, **json.loads(kept)}, config)

    def launch(self, thread: str, customer: int) -> None:
        if CAP in self.added:
            about = {"desk": "refunds", "book": self.book.pk, "subject": str(customer)}
            escalating._OPEN.tuples(workspace=self.workspace.pk, launcher=self.omar.pk, **about)
        super().launch(thread, customer)
        if CLAIMS in self.added:
            _send("INSERT INTO bench_leases VALUES (%s, 0, '', 0)", thread)

    def _drive(self, thread: str, state: graph.State, config: RunnableConfig) -> Json:
        """Return what a person is asked, or None at the end."""
        if CLAIMS in self.added:
            taken = "UPDATE bench_leases SET fence = fence + 1, owner = %s, ends = %s"
            _send(f"{taken} WHERE thread = %s", "worker", time.time() + 15, thread)
        if not state["history"] and not state["action"]:
            begun = "INSERT INTO bench_states (state, thread) VALUES (%s, %s)"
            self.unsent[thread] = [(begun, (_text(state), thread))]
        while True:
            if not state["action"]:
                state["action"] = self.model(state, config)["action"]
                self._keep(thread, state)  # the wish, before its call
                if state["action"]["kind"] == "final":
                    return self._send_rest(thread)
            try:
                state["history"] = state["history"] + self.act(state, config)["history"]
            except Paused as paused:
                self._notify(thread)
                return paused.asked
            state["action"] = {}
            self._keep(thread, state)  # what came of it

    def _keep(self, thread: str, state: graph.State) -> None:
        unsent = self.unsent.setdefault(thread, [])
        if STEPS in self.added:
            number = 2 * len(state["history"]) + bool(state["action"])
            came, reviews = state["history"][-1:], self.reviews.pop(thread, [])
            turn = {"asked": QUESTION, "answer": state["action"], "came": came, "reviews": reviews}
            put = "INSERT INTO bench_turns (thread, n, body) VALUES (%s, %s, %s)"
            unsent.append((put, (thread, number, encode(turn))))
        changed = "UPDATE bench_states SET state = %s WHERE thread = %s"
        # Of several states that one transaction writes only the last counts.
        unsent[:] = [change for change in unsent if change[0] != changed]
        unsent.append((changed, (_text(state), thread)))

    def _send_rest(self, thread: str) -> None:
        with transaction.atomic():
            for statement, values in self.unsent.pop(thread, []):
                _send(statement, *values)

    def _notify(self, thread: str) -> None:
        if NOTICE not in self.added:
            return
        told = {"workspace_id": self.workspace.pk, "kind": "opened", "about": f"request:{thread}"}
        blank = {"detail": "", "run_id": None, "escalation_id": None, "actor": ""}
        with transaction.atomic():
            row = {**told, **blank, "due_at": timezone.now(), "addressed_at": None}
            send_columns(Notification, [row])

    def model(self, state: graph.State, config: RunnableConfig) -> dict[str, Any]:
        found = super().model(state, config)
        return {"action": self._masked(found["action"])}

    def act(self, state: graph.State, config: RunnableConfig) -> dict[str, Any]:
        if SWITCHES in self.added:
            kill_switch._BEFORE_A_WRITE.tuples(workspace=self.workspace.pk, subject="")
        seen = super().act(state, config)
        return {"history": self._masked(seen["history"])}

    def _masked(self, value: Json) -> Json:
        return redaction._mask(value, LIMITS.redaction) if MASKING in self.added else value

    def _case(self, thread: str, state: graph.State, tool: str, at: datetime) -> Case:
        changes = [*settling(thread, state["history"], at), *self.unsent.pop(thread, [])]
        customer, book = state["customer"], self.book.pk
        return lock_case(thread, customer, tool, book=book, at=at, changes=changes)()

    def _pause(self, asked: Json) -> None:
        raise Paused(asked)

    def _review(
        self, thread: str, action: Action, facts: Facts, consent: Consent = NO_CONSENT
    ) -> ReviewResult:
        judged = super()._review(thread, action, facts, consent)
        if STEPS in self.added:
            whole = {"asked": action, **judged.as_json(), "facts": facts.as_json()}
            self.reviews.setdefault(thread, []).append(whole)
        return judged


def _text(state: graph.State) -> str:
    return json.dumps({"action": state["action"], "history": state["history"]})


def _send(statement: str, *values: object) -> Any:
    return driver.send(connections["default"], statement, values)
