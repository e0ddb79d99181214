"""LangGraph, supervised: the same graph, keeping our promises about money and record.

Every proposal is put to our policy with facts from the desk and a ledger, under lock where it
writes; an intent is committed before its call; a person's decision is a row, checked and judged
before the graph goes on; and a chain of events tells of it all. As in our engine, what a call
came to is committed with what comes next: until then the checkpoint holds it.
"""

import json
import uuid
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from langchain_core.runnables import RunnableConfig
from langgraph.types import interrupt

from agents.core.compat_0_2 import CURRENCY, FIRST_DESK
from agents.core.json_forms import Action, check_action
from agents.core.requests import Json, Stop
from agents.core.reviews import Consent, Facts, ReviewResult, consent_of
from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import pipeline
from agents.engine.desk.rules import limits_of
from agents.models import Membership, Role, Workspace
from agents.models.record import Entry
from agents.policies import NO_CONSENT, review
from agents.record.seals import spell_time
from agents.sdk.desk import DESKS
from agents.sdk.desk_tools import DeskCall
from agents.tools import specs
from bench import graph
from bench.supervised import record, steps, tables
from bench.supervised.case import Case, lock_case, read_ledger, review_event
from bench.supervised.facts import LIMITS
from bench.work import GRANTED_MINOR, answer_of, goal

TOOLS = DESKS["refunds"].all_tools

PAY, COMMENT = "issue_refund", "partly used"
_SPECS = specs("refunds")
_MEMBER = CompiledSelect(
    lambda: Membership.objects.filter(
        workspace=Param("workspace"), user=Param("user"), user__is_active=True
    ).only("role", "desk_limits")
)


class Refused(Exception):
    """Somebody may not do this, or not any more."""


class Contestant(graph.Contestant):
    """The graph, with a workspace, somebody to launch and somebody to decide."""

    def __init__(self, url: str, customers: range) -> None:
        super().__init__(url, customers)
        record.create_tables()
        suffix = uuid.uuid4().hex[:12]
        self.workspace = Workspace.objects.create(
            slug=f"bench-{suffix}", name="Bench", book=self.book, created_at=timezone.now()
        )
        self.omar = self._person(f"omar-{suffix}", Role.OPERATOR)
        self.rita = self._person(f"rita-{suffix}", Role.REVIEWER)

    def _person(self, name: str, role: Role) -> User:
        user = User.objects.create_user(name)
        Membership.objects.create(workspace=self.workspace, user=user, role=role)
        return user

    def close(self, runs: int) -> None:
        super().close(runs)
        record.check(self.workspace.pk, runs)

    def launch(self, thread: str, customer: int) -> None:
        """Record a thread, for a person who may launch. Raises Refused."""
        at, by = timezone.now(), self.omar
        begun = record.Thread(thread, self.workspace.pk, customer, by.pk)
        with transaction.atomic():
            with pipeline():
                member = _MEMBER.fetch_tuples(workspace=self.workspace.pk, user=by.pk)
                event = Entry("run.queued", {"subject": customer}, by.get_username())
                record.insert_thread(begun, goal(customer), [event], at)
            _limit(member.get(), Role.OPERATOR)

    def decide(self, thread: str, asked: Json) -> bool:
        """Grant less than was asked for. The graph is told nothing but to go on. Raises Refused."""
        at, by, step = timezone.now(), self.rita, asked["step"]
        with transaction.atomic():
            with pipeline():
                member = _MEMBER.fetch_tuples(workspace=self.workspace.pk, user=by.pk)
                found = lock_case(thread, asked["customer"], PAY, book=self.book.pk, at=at)
            limit, case = _limit(member.get(), Role.REVIEWER), found()
            held = case.escalation(step)
            if held is None or case.thread.launched_by == by.pk:
                raise Refused("this is nothing for this person to decide")
            allowed = [most for most in (limit, held.requested_minor) if most is not None]
            if min(allowed, default=0) < GRANTED_MINOR:
                raise Refused("more than was asked for, or than this person may grant")
            action = held.granting(GRANTED_MINOR)
            read = held.review["facts"]["own"]["context_of"]
            facts = case.facts(action, read, granted_minor=GRANTED_MINOR)
            judged = self._review(thread, action, facts, consent_of(held.review))
            if not judged.allows or judged.action != action:
                raise Refused(judged.deciding.sentence)
            told = {"step": step, "granted_minor": GRANTED_MINOR, "comment": COMMENT}
            event = Entry("escalation.decided", told, by.get_username())
            now = spell_time(at)
            change = tables.DECIDE, (GRANTED_MINOR, COMMENT, by.pk, now, thread, step, now)
            if case.thread.put([event], change, at=at) != [1]:
                raise Refused("it was decided before, or its time is over")
        return True

    def model(self, state: graph.State, config: RunnableConfig) -> dict[str, Any]:
        graph.watching.get().end_wait()
        wished = answer_of(len(state["history"]), state["customer"])
        action = check_action(wished, specs=_SPECS, proposable=LIMITS.proposable)
        if action["kind"] == "final":
            self._finish(_thread(config), state, action)
        return {"action": action}

    def act(self, state: graph.State, config: RunnableConfig) -> dict[str, Any]:
        thread, tool = _thread(config), TOOLS[state["action"]["name"]]
        ruling = {} if tool.writes else self._allowing(thread, state)
        action = state["action"] if ruling else self._admit_action(thread, state)
        graph.watching.get().end_wait()
        key = steps.key_of(thread, len(state["history"]))
        customer, own = str(state["customer"]), limits_of(DESKS["refunds"], LIMITS)
        call = DeskCall(key, timezone.now(), customer, self.book.pk, own)
        seen = tool.call(call, action["args"])
        return {"history": [{"action": action, "observation": seen, **ruling}]}

    def _allowing(self, thread: str, state: graph.State) -> dict[str, Json]:
        """Return the ruling that allows what is only read, told with what is written next."""
        action, history, book = state["action"], state["history"], self.book.pk
        at, acted = timezone.now(), steps.has_acted(history)
        known = read_ledger(thread, state["customer"], book=book, at=at, has_acted=acted)
        judged = self._review(thread, action, known.facts(action, steps.context_of(history)))
        if not judged.allows or judged.action != action:
            return {}
        return {"ruling": review_event(len(history), action, judged).facts}

    def _admit_action(self, thread: str, state: graph.State) -> Action:
        """Return an action whose intent is committed; wait for a person where the policy says so.

        What the graph is resumed with is not looked at, only what the record says. Raises Stop.
        """
        while (action := self._commit_intent(thread, state)) is None:
            self._pause({"step": len(state["history"]), "customer": state["customer"]})
        return action

    def _commit_intent(self, thread: str, state: graph.State) -> Action | None:
        """Commit the intent of an action, or its escalation and return None. Raises Stop."""
        at, history, action = timezone.now(), state["history"], state["action"]
        step = len(history)
        with transaction.atomic():
            case = self._case(thread, state, action["name"], at)
            if begun := case.effect(step):  # a crash came between the intent and its outcome
                return {**action, "args": begun.args}
            held = case.escalation(step)
            if held and held.state == "open":
                return None
            told, consent = steps.late_events(thread, history), NO_CONSENT
            if held:  # with it the steps before were told of
                told, consent = [], consent_of(held.review)
                action = held.granting(held.granted_minor)
            facts = case.facts(action, steps.context_of(history))
            judged = self._review(thread, action, facts, consent)
            told.append(review_event(step, action, judged))
            if judged.decision == "escalate" and not held:
                case.hold(step, judged, facts, told, at)
                return None
            if judged.allows and (not held or judged.action == action):
                case.intend(step, judged.action, told, at)
                return judged.action
            case.end("stopped", told, at)
        raise Stop(judged.deciding.reason)

    def _finish(self, thread: str, state: graph.State, action: Action) -> None:
        """Review the answer and end the thread. Raises Stop."""
        at, history = timezone.now(), state["history"]
        with transaction.atomic():
            case = self._case(thread, state, "", at)
            if case.thread.state == "done":
                return  # a crash came between this and the checkpoint
            judged = self._review(thread, action, case.facts(action, steps.context_of(history)))
            told = [*steps.late_events(thread, history), review_event(len(history), action, judged)]
            case.end("done" if judged.allows else "stopped", told, at)
        if not judged.allows:
            raise Stop(judged.deciding.reason)

    def _pause(self, asked: Json) -> None:
        interrupt(asked)

    def _review(
        self, thread: str, action: Action, facts: Facts, consent: Consent = NO_CONSENT
    ) -> ReviewResult:
        return review(action, facts, LIMITS, consent=consent)

    def _case(self, thread: str, state: graph.State, tool: str, at: datetime) -> Case:
        """Take up a thread, and say in its ledger what became of its newest write."""
        changes, book = steps.settling(thread, state["history"], at), self.book.pk
        return lock_case(thread, state["customer"], tool, book=book, at=at, changes=changes)()


def _limit(found: list[tuple[Any, ...]], role: Role) -> int | None:
    """Return what a member of this role may grant, None for any amount. Raises Refused."""
    for _, has, limit in found:
        if has == role:
            own = (json.loads(limit) if isinstance(limit, str) else limit).get(FIRST_DESK, {})
            return own.get(CURRENCY)
    raise Refused(f"this takes the role {role}")


def _thread(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])
