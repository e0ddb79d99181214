"""What came of an approval that was not carried out as it was: it may be over all the same.

Whenever facts have moved, a new request takes the place of an approval, with the same label of the
same turn. The approval then needs no look of its own, unless nobody answered that request either.
Nor does one whose amount was no longer possible where the run paid what was, nor one whose call was
made or answered for in a run that repeats its run: who believed it would pay by hand.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Concat, Left, StrIndex

from agents.core.states import EffectState, EscalationState
from agents.engine.people.approvals import AMOUNT_CHANGED, ASKED_AGAIN
from agents.engine.tools.letters import REPEATED
from agents.models import Effect, Escalation

_UNANSWERED = (EscalationState.OPEN, EscalationState.EXPIRED, EscalationState.CANCELLED)
_NUMBERED = Concat("step__key", Value("#"))  # 2/person#, 2/person#2#
_LABEL = Left(_NUMBERED, StrIndex(_NUMBERED, Value("#")))
_TOOL = KT("action__name")


def unsettled_approvals(found: QuerySet[Escalation]) -> QuerySet[Any]:
    """Return those of approvals not carried out that still need a look: one of each chain.

    With `later`, the newest request in its place, its state as `later_state`, and `earlier`, the
    approval whose place it took itself; each None if there is none.
    """
    chain = Escalation.objects.annotate(label=_LABEL).filter(
        run=OuterRef("run"), label=OuterRef("label")
    )
    later = chain.filter(pk__gt=OuterRef("pk")).order_by("-pk")
    earlier = chain.filter(pk__lt=OuterRef("pk"), not_carried_out=ASKED_AGAIN).order_by("-pk")
    answered = Exists(later.exclude(state__in=_UNANSWERED))
    paid = Effect.objects.filter(run=OuterRef("run"), intended_at__gte=OuterRef("decided_at"))
    paid = paid.filter(amount_minor__isnull=False).exclude(state=EffectState.REFUSED)
    left = (
        found.annotate(label=_LABEL, tool=_TOOL)
        .exclude(answered, not_carried_out=ASKED_AGAIN)
        .exclude(Exists(paid), not_carried_out=AMOUNT_CHANGED)
        .exclude(_is_over_in_a_repeat())
    )
    return left.annotate(
        later=Subquery(later.values("pk")[:1]),
        earlier=Subquery(earlier.values("pk")[:1]),
        later_state=Subquery(later.values("state")[:1]),
    )


def _is_over_in_a_repeat() -> Q:
    of_tool = {"tool": OuterRef("tool")}
    made = Effect.objects.filter(**of_tool, resource=OuterRef("resource"))
    asked = Escalation.objects.annotate(tool=_TOOL).filter(**of_tool, kind=OuterRef("kind"))
    over = (made.exclude(state=EffectState.REFUSED), asked.exclude(state__in=_UNANSWERED))
    known = (one.filter(**{run: OuterRef("run")}) for one in over for run in REPEATED)
    return reduce(or_, map(Q, map(Exists, known)))


def is_unsettled(approval: Escalation) -> bool:
    """Tell whether an approval that was not carried out still needs a look."""
    return unsettled_approvals(Escalation.objects.filter(pk=approval.pk)).exists()


def is_asked_again(approval: Escalation) -> bool:
    """Tell whether the request in an approval's place is still open."""
    found = unsettled_approvals(Escalation.objects.filter(pk=approval.pk))
    return found.filter(later_state=EscalationState.OPEN).exists()
