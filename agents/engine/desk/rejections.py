"""Find what a reviewer rejected of what any agent, launcher or pattern proposes again.

A call is like another if it has the same tool, book, subject, resource and keys. Each decided call
keeps a keyed digest of these, by which the newest one is found. It binds for REMEMBERED unless it
was an approval. A decision about a call whose resource nobody could tell is about each resource.
Only runs look whose subject has a rejection.
"""

from __future__ import annotations

import hmac
from datetime import datetime

from django.conf import settings
from django.db.models import QuerySet

from agents.core.actions import Action
from agents.core.digest import canonical
from agents.core.limits import Limits
from agents.core.requests import Json
from agents.core.states import EscalationState
from agents.db.compiled import CompiledSelect, Param
from agents.engine.desk.repeats import REMEMBERED, asked_for, comparable
from agents.engine.redaction import RunBorder
from agents.models import Escalation, Run
from agents.sdk.arguments import BadArguments
from agents.sdk.desk import DESKS
from agents.sdk.values import show


def likeness(run: Run, action: Action, resource: str) -> str:
    """Return a keyed digest of what a call asks for; "" of what is none, or cannot be read.

    `resource` is the desk's key of what it uses. Raises ValuesLocked.
    """
    desk = DESKS.get(run.desk)
    tool = desk.tools.get(str(action.get("name"))) if desk else None
    if tool is None or not tool.writes:
        return ""
    border = RunBorder(run)
    given = border.resolve(action["args"])
    used = tool.resource_of(given) if tool.letter else border.resolve(resource)
    try:
        about = [comparable(given[tool.subject]), comparable(used), *asked_for(tool, given)]
    except (BadArguments, KeyError):
        return ""
    said = canonical([run.workspace_id, run.book_id, run.desk, tool.name, about])
    key = settings.OPSCONSOLE_NAMING_KEY.encode()
    return hmac.digest(key, said.encode("utf-8", "surrogatepass"), "sha256").hex()


def rejection_of(run: Run, action: Action, resource: str, limits: Limits, *, at: datetime) -> Json:
    """Return the rejection that binds a proposed call, as a fact of its review; None without one.

    The reference knows no such thing.
    """
    tool = DESKS[run.desk].tools.get(str(action.get("name")))
    if tool is None or limits.profile == "reference":
        return None
    subject = str(action["args"].get(tool.subject))
    if not run.has_rejections and subject == run.subject_key:
        return None
    like, of_any = likeness(run, action, resource), likeness(run, action, "")
    here = {"workspace": run.workspace_id, "subject": subject, "since": at - REMEMBERED}
    newest = _NEWEST.first(**here, likeness=like, of_any=of_any) if like else None
    if newest is None or newest.state != EscalationState.REJECTED:
        return None
    day = show(newest.decided_at.date()) if newest.decided_at else ""
    said = f"{newest.decided_by} rejected the same on {day}"
    return {"request": newest.pk, "run": str(newest.run_id), "state": said}


def _newest_decision() -> QuerySet[Escalation]:
    like = Escalation.objects.filter(
        workspace=Param("workspace"),
        subject_key=Param("subject"),
        likeness__in=[Param("likeness"), Param("of_any")],
        decided_at__gte=Param("since"),
    ).exclude(likeness="")
    return like.select_related("decided_by").order_by("-decided_at", "-pk")[:1]


_NEWEST = CompiledSelect(_newest_decision)
