"""Console and outside desk as wheels, in a fresh Python with no checkout on its path."""

import json
import re
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import version
from pathlib import Path
from urllib.request import urlopen
from zipfile import ZipFile

import pytest

from tests.database import copy_file
from tests.desks import page
from tests.e2e.workers import until
from tests.installations import LONGEST, Installation
from tests.ports import free_port
from tests.processes import ROOT
from tests.web.serving import is_up

pytestmark = pytest.mark.slow
FOLDERS = ("agents", "opsconsole", "templates", "static")
OF_PACKAGE = ("pyproject.toml", "setup.py", "requirements.in", "README.md", "LICENSE")
BUILDS = 80  # the setuptools that makes a wheel by itself
SCRIPT = """
from datetime import date, timedelta
import agents
from django.contrib.auth.models import User
from django.core.management import call_command
from django.utils import timezone
from agents import operations
from agents.models import Escalation, Run, Workspace
print(agents.__file__)
nearer = date.today() + timedelta(days=9)
run = operations.launch(
    workspace=Workspace.objects.get(slug="demo"), pattern="supervisor", desk="access",
    goal="Give Noor editor on billing until the end of the quarter; she covers for Ben.",
    subject="noor", by=User.objects.get(username="omar"), at=timezone.now(),
)
call_command("work", "--once")
held = Escalation.objects.get(run=run)
call_command("decide", held.pk, "--approve", f"--set=until={nearer}", "--reason=r", "--as=rita")
call_command("work", "--once")
print(Run.objects.get(pk=run.pk).state)
"""


def build(place: Path, out: Path) -> None:
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(out), "."], cwd=place, check=True, timeout=LONGEST)


def files_shipped() -> list[str]:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*") if file.is_file()]
    return [str(file.relative_to(ROOT)) for file in files if file.parent.name != "__pycache__"]


@pytest.mark.skipif(
    int(version("setuptools").partition(".")[0]) < BUILDS, reason="make install-dev brings it"
)
def test_wheels_of_console_and_desk_run_where_no_checkout_is(tmp_path: Path) -> None:
    console, desk, out = tmp_path / "console", tmp_path / "desk", tmp_path / "out"
    paths = files_shipped()
    for path in (*paths, *OF_PACKAGE):
        (console / path).parent.mkdir(parents=True, exist_ok=True)
        (console / path).write_bytes((ROOT / path).read_bytes())
    desk.mkdir()
    page.write(desk)
    (desk / "pyproject.toml").write_text(page.package())
    for folder in (console, desk):
        build(folder, out)
    [wheel] = out.glob("opsconsole-*.whl")
    inside = {name.removeprefix("opsconsole/") for name in ZipFile(wheel).namelist()}
    assert {path.removeprefix("opsconsole/") for path in paths} <= inside
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in inside)

    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    [packages] = (tmp_path / "venv").glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    wheels = map(str, out.glob("*.whl"))
    subprocess.run([*pip, "--no-index", *wheels], check=True, timeout=LONGEST)
    copy_file(file := tmp_path / "own.sqlite3")
    own, port = Installation(tmp_path / "data", f"sqlite:///{file}"), free_port()
    environment = own.environment(OPSCONSOLE_APPS="acme_access", PYTHONPATH="")
    (here := tmp_path / "elsewhere").mkdir()

    def manage(*arguments: str) -> str:
        ended = subprocess.run(
            [str(python.with_name("opsconsole")), *arguments],
            cwd=here,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    manage("demo", "--prepare")
    place, *_, state = manage("shell", "--no-imports", "--command", SCRIPT).split()
    [grant] = json.loads((packages / "acme_access" / "grants.json").read_text()).values()
    assert (Path(place).is_relative_to(packages), state, grant["role"]) == (True, "done", "editor")
    assert [path.name for path in here.iterdir()] == []

    served = subprocess.Popen(
        [str(python), "-m", "opsconsole", "serve", "--port", str(port)], cwd=here, env=environment
    )
    try:
        until(lambda: is_up(port) or served.poll() is not None)
        site = f"http://127.0.0.1:{port}"
        sign_in = urlopen(f"{site}/sign-in/").read().decode()  # noqa: S310 - loopback
        styles = re.findall(r'href="(/static/[^"]+\.css)"', sign_in)
        assert styles
        assert all(urlopen(site + style).status == 200 for style in styles)  # noqa: S310
    finally:
        served.terminate()
        served.wait(60)
