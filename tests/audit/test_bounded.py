"""Verifying and copying a long record takes no more memory than a short one."""

import gc
import itertools
import tracemalloc
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from django.db import connection
from django.utils import timezone

from agents.audit import chains, copies
from agents.audit.verify import prove
from agents.models import Event, Run, Workspace
from agents.models.record import Entry, chain_events
from tests.commands.test_run_pattern import command
from tests.engine.scene import REFUND_500, Scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]

RUNS, EVENTS = 80, 25
HELD = 100_000  # bytes; the hashes alone of 60 runs would be 170,000


def _launch_many(scene: Scene) -> None:
    """Write chains like a worker, without driving runs."""
    first, at = scene.launch(REFUND_500), timezone.now()
    kinds = ["run.queued", "run.claimed"] * EVENTS
    entries = [Entry(kind, {}, "omar") for kind in kinds[:EVENTS]]
    for _ in range(RUNS):
        key, of = uuid4(), first.workspace_id
        lines = chain_events(entries, workspace_id=of, run_id=key, after=(0, ""), at=at)
        count, newest = lines.end
        columns = {field.attname: getattr(first, field.attname) for field in Run._meta.fields}
        columns |= {"id": key, "created_at": at, "event_count": count, "head_hash": newest}
        Run.objects.create(**{**columns, "launch_token": None})
        Event.objects.bulk_create(Event(**each) for each in lines.events)


def _growth(work: Callable[[chains.Step], object]) -> int:
    """Return the growth in bytes between the first quarter and the end."""
    held: list[int] = []
    calls = itertools.count()

    def count_held(done: int) -> None:
        if next(calls) % 4 == 0:
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])

    tracemalloc.start()
    try:
        work(count_held)
    finally:
        tracemalloc.stop()
    settled = held[1 : 2 + len(held) // 4]  # the first still has all heads in hand
    return held[-1] - max(settled)


def test_what_is_held_does_not_grow_with_the_record(
    scene: Scene, heads_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chains, "EVENTS", 4 * EVENTS)
    _launch_many(scene)
    assert command("seal_audit").code == 0
    check = partial(
        prove, runs=Run.objects.all(), workspaces=Workspace.objects.all(), file=heads_file
    )
    found = check()  # and of what is cached by a first call
    with monkeypatch.context() as short:
        short.setattr(chains, "CHUNK", 1)
        heard: list[int] = []
        check(step=heard.append)
    logged = sum(Workspace.objects.values_list("event_count", flat=True))
    assert len(heard) > found.chains + logged, "within a long chain its worker is heard of, too"
    copy = copies.lines(Workspace.objects.all(), at=timezone.now())
    assert (found.faults, found.chains, sum("event" in line[:9] for line in copy)) == (
        [],
        RUNS + 2,
        Event.objects.count(),
    )

    if connection.vendor == "postgresql":
        # The driver keeps the text of its last hundred statements, to prepare what comes again: up
        # to 150,000 bytes here, and no more with a longer record.
        connection.connection.prepare_threshold = None
    of_check = _growth(lambda step: check(step=step))
    of_copy = _growth(
        lambda step: deque(copies.lines(Workspace.objects.all(), at=timezone.now(), step=step), 0)
    )

    assert (of_check < HELD, of_copy < HELD) == (True, True), (of_check, of_copy)
