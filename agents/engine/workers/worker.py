"""A worker: takes runs, drives many at once, sweeps, and stops when told to."""

import asyncio
import logging
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError
from django.db.models import Case, F, QuerySet, When, Window
from django.db.models.functions import Now, RowNumber
from django.utils.module_loading import import_string

from agents import llm
from agents.core.requests import RunState
from agents.engine import lease
from agents.engine.desk.registry import known_desks
from agents.engine.runtime.database import close_connections, in_database
from agents.engine.turns.advance import run_once
from agents.engine.upkeep.sweep import sweep
from agents.models import Run, Worker
from agents.patterns import QUESTION_VERSION

log = logging.getLogger(__name__)

_SWEEPS = 3  # in the length of a lease
ENDING = 2.5  # seconds beyond the drain in which runs are given back
CLOSING = 1.0  # for threads still in a call at the end

# The share of a worker's slots that one workspace may hold: otherwise it could take all of them,
# with a model that takes a minute per answer.
SHARE = 0.8
_FRESH = 0.25  # seconds

# By the name that OPSCONSOLE_DISPATCH gives.
TAKERS = {
    "polling": "agents.engine.workers.worker.Poller",
    "procrastinate": "agents.engine.workers.listening.Listener",
}

SideTask: TypeAlias = Callable[[asyncio.Event], Coroutine[Any, Any, None]]
Driving: TypeAlias = Coroutine[Any, Any, RunState | None]


async def work(*, once: bool = False, beside: SideTask | None = None) -> bool:
    """Take runs until told to stop (SIGTERM, SIGINT); with `once`, until none is claimable.

    `beside` runs at the same time until the end; with `once`, it runs last.

    Return False if a thread has not returned, from a tool or a silent database: the process need
    not wait for it.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    if not once:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
    working = asyncio.create_task(_work(stop, once=once, beside=beside))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    longest = settings.OPSCONSOLE_DRAIN_SECONDS + ENDING if stop.is_set() else None
    await asyncio.wait({working}, timeout=longest)
    if working.done():
        return await working
    # A thread waits for a silent database, and neither can be made to give up.
    log.error("The database does not answer: runs were not given back, their leases will run out")
    working.cancel()
    await asyncio.wait({working}, timeout=CLOSING)
    return False


async def _work(stop: asyncio.Event, *, once: bool, beside: SideTask | None) -> bool:
    active_runs = ActiveRuns()
    also = asyncio.create_task(beside(stop)) if beside and not once else None
    try:
        async with lease.keep_leases(is_worker=True):
            if once:  # rows show the remaining work, however bells are rung
                await Poller(stop, active_runs).run(once=True)
                await (beside(stop) if beside else asyncio.sleep(0))
            else:
                await import_string(TAKERS[settings.OPSCONSOLE_DISPATCH])(stop, active_runs).run()
            await active_runs.finish()
        await give_back()
    finally:
        if also:
            also.cancel()
        await llm.close()
        came_back = close_connections(CLOSING)
    return came_back


async def give_back() -> None:
    """Queue the runs that this worker still holds. Without a database their leases run out."""
    try:
        await in_database(lease.release_runs)
        await in_database(Worker.leave, lease.OWNER)
    except DatabaseError:
        log.exception("Runs could not be given back; their leases will run out")


class Poller:
    """Look for claimable runs, OPSCONSOLE_POLL_SECONDS apart."""

    def __init__(self, stop: asyncio.Event, active_runs: "ActiveRuns") -> None:
        self.stop = stop
        self.active_runs = active_runs
        self.turns = FairShare()
        self.swept_at = 0.0

    async def run(self, *, once: bool = False) -> None:
        while not self.stop.is_set():
            if time.monotonic() - self.swept_at >= sweep_interval():
                self.swept_at = time.monotonic()
                await run_sweep()
            turn = await self._take(once=once)
            if once and not turn.runs and not self.active_runs.drives:
                return
            await self._pause(turn)

    async def _take(self, *, once: bool) -> "StartRound":
        """Start the runs whose turn it is, as many as there is room for. Return them.

        With `once`, an unreachable database must not be taken for an empty one.
        """
        try:
            turn = await in_database(self.turns.choose, set(self.active_runs.drives.values()))
        except Exception:
            if once:
                raise
            log.exception("Looking for runs failed")
            return StartRound([])
        for run_id in turn.runs:
            self.active_runs.start(run_id)
        return turn

    async def _pause(self, turn: "StartRound") -> None:
        """Wait for the next poll, for a free slot if there is none, or for the order to stop."""
        if turn.runs:
            await asyncio.sleep(0)
            return
        # While there is room, a run's end is no reason to look: with a thousand runs one ends every
        # moment, and a look costs more the more there are.
        self.active_runs.ended.clear()
        may_take = self.active_runs.room and not turn.is_held_back
        words = [self.stop] if may_take else [self.stop, self.active_runs.ended]
        bells = {asyncio.create_task(word.wait()) for word in words}
        await asyncio.wait(
            bells, timeout=settings.OPSCONSOLE_POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        for task in bells:
            task.cancel()


def sweep_interval() -> float:
    """Return seconds between two sweeps of one worker."""
    return lease.length().total_seconds() / _SWEEPS


async def run_sweep() -> None:
    """Sweep. A failed sweep is repeated; the runs must not end with it."""
    try:
        await in_database(sweep)
    except Exception:
        log.exception("The sweep failed")


# The runs that this process drives, polled or announced.


class ActiveRuns:
    """One process's share of the runs."""

    def __init__(self) -> None:
        self.drives: dict[asyncio.Task[bool], UUID] = {}
        self.ended = asyncio.Event()  # set at the end of each drive; the waiting code clears it

    @property
    def room(self) -> int:
        """Return how many runs may be started now."""
        return max(0, slots() - len(self.drives))

    def start(self, run_id: UUID, driving: Driving | None = None) -> asyncio.Task[bool]:
        """Advance a run, by default claimed first, in a task of its own.

        Two tasks for one run are harmless. A task returns False if it could not claim its run.
        """
        drive = asyncio.create_task(_run_logged(run_id, driving or run_once(run_id)))
        self.drives[drive] = run_id
        drive.add_done_callback(self._end)
        return drive

    def _end(self, drive: asyncio.Task[bool]) -> None:
        del self.drives[drive]
        self.ended.set()

    async def finish(self) -> None:
        """Give the runs OPSCONSOLE_DRAIN_SECONDS to pause; then cancel them."""
        if not self.drives:
            return
        drives = list(self.drives)
        _, late = await asyncio.wait(drives, timeout=settings.OPSCONSOLE_DRAIN_SECONDS)
        for drive in late:
            drive.cancel()
        await asyncio.gather(*drives, return_exceptions=True)


def slots() -> int:
    """Return how many runs one worker drives at once."""
    return int(settings.OPSCONSOLE_WORKER_CONCURRENCY)


async def _run_logged(run_id: UUID, driving: Driving) -> bool:
    try:
        return await driving is not None
    except Exception:
        log.exception("Run %s could not be moved; its lease will run out", run_id)
        return True


# Which workspace's queued run is next: in turn, so that none waits for all runs of another.


# Within a workspace, begun runs come first: somebody waits for them already.
_ORDER = Case(When(fence=0, then=1), default=0), F("created_at"), F("pk")


@dataclass
class FairShare:
    """A process's memory of turns; each process has its own slots and turns."""

    served: Counter[int] = field(default_factory=Counter)  # workspace: number of its last turn
    waiting: list[tuple[int, UUID]] = field(default_factory=list)  # of a flood, for _FRESH seconds
    looked_at: float = 0.0

    def choose(self, busy: Collection[UUID]) -> "StartRound":
        """Return the runs to start next to the busy ones, at most one per free slot.

        If fewer wait than there are slots, all may start and one look is enough. In a flood, the
        first of each workspace are looked up every _FRESH seconds, which reads all waiting runs.
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
        held = Counter(of_whom if len(busy) + len(rows) > share else ())  # else all may start
        turn = in_turn(waiting, held, self.served, room=room, share=share)
        self.waiting = [row for row in self.waiting if row[1] not in turn.runs]
        return turn

    def _look(self, busy: Collection[UUID]) -> list[tuple[int, UUID]]:
        """Return the workspace and key of waiting runs, those of a workspace in their order."""
        if self.waiting and time.monotonic() - self.looked_at < _FRESH:
            return self.waiting
        self.waiting = []
        rows = list(claimable().order_by(*_ORDER).values_list("workspace_id", "pk")[: slots()])
        if len(rows) == slots():
            rows = self.waiting = _first_of_each(slots(), busy)
            self.looked_at = time.monotonic()
        return rows


@dataclass(frozen=True)
class StartRound:
    """The runs to start now; `is_held_back`: only a workspace's share keeps others waiting."""

    runs: list[UUID]
    is_held_back: bool = False


def in_turn(
    waiting: Mapping[int, Sequence[UUID]],
    held: Mapping[int, int],
    served: Counter[int],
    *,
    room: int,
    share: int,
) -> StartRound:
    """Choose runs for `room` slots: fewest held first, then the longest since its turn.

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
    """Return the first `count` of every workspace, however many another one has."""
    rank = Window(RowNumber(), partition_by=F("workspace_id"), order_by=list(_ORDER))
    rows = claimable().exclude(pk__in=busy).annotate(rank=rank).filter(rank__lte=count)
    return list(rows.order_by("rank").values_list("workspace_id", "pk"))
