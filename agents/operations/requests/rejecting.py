"""Reject many requests for one reason, each separately."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User

from agents.core.decisions import Decision
from agents.models import Event
from agents.operations.requests.claiming import Claimed
from agents.operations.requests.deciding import MAX_COMMENT, AlreadyDecided, decide
from agents.shell.refusal import Refused, check_text

MOST_AT_ONCE = 40  # requests in one form, which has at most 50 fields (settings)


def reject_many(
    *,
    items: Sequence[tuple[int, str]],
    by: User,
    comment: str,
    bulk: str,
    now: Callable[[], datetime],
) -> None:
    """Reject requests, each in its own commit as if it were the only one. Raises Refused.

    `items` are keys with the hash of the action shown. Requests that cannot be rejected are left,
    with an event that says why. All events carry `bulk`, by which they are found again.
    """
    if not comment.strip():
        raise Refused("no_reason", "Enter a reason for the rejection.")
    check_text(comment, most=MAX_COMMENT)
    if not 0 < len(items) <= MOST_AT_ONCE:
        raise Refused("too_many", f"Tick between 1 and {MOST_AT_ONCE} requests.")
    for pk, seen in items:
        try:
            decide(
                escalation_id=pk,
                by=by,
                at=now(),
                wanted=Decision(
                    approve=False,
                    comment=comment,
                    action_sha256=seen,
                    is_reported=False,  # the list shows no reports
                    bulk=bulk,
                ),
            )
        except (Refused, Claimed, AlreadyDecided):
            continue  # the refusal is on record


def told_in_bulk(bulk: str, runs: Sequence[UUID]) -> dict[int, Event]:
    """Return the recorded result of each request of a bulk rejection in these runs, by key.

    A form sent twice at once leaves two events of a request: the rejection counts.
    """
    kinds = ("decision.refused", "escalation.decided")
    told = Event.objects.filter(run__in=runs, kind__in=kinds, facts__bulk=bulk)
    found = sorted(told.prefetch_related("texts"), key=lambda event: kinds.index(event.kind))
    return {event.facts["escalation"]: event for event in found}
