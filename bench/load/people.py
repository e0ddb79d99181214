"""Fifty people decide beside runs that go on: from each decision to the next step of its run."""

import argparse
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from django.db import connection

from agents.core.requests import ENDED, RunState
from agents.models import Effect, Escalation, Role, Run
from bench import page
from bench.load import processes
from bench.load.decisions import Form, p95_ms, print_row, seconds_to_step
from bench.load.scene import Scene

AIM = 0.150  # seconds from a decision to the next step, for 95 of 100


def main() -> None:
    """Print what the decisions and the form took while runs went on beside them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=50)
    parser.add_argument("--beside", type=int, default=8, help="runs under way all the time")
    parser.add_argument("--seconds", type=float, default=120.0, help="in which each decides twice")
    parser.add_argument("--dispatch", default="polling")
    given = parser.parse_args()
    scene = Scene(2 * given.people + 1)
    for number in range(1, 2 * given.people + 1):
        scene.launch(number)
    ours = Run.objects.filter(workspace=scene.workspace)
    how = {"OPSCONSOLE_DISPATCH": given.dispatch}
    with (
        processes.model(1.0) as address,
        processes.serving(port := processes.free_port(), **how) as web,
        processes.worker(address, **how) as worker,
    ):
        processes.until(lambda: not ours.exclude(state=RunState.WAITING).exists())
        held = list(Escalation.objects.filter(run__in=ours).order_by("pk"))
        site = f"http://127.0.0.1:{port}"
        forms = [Form(site, scene.person(Role.REVIEWER)) for _ in range(given.people)]
        used = [processes.cpu_seconds(pid) for pid in (web, worker.pid)]
        is_over = threading.Event()
        beside = threading.Thread(target=_keep_running, args=(scene, given.beside, is_over))
        beside.start()
        with ThreadPoolExecutor(given.people) as crowd:
            posted = list(
                crowd.map(lambda form, one: _decide(form, one, given.seconds), forms * 2, held)
            )
        processes.until(
            lambda: (
                not ours.filter(pk__in=[one.run_id for one in held])
                .exclude(state__in=ENDED)
                .exists()
            )
        )
        is_over.set()
        beside.join()
        web_cpu, worker_cpu = (
            processes.cpu_seconds(pid) - before
            for pid, before in zip((web, worker.pid), used, strict=True)
        )
    effects = Effect.objects.filter(escalation__in=held).select_related("escalation")
    took = [seconds_to_step(effect) for effect in effects]
    others = ours.count() - len(held)
    print(
        f"\n{given.people} people, {len(held)} decisions in {given.seconds:g} s beside "
        f"{given.beside} runs ({others} in all), {connection.vendor}, {given.dispatch}\n"
    )
    print("| | p50 | p95 | at most |")
    print("|---|---:|---:|---:|")
    print_row("decision to the next step (its intent)", took)
    page.keep_whole(connection.vendor, {"people.next_p95": p95_ms(took)})
    print_row("the form's answer", posted)
    print(
        f"\nThe aim is {AIM * 1000:.0f} ms for 95 of 100. Processor: web {web_cpu:.1f} s, worker "
        f"{worker_cpu:.1f} s. The machine's load was {os.getloadavg()[0]:.0f}."
    )


def _decide(form: Form, held: Escalation, seconds: float) -> float:
    """Think for a while, decide, look at the next card. Return the seconds to the answer."""
    time.sleep(random.uniform(0, seconds / 2))  # noqa: S311 - makes a load, guards nothing
    took = form.allow(held)
    form.open_next()
    return took


def _keep_running(scene: Scene, count: int, is_over: threading.Event) -> None:
    """Launch runs that look something up, so that so many are always under way."""
    question = f"Customer {scene.customers} asks what was paid."
    going = Run.objects.filter(workspace=scene.workspace, goal=question)
    while not is_over.wait(0.1):
        for _ in range(count - going.exclude(state__in=ENDED).count()):
            scene.launch(scene.customers, question)
    connection.close()


if __name__ == "__main__":
    main()
