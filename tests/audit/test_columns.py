"""Every column of what pages show is compared with the record, or named here.

docs/audit.md says in words what is not compared.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, models, transaction
from django.utils import timezone

from agents.audit import protection
from agents.desks.refunds.models import Refund, SentMail
from agents.models import Effect, Escalation, Run
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene, go

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

MODELS: tuple[type[models.Model], ...] = (Run, Escalation, Effect, Refund, SentMail)
NOT_COMPARED = {
    # Whose turn it is, and what a launch tells nobody: they end with the run.
    Run: "fence lease_owner lease_ends_at wake_at attempts launch_token question_version "
    # Of a report its day; of a declared desk its subject.
    "subject_label scope",
    # Evidence, the clock, and what is known once the call is made.
    Escalation: "review expires_at frozen_at resource",
    # What the tool returned, and the steps of the trace.
    Effect: "step_id review_id result settled_at resource",
    Refund: "reason reference held_at paid_at",
    # The address, the heading, and what the mail server said.
    SentMail: "book_id to template subject currency reference started_at sent_at fault",
}
# No row holds another value by itself: test_rows.py changes states, and a claim is none of it.
REFUSED = {
    Run: "workspace_id policy_id state",
    Escalation: "workspace_id state claimed_by_id claimed_until",
    Effect: "state",
    Refund: "state released_at",
    SentMail: "state",
}


def forged(field: Any, value: Any) -> Any:
    """Return another value than a column has, of its own type."""
    match field:
        case models.ForeignKey():
            others = field.related_model._default_manager.exclude(pk=value).order_by("-pk")
            return others.values_list("pk", flat=True).first()
        case models.JSONField():
            return {"forged": True}
        case models.BooleanField():
            return not value
        case models.DateTimeField():
            return (value or timezone.now()) + timedelta(seconds=1)
        case models.IntegerField():
            return (value or 0) + 1
    return f"x{value}"[: field.max_length]


def faults() -> set[str]:
    return {fault["why"] for fault in command("verify_audit", "--json").document["faults"]}


@pytest.mark.breaks(*(f"I{number}" for number in range(1, 60)))
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_column_that_somebody_changed_is_named(scene: Scene, model: Any) -> None:
    go(scene.launch())  # another of everything
    waiting = go(scene.launch())
    scene.decide(waiting)
    of = go(waiting)
    owner: dict[Any, dict[str, Any]] = {
        Run: {"pk": of.pk},
        Escalation: {"run": of},
        Effect: {"run": of},
    }
    row = model.objects.filter(**owner.get(model, {})).order_by("pk").first()
    protection.unprotect(connection)
    unprotected = faults()
    unseen, refused = set(), set()

    for field in [field for field in model._meta.concrete_fields if not field.primary_key]:
        before, this = getattr(row, field.attname), model.objects.filter(pk=row.pk)
        try:
            with transaction.atomic():
                this.update(**{field.attname: forged(field, before)})
        except IntegrityError:
            refused.add(field.attname)
            continue
        unseen |= {field.attname} if faults() == unprotected else set()
        this.update(**{field.attname: before})

    assert unseen == set(NOT_COMPARED[model].split())
    assert refused == set(REFUSED[model].split())
