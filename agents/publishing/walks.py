"""Walk a recorded run under another version, up to the first thing that its record lacks.

No model, person or business is asked, and nothing is executed or stored.
"""

import asyncio
from dataclasses import replace

from agents.core.limits import BadPolicy, Limits, read_limits
from agents.core.requests import Ask, Diverged, Escalate, Json, Reply, Request, Review, Use
from agents.core.reviews import ReviewResult
from agents.engine.again import EMPTIED, LOCKED, rulings_again
from agents.engine.drive import WaitsForPerson, drive
from agents.engine.journal import Journal
from agents.engine.turns.advance import RunExecutor, brief_in, limits_in
from agents.models import Run, Step
from agents.models.runs import ValuesLocked
from agents.patterns import PATTERNS, Notes
from agents.policies.words import end_sentence
from agents.sdk.desk import DESKS

_LACKS = {
    Ask: "The agent would be asked something else. The record holds no answer to that.",
    Escalate: "The record holds no answer of a person to this request.",
    Use: "The record holds no result of this call.",
}


class RecordEnds(Exception):
    """The record does not hold what comes next; the text says why."""


class _Walker(RunExecutor):
    """Answers from the record; reviews are judged by the other version."""

    def __init__(self, run: Run, limits: Limits) -> None:
        super().__init__(Journal(run), limits_in(run, limits))
        self.steps = sorted(self.journal.steps.values(), key=lambda step: step.position)
        self.judged = {one.key: ruled for one, ruled in rulings_again(run, self.steps, limits)}
        self.reached: dict[str, ReviewResult] = {}

    def recall(self, key: str, request: Request) -> Reply | None:
        step = self.journal.steps.get(key)
        if step is None:
            return None
        if isinstance(request, Review) and request.action == step.asked.get("action"):
            ruled = self.judged[key]
            if isinstance(ruled, str):
                raise RecordEnds(ruled)
            self.reached[key] = ruled[1]
            return Reply({**(step.reply or {}), **ruled[1].as_json()})
        try:
            return super().recall(key, request)
        except Diverged:  # what a person was shown may differ, not what they decided on
            is_same = isinstance(request, Escalate) and request.action == step.asked.get("action")
            if not is_same:
                return None
        if step.ended_at is None:
            raise WaitsForPerson(key)
        return Reply(step.reply, step.failed)

    async def keep(self) -> None:
        """Write nothing."""

    async def do(self, key: str, request: Request) -> Reply:
        raise RecordEnds(_LACKS.get(type(request), "The record holds nothing that follows here."))


def walk(run: Run, document: Json) -> tuple[list[tuple[Step, ReviewResult | None]], str]:
    """Return a run's reviews with another version's rulings, and why the walk ended.

    A review without a ruling was not reached.
    """
    if run.is_emptied or run.desk not in DESKS:
        return [], EMPTIED if run.is_emptied else "Its desk is not installed."
    try:
        walker = _Walker(run, read_limits(document).of(run.pattern, run.desk))
        brief = replace(brief_in(walker.journal), limits=walker.limits)
    except ValuesLocked:
        return [], LOCKED
    except BadPolicy as error:
        return [], str(error)
    try:
        end = asyncio.run(drive(PATTERNS[run.pattern](brief, Notes()), walker)).outcome
        code = end and (end.stopped or "success")
        why = "It ends as the run did." if end else "It waits here, as the run does."
        if code and code != run.stop_reason:
            why = end_sentence(code)
    except RecordEnds as ended:
        why = str(ended)
    reviews = [step for step in walker.steps if step.kind == "review" and step.ended_at]
    return [(step, walker.reached.get(step.key)) for step in reviews], why
