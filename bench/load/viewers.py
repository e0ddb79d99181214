"""Many open pages on one web process, while people decide and a worker carries it out."""

import argparse
import asyncio
import random
import time
from statistics import median
from urllib.parse import urlsplit

from asgiref.sync import sync_to_async
from django.db import connection

from agents.core.requests import ENDED, RunState
from agents.models import Escalation, Event, Role, Run
from bench.load import processes
from bench.load.decisions import Form, p95_ms
from bench.load.scene import Scene, cookie_of
from bench.page import keep_whole

CATCHING_UP = 60.0  # seconds after the last event; what is not seen then counts as lost
PEOPLE = 20  # at most thirty streams belong to one person


class Page:
    """A browser's stream of one run's page; it notes when it saw which state of the run."""

    def __init__(self, site: str, cookie: str, run: str) -> None:
        self.run = run
        self.seen: list[tuple[int, float]] = []
        self._address, self._cookie = urlsplit(site), cookie
        self._id = ""

    async def watch(self, stays: float) -> None:
        """Read the stream, and open it again from the last id whenever `stays` seconds are over."""
        while True:
            reader, writer = await asyncio.open_connection(
                self._address.hostname, self._address.port
            )
            writer.write(self._request().encode())
            try:
                async with asyncio.timeout(stays):
                    await self._read(reader)
            except TimeoutError:
                pass
            finally:
                writer.close()

    def _request(self) -> str:
        lines = [f"GET /live/?run={self.run} HTTP/1.1", f"Host: {self._address.netloc}"]
        lines += [f"Cookie: {self._cookie}"] + ([f"Last-Event-ID: {self._id}"] if self._id else [])
        return "\r\n".join(lines) + "\r\n\r\n"

    async def _read(self, reader: asyncio.StreamReader) -> None:
        status = await reader.readline()
        if b" 200 " not in status:
            raise SystemExit(f"a stream was refused: {status!r}")
        async for line in reader:
            if line.startswith(b"id: "):
                self._note(line[4:].decode().strip())

    def _note(self, place: str) -> None:
        """Note a new state of the run; the other part of the place is the inbox's."""
        parts = {part[0]: part[1:] for part in place.split(".")}
        known = self._id and {part[0]: part[1:] for part in self._id.split(".")}
        self._id = place
        if "r" in parts and not (known and known.get("r") == parts["r"]):
            self.seen.append((int(parts["r"]), time.time()))
        elif known == parts:
            raise SystemExit(f"the same state came twice: {place}")


def main() -> None:
    """Print how long a commit takes to the browsers, and the form to its answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--viewers", type=int, default=300)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between decisions")
    parser.add_argument("--dispatch", default="polling")
    asyncio.run(_measure_viewers(parser.parse_args()))


async def _measure_viewers(given: argparse.Namespace) -> None:
    scene = Scene(given.runs)
    runs = await sync_to_async(_launch_runs)(scene)
    how = {"OPSCONSOLE_DISPATCH": given.dispatch}
    with (
        processes.model() as address,
        processes.web(**how) as site,
        processes.worker(address, **how),
    ):
        await _until(scene, RunState.WAITING)
        cookies = [await sync_to_async(_visitor)(scene) for _ in range(PEOPLE)]
        pages = [
            Page(site, cookies[n % PEOPLE], str(runs[n % len(runs)])) for n in range(given.viewers)
        ]
        watching = [
            # One in three comes and goes, at moments of their own.
            asyncio.create_task(page.watch(random.uniform(3, 9) if n % 3 == 0 else 1e6))  # noqa: S311
            for n, page in enumerate(pages)
        ]
        while not all(page.seen for page in pages):
            await _alive(watching)
        first = time.time()
        posting = await sync_to_async(_decide_requests)(site, scene, given.pause)
        await _until(scene, *ENDED)
        ends = await sync_to_async(_ends)(scene)
        late = time.time() + CATCHING_UP
        while time.time() < late and any(page.seen[-1][0] < ends[page.run] for page in pages):
            await _alive(watching)
        for task in watching:
            task.cancel()
    lags = await sync_to_async(_lags)(pages, first)
    print(f"\n{given.viewers} viewers, {connection.vendor}, {given.dispatch}\n")
    print("| | p50 | p95 | at most | number |")
    print("|---|---:|---:|---:|---:|")
    _print("commit to browser", lags)
    keep_whole(connection.vendor, {"viewers.page_p95": p95_ms(lags)})
    _print("the decision form's answer", posting)


async def _alive(watching: list[asyncio.Task[None]]) -> None:
    """Wait a moment; raise what a page failed with."""
    done, _ = await asyncio.wait(watching, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


def _launch_runs(scene: Scene) -> list[object]:
    return [scene.launch(number).pk for number in range(1, scene.customers + 1)]


def _ends(scene: Scene) -> dict[str, int]:
    """Return the number of events of each run."""
    found = Run.objects.filter(workspace=scene.workspace).values_list("pk", "event_count")
    return {str(pk): count for pk, count in found}


def _visitor(scene: Scene) -> str:
    return cookie_of(scene.person(Role.REVIEWER))


def _decide_requests(site: str, scene: Scene, pause: float) -> list[float]:
    """Decide on every run, a pause apart, whatever the runs do meanwhile."""
    form, found = Form(site, scene.rita), []
    for held in Escalation.objects.filter(workspace=scene.workspace).order_by("pk"):
        found.append(form.allow(held))
        time.sleep(pause)
    return found


async def _until(scene: Scene, *states: RunState) -> None:
    ours = Run.objects.filter(workspace=scene.workspace)
    while await ours.exclude(state__in=states).aexists():
        await asyncio.sleep(0.2)


def _lags(pages: list[Page], first: float) -> list[float]:
    """Return the seconds from each event to each page of its run that showed it.

    An event's time is taken before its commit, so the commit counts. Stops where a page lost the
    end of its run, or went back in time.
    """
    said: dict[str, dict[int, float]] = {}
    for run, seq, at in Event.objects.exclude(run=None).values_list("run", "seq", "at"):
        said.setdefault(str(run), {})[seq] = at.timestamp()
    lags = []
    for page in pages:
        events, states = said[page.run], [state for state, _ in page.seen]
        if states != sorted(set(states)) or states[-1] != max(events):
            raise SystemExit(f"a page saw {states} of {max(events)} events")
        for seq, written in events.items():
            if written > first:
                lags.append(next(when for state, when in page.seen if state >= seq) - written)
    return lags


def _print(what: str, seconds: list[float]) -> None:
    found = median(seconds), processes.percentile(seconds, 0.95), max(seconds)
    shown = " | ".join(f"{each * 1000:.0f} ms" for each in found)
    print(f"| {what} | {shown} | {len(seconds)} |")


if __name__ == "__main__":
    main()
