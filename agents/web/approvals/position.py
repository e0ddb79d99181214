"""A request's position in a queue: the order, its neighbours and the counts."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from django.db.models import Case, When
from django.db.models.fields.json import KT

from agents.core.money import format_sums
from agents.core.request_kinds import ACTION
from agents.models import Escalation
from agents.web.approvals import queue as queues
from agents.web.approvals.queue import QueueAddress
from agents.web.approvals.selection import Reviewer, WaitingCount, in_queue, in_view, open_in

Place: TypeAlias = tuple[Any, ...]  # sorts in ascending order, and ends in the request's key


@dataclass(frozen=True)
class Tally:
    """The number of requests in a view, and their sum in each currency."""

    count: int
    sums: str


_ASKED = ("kind", "currency", "amount_minor")


def _tally(rows: Iterable[Sequence[Any]]) -> Tally:
    """Count requests, given as rows that begin with the columns _ASKED."""
    held = list(rows)
    asked = [
        (currency, minor)
        for kind, currency, minor, *_ in held
        if kind == ACTION.stored and minor is not None
    ]
    return Tally(len(held), format_sums(asked))


def _by_deadline(frozen: datetime | None, expires: datetime, key: int) -> Place:
    return (frozen is not None, expires, key)  # a frozen request's time stands still


def _by_amount(amount: int | None, currency: str, *rest: Any) -> Place:
    """Sort by currency, largest amount first; amounts of different currencies are not compared."""
    return (amount is None, currency, -(amount or 0), *_by_deadline(*rest))


def _by_risk(risk: str | None, *rest: Any) -> Place:
    return (-int(risk or 0), *_by_deadline(*rest))


_DEADLINE = ("frozen_at", "expires_at", "pk")
_RISK = KT("review__deciding__risk")
_ORDERS: Mapping[str, tuple[Callable[..., Place], Sequence[Any]]] = {
    queues.DEADLINE: (_by_deadline, _DEADLINE),
    queues.AMOUNT: (_by_amount, ("amount_minor", "currency", *_DEADLINE)),
    queues.RISK: (_by_risk, (_RISK, *_DEADLINE)),
}


@dataclass(frozen=True)
class QueuePosition:
    """The keys of a queue in order, and the place of one of them, or of one that has left it.

    Open requests are in memory for a moment as numbers: unlike runs, they are only hundreds.
    """

    keys: Sequence[int]
    at: int  # the number of requests before the place
    is_in: bool  # whether the request of the place is still in the queue
    waiting: WaitingCount  # regardless of filters
    snoozed: int  # by the reader
    tally: Tally
    views: Mapping[str, Tally]  # by view, regardless of filters; empty if not requested

    @property
    def behind(self) -> Sequence[int]:
        return self.keys[self.at + self.is_in :]

    @property
    def following(self) -> int | None:
        """Return the next request after the place, or else the first; None: there is no other."""
        others = [*self.behind[:1], *self.keys[: min(self.at, 1)]]
        return others[0] if others else None


def line_of(
    queue: QueueAddress,
    who: Reviewer,
    key: int | None = None,
    left: Escalation | None = None,
    views: Collection[str] = (),
) -> QueuePosition:
    """Return a queue in order, with the place of a request, by default the first.

    One query reads only the open requests. `left` is the request itself if it was read already,
    as it may have left the queue. `views` are those to count.
    """
    place_of, columns = _ORDERS[queue.order]
    held = {view: in_view(view, who) for view in dict.fromkeys((queues.ALL, *views))}
    # Without a filter it is one of the views, which are not compiled twice.
    asked = "" if queue.given or queue.unreadable else queue.view
    if asked not in held:
        held[asked] = in_queue(queue, who)
    flags = {
        f"in_{n}": Case(When(q, then=True), default=False) for n, q in enumerate(held.values())
    }
    read = open_in(who.workspaces).annotate(**flags).values_list(*flags, *_ASKED, *columns)
    rows = [(row[: len(held)], row[len(held) :]) for row in read]
    at = {view: number for number, view in enumerate(held)}
    found = [row for is_in, row in rows if is_in[at[asked]]]
    places = sorted(place_of(*row[len(_ASKED) :]) for row in found)
    keys = [place[-1] for place in places]
    waiting = [row for is_in, row in rows if is_in[at[queues.ALL]]]
    ends = [expires for (*_, frozen, expires, _) in waiting if frozen is None]
    tallies = {view: _tally(row for is_in, row in rows if is_in[at[view]]) for view in views}
    count = WaitingCount.of(len(waiting), min(ends, default=None))
    whole = (count, len(rows) - len(waiting), _tally(found), tallies)
    if key is None or key in keys:
        return QueuePosition(keys, keys.index(key) if key else 0, key is not None, *whole)
    left = left or Escalation.objects.filter(pk=key, workspace__in=who.workspaces).first()
    before = bisect(places, place_of(*_values(left, columns))) if left else 0
    return QueuePosition(keys, before, False, *whole)


def _values(escalation: Escalation, columns: Sequence[Any]) -> list[Any]:
    risk = escalation.review["deciding"].get("risk")
    return [risk if column is _RISK else getattr(escalation, column) for column in columns]
