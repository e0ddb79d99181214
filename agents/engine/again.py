"""Judge the stored rulings of a run again: its steps, limits and people's consent, read once."""

from collections.abc import Iterator, Sequence

from agents.core.limits import BadPolicy, Limits
from agents.core.reviews import ReviewResult, consent_of
from agents.engine.redaction import RunBorder
from agents.engine.turns.advance import limits_in
from agents.models import Run, Step
from agents.models.runs import ValuesLocked, pseudonyms_of
from agents.policies import NO_CONSENT
from agents.policies.again import CannotJudge, judge_again
from agents.sdk.desk import DESKS

EMPTIED = "Its run was archived or erased."
LOCKED = "The key of its stored values is missing."


def rulings_again(
    run: Run, steps: Sequence[Step], *others: Limits
) -> Iterator[tuple[Step, list[ReviewResult] | str]]:
    """Yield each review among a run's steps with its rulings, or why there are none.

    The first ruling is the stored one; after it come those under `others`, of the run's pattern and
    desk. The steps in which people consented are among `steps` too.
    """
    known = {step.key: step for step in steps}
    others = tuple(limits_in(run, one) for one in others)
    for step in steps:
        if step.kind != "review" or step.ended_at is None or step.failed:
            continue
        try:
            yield step, _again(run, step, known, others)
        except CannotJudge as no:
            yield step, str(no)


def _again(
    run: Run, step: Step, known: dict[str, Step], others: Sequence[Limits]
) -> list[ReviewResult]:
    if run.is_emptied or not step.reply:
        raise CannotJudge(EMPTIED)
    if run.desk not in DESKS:
        raise CannotJudge("Its desk is not installed.")
    try:
        pseudonyms_of(run)
        then = limits_in(run)
    except ValuesLocked as error:
        raise CannotJudge(LOCKED) from error
    except BadPolicy as error:
        raise CannotJudge("This release cannot read its version.") from error
    consent, granted = NO_CONSENT, known.get(step.asked.get("granted") or "")
    if granted:
        consent = consent_of(granted.asked["review"], granted.reply)
    desk, border = DESKS[run.desk], RunBorder(run)
    return judge_again(desk, step.asked, step.reply, then, others, border=border, consent=consent)
