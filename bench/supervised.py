"""LangGraph, supervised: the same graph, keeping our promises about money and record.

Every proposal is put to our policy with facts from the desk and a ledger, under lock where it
writes; an intent is committed before its call; a person's decision is a row, checked and judged
before the graph goes on; and a chain of events tells of it all. As in our engine, what a call
came to is committed with what comes next: until then the checkpoint holds it.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from langchain_core.runnables import RunnableConfig
from langgraph.types import interrupt

from agents.core.actions import Action, check_action
from agents.core.chain import spelled
from agents.core.decision import Review
from agents.core.digest import canonical, sha256
from agents.core.effects import Json, Stop
from agents.core.facts import Facts
from agents.driver import together
from agents.models import Membership, Role, Workspace
from agents.models.event import Entry
from agents.policies import review
from agents.prepared import Given, Rows
from agents.tools import TOOLS, Context, specs
from bench import graph, record
from bench.facts import LIMITS, Case, looked_up, taken_up
from bench.work import GRANTED_MINOR, goal, said

PAY, COMMENT = "issue_refund", "partly used"
_SPECS = specs()
_MEMBER = Rows(
    lambda: Membership.objects.filter(
        workspace=Given("workspace"), user=Given("user"), user__is_active=True
    ).only("role", "refund_limit_minor")
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
            with together():
                member = _MEMBER.sent_tuples(workspace=self.workspace.pk, user=by.pk)
                said = Entry("run.queued", {"subject": customer}, by.get_username())
                record.launched(begun, goal(customer), [said], at)
            _limit(member(), Role.OPERATOR)

    def decide(self, thread: str, asked: Json) -> bool:
        """Grant less than was asked for. The graph is told nothing but to go on. Raises Refused."""
        at, by, step = timezone.now(), self.rita, asked["step"]
        with transaction.atomic():
            with together():
                member = _MEMBER.sent_tuples(workspace=self.workspace.pk, user=by.pk)
                found = taken_up(thread, asked["customer"], PAY, book=self.book.pk, at=at)
            limit, case = _limit(member(), Role.REVIEWER), found()
            held = case.escalation(step)
            if held is None or case.thread.launched_by == by.pk:
                raise Refused("somebody else has to decide this")
            if limit is not None and limit < GRANTED_MINOR:
                raise Refused("more than this person may grant")
            action = held.granting(GRANTED_MINOR)
            facts = case.facts(action, held.review["facts"]["context_of"])
            judged = review(action, facts, LIMITS, settled=held.review["escalating"])
            if not judged.allows or judged.action != action:
                raise Refused(judged.deciding.sentence)
            told = {"step": step, "granted_minor": GRANTED_MINOR, "comment": COMMENT}
            said = Entry("escalation.decided", told, by.get_username())
            now = spelled(at)
            change = record.DECIDE, (GRANTED_MINOR, COMMENT, by.pk, now, thread, step, now)
            if case.thread.put([said], change, at=at) != [1]:
                raise Refused("it was decided before, or its time is over")
        return True

    def model(self, state: graph.State, config: RunnableConfig) -> dict[str, Any]:
        graph.watching.get().reached()
        wished = said(len(state["history"]), state["customer"])
        action = check_action(wished, specs=_SPECS, proposable=LIMITS.proposable)
        if action["kind"] == "final":
            self._finish(_thread(config), state, action)
        return {"action": action}

    def act(self, state: graph.State, config: RunnableConfig) -> dict[str, Any]:
        thread, step = _thread(config), len(state["history"])
        tool = TOOLS[state["action"]["name"]]
        ruling = {} if tool.writes else self._read_allowed(thread, state)
        action = state["action"] if ruling else self._admitted(thread, state)
        graph.watching.get().reached()
        key = _key(thread, step)
        context = Context(self.book.pk, key, timezone.now(), LIMITS, state["customer"])
        seen = tool.call(context, **action["args"])
        return {"history": [{"action": action, "observation": seen, **ruling}]}

    def _read_allowed(self, thread: str, state: graph.State) -> dict[str, Json]:
        """Return the ruling that allows what is only read, told with what is written next."""
        at, action = timezone.now(), state["action"]
        has_acted = any("ruling" not in past for past in state["history"])
        known = looked_up(thread, state["customer"], book=self.book.pk, at=at, has_acted=has_acted)
        judged = review(action, known.facts(action, _context_of(state)), LIMITS)
        if not judged.allows or judged.action != action:
            return {}
        return {"ruling": _ruled(len(state["history"]), action, judged).facts}

    def _admitted(self, thread: str, state: graph.State) -> Action:
        """Return an action whose intent is committed; wait for a person where the policy says so.

        What the graph is resumed with is not looked at, only what the record says. Raises Stop.
        """
        while (action := self._intended(thread, state)) is None:
            interrupt({"step": len(state["history"]), "customer": state["customer"]})
        return action

    def _intended(self, thread: str, state: graph.State) -> Action | None:
        """Commit the intent of an action, or its escalation and return None. Raises Stop."""
        at, step, action = timezone.now(), len(state["history"]), state["action"]
        with transaction.atomic():
            case = self._case(thread, state, action["name"], at)
            if begun := case.effect(step):  # a crash came between the intent and its outcome
                return {**action, "args": begun.args}
            held = case.escalation(step)
            if held and held.state == "open":
                return None
            told, settled = _untold(thread, state), ()
            if held:
                told, settled = [], held.review["escalating"]
                action = held.granting(held.granted_minor)
            facts = case.facts(action, _context_of(state))
            judged = review(action, facts, LIMITS, settled=settled)
            told.append(_ruled(step, action, judged))
            if judged.decision == "escalate" and not held:
                _hold(case, step, judged, facts, told, at)
                return None
            if judged.allows and (not held or judged.action == action):
                self._intend(case, step, judged.action, told, at)
                return judged.action
            _end(case, "stopped", told, at)
        raise Stop(judged.deciding.reason)

    def _intend(
        self, case: Case, step: int, action: Action, told: list[Entry], at: datetime
    ) -> None:
        """Write what is about to be done, and hold what it will use."""
        tool, args, key = action["name"], action["args"], _key(case.thread.id, step)
        by_person = case.escalation(step) is not None
        charge = case.charge.charge_id if case.charge else None
        bound = (case.thread.id, step, tool, canonical(args), sha256(action))
        about = (self.book.pk, args["user_id"], charge, args.get("amount_minor"), by_person)
        told.append(Entry("effect.intended", {"key": key, "tool": tool, "args_sha256": bound[-1]}))
        case.thread.put(told, (record.INTEND, (*bound, *about, spelled(at))), at=at)
        if reserve := TOOLS[tool].reserve:
            reserve(Context(self.book.pk, key, at, LIMITS, case.customer), **args)

    def _case(self, thread: str, state: graph.State, tool: str | None, at: datetime) -> Case:
        """Take up a thread, and say in its ledger what became of its newest write."""
        changes = []
        for step, past in _newest(state):
            if outcome := _outcome(past):
                seen = canonical(past["observation"])
                changes.append((record.SETTLE, (outcome, seen, spelled(at), thread, step)))
            if outcome == "refused" and (release := TOOLS[past["action"]["name"]].release):
                release(_key(thread, step), at)
        book = self.book.pk
        return taken_up(thread, state["customer"], tool, book=book, at=at, changes=changes)()

    def _finish(self, thread: str, state: graph.State, action: Action) -> None:
        """Review the answer and end the thread. Raises Stop."""
        at = timezone.now()
        with transaction.atomic():
            case = self._case(thread, state, None, at)
            if case.thread.state == "done":
                return  # a crash came between this and the checkpoint
            judged = review(action, case.facts(action, _context_of(state)), LIMITS)
            told = [*_untold(thread, state), _ruled(len(state["history"]), action, judged)]
            _end(case, "done" if judged.allows else "stopped", told, at)
        if not judged.allows:
            raise Stop(judged.deciding.reason)


def _limit(found: list[tuple[Any, ...]], role: Role) -> int | None:
    """Return what a member of this role may grant, None for any amount. Raises Refused."""
    for _, has, limit in found:
        if has == role:
            return limit  # type: ignore[no-any-return]
    raise Refused(f"this takes the role {role}")


def _thread(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])


def _key(thread: str, step: int) -> str:
    return f"{thread}:{step}"


def _context_of(state: graph.State) -> list[int]:
    """Return the customers whose context was really read: the desk named them in its answer."""
    seen = [past["observation"] for past in state["history"]]
    return sorted({found["user"]["id"] for found in seen if "user" in found})


def _newest(state: graph.State) -> list[tuple[int, dict[str, Any]]]:
    """Return the steps that no transaction has told of: the newest write, and the reads since."""
    steps = list(enumerate(state["history"]))
    return steps[max((step for step, past in steps if _outcome(past)), default=0) :]


def _outcome(past: dict[str, Any]) -> str:
    """Return what became of a write, "" for what was only read."""
    if "ruling" in past:
        return ""
    return "done" if past["observation"].get("status") == "ok" else "refused"


def _untold(thread: str, state: graph.State) -> list[Entry]:
    """Return the events of steps that no transaction has told of."""
    return [
        Entry(f"effect.{outcome}", {"key": _key(thread, step)})
        if (outcome := _outcome(past))
        else Entry("action.ruled", past["ruling"])
        for step, past in _newest(state)
    ]


def _ruled(step: int, action: Action, judged: Review) -> Entry:
    deciding = judged.deciding
    said = {"decision": judged.decision, "rule": deciding.rule, "reason": deciding.reason}
    return Entry("action.ruled", {"step": step, "action_sha256": sha256(action), **said})


def _hold(
    case: Case, step: int, judged: Review, facts: Facts, told: list[Entry], at: datetime
) -> None:
    """Put an action before a person."""
    action, expires_at = judged.action, at + timedelta(seconds=LIMITS.escalation_seconds)
    kept = canonical({**judged.as_json(), "facts": facts.as_json()})
    bound = (case.thread.id, step, canonical(action), digest := sha256(action), kept)
    asked = action["args"].get("amount_minor")
    told.append(Entry("escalation.opened", {"step": step, "action_sha256": digest}))
    case.thread.put(told, (record.HOLD, (*bound, asked, spelled(expires_at))), at=at)


def _end(case: Case, state: str, told: list[Entry], at: datetime) -> None:
    case.thread.state = state
    case.thread.put([*told, Entry(f"run.{state}")], at=at)
