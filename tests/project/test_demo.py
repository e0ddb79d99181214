"""The demo as a newcomer starts it: one process, its address, sign-in, Ctrl-C."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import database
from tests.commands.test_run_pattern import command
from tests.installations import LONGEST
from tests.nursery import Program
from tests.web.serving import is_up

pytestmark = pytest.mark.django_db  # a command that is refused leaves no row behind
ROOT = Path(__file__).resolve().parents[2]
NAMES = ["eve", "omar", "rita", "mara", "auditor", "admin"]


class Demo:
    """The demo on a free port, with its own data."""

    def __init__(self, data: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self.data = data
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        process = Program(
            [sys.executable, "manage.py", "demo", *arguments],
            cwd=ROOT,
            env={
                **os.environ,
                "PATH": str(self.data),  # it needs Python only
                "DJANGO_SETTINGS_MODULE": "opsconsole.settings",
                "DATABASE_URL": "",
                "OPSCONSOLE_DATA_DIR": str(self.data),
                "OPSCONSOLE_PORT": str(self.port),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(process)
        return process

    def stop(self, process: subprocess.Popen[str]) -> str:
        """Press Ctrl-C and wait for the end. Return what was printed."""
        process.send_signal(signal.SIGINT)
        return process.communicate(timeout=LONGEST)[0]

    def answers(self) -> bool:
        """Wait until the web process serves a file of ours."""
        process = self.started[-1]
        while not is_up(self.port):  # migrations are slow on a busy machine
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.1)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/static/mark.svg") as it:
            return bool(it.read().startswith(b"<svg"))


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    demo = Demo(tmp_path / "data")
    demo.data.mkdir(mode=0o700)
    database.copy_file(demo.data / "opsconsole.sqlite3")  # test_private.py begins with nothing
    yield demo
    for process in demo.started:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=LONGEST)


@pytest.mark.proves("W20")
@pytest.mark.slow
def test_demo_shows_passwords_once_and_ends_at_ctrl_c(demo: Demo) -> None:
    first = demo.start()
    assert demo.answers()
    shown = demo.stop(first)
    second = demo.start()
    assert demo.answers()
    shown_again = demo.stop(second)

    file = demo.data / "demo-sign-ins.json"
    passwords = json.loads(file.read_text())
    assert list(passwords) == NAMES
    assert all(f"{name:<5} {passwords[name]}" in shown for name in NAMES)
    assert not any(password in shown_again for password in passwords.values())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert f"http://127.0.0.1:{demo.port}/" in shown
    assert "Traceback" not in shown + shown_again
    assert (first.returncode, second.returncode) == (0, 0)


def test_a_port_that_is_taken_is_said_in_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = command("demo", "--port", str(port))

    assert ended.code == 2
    assert f"Port {port} cannot be used" in ended.err
    assert f"OPSCONSOLE_PORT={port + 1}" in ended.err


@pytest.mark.proves("W20")
@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "ops.example.com"])  # noqa: S104
def test_the_demo_is_not_served_to_other_machines(host: str) -> None:
    ended = command("demo", "--host", host)  # goes no further: there is no database here

    assert ended.code == 2
    assert f"{host} is not a loopback address" in ended.err
