"""Effects that nobody was told of: the run ended before its mail, or without one."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import reduce
from operator import and_, or_
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from agents.core.states import ENDED, EffectState
from agents.models import Effect, Run
from agents.models.effect import EffectQuerySet
from agents.systems import SYSTEMS, Notice

EARLIER = timedelta(days=30)  # that a letter may have settled before what it tells of
# Of a row, the runs that its run repeats: so many runs after one that left work are looked at.
REPEATED = tuple("run" + "__again_of" * times for times in (1, 2, 3))
MAYBE_SENT = (EffectState.DONE, EffectState.INTENDED, EffectState.UNKNOWN)


def notices() -> list[Notice]:
    """Return what the desks here have to tell their subjects of."""
    return [system.notice for system in SYSTEMS.values() if system.notice]


def untold_effects(*, since: datetime, of: Notice | None = None) -> EffectQuerySet:
    """Return the effects since then that no mail tells of.

    A mail of a run that repeats theirs counts; one that may have left is asked about anyway.
    """
    wanted = [_without_letter(notice, since - EARLIER) for notice in ([of] if of else notices())]
    done = Effect.objects.filter(state=EffectState.DONE, settled_at__gte=since)
    return done.filter(reduce(or_, wanted, Q(pk__in=[])), run__state__in=ENDED)


def _without_letter(notice: Notice, since: datetime) -> Q:
    # Without `since` PostgreSQL reads every letter there ever was.
    is_recent = Q(settled_at__gte=since) | Q(settled_at=None)
    letters = Effect.objects.filter(
        is_recent, tool=notice.letter, state__in=MAYBE_SENT, amount_minor=OuterRef("amount_minor")
    )
    # A query for each run that may have written: with one, a database reads every letter of that
    # amount. Joined by "and", as PostgreSQL plans each as a join only then; those of runs that
    # repeat another begin with these few.
    repeats = letters.filter(run__again_of__isnull=False)
    told = [letters.filter(run=OuterRef("run"))]
    told += [repeats.filter(**{run: OuterRef("run")}) for run in REPEATED]
    return reduce(and_, (~Exists(one) for one in told), Q(tool=notice.tool))


def failed_letter() -> Exists:
    """Return whether an effect's run tried to write and could not."""
    letters = [notice.letter for notice in notices()]
    tried = Effect.objects.filter(tool__in=letters, state=EffectState.REFUSED)
    return Exists(tried.filter(run=OuterRef("run")))


def earlier_runs(run: Run) -> list[UUID]:
    """Return the earlier runs that this one repeats, newest first; almost always none."""
    found: list[UUID] = []
    before = run.again_of_id
    while before:
        found.append(before)
        before = Run.objects.values_list("again_of", flat=True).get(pk=before)
    return found
