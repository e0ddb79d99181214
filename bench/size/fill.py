"""Fill a new database with runs of forty workspaces, four fifths of them in one."""

from __future__ import annotations

import operator
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import Any

from django.contrib.auth.models import User
from django.db import connection
from django.db.models import BigIntegerField, DateTimeField, Field, Max, Model
from django.utils import timezone

from agents.audit import sealing
from agents.db.sqlite import keep_statistics
from agents.desks.refunds.scenarios import CASES, NAMES, WAITING
from agents.engine.upkeep.daily import (
    count_next_day,
    measure_database,
    sum_next_day,
    sum_next_review_day,
)
from agents.history.copying import UNIQUE, Copy, Original, copied_tables, kept_rows, write_copies
from agents.history.writing import Recording
from agents.models import Event, EventText, Role, Run, Workspace
from agents.people.workspaces import add_member, add_workspace
from bench.size.waiting import work_on_inbox

HOUR = 22  # UTC: the last day's at which the filled database ends, and at which it is asked
SPAN = timedelta(days=90)
WORKSPACES = 40
FIRST_SHARE = 0.8  # of the runs are in the first workspace
BATCH = 200
PEOPLE = {  # of the first workspace; ada is admin of all, sam of the second
    "rita": Role.REVIEWER,
    "mara": Role.REVIEWER,
    "audrey": Role.AUDITOR,
    "omar": Role.OPERATOR,
}
NUMBERS = ("number", "subject", "customer")  # columns that name a customer
NUMBER_STEP = 10_000_000  # between a customer's number and that of its copy
_OF_RUNS: Mapping[type[Model], str] = {
    Event: "WHERE run_id IS NOT NULL",
    EventText: "WHERE event_id IN (SELECT id FROM agents_event WHERE run_id IS NOT NULL)",
}


def fill(runs: int, waiting: int, times: int) -> None:
    """Write about `runs` runs that ended, `times` of each copy, and `waiting` that wait."""
    recording = Recording("refunds", [*CASES, *WAITING])
    now = timezone.now().replace(hour=HOUR, minute=0)
    now -= timedelta(days=now > timezone.now())
    workspaces = [_workspace(number, now) for number in range(WORKSPACES)]
    originals = recording.originals()
    for name in {name for one in originals for name in one.people.values()}:
        User.objects.get_or_create(username=name)
    chance, numbers = random.Random(1), count(1_000_000)  # noqa: S311 - nothing secret
    ended = [one for one in originals[: len(CASES)] if one.run.ended_at]
    first, many = now - SPAN, runs // times
    begun = sorted(first + SPAN / times * chance.random() for _ in range(many))
    weights = [case.weight for case, one in zip(CASES, originals, strict=False) if one.run.ended_at]
    chosen = chance.choices(ended, weights, k=many)
    _write([*zip(chosen, begun, strict=True)], workspaces, chance, numbers)
    multiply(times, SPAN / times)
    late = sorted(now - timedelta(hours=20) * chance.random() for _ in range(waiting))
    waits = chance.choices(originals[len(CASES) :], k=waiting)
    _write([*zip(waits, late, strict=True)], workspaces, chance, count(runs + 2_000_000))
    work_on_inbox(at=now)
    sealing.seal(at=now, begin_file=True)


def keep_up() -> None:
    """Do what a worker does once a day, also for what a new version counts."""
    at = newest_time()
    while count_next_day(at=at) or sum_next_day(at=at) or sum_next_review_day(at=at):
        pass
    measure_database(at=at)
    keep_statistics()
    if connection.vendor == "postgresql":  # which would come to it by itself after a while
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 0")
            cursor.execute("VACUUM ANALYZE")


def newest_time() -> datetime:
    """Return when the database was filled."""
    return Event.objects.order_by("-pk").values_list("at", flat=True)[0]


def _workspace(number: int, at: datetime) -> Workspace:
    made = add_workspace(
        desks=["refunds"], slug=f"w{number:02}", name=f"Workspace {number:02}", at=at
    )
    people = {"ada": Role.ADMIN, **({} if number else PEOPLE)}
    if number == 1:
        people["sam"] = Role.ADMIN
    for name, role in people.items():
        user, _ = User.objects.get_or_create(username=name)
        add_member(workspace=made, user=user, role=role, at=at)
    return Workspace.objects.select_related("policy").get(pk=made.pk)


def _write(
    planned: Sequence[tuple[Original, datetime]],
    workspaces: Sequence[Workspace],
    chance: random.Random,
    numbers: Iterator[int],
) -> None:
    for place in range(0, len(planned), BATCH):
        copies = []
        for original, begun in planned[place : place + BATCH]:
            other = 1 + int(chance.random() ** 2 * (WORKSPACES - 1))
            workspace = workspaces[0 if chance.random() < FIRST_SHARE else other]
            clock = partial(operator.add, begun - original.run.created_at)
            kept, name = kept_rows(original, workspace), chance.choice(NAMES)
            copies.append(Copy(original, kept, clock=clock, name=name, number=next(numbers)))
        write_copies(copies)


def multiply(times: int, later: timedelta) -> None:
    """Copy each row that belongs to a run `times` - 1 times, each time `later` than before.

    The keys of a copy follow those of the one before, so that they are in the order of time.
    """
    tables: list[type[Model]] = [*copied_tables(), Event, EventText]
    lasts = {
        model: model._default_manager.aggregate(last=Max("pk"))["last"]
        for model in tables
        if model is not Run  # PostgreSQL knows no greatest of UUIDs
    }
    with connection.cursor() as cursor:
        for model in tables:
            fields = model._meta.concrete_fields
            names = ", ".join(f'"{field.column}"' for field in fields)
            table = f'"{model._meta.db_table}"'
            within = _OF_RUNS.get(model, "")
            cursor.execute(f"CREATE TEMPORARY TABLE base AS SELECT * FROM {table} {within}")  # noqa: S608
            for k in range(1, times):
                columns = ", ".join(_column(field, k, later, lasts) for field in fields)
                cursor.execute(
                    f"INSERT INTO {table} ({names}) SELECT {columns} FROM base"  # noqa: S608
                )
            cursor.execute("DROP TABLE base")
            if connection.vendor == "postgresql" and model is not Run:
                cursor.execute(
                    f"SELECT setval(pg_get_serial_sequence(%s, 'id'), max(id)) FROM {table}",  # noqa: S608
                    [model._meta.db_table],
                )


def _column(
    field: Field[Any, Any], k: int, later: timedelta, lasts: Mapping[type[Model], Any]
) -> str:
    """Return what the k-th copy of a row has in a column, in SQL."""
    name, on_sqlite = f'"{field.column}"', connection.vendor == "sqlite"
    model = field.related_model if field.is_relation else field.model if field.primary_key else None
    if model is Run:
        key = name if on_sqlite else f"{name}::text"
        version = 13 if on_sqlite else 15  # the place of a digit that no real key has otherwise
        made = (
            f"'{k:03x}' || substr({key}, 4, {version - 4}) || 'e' || substr({key}, {version + 1})"
        )
        made = made if on_sqlite else f"({made})::uuid"
        return f"CASE WHEN {name} IS NULL THEN NULL ELSE {made} END"
    if model and model in lasts:
        return f"{name} + {k * lasts[model]}"
    if isinstance(field, DateTimeField):
        seconds = int(later.total_seconds()) * k
        if on_sqlite:
            moved = f"strftime('%Y-%m-%d %H:%M:%f', {name}, '+{seconds} seconds') || '000'"
            return f"CASE WHEN {name} IS NULL THEN NULL ELSE {moved} END"
        return f"{name} + interval '{seconds} seconds'"
    if field.name in NUMBERS and isinstance(field, BigIntegerField):
        return f"{name} + {k * NUMBER_STEP}"
    if field.name == "subject_key":
        return f"CASE WHEN {name} = '' THEN {name} ELSE {name} || '{k:03}' END"
    if field.unique or field.name in UNIQUE:
        return f"{name} || '-{k}'"
    return name


if __name__ == "__main__":
    if sys.argv[1:]:
        fill(*map(int, sys.argv[1:]))
    keep_up()
