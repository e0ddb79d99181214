"""Run a few programs as one: joint output, one Ctrl-C, and one end."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

GRACE = 4.0  # seconds a program has to end by itself before it is killed
_POLL = 0.1  # seconds


@dataclass(frozen=True)
class Program:
    """A command, and the name that prefixes its lines."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)  # defaults; ours takes precedence


def run_together(programs: Sequence[Program]) -> None:
    """Run the programs until one ends, or SIGINT, SIGTERM or SIGHUP; then end them all."""
    stop = threading.Event()
    running: list[subprocess.Popen[bytes]] = []
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        for program in programs:
            running.append(_start(program))
        while not stop.wait(_POLL):
            for program, process in zip(programs, running, strict=True):
                if process.poll() is not None:
                    _say(program.name, f"ended with {process.returncode}, so everything ends")
                    stop.set()
    finally:
        _end(running)
        for number, handler in before.items():
            signal.signal(number, handler)


def _start(program: Program) -> subprocess.Popen[bytes]:
    # In its own session: the terminal's Ctrl-C reaches only us, and we pass it on once.
    process = subprocess.Popen(  # noqa: S603 - the commands are our own
        program.command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={**program.environment, **os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    threading.Thread(target=_relay, args=(program.name, process.stdout), daemon=True).start()
    return process


def _relay(name: str, stream: IO[bytes]) -> None:
    with stream:
        for line in stream:
            _say(name, line.decode(errors="replace").rstrip())


def _say(name: str, line: str) -> None:
    sys.stdout.write(f"{name:<6} | {line}\n")  # one write, so that lines do not mix
    sys.stdout.flush()


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask every program and its children to end; kill them after GRACE."""
    for process in processes:
        _signal(process, signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGKILL)
            process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.poll() is None:
        os.killpg(process.pid, number)  # its session's group: also what it has started itself
