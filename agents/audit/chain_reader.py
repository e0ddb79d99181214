"""Read a chain's events alongside its seals, and check their times against the seals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice

from django.conf import settings
from django.utils import timezone

from agents.audit.sealed_chains import UNKNOWN
from agents.models import Event, Run, Workspace
from agents.models.record import hashed_parts, texts_of
from agents.record.chain import Fault, Linked
from agents.record.rows_from_events import Told

LATE = timedelta(minutes=10)  # the longest normal delay between an event and its seal
LONG_AGO = datetime.min.replace(tzinfo=UTC)


class ChainReader:
    """Reads a chain's events once for all checks, comparing each with its seal."""

    def __init__(
        self, row: Run | Workspace, sealed: Iterator[tuple[str, str]], newest: str
    ) -> None:
        self.workspace = row.workspace_id if isinstance(row, Run) else row.pk
        self.sealed, self.newest = sealed, newest
        self.now = timezone.now()
        self.seq = self.loose = 0
        self.first_loose: int | None = None  # the lowest key of an event that no head covers
        self.between: tuple[datetime, datetime] | None = None
        self.fault: Fault | None = None
        self.unlike: Fault | None = None  # the first event that differs from the sealed one
        self.doubt: Fault | None = None
        self.told = Told()

    def skip(self, count: int, head: str) -> Fault | None:
        """Skip the archived events. Return the reason if they differ from the sealed ones."""
        hashes = [hashed for hashed, _ in islice(self.sealed, count)]
        self.seq = count
        if len(hashes) < count or hashes[-1:] not in ([head][:count], [UNKNOWN[0]]):
            return Fault(count, "its archive ends with another event than was sealed")
        return None

    def read(self, events: Iterable[Event]) -> Iterator[Linked]:
        for event in events:
            self.seq += 1
            wanted, bound = next(self.sealed, (None, self.newest))
            if wanted is None:
                self.first_loose = min(self.first_loose or event.pk, event.pk)
                first, last = self.between or (event.at, event.at)
                self.loose, self.between = (
                    self.loose + 1,
                    (min(first, event.at), max(last, event.at)),
                )
            elif event.hash != wanted != UNKNOWN[0] and self.unlike is None:
                self.unlike = Fault(self.seq, "it is not the event that was sealed")
            if self.fault is None and event.workspace_id != self.workspace:
                self.fault = Fault(self.seq, "it belongs to another workspace than its chain")
            self.doubt = self.doubt or self.doubt_of(self.seq, event.at, bound)
            found = Linked(hashed_parts(event), event.previous, event.hash, texts_of(event))
            self.told.take(found)
            yield found

    @property
    def cut(self) -> Fault | None:
        """Return the fault if more events were sealed than the chain has; call it at its end."""
        if left := sum(1 for _ in self.sealed):
            why = f"the chain ends after {self.seq} events; {self.seq + left} were sealed"
            return Fault(self.seq + 1, why)
        return None

    def doubt_of(self, seq: int, at: datetime, bound: str) -> Fault | None:
        """Return why an event's time is impossible: a forged time, or that of a wrong clock."""
        why = "it is in the future" if at > self.now + LATE else ""
        if at < _since(bound):
            why = "it is older than the head before its seal"
        if not why or is_of_wrong_clock(at):
            return None
        return Fault(seq, f"{why}: a clock was wrong, or its time was forged")


def is_of_wrong_clock(at: datetime) -> bool:
    """Tell whether this time may come from a clock that is known to have been wrong."""
    return any(since <= at <= until for since, until in settings.OPSCONSOLE_WRONG_CLOCKS)


def is_sure(at: str) -> bool:
    """Tell whether no clock known to have been wrong may have shown this time."""
    return not is_of_wrong_clock(datetime.fromisoformat(at))


@lru_cache(8)
def _since(at: str) -> datetime:
    return datetime.fromisoformat(at) - LATE if at else LONG_AGO
