"""What a draft would have done with the runs of the last days, judged again from what is stored."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Any, TypeAlias
from uuid import UUID

from django.db.models import Count, Q

from agents.core.json_forms import Action
from agents.core.limits import Limits
from agents.core.requests import EffectState, Json
from agents.core.reviews import CallTarget, ReviewResult
from agents.engine.again import rulings_again
from agents.models import Effect, Escalation, Run, Step, Workspace
from agents.models.runs import target_of
from agents.policies.curve import curve_of
from agents.policies.flips import FlipTable, Proposal, concerned, untried
from agents.sdk.values import BadArguments

# By pattern and desk: both versions, and which actions they may judge otherwise.
_Pair: TypeAlias = Callable[[str, str], tuple[Limits, Limits, Callable[[Action], bool] | None]]
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

    @cache
    def pair(pattern: str, desk: str) -> Any:
        before, after = was.of(pattern, desk), would.of(pattern, desk)
        return before, after, concerned(desk, before, after)

    known = {}
    for desk in {**was.desks, **would.desks}:
        parts = [one.part_of(desk, "patterns") for one in (was, would)]
        known[desk] = [pair(one, desk) for one in dict.fromkeys(("", *parts[0], *parts[1]))]
    desks = [desk for desk, pairs in known.items() if any(wanted for *_, wanted in pairs)]
    runs = Run.objects.filter(workspace=workspace, created_at__gte=since, created_at__lt=until)
    runs = runs.filter(desk__in=desks)
    emptied = runs.aggregate(
        archived=Count("pk", filter=Q(archived_at__isnull=False)),
        erased=Count("pk", filter=Q(archived_at=None, erased_at__isnull=False)),
    )
    whole = runs.filter(archived_at=None, erased_at=None).order_by("created_at", "pk")
    keys = list(whole.values_list("pk", flat=True))
    table, curve = FlipTable(), curve_of(was, would)
    for at in range(0, len(keys), _TOGETHER):
        step(at)
        for run, proposals in _read(keys[at : at + _TOGETHER], pair):
            table.add(str(run.pk), run.desk, proposals)
            if curve:
                curve.add(run.desk, proposals)
    both = [desk for desk in known if desk in was.desks and desk in would.desks]
    found = [untried(desk, *limits) for desk in both for *limits, _ in known[desk]]
    return {
        **table.as_json(),
        **emptied,
        "curve": curve and curve.as_json(),
        "gathered": [*dict.fromkeys(one for unknown, _ in found for one in unknown)],
        "untried": [*dict.fromkeys(one for _, others in found for one in others)],
    }


def _read(keys: Sequence[UUID], pair: _Pair) -> Iterator[tuple[Run, list[Proposal | str]]]:
    """Yield the runs whose proposals may be judged otherwise, with those; nothing else is read."""

    def is_wanted(asked: Json, pattern: str, desk: str) -> bool:
        may_differ = pair(pattern, desk)[2]
        # What a person had approved before is no proposal.
        return not asked.get("granted") and bool(may_differ and may_differ(asked.get("action", {})))

    reviews = Step.objects.filter(run__in=keys, kind="review", ended_at__isnull=False)
    about = reviews.values_list("pk", "asked", "run__pattern", "run__desk")
    wanted = [key for key, asked, pattern, desk in about if is_wanted(asked, pattern, desk)]
    steps: dict[UUID, list[Step]] = defaultdict(list)
    for step in Step.objects.filter(pk__in=wanted).order_by("position"):
        steps[step.run_id].append(step)
    # The first of a review: a later one asks for the outcome of the call.
    requests = Escalation.objects.filter(run__in=list(steps)).order_by("-pk")
    states = requests.values_list("run", "review__key", "pk", "state", "granted_minor")
    held = {(key, review): request for key, review, *request in states}  # pk, state, granted
    paid: dict[UUID, list[Any]] = defaultdict(list)
    effects = Effect.objects.filter(run__in=list(steps), state=EffectState.DONE)
    for key, *effect in effects.values_list("run", "review", "escalation", "amount_minor"):
        paid[key].append(effect)  # its review, request and amount
    runs = Run.objects.filter(pk__in=list(steps)).prefetch_related("policy")
    for run in runs.order_by("created_at", "pk"):
        before, after, _ = pair(run.pattern, run.desk)
        yield (
            run,
            [
                ruled
                if isinstance(ruled, str)
                else _proposal(run, step, ruled, held.get((run.pk, step.key)), paid[run.pk])
                for step, ruled in rulings_again(run, steps[run.pk], before, after)
            ],
        )


def _proposal(
    run: Run, step: Step, ruled: Sequence[ReviewResult], held: Any, paid: list[Any]
) -> Proposal:
    then, was, would = ruled
    request, people, granted = held if held and then.decision == "escalate" else (0, "", 0)
    mine = [minor or 0 for review, by, minor in paid if review == step.pk or by == request]
    target = CallTarget()
    with suppress(BadArguments):  # they did not fit the tool, and were blocked for that
        target = target_of(run, step.asked["action"])
    return Proposal(
        position=step.position,
        tool=str(step.asked["action"].get("name") or ""),
        was=was,
        would=would,
        currency=target.currency,
        asked=target.amount_minor or 0,
        granted=granted or 0,
        executed=sum(mine),
        people=people,
    )
