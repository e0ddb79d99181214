"""A PostgreSQL server of one test, which it may restart."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.ports import free_port

USER = "opsconsole"
LONGEST = 300  # seconds for one command


def programs() -> Path | None:
    """Return the directory of the newest PostgreSQL server programs, or None."""
    packaged = Path("/usr/lib/postgresql").glob("*/bin/initdb")  # Debian keeps them off the PATH
    found = sorted(packaged, key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    if found:
        return found[-1].parent
    return Path(on_path).parent if on_path else None


@dataclass(frozen=True)
class Cluster:
    """A running server on loopback with one empty database, named as its user."""

    home: Path
    port: int

    def url(self, name: str = USER) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{name}"

    def create(self, name: str, *, like: str = "template1") -> None:
        """Make a database as a copy of another that is not in use."""
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", USER]
        _as_owner([_program("createdb"), *where, "-T", like, name])

    def restart(self) -> None:
        """Crash the server, and return once it is up again."""
        _control(self.home, "-m", "immediate", "restart")


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Run a server for the block."""
    home, port = Path(_as_owner(["mktemp", "-d", "/tmp/opsconsole-own-XXXXXX"])), free_port()  # noqa: S108
    try:
        _initialise(home)
        # Without syncs, a commit survives a crash of the server, though not a power cut.
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={home}"
        _control(home, "-o", f"{options} -c fsync=off", "start")
        try:
            found = Cluster(home, port)
            found.create(USER)
            yield found
        finally:
            _control(home, "-m", "immediate", "stop")
    finally:
        _as_owner(["rm", "-rf", str(home)])


def _initialise(home: Path) -> None:
    what = ["-D", f"{home}/data", "-U", USER, "--auth=trust", "--encoding=UTF8", "--no-sync"]
    _as_owner([_program("initdb"), *what])


def _control(home: Path, *what: str) -> None:
    where = ["-D", f"{home}/data", "-l", f"{home}/log", "-w", "-t", str(LONGEST)]
    _as_owner([_program("pg_ctl"), *where, *what])


def _program(name: str) -> str:
    found = programs()
    assert found, "PostgreSQL is not installed"
    return str(found / name)


def _as_owner(command: Sequence[str]) -> str:
    """Run a program as a user who may run a server: the current one, but never root."""
    if os.geteuid() == 0:
        command = ["runuser", "-u", "postgres", "--", *command]
    ended = subprocess.run(
        command, cwd="/", stdout=subprocess.PIPE, text=True, timeout=LONGEST, check=True
    )
    return ended.stdout.strip()
