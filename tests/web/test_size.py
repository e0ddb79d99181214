"""A page's reading does not grow with a year of runs that it does not show."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from itertools import product
from random import Random

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.audit import pages
from agents.db.sqlite import keep_statistics
from agents.engine.upkeep.daily import count_next_day, sum_next_day, sum_next_review_day
from agents.history.writing import drive_cases, invent, own_policy
from agents.models import Effect, Membership, Role, Workspace
from agents.overview import pages as overview
from agents.overview import search as subjects
from agents.people import workspaces
from agents.requests import queue
from agents.runs import listing
from agents.sdk.desk import DESKS
from bench.size.fill import multiply
from bench.size.pages import frames, pages_asked
from opsconsole import middleware
from tests.engine.scene import go, set_scene
from tests.settings import ON_POSTGRES
from tests.web.test_pages import client_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(ON_POSTGRES, reason="counts the steps of SQLite's machine"),
]

RUNS, TIMES, MONTH = 36, 12, timedelta(days=30)
STEP = 100  # SQLite instructions per counted step
MOST_TIMES, FEW = 1.5, 80  # margin for another query plan, and for 12 requests instead of one


@contextmanager
def count_steps() -> Iterator[list[int]]:
    """Count SQLite's steps for this thread's queries."""
    steps = [0]

    def count() -> int:
        steps[0] += 1
        return 0

    connection.connection.set_progress_handler(count, STEP)
    try:
        yield steps
    finally:
        connection.connection.set_progress_handler(None, 0)


def work_of(ask: Callable[[], object]) -> tuple[int, int]:
    """Return the steps and queries of a page or live frame."""
    ask()
    with count_steps() as steps, CaptureQueriesContext(connection) as asked:
        assert getattr(ask(), "status_code", 200) in (200, 503)  # not ready: there is no worker
    return steps[0], len(asked)


def everything_asked(clients: Mapping[str, Client]) -> dict[str, tuple[int, int]]:
    """Return the work of each page, filter and live frame of `make bench-size`."""
    asked: dict[str, tuple[str, Callable[[], object]]] = {}
    for name, person, address in pages_asked():
        if person in clients:
            asked.setdefault(address, (name, partial(clients[person].get, address)))
    return {name: work_of(ask) for name, ask in (*asked.values(), *frames())}


@pytest.mark.slow
@pytest.mark.breaks("I18", "I20", "I32", "I33")  # the hashes are those of what was copied
def test_a_page_reads_no_more_of_a_year_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (listing, "PAGE"),
        (listing, "FEW"),
        (queue, "DECIDED_PAGE"),
        (pages, "PAGE"),
        (pages, "RUNS"),
        (pages, "FEW"),
        (pages, "COUNTED"),
        (overview, "NEWEST"),
        (subjects, "LISTED"),
    ):
        monkeypatch.setattr(module, name, 4)
    monkeypatch.setattr(middleware, "RENEWED", 3600)  # else four queries once a minute
    scene, now = set_scene(), timezone.now()
    Workspace.objects.filter(pk=scene.workspace.pk).update(slug="w00")
    first = now - TIMES * MONTH
    added = [
        workspaces.add_workspace(
            desks=["refunds"], slug=f"w0{n}", name=f"W {n}", at=first, is_demo=True
        )
        for n in range(1, 6)
    ]
    places = [Workspace.objects.get(pk=made.pk) for made in (scene.workspace, *added)]
    ada, admin = User.objects.create_user("ada"), User.objects.create_user("admin")
    for workspace in places[:2]:  # with few rows the planner ignores their index
        workspaces.add_member(workspace=workspace, user=ada, role=Role.ADMIN, at=now)
    driving = ((admin, Role.ADMIN), (scene.omar, Role.OPERATOR), (scene.rita, Role.REVIEWER))
    for workspace, (user, role) in product(places, driving):
        workspaces.add_member(workspace=workspace, user=user, role=role, at=now)
    chance, past = Random(0), DESKS["refunds"].past  # noqa: S311 - nothing secret
    assert past
    decided = next(case for case in past.cases if case.answer and case.answer.by == "rita")
    planned = [
        (first + timedelta(hours=number), places[number % len(places)], case)
        for number in range(RUNS)
        for case in (decided, past.cases[0])
    ]
    with ExitStack() as stack:
        for workspace in places:
            stack.enter_context(
                own_policy(workspace, DESKS["refunds"], past, expiry=2 * TIMES * MONTH)
            )
        drive_cases(DESKS["refunds"], past, planned, invent(past, chance, after=100), chance)
    Membership.objects.filter(workspace__in=added).exclude(user=ada).delete()
    Workspace.objects.filter(pk__in=[one.pk for one in added]).update(is_demo=False)
    go(scene.launch())  # and waiting
    clients = {"ada": client_of(ada), "rita": client_of(scene.rita)}
    before = everything_asked(clients)

    multiply(TIMES, MONTH)
    keep_statistics()
    while sum_next_day(at=now) or sum_next_review_day(at=now) or count_next_day(at=now):
        pass

    assert Effect.objects.count() > TIMES * RUNS
    after = everything_asked(clients)
    assert {
        a: (before[a], after[a])
        for a in after
        if after[a][0] > MOST_TIMES * before[a][0] + FEW
        # A copied request's customer has no charge, so its card looks the customer up.
        or after[a][1] > max(12, before[a][1] + ("card" in a))
    } == {}
    assert {a: queries for a, (_, queries) in before.items() if queries > 12} == {}
    no_run = {a for a in after if "state=failed" in a}
    assert {a: (before[a], after[a]) for a in no_run if after[a][0] > before[a][0] + 10} == {}
