"""Letters about what a run did: whether it owes one, and effects that nobody was told of.

A tool that writes to somebody outside may say of which tool's calls it tells.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import reduce
from operator import and_, or_

from django.db.models import Exists, OuterRef, Q

from agents.core.limits import Limits
from agents.core.states import ENDED, EffectState
from agents.engine.desk import simulation
from agents.engine.journal import Journal
from agents.models import Effect, Step
from agents.models.effect import EffectQuerySet
from agents.tools import TOOLS, Tool

EARLIER = timedelta(days=30)  # that a letter may have settled before what it tells of
# Of a row, the runs that its run repeats: so many runs after one that left work are looked at.
REPEATED = tuple("run" + "__again_of" * times for times in (1, 2, 3))
MAYBE_SENT = (EffectState.DONE, EffectState.INTENDED, EffectState.UNKNOWN)


def letters_told() -> list[Tool]:
    """Return the tools here whose letters tell of another tool's calls."""
    return [tool for tool in TOOLS.values() if tool.tells]


def is_told_of(tool: str) -> bool:
    """Tell whether a tool is one that a letter is written about."""
    return any(letter.tells == tool for letter in letters_told())


def owes_letter(journal: Journal, limits: Limits) -> bool:
    """Tell whether a run has made a call since its last letter and may still tell of it.

    Until it has, its time is not what ends it: nobody would be told.
    """
    registered = simulation.registry(journal.run)
    letters = {name: tool for name, tool in registered.items() if tool.tells}
    letters = {name: tool for name, tool in letters.items() if name in limits.executable}
    if not letters or not limits.finishes_letters:
        return False
    of_letters = {tool.tells for tool in letters.values()}
    done = [step.asked["tool"] for step in list(journal.uses) if _is_done(step)]
    last = next((tool for tool in reversed(done) if tool in letters or tool in of_letters), "")
    return last in of_letters


def _is_done(step: Step) -> bool:
    reply = step.reply
    return isinstance(reply, dict) and reply.get("status") == "ok"


def untold_effects(*, since: datetime, of: Tool | None = None) -> EffectQuerySet:
    """Return the effects since then that no letter tells of.

    A letter of a run that repeats theirs counts; one that may have left is asked about anyway.
    """
    letters = [of] if of else letters_told()
    wanted = [_without_letter(letter, since - EARLIER) for letter in letters]
    done = Effect.objects.filter(state=EffectState.DONE, settled_at__gte=since)
    return done.filter(reduce(or_, wanted, Q(pk__in=[])), run__state__in=ENDED)


def _without_letter(letter: Tool, since: datetime) -> Q:
    # Without `since` PostgreSQL reads every letter there ever was.
    is_recent = Q(settled_at__gte=since) | Q(settled_at=None)
    letters = Effect.objects.filter(
        is_recent, tool=letter.name, state__in=MAYBE_SENT, amount_minor=OuterRef("amount_minor")
    )
    # A query for each run that may have written: with one, a database reads every letter of that
    # amount. Joined by "and", as PostgreSQL plans each as a join only then; those of runs that
    # repeat another begin with these few.
    repeats = letters.filter(run__again_of__isnull=False)
    told = [letters.filter(run=OuterRef("run"))]
    told += [repeats.filter(**{run: OuterRef("run")}) for run in REPEATED]
    return reduce(and_, (~Exists(one) for one in told), Q(tool=letter.tells))


def failed_letter() -> Exists:
    """Return whether an effect's run tried to write and could not."""
    letters = [letter.name for letter in letters_told()]
    tried = Effect.objects.filter(tool__in=letters, state=EffectState.REFUSED)
    return Exists(tried.filter(run=OuterRef("run")))
