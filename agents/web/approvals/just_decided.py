"""The line above the next request that shows and links the one just decided."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import FilteredRelation
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString

from agents.models import Effect, Escalation
from agents.shell import access
from agents.shell.formats import standing_of
from agents.shell.pages import whole_number
from agents.web.approvals.outcomes import came_to_nothing, outcome

_EFFECT: str = "carried"  # an annotation, which the types of select_related do not know


@dataclass(frozen=True)
class JustDecided:
    """A request that was just decided, and its outcome so far."""

    escalation: Escalation
    subject: str  # whom it was about, unless the outcome says so; ""
    outcome: SafeString

    @property
    def role(self) -> str:
        """Return what gives it its colour, as its chip's."""
        return standing_of(self.escalation)[0]


def strip_of(user: User, key: str) -> JustDecided | None:
    """Return the line about the request that an address names as just decided, or None."""
    pk = whole_number(key)
    if pk is None:
        return None
    with_effect = (
        access.escalations_of(user)
        .filter(pk=pk)
        .annotate(carried=FilteredRelation("effect"))
        .select_related(_EFFECT)
    )
    escalation = (
        with_effect.select_related("run", "decided_by", "approval").order_by("carried__pk").first()
    )
    if escalation is None:
        return None
    if escalation.decided_at is None:
        first = escalation.approval
        if first is None or first.by_id != user.pk:
            return None
        said = format_html("you approved {}, as the first of two people.", first.granted or "it")
        return _just_decided(escalation, said)
    effect: Effect | None = getattr(escalation, "carried", None)
    called = escalation.run.subject_label or "nobody in particular"
    why = came_to_nothing(escalation, effect)
    return _just_decided(escalation, outcome(escalation, effect, called, why=why))


def _just_decided(escalation: Escalation, outcome: SafeString) -> JustDecided:
    subject = escalation.run.subject_label
    return JustDecided(escalation, "" if escape(subject) in outcome else subject, outcome)
