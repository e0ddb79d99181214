"""Packages are locked to one version each, with hashes."""

import re

import pytest

from tests.processes import ROOT

_PIN = re.compile(r"[a-z0-9][a-z0-9._-]*==[^\s;]+(?: ; .+)?")


@pytest.mark.proves("W23")
@pytest.mark.parametrize(
    "name",
    [
        *("requirements.lock", "requirements-mcp.lock", "requirements-dev.lock"),
        *("requirements-otel.lock", "requirements-permits.lock"),
        "clients/python/requirements-sdks.lock",
    ],
)
def test_every_package_is_one_version_with_its_hashes(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]

    for line in lines:
        package, *hashes = re.split(r"\s+--hash=", line)
        assert _PIN.fullmatch(package.strip()), line
        assert hashes, f"{package} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one.strip()) for one in hashes), package
    assert lines
