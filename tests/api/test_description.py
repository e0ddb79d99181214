"""docs/openapi.json against a server: requests made of it, right and wrong, find no gap."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.api.test_journey import make_agent
from tests.clients.programs import PYTHON, needs_frameworks
from tests.engine.scene import Scene
from tests.processes import LONGEST, ROOT
from tests.web.serving import serve

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, needs_frameworks]

CHECKS = (
    *("not_a_server_error", "status_code_conformance", "content_type_conformance"),
    *("response_schema_conformance", "negative_data_rejection", "ignored_auth"),
    *("missing_required_header", "unsupported_method"),
)


def test_generated_requests_are_answered_as_described(scene: Scene, tmp_path: Path) -> None:
    _, key = make_agent(scene)
    (tmp_path / "schemathesis.toml").write_text("[parameters]\nwait = 0\n")  # nobody answers
    with serve() as site:
        command = [str(PYTHON.with_name("schemathesis")), "run", "--no-color"]
        command += [str(ROOT / "docs" / "openapi.json"), "--url", site]
        command += ["--exclude-path-regex", "events"]  # which stay open
        command += ["--header", f"Authorization: Bearer {key}", "--checks", ",".join(CHECKS)]
        command += [
            *("--phases", "examples,coverage,fuzzing,stateful", "--max-examples", "12", "--seed"),
            "1",
        ]
        ran = subprocess.run(
            command,
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )

    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
