"""A company's desk beside an installed console: no file of this repository is edited."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.installations import Installation, installation

pytestmark = [pytest.mark.both, pytest.mark.slow]
COMPANY = Path(__file__).parent / "acme_access"

SET_UP = """
from django.contrib.auth.models import User
from django.utils import timezone
from agents import operations
at = timezone.now()
workspace = operations.ensure_demo_workspace(at=at)
for name, role in (("ada", "admin"), ("rita", "reviewer"), ("omar", "operator")):
    user = User.objects.create_user(name)
    operations.add_member(workspace=workspace, user=user, role=role, at=at)
"""
LAUNCH = """
from django.contrib.auth.models import User
from django.utils import timezone
from agents import operations
from agents.models import Workspace
from agents.sdk.desk import DESKS
[scenario] = DESKS["access"].scenarios
run = operations.launch(
    workspace=Workspace.objects.get(), pattern="supervisor", desk="access", subject="noor",
    goal=scenario.goal, by=User.objects.get(username="omar"), at=timezone.now(),
)
"""
DECIDE = """
from django.contrib.auth.models import User
from django.utils import timezone
from agents import operations
from agents.models import Escalation
held = Escalation.objects.get()
operations.decide(
    escalation_id=held.pk, by=User.objects.get(username="rita"), approve=True,
    comment="until she is back", patch={"until": %r}, at=timezone.now(),
)
"""


@pytest.fixture
def company(tmp_path: Path) -> Iterator[Installation]:
    shutil.copytree(COMPANY, tmp_path / "company" / "acme_access")
    with installation(
        tmp_path / "home",
        OPSCONSOLE_APPS="acme_access",
        PYTHONPATH=str(tmp_path / "company"),
        ACME_GRANTS=str(tmp_path / "grants.json"),
    ) as console:
        yield console


def test_it_is_launched_decided_and_granted_once(company: Installation, tmp_path: Path) -> None:
    def manage(*arguments: str, given: str = "") -> None:
        ended = company.manage(*arguments, given=given)
        assert ended.code == 0, ended.err

    until = (datetime.now(UTC).date() + timedelta(days=14)).isoformat()

    manage("migrate", "--verbosity", "0")
    manage("shell", given=SET_UP)
    manage("publish_policy", "demo", "--as", "ada", "--add-desk", "access")
    manage("shell", given=LAUNCH)
    manage("work", "--once")
    manage("shell", given=DECIDE % until)
    # A worker of another host that lacks the app leaves the run to the one that has it.
    assert company.manage("work", "--once", OPSCONSOLE_APPS="").code == 0
    assert company.sql("SELECT state FROM agents_run") == [("queued",)]
    manage("work", "--once")

    [grant] = json.loads((tmp_path / "grants.json").read_text()).values()
    assert (grant["employee"], grant["role"], grant["until"]) == ("noor", "editor", until)
    assert company.sql("SELECT state, desk, subject_label FROM agents_run") == [
        ("done", "access", "Noor Haddad (Billing)")
    ]
    assert company.sql("SELECT tool, state FROM agents_effect") == [("grant_access", "done")]
    manage("verify_audit")
