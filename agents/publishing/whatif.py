"""What a draft would have done with the runs of the last days, judged again from what is stored."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Q

from agents.core.json_forms import Action
from agents.core.limits import Limits
from agents.core.redact import Pseudonyms
from agents.core.requests import EffectState, Json
from agents.core.reviews import CallTarget, ReviewResult
from agents.engine.again import rulings_again
from agents.models import Effect, Escalation, MaskedValue, Run, Step, Workspace
from agents.models.runs import ValuesLocked, give_pseudonyms, naming, read_values, target_of
from agents.policies.curve import curve_of
from agents.policies.flips import FlipTable, Proposal, concerned, untried
from agents.sdk.values import BadArguments

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
    table, pairs, curve = FlipTable(), _Pairs(was, would), curve_of(was, would)
    desks = [name for name in dict.fromkeys((*was.desks, *would.desks)) if pairs.differs_at(name)]
    runs = Run.objects.filter(workspace=workspace, created_at__gte=since, created_at__lt=until)
    runs = runs.filter(desk__in=desks)
    emptied = runs.aggregate(
        archived=Count("pk", filter=Q(archived_at__isnull=False)),
        erased=Count("pk", filter=Q(archived_at=None, erased_at__isnull=False)),
    )
    whole = runs.filter(archived_at=None, erased_at=None).order_by("created_at", "pk")
    keys = list(whole.values_list("pk", "pattern", "desk"))
    for at in range(0, len(keys), _TOGETHER):
        step(at)
        for stored in _read(keys[at : at + _TOGETHER], pairs):
            before, after, _ = pairs.of(stored.run.pattern, stored.run.desk)
            proposals = list(stored.proposals(before, after))
            table.add(str(stored.run.pk), stored.run.desk, proposals)
            if curve:
                curve.add(stored.run.desk, [one for one in proposals if type(one) is Proposal])
    known = {"curve": curve and curve.as_json(), **pairs.limits_of_knowledge()}
    return {**table.as_json(), **emptied, **known}


class _Pairs:
    """Two versions, for each pattern and desk, and which actions they may judge otherwise."""

    def __init__(self, was: Limits, would: Limits) -> None:
        self.was, self.would = was, would
        self._known: dict[tuple[str, str], tuple[Limits, Limits, Any]] = {}

    def of(self, pattern: str, desk: str) -> tuple[Limits, Limits, Callable[[Action], bool] | None]:
        if (pattern, desk) not in self._known:
            before, after = self.was.of(pattern, desk), self.would.of(pattern, desk)
            self._known[pattern, desk] = before, after, concerned(desk, before, after)
        return self._known[pattern, desk]

    def may_differ(self, pattern: str, desk: str, action: Action) -> bool:
        wanted = self.of(pattern, desk)[2]
        return wanted is not None and wanted(action)

    def differs_at(self, desk: str) -> bool:
        return any(self.of(pattern, desk)[2] for pattern in self._patterns(desk))

    def limits_of_knowledge(self) -> dict[str, Json]:
        """Return the labels of what is not known from what is stored, and of what is not tried."""
        both = [desk for desk in self.was.desks if desk in self.would.desks]
        found = [
            untried(desk, *self.of(pattern, desk)[:2])
            for desk in both
            for pattern in self._patterns(desk)
        ]
        return {
            "gathered": [*dict.fromkeys(one for unknown, _ in found for one in unknown)],
            "untried": [*dict.fromkeys(one for _, others in found for one in others)],
        }

    def _patterns(self, desk: str) -> Iterable[str]:
        held = [one.part_of(desk, "patterns") for one in (self.was, self.would)]
        return dict.fromkeys(("", *held[0], *held[1]))


@dataclass
class _Stored:
    """What is stored of one run: its steps, its requests by review, and what was paid."""

    run: Run
    steps: list[Step] = field(default_factory=list)
    requests: dict[str, Escalation] = field(default_factory=dict)
    paid: list[Effect] = field(default_factory=list)
    values: list[MaskedValue] = field(default_factory=list)

    def proposals(self, was: Limits, would: Limits) -> Iterator[Proposal | str]:
        """Yield what its agent proposed."""
        for step, ruled in rulings_again(self.run, self.steps, was, would):
            yield ruled if isinstance(ruled, str) else self._proposal(step, *ruled)

    def _proposal(
        self, step: Step, then: ReviewResult, was: ReviewResult, would: ReviewResult
    ) -> Proposal:
        held = self.requests.get(step.key) if then.decision == "escalate" else None
        target = CallTarget()
        with suppress(BadArguments):  # they did not fit the tool, and were blocked for that
            target = target_of(self.run, step.asked["action"])
        mine = [
            one.amount_minor or 0
            for one in self.paid
            if one.review_id == step.pk or (held and one.escalation_id == held.pk)
        ]
        return Proposal(
            position=step.position,
            tool=str(step.asked["action"].get("name") or ""),
            was=was,
            would=would,
            currency=target.currency,
            asked=target.amount_minor or 0,
            granted=(held and held.granted_minor) or 0,
            executed=sum(mine),
            people=held.state if held else "",
        )


def _read(keys: Sequence[tuple[UUID, str, str]], pairs: _Pairs) -> Iterator[_Stored]:
    """Yield what is stored of the runs whose proposals may be judged otherwise, and only that."""
    places = {key: (pattern, desk) for key, pattern, desk in keys}
    reviews = Step.objects.filter(run__in=places, kind="review", ended_at__isnull=False)
    # What a person had approved before is no proposal.
    wanted = {
        step: run
        for step, run, asked in reviews.values_list("pk", "run", "asked")
        if not asked.get("granted") and pairs.may_differ(*places[run], asked.get("action", {}))
    }
    rows = Run.objects.filter(pk__in={*wanted.values()}).prefetch_related("policy")
    known = {run.pk: _Stored(run) for run in rows}
    of_runs: Json = {"run__in": list(known)}
    for step in Step.objects.filter(pk__in=wanted).order_by("run", "position"):
        known[step.run_id].steps.append(step)
    # The first of a review: a later one asks for the outcome of the call.
    asked = Escalation.objects.only("run", "review", "state", "granted_minor")
    for held in asked.filter(**of_runs).order_by("pk"):
        known[held.run_id].requests.setdefault(held.review.get("key", ""), held)
    for effect in Effect.objects.filter(**of_runs, state=EffectState.DONE).order_by("pk"):
        known[effect.run_id].paid.append(effect)
    for row in MaskedValue.objects.filter(**of_runs).order_by("pk"):
        known[row.run_id].values.append(row)
    for key in places:
        if stored := known.get(key):
            _give_values(stored.run, stored.values)
            yield stored


def _give_values(run: Run, rows: Sequence[MaskedValue]) -> None:
    """Let a run use its values without a query. Without their key, judging says so."""
    with suppress(ValuesLocked):
        values = dict(read_values(run.workspace_id, rows))
        give_pseudonyms(run, Pseudonyms(naming(run.workspace_id), values))
