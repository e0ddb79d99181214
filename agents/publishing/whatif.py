"""What a draft would have done with the runs of the last days, judged again from what is stored."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any, TypeAlias
from uuid import UUID

from django.db.models import Count, Q

from agents.core.json_forms import Action
from agents.core.limits import BadPolicy, Limits, read_limits
from agents.core.requests import (
    Ask,
    Diverged,
    EffectState,
    Escalate,
    Json,
    Reply,
    Request,
    Review,
    Use,
)
from agents.core.reviews import ReviewResult, consent_of
from agents.engine.drive import WaitsForPerson, drive
from agents.engine.journal import Journal
from agents.engine.redaction import RunBorder
from agents.engine.turns.advance import RunExecutor, brief_in, limits_in
from agents.models import Effect, Escalation, Run, Step, Workspace
from agents.models.runs import ValuesLocked, pseudonyms_of, target_of
from agents.patterns import PATTERNS, Notes
from agents.policies import NO_CONSENT
from agents.policies.again import CannotJudge, judge_again
from agents.policies.flips import FlipTable, Proposal, concerned, curve_of, untried
from agents.policies.words import end_sentence
from agents.sdk.desk import DESKS
from agents.sdk.values import BadArguments

# By pattern and desk: the versions, and which actions they may judge otherwise.
_Under: TypeAlias = Callable[[str, str], tuple[list[Limits], Callable[[Action], bool] | None]]
_TOGETHER = 100  # runs that are read at a time


def judge_period(
    workspace: Workspace,
    was: Limits,
    would: Limits,
    *,
    since: datetime,
    until: datetime,
    step: Callable[[int], None] = lambda _: None,
) -> dict[str, Json]:
    """Return what `would` had done with the runs launched in a period, next to `was`.

    `step` hears how many runs are done, and may raise.
    """

    table, curve = FlipTable(), curve_of(was, would)
    versions = [was, would, *([curve.strictest] if curve else [])]

    @cache
    def under(pattern: str, desk: str) -> Any:
        limits = [one.of(pattern, desk) for one in versions]
        return limits, concerned(desk, *limits[:2])

    parts = [(desk, one) for desk in {**was.desks, **would.desks} for one in (was, would)]
    known = {
        (desk, pattern): under(pattern, desk)
        for desk, one in parts
        for pattern in ("", *one.part_of(desk, "patterns"))
    }
    desks = {desk for (desk, _), (_, may_differ) in known.items() if may_differ}
    runs = Run.objects.filter(workspace=workspace, created_at__gte=since, created_at__lt=until)
    runs = runs.filter(desk__in=desks)
    emptied = runs.aggregate(
        archived=Count("pk", filter=Q(archived_at__isnull=False)),
        erased=Count("pk", filter=Q(archived_at=None, erased_at__isnull=False)),
    )
    whole = runs.filter(archived_at=None, erased_at=None).order_by("created_at", "pk")
    keys = list(whole.values_list("pk", flat=True))
    for at in range(0, len(keys), _TOGETHER):
        step(at)
        for run, proposals in _read(keys[at : at + _TOGETHER], under):
            table.add(str(run.pk), run.desk, proposals)
            if curve:
                curve.add(run.desk, proposals)
    found = [
        untried(desk, *limits[:2])
        for (desk, _), (limits, _) in known.items()
        if desk in was.desks and desk in would.desks
    ]
    return {
        **table.as_json(),
        **emptied,
        "curve": curve and curve.as_json(),
        "gathered": [*dict.fromkeys(one for unknown, _ in found for one in unknown)],
        "untried": [*dict.fromkeys(one for _, others in found for one in others)],
    }


def _read(keys: Sequence[UUID], under: _Under) -> Iterator[tuple[Run, list[Proposal | str]]]:
    """Yield the runs whose proposals may be judged otherwise, with those; nothing else is read."""
    runs = Run.objects.prefetch_related("policy").in_bulk(keys)
    reviews = Step.objects.filter(run__in=keys, kind="review", ended_at__isnull=False)
    wanted = []
    for key, of, asked in reviews.values_list("pk", "run", "asked"):
        _, may_differ = under(runs[of].pattern, runs[of].desk)
        # What a person had approved before is no proposal.
        if not asked.get("granted") and may_differ and may_differ(asked.get("action", {})):
            wanted.append(key)
    steps: dict[UUID, list[Step]] = defaultdict(list)
    for step in Step.objects.filter(pk__in=wanted).order_by("position"):
        steps[step.run_id].append(step)
    # The first of a review: a later one asks for the outcome of the call.
    requests = Escalation.objects.filter(run__in=[*steps]).order_by("-pk")
    states = requests.values_list("run", "review__key", "pk", "state", "granted_minor")
    held = {(of, review): request for of, review, *request in states}  # pk, state, granted
    paid = Counter[tuple[str, int]]()  # by the request that granted it, or by the review
    effects = Effect.objects.filter(run__in=[*steps], state=EffectState.DONE)
    for review, by, minor in effects.values_list("review", "escalation", "amount_minor"):
        paid[("request", by) if by else ("review", review)] += minor or 0
    for run in [runs[key] for key in keys if key in steps]:
        judged = rulings_again(run, steps[run.pk], *under(run.pattern, run.desk)[0])
        yield run, [_proposal(run, step, ruled, held, paid) for step, ruled in judged]


def _proposal(
    run: Run,
    step: Step,
    ruled: Sequence[ReviewResult] | str,
    held: dict[tuple[UUID, str], Any],
    paid: Counter[tuple[str, int]],
) -> Proposal | str:
    if isinstance(ruled, str):
        return ruled
    then, was, would, *strictest = ruled
    known = held.get((run.pk, step.key)) if then.decision == "escalate" else None
    request, people, granted = known or (0, "", 0)
    action = step.asked["action"]
    asked, currency = money_of(run, action)
    revised = [money_of(run, one.action)[0] if one.revisions else asked for one in (was, would)]
    return Proposal(
        position=step.position,
        tool=str(action.get("name") or ""),
        was=was,
        would=would,
        currency=currency,
        asked=asked,
        granted=granted or 0,
        executed=paid["request", request] if request else paid["review", step.pk],
        people=people,
        lowered=[asked - left for left in revised],
        strictest=strictest[0] if strictest else None,
    )


def money_of(run: Run, action: Action) -> tuple[int, str]:
    """Return an action's amount and currency, if it has one and it can be read."""
    with suppress(BadArguments, ValuesLocked):  # of a blocked call, or without the key
        target = target_of(run, action)
        return target.amount_minor or 0, target.currency
    return 0, ""


# Walk a recorded run under another version, up to the first thing that its record lacks.
#
# No model, person or business is asked, and nothing is executed or stored.


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


# Judge the stored rulings of a run again: its steps, limits and people's consent, read once.


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
