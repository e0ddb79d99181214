"""Whose queued run goes next: workspaces in turn, so that none waits behind all of another's."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Case, F, QuerySet, When, Window
from django.db.models.functions import Now, RowNumber

from agents.core.states import RunState
from agents.engine.desk.registry import known_desks
from agents.engine.workers.active_runs import slots
from agents.models import Run
from agents.patterns import QUESTION_VERSION

# The share of a worker's slots that one workspace may hold: with a model that takes a minute for
# each answer, it would otherwise take all of them.
SHARE = 0.8
FRESH = 0.25  # seconds

# Within a workspace what has begun goes on first: somebody waits for it already.
_ORDER = Case(When(fence=0, then=1), default=0), F("created_at"), F("pk")


@dataclass(frozen=True)
class StartRound:
    """The runs to start now; `is_held_back` where only a workspace's share keeps others waiting."""

    runs: list[UUID]
    is_held_back: bool = False


@dataclass
class Turns:
    """What one process remembers of whose turn it was; each has its own slots and turns."""

    served: Counter[int] = field(default_factory=Counter)  # workspace: number of its last turn
    found: list[tuple[int, UUID]] = field(default_factory=list)  # of a flood, for FRESH seconds
    found_at: float = 0.0

    def choose(self, busy: Collection[UUID]) -> StartRound:
        """Return which runs to start beside the busy ones, at most one per free slot.

        While fewer wait than there are slots, all may go and one look is enough. Of a flood the
        first of each workspace are looked up, which reads all that wait: every FRESH seconds.
        """
        room = slots() - len(busy)
        if room <= 0:
            return StartRound([])
        rows = self._look(busy)
        waiting: dict[int, list[UUID]] = defaultdict(list)
        for workspace, run in rows:
            if run not in busy:
                waiting[workspace].append(run)
        share = max(1, int(slots() * SHARE))
        of_whom = Run.objects.filter(pk__in=busy).values_list("workspace_id", flat=True)
        held = Counter(of_whom if len(busy) + len(rows) > share else ())  # else all may go
        turn = in_turn(waiting, held, self.served, room=room, share=share)
        self.found = [row for row in self.found if row[1] not in turn.runs]
        return turn

    def _look(self, busy: Collection[UUID]) -> list[tuple[int, UUID]]:
        """Return the workspace and key of runs that wait, those of a workspace in their order."""
        if self.found and time.monotonic() - self.found_at < FRESH:
            return self.found
        self.found = []
        rows = list(claimable().order_by(*_ORDER).values_list("workspace_id", "pk")[: slots()])
        if len(rows) == slots():
            rows = self.found = _first_of_each(slots(), busy)
            self.found_at = time.monotonic()
        return rows


def in_turn(
    waiting: Mapping[int, Sequence[UUID]],
    held: Mapping[int, int],
    served: Counter[int],
    *,
    room: int,
    share: int,
) -> StartRound:
    """Choose runs for `room` slots of whoever holds fewest, of equals whose turn is longest ago.

    Each in its workspace's order, none beyond its share. Notes in `served` whose turn it was.
    """
    holding, left = Counter(held), {whose: list(runs) for whose, runs in waiting.items()}
    chosen: list[UUID] = []
    while len(chosen) < room:
        may = [whose for whose, runs in left.items() if runs and holding[whose] < share]
        if not may:
            return StartRound(chosen, is_held_back=any(left.values()))
        whose = min(may, key=lambda each: (holding[each], served[each]))
        chosen.append(left[whose].pop(0))
        holding[whose] += 1
        served[whose] = max(served.values(), default=0) + 1
    return StartRound(chosen)


def claimable() -> QuerySet[Run]:
    """Return the runs that may be claimed now."""
    known = Run.objects.filter(state=RunState.QUEUED, question_version__lte=QUESTION_VERSION)
    return known.filter(desk__in=known_desks()).exclude(wake_at__gt=Now())


def _first_of_each(count: int, busy: Collection[UUID]) -> list[tuple[int, UUID]]:
    """Return the first `count` of every workspace, however many one of them has."""
    rank = Window(RowNumber(), partition_by=F("workspace_id"), order_by=list(_ORDER))
    rows = claimable().exclude(pk__in=busy).annotate(rank=rank).filter(rank__lte=count)
    return list(rows.order_by("rank").values_list("workspace_id", "pk"))
