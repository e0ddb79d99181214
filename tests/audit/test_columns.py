"""Every column that pages show is compared with the record, or listed here and in docs/audit.md."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, models, transaction
from django.db.models import Q
from django.utils import timezone

from agents.audit import protection
from agents.desks.refunds.models import Refund, SentMail
from agents.models import Effect, Escalation, Membership, PolicyVersion, Run, Workspace
from agents.people import members
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene, go
from tests.processes import ROOT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

MODELS: tuple[type[models.Model], ...] = (
    *(Run, Escalation, Effect, Refund, SentMail),
    *(Workspace, PolicyVersion, Membership),
)
NOT_COMPARED = {
    # Scheduling, and launch details that no event holds: they matter until the run ends.
    Run: "fence lease_owner lease_ends_at wake_at idle_until attempts launch_token "
    "question_version "
    # Whether it has values; that they are there is compared by themselves.
    "has_values "
    # A report's day; a declared desk's subject.
    "subject_label scope",
    # Evidence, and the clocks.
    Escalation: "review is_marked expires_at climbs_at frozen_at",
    # What the tool returned.
    Effect: "result settled_at",
    Refund: "reason reference held_at paid_at",
    # Address, subject and the mail server's reply.
    SentMail: "to template subject reference started_at sent_at fault",
    Workspace: "name created_at",
    PolicyVersion: "is_replay created_at",
    Membership: "is_simulated",
}
# No single other value is valid here: test_rows.py changes states and claims.
REFUSED = {
    Run: "state agent_id",  # there is no such agent
    Escalation: "state claimed_by_id claimed_until approval_id",  # used by nobody
    Effect: "state",
    Refund: "state released_at",
    SentMail: "state",
    Workspace: "",
    PolicyVersion: "workspace_id",  # its number is taken
    Membership: "role grants",
}


TITLES = {
    Run: "run",
    Escalation: "request",
    Effect: "effect",
    Refund: "refund",
    SentMail: "email",
    Workspace: "workspace",
    PolicyVersion: "policy version",
    Membership: "membership",
}


def test_the_page_lists_the_columns_that_are_not_compared() -> None:
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    rows = [
        f"| {TITLES[model]} | {', '.join(f'`{name}`' for name in columns.split())} |"
        for model, columns in NOT_COMPARED.items()
    ]
    table = "\n".join(("| row | columns |", "|---|---|", *rows))

    assert f"<!-- generated: columns -->\n\n{table}\n\n<!-- end -->" in page, table


def forge_values(field: Any, value: Any) -> Iterator[Any]:
    """Yield other values of a column's type; for a reference, another row of each workspace."""
    match field:
        case models.ForeignKey():
            others = field.related_model._default_manager.exclude(pk=value)
            has = {one.name for one in field.related_model._meta.concrete_fields}
            home = {"workspace": "workspace", "run": "run__workspace"}
            path = next((home[name] for name in home if name in has), "pk")
            yield from dict(others.order_by("pk").values_list(path, "pk")).values()
        case models.JSONField():
            yield {"forged": True}
        case models.BooleanField():
            yield not value
        case models.DateTimeField():
            yield (value or timezone.now()) + timedelta(seconds=1)
        case models.IntegerField():
            yield (value or 0) + 1
        case _:
            yield f"x{value}"[: field.max_length]


def faults(*part: str) -> set[str]:
    return {fault["why"] for fault in command("verify_audit", "--json", *part).document["faults"]}


@pytest.mark.proves("I33")
@pytest.mark.breaks(*(f"I{number}" for number in range(1, 60)))
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_column_that_somebody_changed_is_named(scene: Scene, other: Scene, model: Any) -> None:
    waiting = go(other.launch())
    for each in (scene, other):  # a team that a request could be with
        members.set_team(workspace=each.workspace, slug="leads", name="L", at=timezone.now())
    other.decide(waiting)
    of = go(waiting)
    for each in (scene, other):
        go(each.launch())  # a second row of everything
    owner: dict[Any, Q] = {
        Run: Q(pk=of.pk),
        Workspace: Q(pk=of.workspace_id),
        Membership: Q(user__username="ada"),
        Refund: Q(),
        SentMail: Q(),
    }
    its = Q(run=of) if hasattr(model, "run") else Q(workspace=of.workspace_id)
    row = model.objects.filter(owner.get(model, its)).order_by("pk").first()
    unseen, refused = forge_columns(row)

    assert unseen == set(NOT_COMPARED[model].split())
    assert refused == set(REFUSED[model].split())


@pytest.mark.proves("I33")
@pytest.mark.breaks(*(f"I{number}" for number in range(1, 60)))
@pytest.mark.parametrize("model", [Run, Escalation], ids=lambda model: model.__name__)
def test_a_column_of_what_has_not_ended_is_named(scene: Scene, other: Scene, model: Any) -> None:
    waiting = go(other.launch())
    for each in (scene, other):
        members.set_team(workspace=each.workspace, slug="leads", name="L", at=timezone.now())
        go(each.launch())
    row = model.objects.get(Q(pk=waiting.pk) if model is Run else Q(run=waiting))

    unseen, _ = forge_columns(row)

    assert unseen == set(NOT_COMPARED[model].split())


def forge_columns(row: models.Model) -> tuple[set[str], set[str]]:
    """Change each column of a row in turn; return the unnoticed and the refused changes."""
    protection.unprotect(connection)
    run = row.pk if isinstance(row, Run) else getattr(row, "run_id", None)
    # Most is named when its run is verified alone, which costs a quarter.
    parts = [("--run", str(run)), ()] if run else [()]
    unprotected = {part: faults(*part) for part in parts}
    unseen, refused = set(), set()
    same = type(row)._default_manager.filter(pk=row.pk)
    for field in [field for field in row._meta.concrete_fields if not field.primary_key]:
        before, is_refused = getattr(row, field.attname), True
        for value in forge_values(field, before):
            try:
                with transaction.atomic():
                    same.update(**{field.attname: value})
            except IntegrityError:
                continue
            is_refused = False
            is_named = any(faults(*part) != unprotected[part] for part in parts)
            unseen |= set() if is_named else {field.attname}
            same.update(**{field.attname: before})
        refused |= {field.attname} if is_refused else set()
    return unseen, refused
