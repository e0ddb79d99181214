"""The open requests in each view of a person's queue."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, cached_property, reduce
from operator import or_
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Count, Min, Q, QuerySet, Value

from agents.core.request_kinds import ACTION
from agents.core.requests import Json
from agents.core.states import EscalationState
from agents.core.tiers import demand_of, read_tiers
from agents.db.compiled import CompiledSelect, Param, Params, spread
from agents.models import Escalation, Membership, PolicyVersion, Snooze, Team
from agents.models.belonging import belongs
from agents.shell import access
from agents.shell.access import spellings
from agents.shell.formats import AMOUNTS, of_amount
from agents.web.approvals import queue as queues
from agents.web.approvals.queue import QueueAddress


@dataclass(frozen=True)
class Reviewer:
    """The person who looks at the queue, and when: the views depend on both."""

    user_id: int
    parts: Sequence[Membership]
    at: datetime

    @property
    def workspaces(self) -> list[int]:
        return sorted(part.workspace_id for part in self.parts)

    @property
    def teams(self) -> QuerySet[Team, int]:
        """Return their teams, as a subquery."""
        return Team.objects.filter(members__user=self.user_id).values_list("pk", flat=True)

    @property
    def snoozed_ids(self) -> QuerySet[Snooze, int]:
        """Return the requests that they have snoozed, as a subquery."""
        return snoozed_by(self.user_id, self.at)

    @cached_property
    def above_tiers(self) -> Q:
        """Return the condition for requests that tiers keep them from approving.

        Lazy: it takes a query, and a second one if any request has tiers.
        """
        here = [part.workspace_id for part in self.parts if part.role in access.DECIDES]
        used = PolicyVersion.objects.filter(
            pk__in=open_in(here).values("run__policy"), document__has_key="tiers"
        )
        tiered = list(used.values_list("pk", "workspace", "document__tiers"))
        own = Team.objects.filter(members__user=self.user_id).values_list("workspace", "slug")
        return _above_tiers(tiered, list(own)) if tiered else _NOTHING


def reviewer(user: User, *, at: datetime) -> Reviewer:
    """Return a user as the queue's reader at a time."""
    return Reviewer(user.pk, access.parts_of(user), at)


_NOTHING = Q(pk__in=[])


def _above_tiers(tiered: Iterable[tuple[int, int, Json]], own: Collection[tuple[int, str]]) -> Q:
    """Return the condition for requests whose tiers require other teams' approval.

    `tiered` are policies with their workspaces and tiers; `own` are the person's teams, by
    workspace and slug.
    """
    found = _NOTHING
    for policy, home, document in tiered:
        teams = [slug for where, slug in own if where == home]
        for desk, held in read_tiers(document).items():
            above = ~Q(currency__in=list(held))  # currencies without tiers
            for currency, tiers in held.items():
                least = 0
                for tier in tiers:
                    band = Q(currency=currency, amount_minor__gte=least)
                    if tier.up_to_minor is not None:
                        band &= Q(amount_minor__lte=tier.up_to_minor)
                    if not demand_of(tiers, least).admits(teams):
                        above |= band
                    least = (tier.up_to_minor or 0) + 1
            found |= Q(run__policy=policy, run__desk=desk) & above
    return found


def open_in(workspaces: Sequence[int] | Params) -> QuerySet[Escalation]:
    """Return the open requests of some workspaces, if their run is there too."""
    waiting = Escalation.objects.filter(state=EscalationState.OPEN, workspace__in=workspaces)
    return waiting.filter(belongs(Escalation))


def snoozed_by(user_id: int | Param, at: datetime | Param) -> QuerySet[Snooze, int]:
    """Return the requests that a person has snoozed, as a subquery."""
    own = Snooze.objects.filter(user=user_id, until__gt=at)
    return own.values_list("escalation_id", flat=True)


class WaitingCount(int):
    """The number of open requests that the reader has not snoozed: that of badge and lists.

    `soonest` is when the first of them expires, None for never.
    """

    soonest: datetime | None = None

    @classmethod
    def of(cls, count: int, soonest: datetime | None) -> WaitingCount:
        found = cls(count)
        found.soonest = soonest
        return found


SOONEST = Min("expires_at", filter=Q(frozen_at=None))


def waiting_in(workspaces: Sequence[int], reader: int, *, at: datetime) -> WaitingCount:
    """Count what waits in some workspaces for a reader (0: nobody), in one query of two tables.

    Every page asks it. One whose run is elsewhere counts, though no list shows it.
    """
    given = {"reader": reader, "at": at, **spread("homes", workspaces)}
    found = _waiting(len(workspaces)).tuples(**given)
    return WaitingCount.of(*(found[0][1:] if found else (0, None)))


@cache
def _waiting(homes: int) -> CompiledSelect[Escalation]:
    def build() -> QuerySet[Any]:
        here = Escalation.objects.filter(workspace__in=Params("homes", homes))
        waiting = here.filter(state=EscalationState.OPEN)
        mine = waiting.exclude(pk__in=snoozed_by(Param("reader"), Param("at")))
        return mine.order_by().values_list(Value(1)).annotate(n=Count("pk"), soonest=SOONEST)

    return CompiledSelect(build)


def requests_in(queue: QueueAddress, who: Reviewer) -> QuerySet[Escalation]:
    """Return the requests in the queue, unordered."""
    return open_in(who.workspaces).filter(in_queue(queue, who))


def in_queue(queue: QueueAddress, who: Reviewer) -> Q:
    if queue.unreadable:
        return Q(pk__in=[])
    return in_view(queue.view, who) & _fits(queue.given, who)


def in_view(view: str, who: Reviewer) -> Q:
    """Return the condition of a view. Snoozed requests are only in the view *snoozed*.

    What a person approved as the first of two waits for somebody else.
    """
    snoozed = Q(pk__in=who.snoozed_ids)
    if view == queues.SNOOZED:
        return snoozed
    is_claimed = Q(claimed_until__isnull=False, claimed_until__gt=who.at)
    is_mine = Q(assigned_to=who.user_id) | Q(assigned_team__in=who.teams)
    is_nobodys = Q(assigned_to__isnull=True, assigned_team__isnull=True)
    if view == queues.ABOVE:
        return above_limit(who) & ~snoozed
    is_given = Q(approval__by=who.user_id)
    found = {
        queues.ALL: Q(),
        queues.MINE: (is_claimed & Q(claimed_by=who.user_id) | ~is_claimed & is_mine) & ~is_given,
        queues.UNCLAIMED: ~is_claimed & (is_nobodys | Q(assigned_team__in=who.teams)) & ~is_given,
    }[view]
    return found & ~snoozed


def above_limit(who: Reviewer) -> Q:
    """Return the condition for requests above the person's own limit.

    As in `Membership.limit_minor`, a limit in one currency of a desk excludes all its others.
    """
    found = who.above_tiers
    for part in who.parts:
        for desk, own in part.desk_limits.items():
            if own and part.role in access.DECIDES:
                here = Q(workspace=part.workspace_id, run__desk=desk)
                within = (Q(currency=code, amount_minor__lte=most) for code, most in own.items())
                found |= here & ~reduce(or_, within)
    return found & _ASKS_MONEY & Q(amount_minor__isnull=False)


# Letters name an amount too, and a lost call was counted when first asked about.
_ASKS_MONEY = Q(kind=ACTION.stored)


# Filters by a name, with its place in a request.
NAMED = {
    "desk": "run__desk",
    "tool": "action__name",
    "rule": "review__deciding__rule",
    "pattern": "run__pattern",
}


def _fits(given: Mapping[str, str], who: Reviewer) -> Q:
    """Return the condition of the filters, which are all valid."""
    columns = {**NAMED, "launcher": "run__launched_by__username", "agent": "run__agent__name"}
    found = Q(**{column: given[name] for name, column in columns.items() if name in given})
    if subject := given.get("subject"):
        labels = (
            Q(run__subject_label__icontains=one) for one in spellings(subject, who.workspaces)
        )
        found &= reduce(or_, labels, Q(subject_key=subject))
    if given.keys() & set(AMOUNTS):
        found &= Q(amount_minor__isnull=False) & of_amount(given)
    if "age" in given:
        found &= Q(created_at__lte=who.at - timedelta(minutes=int(given["age"])))
    if "due" in given:
        until = who.at + timedelta(minutes=int(given["due"]))
        found &= Q(frozen_at__isnull=True, expires_at__lte=until)
    return found
