"""A crowd of open pages on one web process: its memory, its processor, and its restart."""

import argparse
import asyncio
import random
import time
from collections import Counter

from asgiref.sync import sync_to_async
from django.db import connection

from agents.core.requests import RunState
from agents.models import Escalation
from bench.load import processes
from bench.load.decisions import Form
from bench.load.scene import Scene
from bench.load.viewers import Page, _alive, _until, _visitor

QUIET = 20.0  # seconds in which nothing happens
AFTERWARDS = 5.0  # seconds for what comes after the last page is back


class Patient(Page):
    """A page that comes back as a browser's does: after what it was told, longer each time."""

    def __init__(self, site: str, cookie: str, run: str) -> None:
        super().__init__(site, cookie, run)
        self.came: list[float] = []  # each time that a stream was opened
        self.messages = 0
        self._retry = 0.5

    async def watch(self, stays: float) -> None:
        attempt = 0
        while True:
            try:
                reader, writer = await asyncio.open_connection(
                    self._address.hostname, self._address.port
                )
            except OSError:
                attempt += 1
            else:
                writer.write(self._request().encode())
                if b" 200 " in await reader.readline():
                    self.came.append(time.time())
                    attempt = 0
                    async for line in reader:
                        if line.startswith(b"retry: "):
                            self._retry = int(line[7:]) / 1000
                        if line.startswith(b"id: "):
                            self.messages += 1
                            self._note(line[4:].decode().strip())
                attempt += 1
                writer.close()
            wait = min(self._retry * 2 ** (attempt - 1), 60)
            await asyncio.sleep(wait * random.uniform(0.7, 1.3))  # noqa: S311


def main() -> None:
    """Print what a crowd costs while it is idle, while people decide, and when it comes back."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--people", type=int, default=80)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--decisions", type=int, default=20)
    parser.add_argument("--dispatch", default="polling")
    asyncio.run(_measure_crowd(parser.parse_args()))


async def _measure_crowd(given: argparse.Namespace) -> None:
    scene, how = Scene(given.runs), {"OPSCONSOLE_DISPATCH": given.dispatch}
    runs = await sync_to_async(lambda: [scene.launch(n + 1).pk for n in range(given.runs)])()
    port, rows = processes.free_port(), list[tuple[str, str, str, str]]()
    site = f"http://127.0.0.1:{port}"

    with processes.model() as address, processes.worker(address, **how):
        await _until(scene, RunState.WAITING)
        with processes.serving(port, **how) as pid:
            before = processes.megabytes(pid)
            cookies = [await sync_to_async(_visitor)(scene) for _ in range(given.people)]
            pages = [
                Patient(site, cookies[n % given.people], str(runs[n % given.runs]))
                for n in range(given.streams)
            ]
            cost = _Cost(pid)
            watching = [asyncio.create_task(page.watch(0)) for page in pages]
            while not all(page.seen for page in pages):
                await _alive(watching)
            rows.append(("opened", *cost.report_usage()))
            await asyncio.sleep(QUIET)
            rows.append((f"idle for {QUIET:.0f} s", *cost.report_usage()))
            answers = await sync_to_async(_decide_requests)(site, scene, given.decisions)
            await asyncio.sleep(AFTERWARDS)
            rows.append((f"{given.decisions} decisions", *cost.report_usage()))
        sent = sum(page.messages for page in pages)
        with processes.serving(port, **how) as pid:
            cost, since = _Cost(pid), time.time()
            while not all(page.came[-1] > since for page in pages):
                await _alive(watching)
            back = time.time() - since
            await asyncio.sleep(AFTERWARDS)
            rows.append((f"back after a restart, in {back:.0f} s", *cost.report_usage()))
        for task in watching:
            task.cancel()
    most = max(Counter(int(page.came[-1]) for page in pages).values())
    again = sum(page.messages for page in pages) - sent
    print(f"\n{given.streams} pages of {given.people} people, {connection.vendor}\n")
    print(f"| web process ({before:.0f} MB at first) | processor | memory | at most |")
    print("|---|---:|---:|---:|")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print(f"\n{most} came back in the busiest second; they were sent {again} messages.")
    print(f"The form answered in {processes.percentile(answers, 0.95) * 1000:.0f} ms (p95).")


def _decide_requests(site: str, scene: Scene, count: int) -> list[float]:
    form = Form(site, scene.rita)
    return [form.allow(held) for held in Escalation.objects.order_by("pk")[:count]]


class _Cost:
    """What a process has used since it was last asked."""

    def __init__(self, pid: int) -> None:
        self._pid, self._cpu = pid, processes.cpu_seconds(pid)

    def report_usage(self) -> tuple[str, str, str]:
        used, self._cpu = (
            processes.cpu_seconds(self._pid) - self._cpu,
            processes.cpu_seconds(self._pid),
        )
        now, most = (processes.megabytes(self._pid, what) for what in ("VmRSS", "VmHWM"))
        return f"{used:.1f} s", f"{now:.0f} MB", f"{most:.0f} MB"


if __name__ == "__main__":
    main()
