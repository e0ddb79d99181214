"""What a page reads does not grow with a year of runs that it does not show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from operator import add

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from agents import operations
from agents.db.statistics import keep_statistics
from agents.desks.refunds.gallery.copying import Copy, kept_rows, read_original, write_copies
from agents.engine.case_days import count_next_day
from agents.engine.model_use import sum_next_day
from agents.engine.review_days import sum_next_review_day
from agents.models import Effect, Role, Workspace
from agents.web.approvals import inbox
from agents.web.audit import log
from agents.web.overview import figures
from agents.web.runs import listing
from bench.size.fill import multiply
from tests.engine.scene import REFUND_500, go, set_scene
from tests.settings import ON_POSTGRES
from tests.web.test_pages import signed_in

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(ON_POSTGRES, reason="counts the steps of SQLite's machine"),
]

RUNS, TIMES, MONTH = 36, 12, timedelta(days=30)
STEP = 100  # instructions of SQLite's machine, at each of which it is counted
# By words of all, of one, of none, and in the stop reason.
SEARCHES = ("text=refund", "text=Ben+107", "text=xylophone", "stop_reason=succ", "stop_reason=max")
MOST_TIMES, FEW = 1.5, 60  # another plan may take that much more, whatever there is to read


@contextmanager
def counted() -> Iterator[list[int]]:
    """Count the steps that SQLite takes for this thread's questions."""
    steps = [0]

    def count() -> int:
        steps[0] += 1
        return 0

    connection.connection.set_progress_handler(count, STEP)
    try:
        yield steps
    finally:
        connection.connection.set_progress_handler(None, 0)


def work_of(client: Client, address: str) -> tuple[int, int]:
    """Return the steps and the queries that a page takes."""
    client.get(address)
    with counted() as steps, CaptureQueriesContext(connection) as asked:
        assert client.get(address).status_code == 200
    return steps[0], len(asked)


@pytest.mark.slow
@pytest.mark.breaks("I18", "I20", "I32", "I33")  # the hashes are those of what was copied
def test_a_page_reads_no_more_of_a_year_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (listing, "PAGE"),
        (inbox, "DECIDED_PAGE"),
        (log, "PAGE"),
        (log, "RUNS"),
        (log, "FEW"),
        (figures, "NEWEST"),
    ):
        monkeypatch.setattr(module, name, 4)
    scene, now = set_scene(), timezone.now()
    places = [operations.add_workspace(slug=f"w{n}", name=f"W {n}", at=now) for n in range(5)]
    places = [Workspace.objects.get(pk=made.pk) for made in (scene.workspace, *places)]
    for workspace in places[:2]:  # a database with few does not care for their index
        operations.add_member(workspace=workspace, user=scene.rita, role=Role.ADMIN, at=now)
    held = scene.launch()
    go(held)
    scene.decide(held)
    originals = [read_original(go(run).pk) for run in (held, scene.launch(REFUND_500))]
    first = now - TIMES * MONTH
    copies: list[Copy] = []
    for number in range(RUNS):
        for original in originals:
            place = places[number % len(places)]
            clock = partial(add, first + timedelta(hours=number) - original.run.created_at)
            kept = kept_rows(original, place)
            copies.append(Copy(original, kept, clock=clock, name="Ben", number=100 + len(copies)))
    write_copies(copies)
    run = go(scene.launch())  # and waits
    client = signed_in(scene.rita)
    names = ("home", "metrics", "runs", "approvals", "decided", "audit", "kill", "members", "team")
    addresses = [*map(reverse, names), reverse("run", args=[run.pk])]
    addresses += [reverse("case", args=[held.pk]), reverse("bulk"), reverse("deliveries")]
    addresses += [f"{reverse('runs')}?{asked}" for asked in SEARCHES]
    addresses += [f"{reverse('audit')}?amount_from={amount}" for amount in (400, 90_000)]
    before = {address: work_of(client, address) for address in addresses}

    multiply(TIMES, MONTH)
    keep_statistics()
    while sum_next_day(at=now) or sum_next_review_day(at=now) or count_next_day(at=now):
        pass

    assert Effect.objects.count() > TIMES * RUNS
    after = {address: work_of(client, address) for address in addresses}
    assert {
        a: (before[a], after[a])
        for a in after
        if after[a][0] > MOST_TIMES * before[a][0] + FEW or after[a][1] > max(12, before[a][1])
    } == {}
    assert max(queries for _, queries in before.values()) <= 12
