"""Lock and read what a decision needs in one round trip.

Plain queries would take ten times as long, which slows a run with a decision (docs/fast-layer.md).
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db.models import BooleanField, ExpressionWrapper, QuerySet

from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import pipeline
from agents.models import Escalation, Membership, Run, Step, Workspace
from agents.models.belonging import request_belongs
from agents.operations.refusal import Refused, members

MISPLACED = (
    "Data of this request was changed to point at another run or workspace, so nobody can decide "
    "it. Run manage.py verify_audit."
)


def lock_escalation(pk: int, by: User) -> tuple[Escalation, list[Step], list[Membership]]:
    """Lock an escalation's run, then its workspace. Return it, the run's steps, by's membership.

    The escalation's `run` with its policy, `step` and `workspace` are loaded too. Raises
    DoesNotExist, and Refused if one of them belongs elsewhere.
    """
    with pipeline():
        run = _RUN.fetch(pk=pk)
        escalations, steps = _ESCALATION.fetch(pk=pk), _STEPS.fetch(pk=pk)
        # After the lock that role changes take too: a later decision sees the change.
        workspace, memberships = _WORKSPACE.fetch(pk=pk), _MEMBER.fetch(pk=pk, user=by.pk)
    escalation = next(iter(escalations.get()), None)
    if escalation is None:
        raise Escalation.DoesNotExist
    [escalation.run], [escalation.workspace] = run.get(), workspace.get()
    if not vars(escalation).pop("is_placed"):
        raise Refused("misplaced", MISPLACED)
    by_key = {step.pk: step for step in steps.get()}
    escalation.step = by_key[escalation.step_id]
    return escalation, list(by_key.values()), memberships.get()


def _own(column: str) -> QuerySet[Escalation, Any]:
    """Return a reference of the escalation as a subquery, for a query sent with its own."""
    return Escalation.objects.filter(pk=Param("pk")).values(column)


_ESCALATION = CompiledSelect(
    lambda: Escalation.objects.filter(pk=Param("pk")).annotate(
        is_placed=ExpressionWrapper(request_belongs(), BooleanField())
    )
)
_RUN = CompiledSelect(
    lambda: (
        Run.objects.filter(pk__in=_own("run"))
        .select_related("policy")
        .select_for_update(of=("self",))
    )
)
_STEPS = CompiledSelect(lambda: Step.objects.filter(run__in=_own("run")).order_by("position"))
_WORKSPACE = CompiledSelect(
    lambda: Workspace.objects.filter(pk__in=_own("workspace")).select_for_update(no_key=True)
)
_MEMBER = CompiledSelect(lambda: members(Param("user")).filter(workspace__in=_own("workspace")))
