"""A thousand agents elsewhere that wait on one web process, and what a call with its ruling asks.

A call is compared with the turn of a supervised run whose model answers at once: the same look,
from the launch to the end, in this process.
"""

import argparse
import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.db import connection
from django.test import override_settings
from django.utils import timezone

from agents.core.requests import RunState
from agents.engine.turns.advance import run_once
from agents.external import keys, sessions
from agents.models import ExternalAgent, Run
from bench import page
from bench.counting import count_statements
from bench.load import processes
from bench.load.scene import Scene

OF_AGENT = 100  # calls that wait, of one agent at a time
WATCHED = 15.0  # seconds
LOOK: dict[str, Any] = {"name": "get_refund_context"}


def main() -> None:
    """Print what waiting takes of a web process, and statements and processor time of a call."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--dispatch", default="polling")
    given = parser.parse_args()
    scene = Scene(given.agents)
    print(f"\n{given.agents} agents wait on one web process, {connection.vendor}\n")
    _measure_waiting(scene, given.agents, given.dispatch)
    print("\n| from the launch to the end, with a look between | statements | processor |")
    print("|---|---:|---:|")
    with (
        processes.model() as address,
        override_settings(OPENAI_BASE_URL=address, OPENAI_API_KEY="any", OPENAI_TOOL_CALLS="off"),
    ):
        turns: dict[str, Callable[[Scene, int], None]] = {
            "supervised run, instant model": _supervised,
            "session of an agent": partial(_session, looks=1),
            "session with five looks more": partial(_session, looks=6),
        }
        figures = {name: _measure_turns(turn, scene, given.turns) for name, turn in turns.items()}
    for name, (statements, seconds) in figures.items():
        print(f"| {name} | {statements:.1f} | {1000 * seconds:.1f} ms |")
    run, one, six = figures.values()
    more, longer = (six[0] - one[0]) / 5, (six[1] - one[1]) / 5
    print(f"| each further look | {more:.1f} | {1000 * longer:.1f} ms |")
    print(f"\nA further look: {more / run[0]:.2f} of the run's statements.")


def _agent(scene: Scene, name: str) -> ExternalAgent:
    at = timezone.now()
    where: dict[str, Any] = {"workspace": scene.workspace, "desk": "refunds", "owner": scene.omar}
    return keys.set_agent(name=name, at=at, **where)


def _open(agent: ExternalAgent, customer: int) -> Run:
    return sessions.open_session(
        agent=agent, reference=f"c{customer}", goal="Look", subject=str(customer), at=timezone.now()
    )


def _propose(agent: ExternalAgent, run: Run, key: str, customer: int) -> int:
    how: dict[str, Any] = {**LOOK, "args": {"user_id": customer}, "at": timezone.now()}
    return sessions.propose(agent=agent, run_id=run.pk, key=key, **how).row.pk


def _measure_waiting(scene: Scene, count: int, dispatch: str) -> None:
    waiters = []
    for first in range(0, count, OF_AGENT):
        agent, life = _agent(scene, f"waits-{first}"), timedelta(days=1)
        _, token = keys.make_key(home=agent, lasts=life, at=timezone.now())
        run = _open(agent, first + 1)
        for number in range(min(OF_AGENT, count - first)):  # no worker runs: they go on waiting
            waiters.append((token, _propose(agent, run, f"k{number}", first + 1)))
    port = processes.free_port()
    with ExitStack() as stack:
        pid = stack.enter_context(processes.serving(port, OPSCONSOLE_DISPATCH=dispatch))
        asyncio.run(_wait(f"http://127.0.0.1:{port}", waiters[:10], lambda: None))  # warm
        before = (processes.megabytes(pid), _threads(pid))
        figures: list[float] = []
        asyncio.run(
            _wait(
                f"http://127.0.0.1:{port}",
                waiters,
                lambda: figures.extend((processes.cpu_seconds(pid), time.monotonic())),
            )
        )
        after = (processes.megabytes(pid, "VmHWM"), _threads(pid))
    (began, begun_at), (ended, ended_at) = figures[:2], figures[2:4]
    share = 100 * (ended - began) / (ended_at - begun_at)
    print("| | before | while they wait | aim |\n|---|---:|---:|---:|")
    page.keep_whole(connection.vendor, {"agents.megabytes": after[0] - before[0]})
    print(f"| threads | {before[1]} | {after[1]} | the same |")
    print(f"| memory | {before[0]:.0f} MB | +{after[0] - before[0]:.0f} MB | +40 MB |")
    print(f"| of a core | | {share:.1f} % | 5 % |")


def _threads(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Threads"))


async def _wait(site: str, waiters: list[tuple[str, int]], look: Callable[[], None]) -> None:
    """Have all wait; `look` once all are there, and again after a while."""
    where = urlsplit(site)
    streams = []
    for token, call in waiters:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        asked = f"GET /api/v1/calls/{call}?wait=25 HTTP/1.1\r\nHost: {where.netloc}\r\n"
        writer.write(f"{asked}Authorization: Bearer {token}\r\n\r\n".encode())
        streams.append((reader, writer))
        if len(streams) % 50 == 0:
            await asyncio.sleep(0.2)  # as a crowd arrives, not as one packet
    if len(waiters) > OF_AGENT:
        await asyncio.sleep(3)
    look()
    await asyncio.sleep(WATCHED if len(waiters) > OF_AGENT else 1)
    look()
    answered = 0
    for reader, writer in streams:
        with suppress(TimeoutError):
            answered += bool(await asyncio.wait_for(reader.read(1), 0.001))
        writer.close()
    if len(waiters) > OF_AGENT:
        print(f"{len(waiters) - answered} of {len(waiters)} still waited at the end.\n")


def _measure_turns(
    turn: Callable[[Scene, int], None], scene: Scene, count: int
) -> tuple[float, float]:
    turn(scene, 1)  # what a process reads once
    with count_statements() as asked:
        began = time.process_time()
        for number in range(2, count + 2):
            turn(scene, number)
        seconds = time.process_time() - began
    return asked.statements / count, seconds / count


def _supervised(scene: Scene, customer: int) -> None:
    _drive(scene.launch(customer, f"Customer {customer} asks what was paid."))


def _session(scene: Scene, customer: int, *, looks: int) -> None:
    """Have an agent look so often, each time once it was told of the last, and end."""
    name = f"looks-{looks}"
    known = ExternalAgent.objects.filter(workspace=scene.workspace, name=name).first()
    agent = known or _agent(scene, name)
    run = _open(agent, customer)
    for number in range(looks):
        _propose(agent, run, f"look-{number}", customer)
        _drive(run)
    end: dict[str, Any] = {"answer": "Nothing is to be refunded.", "at": timezone.now()}
    sessions.end_session(agent=agent, run_id=run.pk, **end)
    _drive(run)


def _drive(run: Run) -> None:
    while Run.objects.get(pk=run.pk).state == RunState.QUEUED:
        asyncio.run(run_once(run.pk))
    left = Run.objects.get(pk=run.pk)
    if left.stop_reason not in ("", "success"):
        raise SystemExit(f"the run ended with {left.stop_reason}")


if __name__ == "__main__":
    main()
