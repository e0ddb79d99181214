"""Do what a pattern asks for, and write down what came back."""

from __future__ import annotations

from functools import partial

from django.utils import timezone

from agents.core.limits import Limits
from agents.core.request_kinds import EFFECT_UNKNOWN
from agents.core.requests import (
    Ask,
    Await,
    Escalate,
    Json,
    Reply,
    Request,
    Review,
    Say,
    Together,
    Use,
)
from agents.core.reviews import Ruling, consent_of
from agents.db.driver import fetch_now
from agents.engine.commit import Commit
from agents.engine.desk.company import AGAIN, FAILED, StaleLookup, look_up
from agents.engine.desk.facts import calls_before, fetch_facts
from agents.engine.desk.review_context import review_shown
from agents.engine.desk.subjects import key_ruling
from agents.engine.drive import Later, WaitsForPerson
from agents.engine.journal import Journal
from agents.engine.people.approvals import close_approvals, turn_of
from agents.engine.people.escalating import open_escalation
from agents.engine.runtime.database import in_database
from agents.engine.tools import gateway
from agents.engine.turns import asking
from agents.engine.withdrawal import WITHDRAWN, is_withdrawn
from agents.models import Step
from agents.patterns.external import ANSWERED, NOT_EXECUTED, UNKNOWN
from agents.policies import NO_CONSENT, review
from agents.tools import is_by_agent

# Of a call that its agent has and did not report: its slot goes on, while a person is asked.
LEFT = Reply(failed=EFFECT_UNKNOWN.stored)


class RunExecutor:
    """The world of one claimed run."""

    def __init__(self, journal: Journal, limits: Limits) -> None:
        self.journal, self.limits = journal, limits

    def recall(self, key: str, request: Request) -> Reply | None:
        """Return the recorded reply; LEFT if the slot of a call has gone on without one."""
        if not isinstance(request, Use):
            return self.journal.recall(key, request)
        try:
            recorded = self.journal.recall(key, request)
        except WaitsForPerson:
            if not is_by_agent(request.tool):
                raise
            return LEFT
        answer = self.journal.steps.get(f"{turn_of(key)}answer")
        said = answer.asked if answer else {}
        has_left = said.get("kind") == ANSWERED and said["facts"]["status"] == UNKNOWN
        return LEFT if has_left else recorded

    async def keep(self) -> None:
        await self.journal.flush()

    async def do(self, key: str, request: Request) -> Reply:
        """Answer one request. Raises WaitsForPerson, Later, LostRun."""
        match request:
            case Ask():
                return await asking.ask(key, request, self.journal, self.limits)
            case Review():
                return await self._review(key, request)
            case Escalate():
                return await self._escalate(key, request)
            case Use():
                return await gateway.use(key, request, self.journal, self.limits)
            case Await():
                self.journal.begin(key, request)
                raise WaitsForPerson(key)
            case Say():
                return self._say(key, request)
            case Together():
                raise TypeError("the loop itself runs flows side by side")

    def _say(self, key: str, request: Say) -> Reply:
        """Record a line; one with which an approved call ends unexecuted closes its approval."""
        turn, asked = turn_of(key), [s for s in self.journal.steps.values() if s.kind == "escalate"]
        facts = request.facts
        is_undone = request.kind == ANSWERED and facts["status"] == NOT_EXECUTED
        if is_undone and any(step.key.startswith(turn) for step in asked):
            self.journal.under_lock(partial(_close, why=facts["reason"], turn=turn))
        return self.journal.say(key, request)

    async def _review(self, key: str, request: Review) -> Reply:
        """Put an action to the policy, with facts that are fresh and stored with the ruling."""
        self.journal.ahead = await look_up(self.journal.run, self.journal.ahead)
        step = self.journal.begin(key, request)
        try:
            facts, consent, named = await in_database(self._facts, request, turn_of(key))
        except StaleLookup:
            raise Later(AGAIN, FAILED, is_fruitless=True) from None
        ruled = review(request.action, facts, self.limits, consent=consent, named=named)
        reply: Json = {**ruled.as_json(), "facts": facts.as_json(), "key": key}
        deciding = ruled.deciding
        said = {"decision": ruled.decision, "rule": deciding.rule, "reason": deciding.reason}
        return self.journal.finish(step, Reply(reply), **said)

    def _facts(self, request: Review, turn: str) -> tuple[Json, Json, Ruling | None]:
        run = self.journal.run
        steps = [*calls_before(run, request.action), *self.journal.steps.values()]
        # What a person has decided holds keys: one that is none by now is for the desk's own rules.
        named = None if request.granted else key_ruling(run, request.action, self.limits)
        granted = self.journal.steps[request.granted] if request.granted else None
        facts, _ = fetch_now(
            fetch_facts,
            run,
            (named and named.action) or request.action,
            self.limits,
            steps,
            at=timezone.now(),
            lock=False,
            done=self.journal.done,
            ahead=self.journal.ahead,
            turn=turn,
            before=review_shown(granted) if granted else None,
        )
        if granted is None:
            return facts, NO_CONSENT, named
        return facts, consent_of(granted.asked["review"], granted.reply), named

    async def _escalate(self, key: str, request: Escalate) -> Reply:
        """Put an action into the inbox; the commit comes with the run's move."""
        self.journal.under_lock(partial(self._open, self.journal.begin(key, request), request))
        raise WaitsForPerson(key)

    def _open(self, step: Step, request: Escalate, commit: Commit) -> None:
        """Open the request, or answer its step at once where nobody is to be asked."""
        if is_withdrawn(self.journal.run, turn_of(step.key)):
            return self.journal.turn_away(WITHDRAWN, step, commit)
        full = open_escalation(
            commit,
            step=step,
            kind=request.kind,
            action=request.action,
            review=request.review,
            limits=self.limits,
        )
        if full:
            self.journal.turn_away(f"too_many_open_requests:{full}", step, commit)
        return None


def _close(commit: Commit, *, why: str, turn: str) -> None:
    commit.tell(close_approvals(commit.run, why=why, turn=turn))
