"""What stands around every page."""

from __future__ import annotations

from django.db.models import OuterRef, Subquery
from django.http import HttpRequest

from agents.core.effects import Json
from agents.core.states import EscalationState
from agents.models import KillSwitch, Membership, Scope
from agents.web.access import AUDITS, LAUNCHES, escalations_of, person
from agents.web.views.session import THEMES


def frame(request: HttpRequest) -> dict[str, Json]:
    """Return the theme, the person's workspaces and how much waits, for the base template."""
    chosen = request.COOKIES.get("theme", "")
    around: dict[str, Json] = {
        "theme": chosen if chosen in THEMES else "",
        "keys_off": request.COOKIES.get("keys") == "off",
    }
    if not getattr(request, "user", None) or not request.user.is_authenticated:
        return around
    user = person(request)
    stopped = KillSwitch.objects.standing(OuterRef("workspace")).filter(scope=Scope.WORKSPACE)
    parts = Membership.objects.filter(user=user).select_related("workspace").order_by("pk")
    parts = parts.annotate(killed_at=Subquery(stopped.values("pressed_at")[:1]))
    waiting = escalations_of(user).filter(state=EscalationState.OPEN).count()
    return {
        **around,
        "parts": list(parts),
        "waiting": waiting,
        "may_launch": any(part.role in LAUNCHES for part in parts),
        "may_audit": any(part.role in AUDITS for part in parts),
    }
