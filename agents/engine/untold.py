"""Effects that nobody was told of: the run ended before its mail, or without one."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import reduce
from operator import or_

from django.db.models import Exists, OuterRef, Q

from agents.core.states import ENDED, EffectState
from agents.models import Effect
from agents.models.effect import EffectQuerySet
from agents.systems import SYSTEMS, Notice

EARLIER = timedelta(days=30)  # that a letter may have settled before what it tells of
MAYBE_SENT = (EffectState.DONE, EffectState.INTENDED, EffectState.UNKNOWN)


def notices() -> list[Notice]:
    """Return what the desks here have to tell their subjects of."""
    return [system.notice for system in SYSTEMS.values() if system.notice]


def untold_effects(*, since: datetime, of: Notice | None = None) -> EffectQuerySet:
    """Return the effects since then that no mail tells of.

    A mail of the run that was launched anew counts; one that may have left is asked about anyway.
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
    # Two queries: with one, a database reads every letter of that amount.
    own, again = (letters.filter(**{run: OuterRef("run")}) for run in ("run", "run__again_of"))
    return Q(tool=notice.tool) & ~Exists(own) & ~Exists(again)
