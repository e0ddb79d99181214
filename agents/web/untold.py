"""Refunds whose customer was not told: the run ended before its mail, or without one."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from agents.core.states import ENDED, EffectState
from agents.models import Effect

LETTER = "send_refund_email"
MAYBE_SENT = (EffectState.DONE, EffectState.INTENDED, EffectState.UNKNOWN)


def untold_refunds(*, since: datetime) -> QuerySet[Effect]:
    """Return the refunds paid since then that no mail was written about, newest first.

    A mail of the run that was launched anew counts; one that may have left is asked about anyway.
    """
    ours = Q(run=OuterRef("run")) | Q(run__again_of=OuterRef("run"))
    letters = Effect.objects.filter(
        ours, tool=LETTER, state__in=MAYBE_SENT, amount_minor=OuterRef("amount_minor")
    )
    paid = Effect.objects.filter(tool="issue_refund", state=EffectState.DONE, settled_at__gte=since)
    found = paid.filter(~Exists(letters), run__state__in=ENDED).select_related("run")
    return found.order_by(F("settled_at").desc(), "-pk")
