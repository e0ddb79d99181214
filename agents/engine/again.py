"""Judge the stored rulings of a run again: its steps, limits and people's consent, read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from agents.core.limits import Limits
from agents.core.reviews import ReviewResult, consent_of
from agents.engine.redaction import RunBorder
from agents.engine.turns.advance import brief_of
from agents.models import Run, Step
from agents.models.runs import ValuesLocked, pseudonyms_of
from agents.policies import NO_CONSENT
from agents.policies.again import CannotJudge, is_same, judge_again
from agents.sdk.desk import DESKS

EMPTIED = "Its run was archived or erased."
LOCKED = "The key of its stored values is missing."


def rulings_again(
    run: Run, steps: Sequence[Step], limits: Limits | None = None
) -> Iterator[tuple[Step, ReviewResult | str]]:
    """Yield each review of a run with its ruling under `limits`, or why there is none.

    Without `limits`, under those of the run: then it is the stored one, or there is none. Under
    others, first make sure of that. `steps` are all of the run's.
    """
    known = {step.key: step for step in steps}
    for step in steps:
        if step.kind != "review" or step.ended_at is None or step.failed:
            continue
        try:
            yield step, _ruling_again(run, step, known, limits)
        except CannotJudge as no:
            yield step, str(no)


def _ruling_again(
    run: Run, step: Step, known: dict[str, Step], limits: Limits | None
) -> ReviewResult:
    if run.is_emptied or not step.reply:
        raise CannotJudge(EMPTIED)
    if run.desk not in DESKS:
        raise CannotJudge("Its desk is not installed.")
    try:
        pseudonyms_of(run)
    except ValuesLocked as error:
        raise CannotJudge(LOCKED) from error
    consent, granted = NO_CONSENT, known.get(step.asked.get("granted") or "")
    if granted:
        consent = consent_of(granted.asked["review"], granted.reply)
    about: Any = {"border": RunBorder(run), "consent": consent}
    then = judge_again(DESKS[run.desk], step.asked, step.reply, brief_of(run).limits, **about)
    if not is_same(then, step.reply):
        raise CannotJudge("What it depended on has changed since.")
    if limits is None:
        return then
    return judge_again(DESKS[run.desk], step.asked, step.reply, limits, **about)
