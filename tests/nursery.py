"""Programs of Python's that begin with the libraries loaded: to import them is most of a start.

Each is forked from a process that holds Django and the other libraries and nothing of this
project, and has settings, directory, streams and a copy of the project of its own. One that a test
starts often, and not for its start, is forked from such a program that has set Django up, where
another with the same environment has been before. Run as a program, this file is a process that
others are forked from; it ends when the tests do.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

# What takes long to import, and asks for no settings when it is.
LIBRARIES = (
    *("aiohttp", "httpx2", "openai", "procrastinate", "prometheus_client", "psycopg", "uvicorn"),
    *("django.contrib.admin.options", "django.contrib.staticfiles", "django.core.management"),
    *("django.db.backends.postgresql.base", "django.db.backends.sqlite3.base", "django.forms"),
)
SET_UP = "--set-up"
READ_LATER = ("OPSCONSOLE_CRASH_AT",)  # of the environment, which setting Django up does not read
_NUMBER = struct.Struct("i")
_STREAMS = 3


class Program(subprocess.Popen[Any]):
    """`[python, script or -m module, ...]`, started in what holds the libraries already.

    Popen in all but this: the process is its nursery's child, which tells how it ended.
    `libraries` are held besides those that every program uses. With `is_set_up`, Django is set up
    for its environment and the pages are imported when it begins.
    """

    def __init__(
        self, *args: Any, libraries: tuple[str, ...] = (), is_set_up: bool = False, **named: Any
    ) -> None:
        if is_set_up:
            env = {name: value for name, value in named["env"].items() if name not in READ_LATER}
            self._nursery = _set_up(named["cwd"], tuple(sorted(env.items())))
        else:
            self._nursery = _nursery(str(args[0][0]), libraries)
        super().__init__(*args, **named)

    def _execute_child(self, args: Sequence[str], *rest: Any) -> None:
        _executable, _before, _close, _pass, cwd, env, _info, _flags, _shell, *more = rest
        streams, is_leader = more[:6], more[11]
        given = [own if fd == -1 else fd for own, fd in enumerate(streams[i] for i in (0, 3, 5))]
        os.umask(mask := os.umask(0))
        place = str(cwd or Path.cwd())
        asked = [list(args[1:]), place, dict(env or os.environ), mask, is_leader]
        self._report, report = socket.socketpair()
        with report:
            self._nursery.ask(asked, [*given, report.fileno()])
        self.pid, self._child_created = self._number(), True
        self._close_pipe_fds(*streams)  # type: ignore[attr-defined]

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if flags & os.WNOHANG and not select.select([self._report], [], [], 0)[0]:
            return 0, 0
        with self._report:
            return self.pid, self._number()

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
        return self.returncode

    def _number(self) -> int:
        said = self._report.recv(_NUMBER.size)
        assert said, "the nursery has died"
        return int(_NUMBER.unpack(said)[0])


def run(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    given: str = "",
    timeout: float,
    libraries: tuple[str, ...] = (),
    is_set_up: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. Return its exit code and what it wrote."""
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    named: Any = {"cwd": cwd, "env": env, "libraries": libraries, "is_set_up": is_set_up}
    with Program([sys.executable, *arguments], text=True, **named, **pipes) as program:
        try:
            out, err = program.communicate(given, timeout=timeout)
        except subprocess.TimeoutExpired:
            program.kill()
            raise
    return subprocess.CompletedProcess(arguments, program.returncode, out, err)


class Nursery:
    """The process from which others are forked, on requests by its standard input."""

    def __init__(self, start: Callable[[int], subprocess.Popen[Any]]) -> None:
        self._line, theirs = socket.socketpair()
        self._turn = Lock()
        with theirs:
            self._process = start(theirs.fileno())
        atexit.register(self.close)

    def ask(self, asked: list[Any], fds: list[int]) -> None:
        """Have a program started; its number and then how it ended come by the last of `fds`."""
        body = json.dumps(asked).encode()
        with self._turn:
            socket.send_fds(self._line, [_NUMBER.pack(len(body))], fds)
            self._line.sendall(body)

    def close(self) -> None:
        """Let it end, which it does when nobody can ask any more."""
        self._line.close()
        self._process.wait()


@cache
def _nursery(python: str, libraries: tuple[str, ...]) -> Nursery:
    # -P: what lies beside this file hides no library.
    own = LIBRARIES if python == sys.executable else ()
    command = [python, "-P", __file__, *own, *libraries]
    return Nursery(lambda line: subprocess.Popen(command, stdin=line))


@cache
def _set_up(cwd: Path, env: tuple[tuple[str, str], ...]) -> Nursery:
    command = [sys.executable, "-m", "tests.nursery", SET_UP]
    return Nursery(lambda line: Program(command, cwd=cwd, env=dict(env), stdin=line))


def main(libraries: Sequence[str]) -> None:
    """Fork the requested programs and report how each ended; in a child, become the program."""
    if libraries == [SET_UP]:
        import django
        from django.conf import settings

        django.setup()
        libraries = [settings.ROOT_URLCONF]
    for name in libraries:
        importlib.import_module(name)
    line = sys.stdin.fileno()
    gc.collect()
    gc.freeze()  # shared with the children for as long as nobody writes to it
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the tests' business
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    asking, reports = socket.socket(fileno=line), dict[int, socket.socket]()
    while True:
        ready, _, _ = select.select([line, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _tell_ends(reports)
        if line not in ready:
            continue
        head, fds, _, _ = socket.recv_fds(asking, _NUMBER.size, _STREAMS + 1)
        if not head:
            return
        body = asking.recv(_NUMBER.unpack(head)[0], socket.MSG_WAITALL)
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            for one in (asking, *reports.values()):
                one.close()
            os.close(woken)
            os.close(wake)
            _become(fds, *json.loads(body))
            return
        for fd in fds[:_STREAMS]:
            os.close(fd)
        reports[pid] = socket.socket(fileno=fds[_STREAMS])
        reports[pid].send(_NUMBER.pack(pid))


def _tell_ends(reports: dict[int, socket.socket]) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            with reports.pop(ended[0]) as report, suppress(OSError):  # nobody may wait for it
                report.send(_NUMBER.pack(ended[1]))


def _become(
    fds: list[int], arguments: list[str], cwd: str, env: dict[str, str], umask: int, is_leader: bool
) -> None:
    """Run a program as `python *arguments` would in a process that has just begun."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if is_leader:
        os.setsid()
    for target, fd in enumerate(fds[:_STREAMS]):
        os.dup2(fd, target)
    for fd in fds:
        os.close(fd)
    os.umask(umask)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.dont_write_bytecode = bool(env.get("PYTHONDONTWRITEBYTECODE"))
    if lease := sys.modules.get("agents.engine.lease"):
        vars(lease)["OWNER"] = uuid4().hex  # or those of one nursery were one worker
    if env.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    sys.path[:0] = [place for place in env.get("PYTHONPATH", "").split(os.pathsep) if place]
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, cwd)
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(arguments[0]).absolute().parent))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
