"""Fill a new database with runs of forty workspaces, four fifths of them in one."""

import random
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import BigIntegerField, DateTimeField, Field, ForeignKey, Max, Model
from django.utils import timezone

from agents.audit import sealing
from agents.db.sqlite import keep_statistics
from agents.desks.refunds.scenarios import desk
from agents.engine.upkeep.daily import (
    count_next_day,
    measure_database,
    sum_next_day,
    sum_next_review_day,
)
from agents.history.writing import Planned, drive_cases, invent, own_policy
from agents.models import (
    Book,
    Effect,
    Escalation,
    Event,
    EventText,
    Membership,
    Role,
    Run,
    Step,
    Workspace,
)
from agents.people.workspaces import add_member, add_workspace
from agents.publishing.versions import publish_policy
from agents.sdk.demo import Past
from bench.size.waiting import work_on_inbox

HOUR = 22  # UTC: the last day's at which the filled database ends, and at which it is asked
SPAN = timedelta(days=90)
WORKSPACES = 40
FIRST_SHARE = 0.8  # of the runs are in the first workspace
PEOPLE = {  # of the first workspace; ada is admin of all, sam of the second
    "rita": Role.REVIEWER,
    "mara": Role.REVIEWER,
    "audrey": Role.AUDITOR,
    "omar": Role.OPERATOR,
}
DRIVING = {**PEOPLE, "admin": Role.ADMIN}  # of every workspace, while its runs are driven
NUMBERS = ("number", "subject", "customer")  # columns that name a customer
NUMBER_STEP = 10_000_000  # between a customer's number and that of its copy
# Parents first, after the tables of the desks' books.
_OF_RUN: tuple[type[Model], ...] = (Run, Step, Escalation, Effect)
UNIQUE = ("reference", "launch_token")  # columns with unique values
HASHES = ("hash", "previous", "head_hash")  # no event is sealed twice
_OF_RUNS: Mapping[type[Model], str] = {
    Event: "WHERE run_id IS NOT NULL",
    EventText: "WHERE event_id IN (SELECT id FROM agents_event WHERE run_id IS NOT NULL)",
}


def fill(runs: int, waiting: int, times: int) -> None:
    """Write about `runs` runs that ended, `times` of each driven one, and `waiting` that wait."""
    past = desk.past or Past([], [], [])
    now = timezone.now().replace(hour=HOUR, minute=0)
    now -= timedelta(days=now > timezone.now())
    workspaces = [_workspace(number, now - SPAN) for number in range(WORKSPACES)]
    chance = random.Random(1)  # noqa: S311 - nothing secret
    people = invent(past, chance, after=1_000_000)
    first, many = now - SPAN, runs // times
    begun = sorted(first + SPAN / times * chance.random() for _ in range(many))
    weights = [case.weight for case in past.cases]
    chosen = chance.choices(past.cases, weights, k=many)
    places = _places(workspaces, chance)
    planned: list[Planned] = [*zip(begun, places, chosen, strict=False)]
    with ExitStack() as stack:
        for workspace in workspaces:
            stack.enter_context(own_policy(workspace, desk, past, expiry=2 * SPAN))
        drive_cases(desk, past, planned, people, chance)
    multiply(times, SPAN / times)
    late = sorted(now - timedelta(hours=20) * chance.random() for _ in range(waiting))
    waits = chance.choices(past.waiting, k=waiting)
    planned = [*zip(late, places, waits, strict=False)]
    drive_cases(desk, past, planned, invent(past, chance, after=runs + 2_000_000), chance)
    only_driving = Membership.objects.filter(user__username__in=DRIVING)
    only_driving.exclude(workspace=workspaces[0], user__username__in=PEOPLE).delete()
    Workspace.objects.update(is_demo=False)
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
    """Return a new workspace, a demo's until all its runs are driven: each has its own book."""
    made = add_workspace(
        desks=["refunds"], slug=f"w{number:02}", name=f"Workspace {number:02}", at=at, is_demo=True
    )
    people = {"ada": Role.ADMIN, **DRIVING}
    if number == 1:
        people["sam"] = Role.ADMIN
    for name, role in people.items():
        user, _ = User.objects.get_or_create(username=name)
        add_member(workspace=made, user=user, role=role, at=at)
    workspace = Workspace.objects.select_related("policy").get(pk=made.pk)
    many = {**(workspace.policy.document if workspace.policy else {}), "open_per_launcher": 10_000}
    publish_policy(workspace=workspace, document=many, by=User.objects.get(username="ada"), at=at)
    return workspace


def _places(workspaces: Sequence[Workspace], chance: random.Random) -> Iterator[Workspace]:
    while True:
        other = 1 + int(chance.random() ** 2 * (WORKSPACES - 1))
        yield workspaces[0 if chance.random() < FIRST_SHARE else other]


@cache
def _copied_tables() -> tuple[type[Model], ...]:
    """Return the tables of which a run owns rows, parents first."""
    return (Book, *_book_tables(), *_OF_RUN)


@cache
def _book_tables() -> dict[type[Model], str]:
    """Return the tables of the desks' books, parents first, and how each leads to its book."""
    left = [model for model in apps.get_models() if model._meta.app_label != Run._meta.app_label]
    paths: dict[type[Model], str] = {}
    while ready := [model for model in left if _path(model, paths, left)]:
        paths.update({model: _path(model, paths, left) for model in ready})
        left = [model for model in left if model not in ready]
    return paths


def _path(
    model: type[Model], paths: Mapping[type[Model], str], left: Collection[type[Model]]
) -> str:
    """Return how a table leads to its book, once its parents are known; until then ""."""
    parents = {
        field.name: field.related_model
        for field in model._meta.concrete_fields
        if isinstance(field, ForeignKey) and field.related_model is not model
    }
    if any(parent in left for parent in parents.values()):
        return ""
    own = (name for name, parent in parents.items() if parent is Book)
    others = (f"{n}__{paths[parent]}" for n, parent in parents.items() if parent in paths)
    return next(own, "") or next(others, "")


def multiply(times: int, later: timedelta) -> None:
    """Copy each row that belongs to a run `times` - 1 times, each time `later` than before.

    The keys of a copy follow those of the one before, so that they are in the order of time.
    """
    tables: list[type[Model]] = [*_copied_tables(), Event, EventText]
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
    field: "Field[Any, Any]", k: int, later: timedelta, lasts: Mapping[type[Model], Any]
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
    if field.name in HASHES:
        return f"CASE WHEN {name} = '' THEN {name} ELSE 'x{k:03}' || substr({name}, 5) END"
    if field.unique or field.name in UNIQUE:
        return f"{name} || '-{k}'"
    return name


if __name__ == "__main__":
    if sys.argv[1:]:
        fill(*map(int, sys.argv[1:]))
    keep_up()
