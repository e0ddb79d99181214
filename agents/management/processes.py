"""Run a few programs as one: joint output, one Ctrl-C, restart of a program that dies."""

from __future__ import annotations

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
_STEADY = 30.0  # seconds after which a program counts as healthy, and its failures from 1 again
LONGEST_PAUSE = 10.0  # seconds


@dataclass(frozen=True)
class Program:
    """A command, and the name that prefixes its lines."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)  # defaults; ours takes precedence


@dataclass
class _Child:
    """A program that is kept running."""

    program: Program
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    falls: int = 0
    resumes_at: float = 0.0


def run_together(programs: Sequence[Program]) -> None:
    """Keep the programs running until SIGINT, SIGTERM or SIGHUP; then end them all."""
    stop = threading.Event()
    children = [_Child(program) for program in programs]
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        while not stop.is_set():
            for child in children:
                _keep_up(child)
            stop.wait(_POLL)
    finally:
        _end([child.process for child in children if child.process])
        for number, handler in before.items():
            signal.signal(number, handler)


def backoff(falls: int) -> float:
    """Return seconds to wait before the next start: 0.5, 1, 2, ... at most LONGEST_PAUSE."""
    return float(min(0.5 * 2 ** (min(falls, 10) - 1), LONGEST_PAUSE))


def _keep_up(child: _Child) -> None:
    """Start the program if it is not running and its pause is over."""
    now = time.monotonic()
    if child.process and child.process.poll() is not None:
        child.falls = 1 if now - child.started_at > _STEADY else child.falls + 1
        pause = backoff(child.falls)
        _say(child.program.name, f"ended with {child.process.returncode}, again in {pause:g} s")
        child.process, child.resumes_at = None, now + pause
    if child.process is None and now >= child.resumes_at:
        child.process, child.started_at = _start(child.program), now


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
