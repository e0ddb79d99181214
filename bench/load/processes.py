"""The processes under load, as they are run for real, and what they take of the machine."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import MappingProxyType

PATIENCE = 300.0  # seconds for anything to happen
TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def model(wait: float = 0.0) -> Iterator[str]:
    """Run a model server that waits before each answer; give its address."""
    with _running("-m", "bench.load.model", f"--wait={wait}", stdout=subprocess.PIPE) as child:
        assert child.stdout is not None  # noqa: S101 - it was asked for
        yield f"http://127.0.0.1:{int(child.stdout.readline())}/v1"


@contextmanager
def worker(address: str, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker that asks the model at `address`."""
    # The model server of the programs reads one JSON object.
    told = {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": "any", "OPENAI_TOOL_CALLS": "off"}
    with _running("manage.py", "work", settings={**told, **settings}) as child:
        yield child


@contextmanager
def web(**settings: str) -> Iterator[str]:
    """Serve the pages from one process; give their address."""
    port = free_port()
    with serving(port, **settings):
        yield f"http://127.0.0.1:{port}"


def free_port() -> int:
    """Return a port that nobody listens at."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(port: int, **settings: str) -> Iterator[int]:
    """Serve the pages from one process at a port; give its process id."""
    collect = [sys.executable, "manage.py", "collectstatic", "--no-input", "--verbosity=0"]
    subprocess.run(collect, check=True)  # noqa: S603 - as scripts/serve does
    with _running("manage.py", "serve", f"--port={port}", settings=settings) as child:
        end = time.monotonic() + PATIENCE
        while not _answers(port):
            if time.monotonic() > end:
                raise SystemExit("the web process did not come up")
            time.sleep(0.05)
        yield child.pid


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 0.2).close()
    except OSError:
        return False
    return True


@contextmanager
def _running(
    *arguments: str, settings: Mapping[str, str] = MappingProxyType({}), stdout: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, **settings}
    child = subprocess.Popen([sys.executable, *arguments], env=environment, stdout=stdout)  # noqa: S603
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()


def megabytes(pid: int, what: str = "VmRSS") -> float:
    """Return the memory that a process has now, or had at most ("VmHWM"); Linux tells."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def until(condition: Callable[[], bool], *, seconds: float = PATIENCE) -> None:
    """Wait until `condition()` holds, or stop the benchmark."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("it took too long")
        time.sleep(0.05)


@contextmanager
def time_block() -> Iterator[list[float]]:
    """Give a list that holds the block's seconds afterwards."""
    took: list[float] = []
    started = time.perf_counter()
    yield took
    took.append(time.perf_counter() - started)


def percentile(found: list[float], share: float) -> float:
    """Return the value that `share` of what was found does not exceed."""
    ordered = sorted(found)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
