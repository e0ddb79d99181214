"""Fixtures for tests of the record: a scene, a sealed run, a heads file."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents.desks.refunds.books import COLUMNS, import_customers
from agents.models import Role, Run
from agents.people import workspaces
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene

CUSTOMER = "42,Anna,anna@example.com,US,enterprise,annual_enterprise,1200.00,USD"


@pytest.fixture(autouse=True)
def heads_file(settings: Any, tmp_path: Path) -> Path:
    """Keep the heads file of one test beside its database."""
    settings.OPSCONSOLE_HEADS_FILE = tmp_path / "heads.jsonl"
    return tmp_path / "heads.jsonl"


@pytest.fixture
def run(scene: Scene) -> Run:
    """A finished and sealed refund."""
    ended = scene.done_refund()
    assert command("seal_audit").code == 0
    ended.refresh_from_db()
    return ended


@pytest.fixture
def other(scene: Scene) -> Scene:
    """A workspace other than the demo, with the same people, customers and policy numbers."""
    at = timezone.now()
    eu = workspaces.add_workspace(desks=["refunds"], slug="eu", name="EU", at=at)
    for name in ("rita", "omar"):
        part = scene.workspace.memberships.get(user__username=name)
        workspaces.add_member(
            workspace=eu, user=part.user, role=Role(part.role), desk_limits=part.desk_limits, at=at
        )
    workspaces.add_member(
        workspace=eu, user=User.objects.create_user("ada"), role=Role.ADMIN, at=at
    )
    table = [",".join(COLUMNS), f"{CUSTOMER},{at - timedelta(days=2):%Y-%m-%d}"]
    import_customers(workspace=eu, lines=table, at=at, actor="ada")
    return replace(scene, workspace=eu)
