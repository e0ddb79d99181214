"""Find the heads that seal a run by their index, so that its proof need not read all heads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Subquery
from django.db.models.functions import Coalesce

from agents.models import Event, Head, Run, Sealed
from agents.record.chain import name_of

NEAR = 20  # heads: an open transaction holds back a head's `upto`, while later heads seal as well


@dataclass(frozen=True)
class RunSeal:
    """How far a run is sealed, and the head that seals it up to there."""

    upto: int  # the seq of the last of its events that is sealed
    head: Head | None  # None: a much earlier head, which the proof names


def run_seal(run: Run) -> RunSeal | None:
    """Return the newest seal of a run, or None, in one or two queries."""
    found = _newest(run)
    if found is None:
        return None
    newest, upto = found
    near = (head for head in _before(newest, NEAR) if _hashes(head, run))
    return RunSeal(upto, newest if _hashes(newest, run) else next(near, None))


def heads_of(run: Run) -> list[int]:
    """Return the numbers of the heads that seal events of a run, in order.

    Reads the heads made during the run.
    """
    newest, numbers, count = _newest(run), list[int](), 0
    if newest is None:
        return []
    head, upto = newest
    for earlier in _before(head, head.number):
        if hashes := _hashes(earlier, run):
            numbers.append(earlier.number)
            count += hashes
        if count >= upto:
            break
    return numbers[::-1]


def _newest(run: Run) -> tuple[Head, int] | None:
    """Return the first head by which all sealed events of a run are covered, and their number."""
    chain = Sealed.objects.filter(chain=name_of(workspace=run.workspace_id, run=run.pk))
    reached = Subquery(chain.values("event_count")[:1])
    last = Event.objects.filter(run=run, seq=reached).values("pk")[:1]
    upto = Head.objects.filter(upto__gte=Subquery(last)).order_by("upto", "number")
    latest = Head.objects.order_by("-number").values("number")[:1]
    number = Coalesce(Subquery(upto.values("number")[:1]), Subquery(latest))
    found = Head.objects.filter(number=number).annotate(reached=reached)
    head = found.filter(reached__isnull=False).first()
    return (head, vars(head)["reached"]) if head else None


def _before(head: Head, most: int) -> Iterator[Head]:
    earlier = Head.objects.filter(number__lte=head.number, number__gt=head.number - most)
    return earlier.order_by("-number").iterator(10)


def _hashes(head: Head, run: Run) -> int:
    """Return the number of a run's events in a head."""
    name = name_of(workspace=run.workspace_id, run=run.pk)
    return sum(len(hashes) for chain, hashes in head.plain().chains() if chain == name)
