"""The demo's first steps: launch a run, decide its request as a reviewer, verify the record."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Exists, Subquery
from django.urls import reverse

from agents.core.states import EscalationState
from agents.models import Escalation, Event, Run, Workspace
from agents.people.sign_in import demo_of


@dataclass(frozen=True)
class FirstStep:
    """One thing to do, by whom, and where."""

    text: str
    person: str
    role: str
    page: str
    address: str
    is_done: bool
    is_next: bool = False

    @property
    def who(self) -> str:
        """Return the person, with their role unless the name says it."""
        return self.person if self.person == self.role else f"{self.person}, {self.role}"


def first_steps(user: User) -> list[FirstStep]:
    """Return the steps and which are done; none outside `manage.py demo` or after the last."""
    workspace = demo_of(user)
    if workspace is None:
        return []
    # A run launched by the form has its token; the invented runs have none.
    launched = Run.objects.filter(workspace=workspace, launch_token__isnull=False)
    asked = Escalation.objects.filter(run__in=launched)
    decided = asked.filter(decided_by__isnull=False)
    waiting = asked.filter(state=EscalationState.OPEN).order_by("-pk").values("pk")[:1]
    checked = Event.objects.filter(workspace=workspace, run=None, kind="audit.verified")
    is_asked, is_decided, is_checked, request = (
        Workspace.objects.filter(pk=workspace.pk)
        .values_list(Exists(asked), Exists(decided), Exists(checked), Subquery(waiting))
        .get()
    )
    launch, queue, audit = (
        (name.title(), reverse(name)) for name in ("launch", "approvals", "audit")
    )
    # The request itself: in the queue it comes last, after the invented ones.
    card = ("the request", reverse("approval", args=[request])) if request else queue
    given = (
        ("Launch a run that needs approval", "omar", "operator", launch, is_asked),
        ("Approve up to rita's limit, or reject it", "rita", "reviewer", card, is_decided),
        ("Verify that nothing was changed", "auditor", "auditor", audit, is_checked),
    )
    ahead = next((place for place, (*_, is_done) in enumerate(given) if not is_done), None)
    if ahead is None:
        return []
    return [
        FirstStep(text, person, role, *page, is_done, place == ahead)
        for place, (text, person, role, page, is_done) in enumerate(given)
    ]
