"""Which heads seal a run, found by their index: a proof of one run reads no others' years."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Subquery
from django.db.models.functions import Coalesce

from agents.models import Event, Head, Run, Sealed
from agents.record.chain import name_of

NEAR = 20  # heads: a transaction under way holds a head's `upto` back, and later ones seal as well


@dataclass(frozen=True)
class RunSeal:
    """How far a run is sealed, and by which head up to there."""

    upto: int  # the seq of the last of its events that is sealed
    head: Head | None  # None: a head of long before; the proof has it


def run_seal(run: Run) -> RunSeal | None:
    """Return the newest seal of a run, in one query or two; None: there is none yet."""
    found = _newest(run)
    if found is None:
        return None
    newest, upto = found
    near = (head for head in _before(newest, NEAR) if _hashes(head, run))
    return RunSeal(upto, newest if _hashes(newest, run) else next(near, None))


def heads_of(run: Run) -> list[int]:
    """Return the numbers of the heads that seal events of a run, in order.

    The cost is that of the heads that were made while the run went on.
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
    """Return the first head up to which all sealed events of a run are, and how many they are."""
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
    """Return how many events of a run a head seals."""
    name = name_of(workspace=run.workspace_id, run=run.pk)
    return sum(len(hashes) for chain, hashes in head.plain().chains() if chain == name)
