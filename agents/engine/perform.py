"""Do what a pattern asks for, and write down what came back."""

from __future__ import annotations

from functools import partial

from django.utils import timezone

from agents.core.decision import settled_by
from agents.core.effects import Ask, Effect, Escalate, Json, Review, Say, Together, Use
from agents.core.limits import Limits
from agents.core.strands import Reply
from agents.db.driver import pipelined
from agents.engine import asking, gateway
from agents.engine.database import in_database
from agents.engine.escalating import hold
from agents.engine.facts import asked_facts
from agents.engine.journal import Journal, Waiting
from agents.engine.open_requests import TOO_MANY, full_of
from agents.policies import review


class RunWorld:
    """The world of one claimed run."""

    def __init__(self, journal: Journal, limits: Limits) -> None:
        self.journal, self.limits = journal, limits

    def recall(self, key: str, effect: Effect) -> Reply | None:
        return self.journal.recall(key, effect)

    async def keep(self) -> None:
        await self.journal.flush()

    async def do(self, key: str, effect: Effect) -> Reply:
        """Do one effect. Raises Waiting where a person has to decide, Later, LostRun."""
        match effect:
            case Ask():
                return await asking.ask(key, effect, self.journal, self.limits)
            case Review():
                return await self._review(key, effect)
            case Escalate():
                return await self._escalate(key, effect)
            case Use():
                return await gateway.use(key, effect, self.journal, self.limits)
            case Say():
                return self.journal.say(key, effect)
            case Together():
                raise TypeError("the loop itself runs flows side by side")

    async def _review(self, key: str, effect: Review) -> Reply:
        """Put an action to the policy, with facts that are fresh and stored with the ruling."""
        step = self.journal.begin(key, effect)
        facts, settled = await in_database(self._facts, effect)
        ruled = review(effect.action, facts, self.limits, settled=settled)
        reply: Json = {**ruled.as_json(), "facts": facts.as_json(), "key": key}
        deciding = ruled.deciding
        said = {"decision": ruled.decision, "rule": deciding.rule, "reason": deciding.reason}
        return self.journal.finish(step, Reply(reply), **said)

    def _facts(self, effect: Review) -> tuple[Json, Json]:
        run, steps = self.journal.run, list(self.journal.steps.values())
        facts, _ = pipelined(
            asked_facts,
            run,
            effect.action,
            self.limits,
            steps,
            at=timezone.now(),
            lock=False,
            done=self.journal.done,
        )
        if not effect.granted:
            return facts, ()
        return facts, settled_by(self.journal.steps[effect.granted].asked["review"])

    async def _escalate(self, key: str, effect: Escalate) -> Reply:
        """Put an action into the inbox, if there is room; the commit comes with the run's move."""
        step, run = self.journal.begin(key, effect), self.journal.run
        full = await in_database(
            partial(
                full_of,
                workspace=run.workspace_id,
                launcher=run.launched_by_id,
                book=run.book_id,
                customer=run.subject,
                limits=self.limits,
            )
        )
        if full:
            return self.journal.finish(step, Reply(failed=f"{TOO_MANY}:{full}"))
        self.journal.write(
            lambda at: hold(
                step, effect.kind, effect.action, effect.review, limits=self.limits, at=at
            ),
            needs_keys=True,
        )
        raise Waiting(key)
