"""Settings of production pass Django's own checks of a deployment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import nursery
from tests.processes import ROOT, environment

GIVEN = {
    "OPSCONSOLE_PRODUCTION": "1",
    "OPSCONSOLE_ALLOWED_HOSTS": "ops.example.com",
    "OPSCONSOLE_SECRET_KEY": "a-key-of-many-different-letters-0123456789-xyz-ABCDEFG",
    "OPSCONSOLE_ENV_FILE": "",
    "DATABASE_URL": "",
}


@pytest.mark.slow
def test_the_checks_of_a_deployment_find_nothing(tmp_path: Path) -> None:
    told = environment(**GIVEN, OPSCONSOLE_DATA_DIR=str(tmp_path))

    check = ["manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    done = nursery.run(check, cwd=ROOT, env=told, timeout=60)

    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout
