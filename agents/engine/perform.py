"""Do what a pattern asks for, and write down what came back."""

from __future__ import annotations

import asyncio
import json
import random
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from agents import llm
from agents.core.budget import exceeded
from agents.core.decision import settled_by
from agents.core.effects import Ask, Effect, Escalate, Json, Review, Say, Together, Use
from agents.core.limits import Limits
from agents.core.retry import ATTEMPTS, pause_before
from agents.core.strands import Reply
from agents.driver import at_once
from agents.engine import breaker, gateway, simulation
from agents.engine.crashpoints import crashpoint
from agents.engine.database import in_database
from agents.engine.escalating import hold
from agents.engine.facts import asked_facts
from agents.engine.journal import Journal, Later, Waiting
from agents.engine.redaction import redacted
from agents.models import Step
from agents.policies import review

PATIENCE = 5.0  # seconds that a retry may wait here; a longer wait is given back to the queue
SPREAD = 5.0  # seconds over which runs come back that waited for the same server
ANSWER_TOKENS = 256  # reserved for an answer before it is known


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
                return await self._ask(key, effect)
            case Review():
                return await self._review(key, effect)
            case Escalate():
                return self._escalate(key, effect)
            case Use():
                return await gateway.use(key, effect, self.journal, self.limits)
            case Say():
                return self.journal.say(key, effect)
            case Together():
                raise TypeError("the loop itself runs flows side by side")

    async def _ask(self, key: str, effect: Ask) -> Reply:
        """Ask a model, again where that may help, within the budgets of the run."""
        leave = await self._leave()  # first: a step that was not begun has used no attempt
        step = self.journal.begin(key, effect)
        self.journal.assume(step, simulation.pause_before(self.journal.run, effect.role))
        over = exceeded(self.journal.spent(), self.limits)
        if over and not (over == "max_seconds" and effect.role in self.limits.late):
            return self.journal.finish(step, Reply(failed=over))
        question = _question(effect, self.journal.run.model)
        reserve = len(json.dumps(question.inputs)) // 4 + ANSWER_TOKENS
        while True:
            # Counted as used before the call: an answer that never comes may still cost.
            self.journal.reserve(step, reserve)
            if leave.address:  # the demo model is in this process and free
                await self.journal.flush()
            try:
                answer = await self._answer(step, question, leave)
            except llm.ModelFailed as error:
                reason = await self._again_or_reason(step, error)
                if reason:
                    return self.journal.finish(step, Reply(failed=reason))
                leave = await self._leave()
                continue
            step.tokens_lost -= reserve
            step.tokens_in, step.tokens_out = answer.tokens_in, answer.tokens_out
            step.cost_micro_usd, step.model = answer.cost_micro_usd, answer.model
            said: Json = {"text": answer.text, "demo": answer.demo}
            facts: Json = {}
            if answer.tool_calls:
                said |= {"tool_calls": list(answer.tool_calls)}
                facts |= {"ignored_tool_calls": len(answer.tool_calls)}
            return self.journal.finish(step, Reply(redacted(said, self.limits)), **facts)

    async def _leave(self) -> breaker.Leave:
        """Return leave to call the model's server. Raises Later while it is left alone."""
        if not llm.address():
            return breaker.Leave("")  # the demo model is in this process
        try:
            return await in_database(breaker.leave)
        except breaker.Resting as resting:
            spread = random.random() * SPREAD  # noqa: S311 - spreads runs, guards nothing
            raise Later(resting.at + timedelta(seconds=spread)) from None

    async def _answer(self, step: Step, question: llm.Question, leave: breaker.Leave) -> llm.Answer:
        """Make one call, timed, within what the run has left."""
        left = self.limits.max_seconds - self.journal.spent().seconds
        longest = settings.OPENAI_TIMEOUT_SECONDS
        is_late = self.limits.late_calls or question.role in self.limits.late
        timeout = longest if is_late else min(longest, max(left, 0.01))
        crashpoint("model.before_call")
        async with self.journal.soon():
            try:
                with self.journal.timed(step):
                    answer = await llm.ask(question, timeout=timeout)
            except llm.ModelFailed as error:
                if not error.outage:
                    await self._answered(leave)
                elif not error.silent or timeout >= longest or leave.probe:
                    # Cut short by the run's own budget, silence says nothing about the server.
                    await in_database(breaker.failed, leave)
                raise
            finally:
                crashpoint("model.after_call")
            await self._answered(leave)
        return answer

    async def _answered(self, leave: breaker.Leave) -> None:
        if leave.failures:
            await in_database(breaker.answered, leave)

    async def _again_or_reason(self, step: Step, error: llm.ModelFailed) -> str:
        """Return why the step fails, or "" once the next attempt may be made."""
        over = exceeded(self.journal.spent(), self.limits)
        if over or not error.retry or step.attempts >= ATTEMPTS:
            return over or error.reason
        self.journal.retried(step, error.reason)
        jitter = random.random()  # noqa: S311 - spreads retries, guards nothing
        pause = pause_before(step.attempts, hint=error.retry_after, jitter=jitter)
        if pause > PATIENCE:
            raise Later(timezone.now() + timedelta(seconds=pause))
        await asyncio.sleep(pause)
        return ""

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
        facts, _ = at_once(
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

    def _escalate(self, key: str, effect: Escalate) -> Reply:
        """Put an action into the inbox; the commit comes with the run's move to waiting."""
        step = self.journal.begin(key, effect)
        self.journal.write(
            lambda at: hold(
                step, effect.kind, effect.action, effect.review, limits=self.limits, at=at
            ),
            needs_keys=True,
        )
        raise Waiting(key)


def _question(effect: Ask, model: str) -> llm.Question:
    """Return the call of a model that an effect asks for, with what guides the model."""
    guide = effect.guide or {}
    inputs, more_tools = effect.inputs, guide.get("more_tools")
    if more_tools:
        inputs = {**inputs, "more_tools": more_tools}
    return llm.Question(effect.role, inputs, effect.as_json, guide.get("schema"), model)
