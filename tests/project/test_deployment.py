"""Dockerfile and compose.yaml name what exists, checked without a container engine."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from http.server import HTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from django.core.management import get_commands

from agents.engine.runtime.database import LEASE_THREADS, TOOL_THREADS
from agents.engine.tools.attention import letters_told
from agents.engine.workers.worker import CLOSING, ENDING
from agents.management.commands.serve import STREAMS_END
from tests.listening import Silent, listening
from tests.processes import ROOT

INSTALL = ROOT / "docs/install.md"
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if "build" in service]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
ENDS_IN = 6 + ENDING + CLOSING  # seconds: a worker's own limits, with the drain as it is set
GIVEN = {
    "POSTGRES_PASSWORD": "hunter2hunter2",
    "OPSCONSOLE_SECRET_KEY": "s" * 50,
    "OPSCONSOLE_AUDIT_KEY": "a" * 32,
    "OPSCONSOLE_VALUE_KEY": "v" * 32,
    "OPSCONSOLE_NAMING_KEY": "n" * 32,
}


def settings_names() -> set[str]:
    """Return every variable that the settings read."""
    tree = ast.parse((ROOT / "opsconsole/settings.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    firsts = [call.args[0] for call in calls]
    constants = [node.value for node in firsts if isinstance(node, ast.Constant)]
    return {value for value in constants if isinstance(value, str)}


def fill_in(value: str, **given: str) -> str:
    """Return a value as compose would interpolate it."""
    value = re.sub(r"\$\{(\w+):\?[^}]*\}", lambda found: given[found[1]], value)
    return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: given.get(found[1], found[2]), value)


def environment(service: str, **given: str) -> dict[str, str]:
    """Return a service's environment without ours, which could hide what it lacks."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OPSCONSOLE_", "OPENAI_", "EMAIL_", "DATABASE_"))
    }
    wanted = SERVICES[service]["environment"]
    theirs = {name: fill_in(str(value), **GIVEN, **given) for name, value in wanted.items()}
    return {**ours, **theirs, "DJANGO_SETTINGS_MODULE": "opsconsole.settings"}


def test_guide_counts_all_connections() -> None:
    told = (ROOT / "docs/operations.md").read_text()
    for_work = 4  # of the pool on PostgreSQL; on SQLite it has one thread

    all_of_them = for_work + TOOL_THREADS.threads + LEASE_THREADS.threads

    assert f"A worker opens up to {all_of_them}: four for its work" in told
    assert f"its {TOOL_THREADS.threads} threads for tools" in told


def test_only_who_seals_has_the_key_and_may_write_the_heads() -> None:
    keys = {name: environment(name)["OPSCONSOLE_AUDIT_KEY"] for name in OURS}
    volumes = {name: SERVICES[name].get("volumes", []) for name in OURS}

    assert keys == {"migrate": "none", "web": "none", "worker": GIVEN["OPSCONSOLE_AUDIT_KEY"]}
    assert {environment(name)["OPSCONSOLE_HEADS_FILE"] for name in OURS} == {"/heads/heads.jsonl"}
    assert "heads:/heads" in volumes["worker"]
    assert "heads:/heads:ro" in volumes["web"]
    assert "heads:/heads" not in volumes["web"] + volumes["migrate"]
    signs = [name for name in OURS if "OPSCONSOLE_PERMIT_KEYS" in SERVICES[name]["environment"]]
    assert signs == ["web"]
    for name in OURS:
        assert SERVICES[name]["read_only"]
        assert SERVICES[name]["cap_drop"] == ["ALL"]


# Set by the image or the host, for trials only, or unused under uvicorn.
NOT_HANDED_ON = {
    *("OPSCONSOLE_DATA_DIR", "OPSCONSOLE_HOST", "OPSCONSOLE_PORT"),
    *("OPSCONSOLE_DEBUG", "OPSCONSOLE_DEMO", "OPSCONSOLE_DEMO_PACE"),
    "OPSCONSOLE_CONNECTION_SECONDS",
}


def test_what_the_page_tells_to_set_reaches_the_services() -> None:
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/settings.md").read_text(), re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`(…?[A-Z_]+)`", row)}
    wanted = {name.replace("…", "OPENAI_MODEL") for name in names} - NOT_HANDED_ON

    of_one = {"OPSCONSOLE_AUDIT_OLD_KEYS": "worker", "OPSCONSOLE_PERMIT_KEYS": "web"}
    of_one |= {name: "web" for name in wanted if "_SSO_" in name}
    for name in OURS:
        others = {key for key, owner in of_one.items() if owner != name}
        assert set(SERVICES[name]["environment"]) == wanted - others


@pytest.mark.parametrize("name", OURS)
def test_a_service_runs_a_command_that_exists_in_the_image(name: str) -> None:
    command = SERVICES[name]["command"]

    if command[:2] == ["python", "manage.py"]:
        assert command[2] in get_commands()
    else:
        assert os.access(ROOT / command[0], os.X_OK)
        assert command[0] in DOCKERFILE


def test_serve_takes_the_python_of_a_plain_venv(tmp_path: Path) -> None:
    """Nobody has activated it, and `python` is on no path of a service."""
    script, python = tmp_path / "scripts/serve", tmp_path / ".venv/bin/python"
    for place in (script, python):
        place.parent.mkdir(parents=True)
    shutil.copy(ROOT / "scripts/serve", script)
    python.write_text('#!/bin/sh\necho "$(umask) $*"\n')
    python.chmod(0o700)
    env = {"PATH": "/usr/bin:/bin"}

    done = subprocess.run([script], cwd="/", env=env, capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == [
        "0077 manage.py collectstatic --no-input --verbosity 0",
        "0077 manage.py serve --host 0.0.0.0",
    ]


def test_the_healthcheck_is_in_the_image_too() -> None:
    _, program, path = SERVICES["web"]["healthcheck"]["test"]

    assert os.access(ROOT / program, os.X_OK)
    assert program in DOCKERFILE
    assert path.strip("/") in (ROOT / "agents/urls.py").read_text()


@pytest.mark.parametrize("name", OURS)
def test_services_order_and_stop_time_fit(name: str) -> None:
    service = SERVICES[name]

    assert set(service["depends_on"]) <= set(SERVICES)
    assert int(service["stop_grace_period"].removesuffix("s")) >= 1.5 * ENDS_IN
    volumes = [mount.partition(":")[0] for mount in service.get("volumes", [])]
    assert set(volumes) <= set(COMPOSE["volumes"])


@pytest.mark.proves("W21")
@pytest.mark.parametrize(
    "given",
    [
        {},
        {
            "OPSCONSOLE_PRODUCTION": "1",
            "OPSCONSOLE_BEHIND_PROXY": "1",
            "OPSCONSOLE_ALLOWED_HOSTS": "ops.example.com",
            "OPSCONSOLE_CSRF_TRUSTED_ORIGINS": "https://ops.example.com",
        },
    ],
    ids=["trial", "production"],
)
def test_the_settings_accept_what_compose_gives(given: dict[str, str], tmp_path: Any) -> None:
    program = "from django.conf import settings as s; print(s.OPSCONSOLE_DISPATCH, s.PRODUCTION)"
    told = environment("worker", **given)
    told |= {"OPSCONSOLE_DATA_DIR": str(tmp_path), "OPSCONSOLE_ENV_FILE": ""}

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=told, capture_output=True, text=True
    )

    assert done.stderr == ""
    assert done.stdout.split() == ["procrastinate", str(bool(given))]


def test_the_image_copies_what_exists_and_what_is_not_ignored() -> None:
    ignore = (ROOT / ".dockerignore").read_text().split()
    sent = [pattern.removeprefix("!") for pattern in ignore if pattern.startswith("!")]
    sources = [
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    ]

    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(fnmatch(source, pattern) for pattern in sent), source


def test_every_extra_of_the_image_is_locked() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, [package] in extras["optional-dependencies"].items():
        assert f"requirements-{name}.lock" in DOCKERFILE
        assert (ROOT / f"requirements-{name}.in").read_text().split("\n")[1] == package
        assert (ROOT / f"requirements-{name}.lock").exists()


def test_image_is_not_root_and_has_supported_python() -> None:
    assert re.findall(r"^USER (.+)$", DOCKERFILE, re.MULTILINE) == ["opsconsole"]
    assert set(re.findall(r"^FROM python:(\S+)", DOCKERFILE, re.MULTILINE)) == {"3.11-slim"}


@pytest.mark.skipif(os.getuid() != 0, reason="only root has directories that others may not enter")
@pytest.mark.parametrize(("mode", "warns"), [(0o700, True), (0o755, False)])
def test_installing_says_when_no_other_user_can_run_its_python(mode: int, warns: bool) -> None:
    with TemporaryDirectory(prefix="python-") as name:  # pytest's is private itself
        place, python = Path(name), Path(name, "python3")
        shutil.copy(sys._base_executable, python)  # type: ignore[attr-defined]
        without_pip = place / "without-pip"
        without_pip.write_text(f'#!/bin/sh\nexec {python} "$@" --without-pip\n')
        without_pip.chmod(0o755)
        place.chmod(mode)
        venv = place / "venv"
        ended = subprocess.run(
            ["make", f"VENV={venv}", f"PYTHON={without_pip}", f"{venv}/bin/python"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )

    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.startswith(f"Only root can run {python}") == warns, ended.stderr


def test_guide_names_the_stop_times() -> None:
    guide = (ROOT / "docs/operations.md").read_text()
    stopping = guide.partition("## Stopping\n")[2].partition("\n## ")[0]

    assert f"the drain and {ENDING + CLOSING:g} s, so {ENDS_IN:g} s" in stopping
    assert f"under way get {STREAMS_END} s" in stopping
    units = re.findall(r"^TimeoutStopSec=(\d+)$", INSTALL.read_text(), re.MULTILINE)
    limits = [float(found) for found in units]
    assert [limit >= 1.5 * ENDS_IN for limit in limits] == [True, True]


def test_the_guide_names_settings_measures_and_files_that_exist() -> None:
    guide = (ROOT / "docs/operations.md").read_text() + INSTALL.read_text()
    measures = (ROOT / "agents/overview/health.py").read_text()
    measures += "".join(f'"{letter.gauge}"' for letter in letters_told())

    named = set(re.findall(r"\b(?:OPSCONSOLE|OPENAI|EMAIL)_[A-Z_]+\b", guide))
    assert named
    assert named <= settings_names()
    for measure in re.findall(r"\bopsconsole_([a-z_]+?)(?:_total)?\b", guide):
        assert f'"{measure}"' in measures or f'"opsconsole_{measure}"' in measures
    for command in re.findall(r"manage\.py (\w+)", guide):
        assert command in get_commands()
    for script in re.findall(r"`(scripts/\w+)", guide):
        assert (ROOT / script).exists()


class _Answers(Silent):
    """Ready for the one host that it serves."""

    def do_GET(self) -> None:
        ready = self.path == "/readyz" and self.headers["Host"] == "ops.example.com"
        self.send_response(200 if ready else 400)
        self.end_headers()


@pytest.fixture
def port() -> Iterator[int]:
    with listening(HTTPServer(("127.0.0.1", 0), _Answers)) as server:
        yield server.server_port


@pytest.mark.parametrize(("path", "code"), [("/readyz", 0), ("/elsewhere", 1), ("", 2)])
def test_the_probe_asks_as_a_host_that_is_served(port: int, path: str, code: int) -> None:
    told = {"OPSCONSOLE_PORT": str(port), "OPSCONSOLE_ALLOWED_HOSTS": "ops.example.com,other"}

    done = subprocess.run(
        [sys.executable, ROOT / "scripts/probe", *path.split()], env={**os.environ, **told}
    )

    assert done.returncode == code
