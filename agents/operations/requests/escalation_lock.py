"""Lock and read what a decision needs in one round trip.

Plain queries would take ten times as long, which slows a run with a decision (docs/fast-layer.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db.models import BooleanField, ExpressionWrapper, QuerySet

from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import pipeline
from agents.models import Escalation, KillSwitch, Membership, Run, Step
from agents.models.belonging import request_belongs
from agents.shell.refusal import Refused, members

MISPLACED = (
    "Data of this request was changed to point at another run or workspace, so nobody can decide "
    "it. Run manage.py verify_audit."
)


class LockedEscalation(NamedTuple):
    """An escalation with its run and workspace locked, and what a decision about it reads."""

    escalation: Escalation
    steps: list[Step]  # of its run
    memberships: list[Membership]  # of the person in its workspace: one or none
    standing: list[KillSwitch]  # in its workspace


def lock_escalation(pk: int, by: User) -> LockedEscalation:
    """Lock an escalation's run, then its workspace.

    The escalation's `run` with its policy, `step` and `workspace` are loaded too. Raises
    DoesNotExist, and Refused if one of them belongs elsewhere.
    """
    with pipeline():
        run = _RUN.fetch(pk=pk)
        escalations, steps = _ESCALATION.fetch(pk=pk), _STEPS.fetch(pk=pk)
        # After the workspace's lock, which role changes and kill switches take too: a later
        # decision sees them.
        memberships, standing = _MEMBER.fetch(pk=pk, user=by.pk), _STANDING.fetch(pk=pk)
    escalation = next(iter(escalations.get()), None)
    if escalation is None:
        raise Escalation.DoesNotExist
    [escalation.run] = run.get()
    if not vars(escalation).pop("is_placed"):
        raise Refused("misplaced", MISPLACED)
    by_key = {step.pk: step for step in steps.get()}
    escalation.step = by_key[escalation.step_id]
    steps_of_run = list(by_key.values())
    return LockedEscalation(escalation, steps_of_run, memberships.get(), standing.get())


def _own(column: str) -> QuerySet[Escalation, Any]:
    """Return a reference of the escalation as a subquery, for a query sent with its own."""
    return Escalation.objects.filter(pk=Param("pk")).values(column)


_ESCALATION = CompiledSelect(
    lambda: (
        Escalation.objects.filter(pk=Param("pk"))
        .select_related("workspace")
        .annotate(is_placed=ExpressionWrapper(request_belongs(), BooleanField()))
        .select_for_update(of=("workspace",), no_key=True)
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
_MEMBER = CompiledSelect(lambda: members(Param("user")).filter(workspace__in=_own("workspace")))
_STANDING = CompiledSelect(
    lambda: KillSwitch.objects.standing().filter(workspace__in=_own("workspace"))
)
