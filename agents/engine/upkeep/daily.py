"""Daily sums and measurements: cases, models' use, reviews, the size of the database.

The sweep sums each past day once, and pages sum the rest. Every day gets a row, or it would be
summed again and again. If another worker was quicker, its sums are the same.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Case, Count, F, Max, Min, Model, QuerySet, Sum, Value, When
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce

from agents.core.decisions import ACTION, Closed, ReviewFigures
from agents.core.limits import BUDGETS
from agents.core.money import day_begun_at, utc_midnight
from agents.core.requests import ENDED, EffectState, EscalationState, Json, RunState
from agents.models import (
    CaseDay,
    DatabaseSize,
    Effect,
    Escalation,
    Event,
    ModelUse,
    ReviewDay,
    Run,
    Step,
    Workspace,
)
from agents.models.runs import EffectQuerySet, IsAsk
from agents.tools import letter_tools

DAY = timedelta(days=1)
_GRACE = timedelta(hours=1)  # after midnight, while the last rows of the day are still written


def summed_until(model: type[Model]) -> datetime | None:
    """Return the first day that a table lacks; None: it has no day."""
    newest: date | None = model._default_manager.aggregate(newest=Max("day"))["newest"]
    return day_begun_at(newest) + DAY if newest else None


def _day_to_sum(begin: datetime | None, *, at: datetime) -> tuple[datetime, datetime] | None:
    """Return begin and end of a day if all its rows are there; None otherwise."""
    if begin is None:
        return None
    begin = utc_midnight(begin)
    end = begin + DAY
    late = Escalation.objects.filter(state=EscalationState.OPEN, expires_at__lt=end, frozen_at=None)
    return None if end + _GRACE > at or late.exists() else (begin, end)


def _first_request() -> datetime | None:
    """Return when the first request was opened."""
    return Escalation.objects.order_by("pk").values_list("created_at", flat=True).first()


def _first_end(runs: QuerySet[Run]) -> datetime | None:
    """Return when the first of these runs ended, by an index that has no open one."""
    ended = runs.filter(ended_at__isnull=False)
    return ended.order_by("ended_at").values_list("ended_at", flat=True).first()


def _closed_between(
    begin: datetime, end: datetime, **of: object
) -> tuple[QuerySet[Escalation], QuerySet[Escalation]]:
    """Return the requests decided and those expired in [begin, end), each by an index."""
    ours = Escalation.objects.filter(**of).order_by()
    return (
        ours.filter(decided_at__gte=begin, decided_at__lt=end),
        ours.filter(state=EscalationState.EXPIRED, expires_at__gte=begin, expires_at__lt=end),
    )


# The outcomes of cases.


FAULTS = ("llm_bad_response", "llm_error", "llm_rate_limited", "llm_timeout")  # of a server
_OF_MODELS = ("llm_empty", "llm_ended", "llm_refused", "llm_stray_call", "llm_truncated")
WANTING = (*FAULTS, *_OF_MODELS, *sorted(BUDGETS))
OF_RUNS = (*(f"run.{one}" for one in sorted(ENDED)), *(f"stop.{one}" for one in WANTING))

# Letters name an amount too, and a lost call was already counted when first asked about. People
# withheld what they rejected, and what they took off a paid amount.
_TAKEN_OFF = F("amount_minor") - F("effect__amount_minor")
WITHHELD = Coalesce(
    Sum(
        Case(
            When(kind=ACTION.stored, state=EscalationState.REJECTED, then="amount_minor"),
            When(kind=ACTION.stored, state=EscalationState.ADJUSTED, then=_TAKEN_OFF),
            default=0,
        )
    ),
    0,
)
IS_AUTOMATIC = Case(When(escalation=None, then=Value(True)), default=Value(False))
AUTOMATIC, _PERMITTED = "call.automatic", "call.permitted"


def count_next_day(*, at: datetime) -> int:
    """Count the first past day that is not counted yet. Return the number of rows added."""
    day = _day_to_sum(summed_until(CaseDay) or _first_day(), at=at)
    if day is None:
        return 0
    begin, end = day
    first = Workspace.objects.order_by("pk")[0]
    counts, minors = Counter[tuple[int, str, str]](), Counter[tuple[int, str, str]]()
    counts[first.pk, "", ""] = 0
    for pk, outcome, currency, count, minor in _count_cases(begin, end):
        # Nobody needs these by workspace: stored under one, they take few rows.
        workspace = first.pk if outcome in OF_RUNS else pk
        counts[workspace, outcome, currency] += count
        minors[workspace, outcome, currency] += minor
    rows = [
        CaseDay(
            workspace_id=key[0],
            day=begin.date(),
            outcome=key[1],
            currency=key[2],
            count=count,
            minor=minors[key],
        )
        for key, count in counts.items()
    ]
    return len(CaseDay.objects.bulk_create(rows, ignore_conflicts=True))


def _first_day() -> datetime | None:
    """Return when the first run ended or was escalated."""
    known = (_first_request(), _first_end(Run.objects.all()))
    return min((one for one in known if one), default=None)


def _count_cases(begin: datetime, end: datetime) -> Iterator[tuple[Any, ...]]:
    """Yield workspace, outcome, currency, count and minor units."""
    ended = Run.objects.filter(ended_at__gte=begin, ended_at__lt=end).order_by()
    for pk, state, reason, n in ended.values_list("workspace", "state", "stop_reason").annotate(
        n=Count("*")
    ):
        yield pk, f"run.{state}", "", n, 0
        if state == RunState.STOPPED and is_wanting(reason):
            yield pk, f"stop.{code_of(reason)}", "", n, 0
    for requests in _closed_between(begin, end):
        sums = requests.values_list("workspace", "state", "currency")
        for pk, state, *rest in sums.annotate(n=Count("pk"), w=WITHHELD):
            yield pk, f"request.{state}", *rest
    letters = letter_tools()
    tools = set(Effect.objects.order_by("tool").values_list("tool", flat=True).distinct()) - letters
    done = calls_between(begin, end, tools).order_by().annotate(auto=IS_AUTOMATIC)
    calls = done.values_list("run__workspace", "auto", "currency")
    moved = Coalesce(Sum("amount_minor"), 0)
    for pk, is_automatic, *rest in calls.annotate(n=Count("pk"), moved=moved):
        yield pk, AUTOMATIC if is_automatic else _PERMITTED, *rest


def runs_ended_since(since: datetime) -> QuerySet[Run]:
    """Return the runs that ended since then, by their index.

    The range ends far in the future: for an open one SQLite expects a quarter of all runs.
    """
    return Run.objects.filter(ended_at__gte=since, ended_at__lt=since + timedelta(days=36_500))


def calls_between(begin: datetime, end: datetime | None, tools: Collection[str]) -> EffectQuerySet:
    """Return the calls of these tools carried out in [begin, end), by their index."""
    done = Effect.objects.filter(state=EffectState.DONE, tool__in=tools, settled_at__gte=begin)
    return done.filter(settled_at__lt=end) if end else done


def is_wanting(reason: str) -> bool:
    """Tell whether a run stopped for lack of a model's answer, time, tokens or money."""
    return code_of(reason) in WANTING


def code_of(reason: str) -> str:
    """Return a reason without its quotation, which may have to be erased."""
    return reason.partition(":")[0]


# The use of models.


_SUMS = {
    "calls": Sum("attempts"),
    "tokens_in": Sum("tokens_in"),
    "tokens_out": Sum("tokens_out"),
    "tokens_lost": Sum("tokens_lost"),
    "cost_micro_usd": Coalesce(Sum("cost_micro_usd"), 0),
}


def sum_next_day(*, at: datetime) -> int:
    """Sum the first past day that is not summed yet. Return the number of rows added."""
    since = summed_until(ModelUse)
    ended = Run.objects.filter(ended_at__gte=since) if since else Run.objects.all()
    day = _day_to_sum(_first_end(ended), at=at)
    if day is None:
        return 0
    begin, end = day
    questions = Step.objects.filter(kind="ask", run__ended_at__gte=begin, run__ended_at__lt=end)
    sums = questions.order_by().values("model").annotate(**_SUMS)
    rows = [ModelUse(day=begin.date(), **row) for row in sums]
    none = ModelUse(day=begin.date(), model="", **dict.fromkeys(_SUMS, 0))
    return len(ModelUse.objects.bulk_create(rows or [none], ignore_conflicts=True))


def uses() -> list[Json]:
    """Return the use of each model until now, by the names in _SUMS."""
    columns, since = ("model", *_SUMS), summed_until(ModelUse)
    # The same day bounds both: another may be summed between the two queries.
    days = ModelUse.objects.filter(day__lt=since.date()) if since else ModelUse.objects.none()
    kept = days.values("model").annotate(**{name: Sum(name) for name in _SUMS})
    rest = _questions_since(since).values("model").annotate(**_SUMS)
    by_model: dict[str, Json] = {}
    for row in (*kept.values(*columns), *rest.values(*columns)):
        one = by_model.setdefault(row["model"], {"model": row["model"], **dict.fromkeys(_SUMS, 0)})
        one.update({name: one[name] + row[name] for name in _SUMS})
    return [use for _, use in sorted(by_model.items()) if use["calls"]]


def _questions_since(since: datetime | None) -> QuerySet[Step]:
    """Return the model calls of runs that ended since then or have not ended."""
    questions = Step.objects.filter(IsAsk(F("kind"))).order_by()
    if since is None:
        return questions
    # Not as one condition, for which SQLite would read every run.
    going = Run.objects.filter(state__in=set(RunState) - ENDED).values("pk")
    return questions.filter(run__in=going.union(runs_ended_since(since).values("pk")))


# How requests were decided.


def sum_next_review_day(*, at: datetime) -> int:
    """Sum the first day that is over and not summed yet. Return how many rows that made.

    Every day has a row in every workspace.
    """
    first = summed_until(ReviewDay) or _first_request()
    day = _day_to_sum(first, at=at)
    if day is None:
        return 0
    begin, end = day
    rows = []
    for workspace in Workspace.objects.order_by("pk"):
        sums = sum_closed(reviews_between(workspace.pk, begin, end))
        sums.setdefault(("", None), ReviewFigures())
        rows += [
            ReviewDay(
                workspace=workspace,
                day=begin.date(),
                rule=rule,
                user_id=user,
                figures=one.as_json(),
            )
            for (rule, user), one in sums.items()
        ]
    return len(ReviewDay.objects.bulk_create(rows, ignore_conflicts=True))


def sum_closed(closed: Iterable[Closed]) -> dict[tuple[str, int | None], ReviewFigures]:
    """Return the sums of each rule, as (rule, None), and of each person, as ("", their key)."""
    figures: dict[tuple[str, int | None], ReviewFigures] = defaultdict(ReviewFigures)
    for one in closed:
        figures[one.rule, None].add(one)
        if one.by is not None:
            figures["", one.by].add(one)
    return dict(figures)


def reviews_between(workspace: int, begin: datetime, end: datetime) -> Iterator[Closed]:
    """Yield what was decided or expired in [begin, end)."""
    both = _closed_between(begin, end, workspace=workspace)
    for requests, closed in zip(both, ("decided_at", "expires_at"), strict=True):
        rows = requests.annotate(rule=KT("review__deciding__rule"), closed_at=F(closed))
        columns = ("state", "rule", "decided_by_id", "amount_minor", "granted_minor", "currency")
        for state, rule, *rest in rows.values_list(*columns, "created_at", "closed_at"):
            yield Closed(state, (rule or "")[:100], *rest)


# How large the database is, what a run takes, and when it will be full: logged once a day.


_LATELY = timedelta(days=30)  # over which launches a day are averaged
FEWEST = 200  # runs needed to estimate the size of one: empty tables have a size too
_HORIZON = timedelta(days=3650)  # of the forecast
GIGABYTE = 1_000_000_000


def measure_database(*, at: datetime) -> bool:
    """Measure the database if that was not done today. Return whether this call did.

    Counts all events and runs, and the runs of a month.
    """
    if DatabaseSize.objects.filter(day=at.date()).exists():
        return False
    size, limit = _sizes()
    counted = Run.objects.aggregate(all=Count("pk"), archived=Count("archived_at"))
    here, archived = counted["all"] - counted["archived"], counted["archived"]
    lately = Run.objects.filter(created_at__gt=at - _LATELY)
    first = lately.aggregate(first=Min("created_at"))["first"] or at
    day_runs = round(lately.count() / max(1.0, (at - first) / timedelta(days=1)))
    run_bytes = size // here if here >= FEWEST else None
    if archived > here // 10:  # their rows and space remain and would inflate the size of the rest
        known = DatabaseSize.objects.order_by("-day").values_list("run_bytes", flat=True)
        run_bytes = known.first()
    size_row = DatabaseSize(day=at.date(), bytes=size, run_bytes=run_bytes, day_runs=day_runs)
    counts = Event.objects.order_by().values_list("workspace").annotate(Count("pk"))
    size_row.entries = {str(workspace): count for workspace, count in counts}
    left = days_left(size=size, limit=limit, growth=(run_bytes or 0) * day_runs)
    size_row.full_at = None if left is None else at + timedelta(days=left)
    DatabaseSize.objects.bulk_create([size_row], ignore_conflicts=True)
    DatabaseSize.objects.filter(day__lt=at.date() - _LATELY).delete()
    return True


def days_left(*, size: int, limit: int | None, growth: int) -> float | None:
    """Return in how many days `limit` bytes are reached; None: beyond _HORIZON or unknown."""
    if limit is None or not growth:
        return None
    days = max(0, limit - size) / growth
    return days if days < _HORIZON.days else None


def _sizes() -> tuple[int, int | None]:
    """Return the bytes in use and the bytes available in all; None: not configured."""
    limit = settings.OPSCONSOLE_DATABASE_GIGABYTES * GIGABYTE or None
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_database_size(current_database())")
            return int(cursor.fetchone()[0]), limit
        sizes = []
        for name in ("page_size", "page_count", "freelist_count"):
            cursor.execute(f"PRAGMA {name}")
            sizes.append(int(cursor.fetchone()[0]))
    page, count, free = sizes
    if limit is None and (file := Path(connection.settings_dict["NAME"])).is_file():
        disk = os.statvfs(file)
        limit = page * count + disk.f_bavail * disk.f_frsize
    return page * (count - free), limit
