"""How far the record was last verified, so that the next verification can continue from there.

The audit key protects this: whoever controls only the database can make it read more, never less.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import QuerySet

from agents.models import Event, Head, VerifiedHead, Workspace
from agents.models.record import UNREADABLE
from agents.record import seals
from agents.record.chain import spell_time

LONGEST = timedelta(days=7)  # then everything is read again


@dataclass(frozen=True)
class Verified:
    """A head up to which the record was valid, and when all of it was last read."""

    head: int
    seal: str
    upto: int  # key of an event; all up to it are sealed
    full_at: datetime

    def proof(self, workspace: int, key: str) -> str:
        parts = [workspace, self.head, self.seal, self.upto, spell_time(self.full_at)]
        return seals.keyed_digest(key, ["verified", *parts])


def newest_verified(workspaces: QuerySet[Workspace], *, at: datetime) -> Verified | None:
    """Return the point from which to continue for all these workspaces; None: read everything."""
    try:
        return _newest_verified(workspaces, at)
    except UNREADABLE:  # somebody wrote a value that is no time or text
        return None


def _newest_verified(workspaces: QuerySet[Workspace], at: datetime) -> Verified | None:
    rows = VerifiedHead.objects.in_bulk(list(workspaces.values_list("pk", flat=True)))
    found = [(row, Verified(row.head, row.seal, row.upto, row.full_at)) for row in rows.values()]
    if not found or len(found) < workspaces.count():
        return None
    key = settings.OPSCONSOLE_AUDIT_KEY  # an old one may have been replaced because it leaked
    for row, verified in found:
        if not key or not hmac.compare_digest(row.proof, verified.proof(row.pk, key)):
            return None
        if not timedelta() <= at - verified.full_at < LONGEST:
            return None
    # Each workspace has its own last full read: the oldest counts.
    full_at = min(verified.full_at for _, verified in found)
    oldest = replace(min((one for _, one in found), key=lambda one: one.head), full_at=full_at)
    # A row that a fault removed can be copied back, but the fault stays on record.
    checks = Event.objects.filter(
        workspace__in=workspaces, run=None, kind="audit.verified", at__gt=full_at
    )
    if any(facts.get("faults") for facts in checks.values_list("facts", flat=True)):
        return None
    head = Head.objects.filter(number=oldest.head, seal=oldest.seal).exclude(workspaces=None)
    return oldest if head.exists() else None


def keep_verified(
    workspaces: QuerySet[Workspace], verified: Verified | None, since: Verified | None = None
) -> None:
    """Store how far these workspaces are verified; None: forget it, because a fault was found.

    A continued verification counts only if its starting point was not forgotten meanwhile.
    """
    if verified is None:
        VerifiedHead.objects.filter(workspace__in=workspaces).delete()
        return
    key = settings.OPSCONSOLE_AUDIT_KEY
    rows = [
        VerifiedHead(
            workspace_id=pk,
            head=verified.head,
            seal=verified.seal,
            upto=verified.upto,
            full_at=verified.full_at,
            proof=verified.proof(pk, key),
        )
        for pk in workspaces.values_list("pk", flat=True)
    ]
    columns = ["head", "seal", "upto", "full_at", "proof"]
    if since:
        for row in rows:
            values = {name: getattr(row, name) for name in columns}
            VerifiedHead.objects.filter(workspace=row.workspace_id).update(**values)
        return
    VerifiedHead.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["workspace"], update_fields=columns
    )
