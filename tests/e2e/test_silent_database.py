"""A database that stops answering, as behind a firewall that drops packets."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit

import pytest

from tests.e2e.workers import until
from tests.installations import LONGEST, Installation, installation
from tests.processes import ROOT

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

WORKERS = "SELECT count(*) FROM agents_worker"


class Wire:
    """A proxy to the server, which goes silent when cut."""

    def __init__(self, host: str, port: int) -> None:
        self.far = (host, port)
        self.is_cut = Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.sockets: list[socket.socket] = [self.listener]
        Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def close(self) -> None:
        self.is_cut.set()
        for one in self.sockets:
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.far)
                self.sockets += [near, far]
                for ends in ((near, far), (far, near)):
                    Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while (some := source.recv(65536)) and not self.is_cut.is_set():
                target.sendall(some)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Installation]:
    with installation(tmp_path / "home", is_empty=False) as found:
        yield found


@pytest.mark.parametrize("dispatch", ["polling", "procrastinate"])
def test_worker_stops_despite_a_silent_database(own: Installation, dispatch: str) -> None:
    server = urlsplit(own.url)
    wire = Wire(server.hostname or "", server.port or 5432)
    near = server._replace(netloc=f"{server.username}@127.0.0.1:{wire.port}").geturl()
    chosen = {"OPSCONSOLE_DISPATCH": dispatch, "OPSCONSOLE_LEASE_SECONDS": "1"}
    assert own.manage("migrate", "-v0", **chosen).code == 0
    child = subprocess.Popen(
        [sys.executable, "manage.py", "work"],
        cwd=ROOT,
        env=own.environment(**chosen, DATABASE_URL=f"{near}?connect_timeout=600"),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: own.sql(WORKERS) == [(1,)])
        wire.is_cut.set()

        child.terminate()
        _, said = child.communicate(timeout=LONGEST)
    finally:
        child.kill()
        wire.close()

    assert child.returncode == 0
    assert "their leases will run out" in said
    assert "Traceback" not in said
