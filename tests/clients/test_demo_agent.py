"""`make demo-agent`: an outside agent at a served console, in a terminal."""

import subprocess
import sys

import pytest

from agents.models import AgentKey, Run
from tests.api.test_journey import open_request
from tests.e2e.workers import PATIENCE
from tests.engine.scene import Scene, decide_request, patch_of, payments
from tests.processes import ROOT, environment, running
from tests.web.serving import serve

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def test_it_tells_what_a_person_made_of_its_request(scene: Scene) -> None:
    with (
        serve() as site,
        running("manage.py", "work"),
        subprocess.Popen(
            [sys.executable, str(ROOT / "scripts" / "demo-agent"), "case-1"],
            env=environment(OPSCONSOLE_URL=site),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as program,
    ):
        request = open_request()
        decide_request(request, scene.rita, patch=patch_of(80000), comment="partly used")
        said, errors = program.communicate(timeout=PATIENCE)

    assert program.returncode == 0, errors
    assert "rita changed it to" in said
    assert "“partly used”" in said
    assert "800.00" in said.splitlines()[-1]
    assert payments(Run.objects.get()) == [80000]
    assert AgentKey.objects.get().revoked_at is not None
