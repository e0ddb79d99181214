"""What stands around every page."""

from __future__ import annotations

from django.http import HttpRequest

from agents.core.effects import Json
from agents.core.states import EscalationState
from agents.models import Membership, Role
from agents.web.access import AUDITS, LAUNCHES, escalations_of, person
from agents.web.kill import switches
from agents.web.views.session import THEMES


def frame(request: HttpRequest) -> dict[str, Json]:
    """Return theme, person, what waits and what is stopped, for the base template."""
    chosen = request.COOKIES.get("theme", "")
    around: dict[str, Json] = {
        "theme": chosen if chosen in THEMES else "",
        "keys_off": request.COOKIES.get("keys") == "off",
    }
    if not getattr(request, "user", None) or not request.user.is_authenticated:
        return around
    user = person(request)
    parts = Membership.objects.filter(user=user).select_related("workspace").order_by("pk")
    waiting = escalations_of(user).filter(state=EscalationState.OPEN).count()
    return {
        **around,
        "parts": list(parts),
        "waiting": waiting,
        "stops": switches.standing(*(part.workspace_id for part in parts)),
        "administers": [part.workspace_id for part in parts if part.role == Role.ADMIN],
        "may_launch": any(part.role in LAUNCHES for part in parts),
        "may_audit": any(part.role in AUDITS for part in parts),
    }
