"""The overview: what to do first, how decisions go, and the state of what runs need."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import islice
from math import inf
from statistics import median
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import (
    BigIntegerField,
    Case,
    CharField,
    DateTimeField,
    Exists,
    F,
    OuterRef,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce, Concat
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from agents.core.money import format_money
from agents.core.requests import EffectState, EscalationState, RunState
from agents.db.compiled import CompiledSelect, Param, Params, spread
from agents.engine.commit import ASKED_AGAIN
from agents.engine.deciders import all_parties, undecidable
from agents.engine.tools.attention import (
    failed_letter,
    letters_sent,
    letters_told,
    unsettled_approvals,
    untold_effects,
)
from agents.models import (
    DatabaseSize,
    Effect,
    Endpoint,
    Escalation,
    Event,
    Head,
    Membership,
    Role,
    Run,
    Workspace,
)
from agents.overview.counts import (
    DAYS,
    DayOfCalls,
    compare,
    count_since,
    period,
    points_of,
    read_counted_days,
)
from agents.overview.health import workers
from agents.people.sign_in import demo_of
from agents.policies.words import why_not
from agents.publishing.drafts import drafts_to_publish
from agents.publishing.faults import faults
from agents.publishing.pages import readable_limits
from agents.publishing.versions import readable
from agents.requests.queue import (
    ALL,
    BY_READER,
    FOR_OTHERS,
    MARKED,
    MINE,
    ONLY_OTHERS,
    OTHERS,
    WHOLE,
    expired_since,
    line_of,
    reviewer,
    rows_in,
)
from agents.runs.outage import outage_for, try_models
from agents.shell import access
from agents.shell.formats import EMAIL_FAILED, WORDS, day_begun, desk_title, why_untold
from agents.shell.listing import newest
from agents.shell.pages import action, page
from agents.shell.refusal import Refused

MOST = 10  # shown, newest first
UNANSWERED = "unanswered"
_UNDECIDABLE = "undecidable"
_NO_KEY, _NO_NAME = Cast(Value(None), BigIntegerField()), Value("", CharField())
_NO_CHAIN = (_NO_KEY, _NO_NAME, _NO_KEY)
_ON_PAGE = ", and answer on the page of its run"
_FIRST = 5  # requests shown
NEWEST = 100  # decisions whose newer half is compared with the older
_PERIODS = (7, 14)  # days
_NEAR = 80  # percent of a daily cap from which it is told
_SOON_FULL = 90  # days
_FINISHED = timedelta(minutes=10)  # since the last of the demo's first steps: it says so
_FEWEST = 3  # decisions today that make a pace


@page
def home(request: HttpRequest) -> HttpResponse:
    """Show what waits, how decisions go and what needs attention."""
    user, given = access.person(request), request.GET
    days = next((days for days in _PERIODS if given.get("days") == str(days)), _PERIODS[0])
    figures = overview(user, at=timezone.now(), days=days, unit=given.get("unit"))
    shown = {"o": figures, "waiting": figures["waiting"], "periods": _PERIODS, "nav": "home"}
    return render(request, "overview/page.html", shown)


@action
def try_now(request: HttpRequest) -> HttpResponse:
    """Call the model servers now that runs wait for."""
    try:
        try_models(by=access.person(request), at=timezone.now())
    except Refused as no:
        raise PermissionDenied(str(no)) from None
    return redirect("home")


# What waits, the figures of the last days, and what needs attention. Sums are by day in the
# viewer's zone and read only the last days, by index.


def overview(
    user: User, *, at: datetime, days: int = _PERIODS[0], unit: str | None = None
) -> dict[str, Any]:
    """Read what waits and the figures of the last days, in a fixed number of queries."""
    parts = access.parts_of(user)
    workspaces = [part.workspace for part in parts]
    keys = [workspace.pk for workspace in workspaces]
    ours = [part.workspace for part in parts if part.role == Role.ADMIN]
    asked = {part.workspace_id for part in parts if getattr(part, "has_draft", True)}
    midnight = day_begun(at)
    dates = [midnight.date() - timedelta(days=n) for n in reversed(range(DAYS))]
    since = midnight - timedelta(days=DAYS - 1)
    requests, calls, until = read_counted_days(keys, since=since, at=at)
    rest = max(since, until or since)
    newer = count_since(keys, named=_tools(workspaces), since=rest, today=at)
    requests, calls = [*requests, *newer[0]], [*calls, *newer[1]]
    expired = [one for one in requests if one.state == EscalationState.EXPIRED]
    cases, is_more = attention(keys, since=at - timedelta(days=_PERIODS[-1]), today=midnight)
    who = reviewer(user, at=at)
    line = line_of(WHOLE, who, views=(ALL, MARKED, MINE, OTHERS, ONLY_OTHERS))
    rows = rows_in(BY_READER, who, _FIRST) if line.waiting else []
    held = {view: tally.count for view, tally in line.views.items()}
    unheld = held[ALL] - held[MINE] - held[OTHERS]
    pace = _pace(keys, midnight=midnight, at=at)
    soonest = line.waiting.soonest
    return {
        "waiting": line.waiting,
        "waiting_sums": line.views[ALL].sums,
        "snoozed": line.snoozed,  # by the reader, and not among them
        "rows": rows,  # the first of the inbox, and before them what they may decide
        "first": next((row for row in rows if row.part != FOR_OTHERS), None),
        "next_due": next((row for row in rows if row.escalation.expires_at == soonest), None),
        "held": held,
        "unheld": unheld,  # what neither they, nor their teams, nor others hold
        # How long that takes at today's pace.
        "clearing_seconds": (pace["each_seconds"] or 0) * unheld or None,
        "unanswered": [
            (case.escalation, case.subject_label)
            for case in cases
            if case.kind == UNANSWERED and case.escalation
        ],
        "is_new": not (rows or line.snoozed or Run.objects.filter(workspace__in=keys).exists()),
        "pace": pace,
        "period": period(requests, calls, dates, days=days, unit=unit),
        "days": days,
        "since": midnight - timedelta(days=days - 1),
        "expired": sum(one.count for one in expired if one.day and one.day >= dates[-days]),
        "attention": [case for case in cases if case.kind != UNANSWERED],
        "is_more": is_more,
        "exposures": [one for one in _exposures(workspaces, calls) if one["percent"] >= _NEAR],
        "drafts": drafts_to_publish(user, [one for one in ours if one.pk in asked]),
        # Whose policy lacks what a promise needs: one fault.
        "faulty": [
            (one, str(fault)) for one in ours for fault in islice(faults(readable(one.policy)), 1)
        ],
        "system": system(parts),
    }


def _pace(workspaces: Sequence[int], *, midnight: datetime, at: datetime) -> dict[str, Any]:
    """Return how long the newest decisions took; expiries do not count."""
    decided = Escalation.objects.filter(decided_at__isnull=False)
    newest_first = newest(decided, workspaces, "decided_at", NEWEST)
    pairs = sorted(
        (one or at, created)
        for one, created in newest_first.values_list("decided_at", "created_at")
    )
    lengths = [(decided_at - asked_at).total_seconds() for decided_at, asked_at in pairs]
    half, tenth = len(lengths) // 2, -(-len(lengths) // 10) or 1
    parts = [lengths[n : n + tenth] for n in range(0, len(lengths), tenth)]
    today = [decided_at for decided_at, _ in pairs if decided_at >= midnight]
    each = (at - today[0]).total_seconds() / len(today) if len(today) >= _FEWEST else None
    older, newer = lengths[:half], lengths[half:]
    return {
        "decisions": len(newer),  # which the median covers, and the change compares
        "median_seconds": median(newer) if newer else None,  # from request to decision
        "change": compare(median(newer), median(older), f"{half} decisions") if half else "",
        "points": points_of([median(part) for part in parts]),
        "each_seconds": each,  # from one decision of today to the next; None: too few
    }


def _exposures(
    workspaces: Sequence[Workspace], calls: Sequence[DayOfCalls]
) -> list[dict[str, Any]]:
    """Return what was paid today without a person, nearest to its cap first."""
    exposures = []
    for workspace in workspaces:
        for (desk, currency), cap in sorted(_caps(workspace).items()):
            mine = (workspace.pk, desk, currency)
            moved = sum(s.exposed_minor for s in calls if (s.workspace, s.desk, s.currency) == mine)
            exposures.append(
                {
                    "workspace": workspace.name,
                    "desk": desk_title(desk),
                    "moved": format_money(moved, currency),
                    "cap": format_money(cap, currency),
                    "percent": min(100.0, 100 * moved / cap) if cap else 100.0,
                }
            )
    return sorted(exposures, key=lambda one: -one["percent"])


def _tools(workspaces: Sequence[Workspace]) -> set[str]:
    """Return the tools of desks that the policies of some workspaces name."""
    read = [readable_limits(workspace.policy) for workspace in workspaces]
    desks = [part for one in read if one for part in one.desks.values()]
    return {tool for part in desks for tool in part.get("tools", ())}


def _caps(workspace: Workspace) -> dict[tuple[str, str], int]:
    """Return a policy's daily caps in minor units, by desk and currency."""
    limits = readable_limits(workspace.policy)
    if limits is None:
        return {}
    return {
        (desk, currency): caps["workspace_daily_minor"]
        for desk in limits.desks
        for currency, caps in limits.caps_of(desk).items()
        if caps.get("workspace_daily_minor") is not None
    }


# Cases that need attention: not carried out, paid without notice, failed, unknown, stuck.


@dataclass(frozen=True)
class Attention:
    """One case: its subject and what is wrong."""

    kind: str  # failed, unknown, not_carried_out, untold, unanswered, undecidable
    run: UUID
    escalation: int | None
    at: datetime | None
    amount_minor: int | None
    currency: str
    subject_label: str  # its subject; "": unknown
    code: str  # the stored reason
    person: str  # who approved it
    later: int | None  # a later request and its state; of an unknown outcome, an open one
    later_state: str
    earlier: int | None  # the approval whose place it took
    letters: Sequence[tuple[str, int | None]] = ()  # of an untold amount: what was written about

    @property
    def subject(self) -> str:
        """Return the case's title: its money and its subject."""
        whose = f" for {self.subject_label}" if self.subject_label else ""
        if self.amount_minor is not None:
            return f"{format_money(self.amount_minor, self.currency)}{whose}"
        return f"Run{whose}" if self.escalation is None else f"Request {self.escalation}{whose}"

    @property
    def matter(self) -> str:
        """Return what is wrong and what can be done."""
        if self.kind == "not_carried_out":
            return f"approved by {self.person}{self._chain}"
        if self.kind == "unknown":
            where = f" and answer request {self.later}" if self.later else _ON_PAGE
            return f"nobody can tell whether it took effect; look it up{where}"
        if self.kind == _UNDECIDABLE:
            return "waits, and nobody is left who may decide it; make somebody else a reviewer"
        if self.kind == "failed":
            return "failed because of a system error"
        return f"carried out, and {why_untold(self.code, self.letters)}; write to them"

    @property
    def _chain(self) -> str:
        """Return the outcome of an approval, with the other requests about the same call."""
        if self.code != ASKED_AGAIN or self.later is None:
            after = f", instead of request {self.earlier}" if self.earlier else ""
            return f"{after}, not carried out: {why_not(self.code)}"
        if self.later_state == EscalationState.OPEN:
            return f"; {why_not(self.code)}: see request {self.later}"
        end = WORDS["unanswered"].get(self.later_state or "", "which was not decided")
        return f", not carried out: it was asked again as request {self.later}, {end}"


def attention(
    workspaces: Sequence[int], *, since: datetime, today: datetime
) -> tuple[list[Attention], bool]:
    """Return the newest cases of some workspaces, and whether there are more.

    It takes two queries, or three with payments without notice, and some more for each request
    that every reviewer may be a party to (at most MOST + 1). Payments without notice count if they
    were made after `since`, unanswered requests if they expired after `today`.
    """
    homes = spread("homes", workspaces)
    found = _cases(len(workspaces)).tuples(today=today, **homes)
    letters = frozenset((letter.name, letter.told_tool) for letter in letters_told())
    found += _untold(len(workspaces), letters).tuples(since=since, **homes)
    cases = [Attention(*row) for row in found]
    doubted = {one.escalation for one in cases if one.escalation and one.kind == _UNDECIDABLE}
    decidable = doubted - undecidable(doubted)
    cases = [one for one in cases if one.escalation not in decidable]
    newest = sorted(cases, key=lambda one: -one.at.timestamp() if one.at else inf)
    sent = letters_sent({one.run for one in newest[:MOST] if one.kind == "untold"})
    shown = [replace(one, letters=sent.get(one.run, ())) for one in newest[:MOST]]
    return shown, len(newest) > MOST


@cache
def _cases(homes: int) -> CompiledSelect[Any]:
    return CompiledSelect(lambda: _cases_query(Params("homes", homes)))


@cache
def _untold(homes: int, letters: frozenset[tuple[str, str]]) -> CompiledSelect[Any]:
    """Return the query of payments without notice, for the letters that are known now.

    A separate one in its index's order: in the union PostgreSQL would read every ended run.
    """
    since: Any = Param("since", DateTimeField())

    def build() -> QuerySet[Any]:
        untold = untold_effects(since=since).filter(run__workspace__in=Params("homes", homes))
        why = Case(When(failed_letter(), then=Value(EMAIL_FAILED)), default="run__stop_reason")
        return untold.order_by("-settled_at").values_list(
            Value("untold", CharField()),
            *("run_id", _NO_KEY, "settled_at", "amount_minor", "currency", "run__subject_label"),
            *(why, _NO_NAME, *_NO_CHAIN),
        )[: MOST + 1]

    return CompiledSelect(build)


def _cases_query(workspaces: Params) -> QuerySet[Any]:
    """Return the newest cases without payments without notice."""
    # No index covers a sum or the later of two times: SQLite would begin with every run.
    of = Run.objects.alias(of=F("workspace") + 0).filter(of__in=workspaces)
    of = of.annotate(over_at=Coalesce("ended_at", "created_at"))
    failed = of.filter(state=RunState.FAILED).values_list(
        Value("failed", CharField()),
        *("pk", _NO_KEY, "over_at", _NO_KEY, _NO_NAME, "subject_label", "stop_reason", _NO_NAME),
        *_NO_CHAIN,
    )
    lost = Effect.objects.unsettled().filter(state=EffectState.UNKNOWN)
    requests = Escalation.objects.filter(step=OuterRef("step"), state=EscalationState.OPEN)
    unknown = lost.in_workspaces(workspaces).values_list(
        Value("unknown", CharField()),
        *("run_id", _NO_KEY, "settled_at", "amount_minor", "currency", "run__subject_label"),
        *("tool", _NO_NAME, Subquery(requests.values("pk")[:1]), *_NO_CHAIN[1:]),
    )
    undone = Escalation.objects.filter(workspace__in=workspaces).exclude(not_carried_out="")
    not_carried_out = unsettled_approvals(undone).values_list(
        Value("not_carried_out", CharField()),
        *("run_id", "pk", "decided_at", Coalesce("granted_minor", "amount_minor"), "currency"),
        *("run__subject_label", "not_carried_out", "decided_by__username"),
        *("later", Coalesce("later_state", _NO_NAME), "earlier"),
    )
    unanswered = expired_since(workspaces, Param("today")).values_list(
        Value(UNANSWERED, CharField()),
        *("run_id", "pk", "expires_at", _NO_KEY, _NO_NAME, "run__subject_label"),
        *(_NO_NAME, _NO_NAME, *_NO_CHAIN),
    )
    stuck = all_parties(workspaces).order_by("-pk").values("pk")[: MOST + 1]
    undecided = Escalation.objects.filter(pk__in=stuck).values_list(
        Value(_UNDECIDABLE, CharField()),
        *("run_id", "pk", "created_at", "amount_minor", "currency", "run__subject_label"),
        *(_NO_NAME, _NO_NAME, *_NO_CHAIN),
    )
    cases = failed.union(unknown, not_carried_out, unanswered, undecided, all=True)
    return cases.order_by("-over_at")[: 2 * (MOST + 1)]  # as some of the undecided may fall away


# The state of the system: live workers, answering model servers, how far the record is sealed.


def system(parts: Sequence[Membership]) -> dict[str, Any]:
    """Return the state of what runs need, which all workspaces share.

    Read four small tables in one query and, if a model server fails, the waiting runs.
    """
    newest = Head.objects.order_by("-number").values("number")[:1]
    working = workers().values_list(
        Value("worker", CharField()), "owner", Value("", CharField()), "seen_at"
    )
    sealed = Head.objects.filter(number=newest).values_list(
        Value("head", CharField()), Cast("number", CharField()), Value("", CharField()), "at"
    )
    failing = Endpoint.objects.failing().order_by()
    servers = failing.values_list(Value("endpoint", CharField()), "address", "fault", "rests_until")
    looks = DatabaseSize.objects.order_by("-day").values("day")[:1]
    growth = Concat(
        *(Cast("bytes", CharField()), Value(" "), Cast(Coalesce("run_bytes", 0), CharField())),
        *(Value(" "), Cast("day_runs", CharField())),
    )
    size = DatabaseSize.objects.filter(day=looks).values_list(
        Value("size", CharField()), growth, Value("", CharField()), "full_at"
    )
    rows = list(working.union(sealed, servers, size, all=True))
    endpoints = [
        Endpoint(address=address, failures=1, fault=fault, rests_until=at)
        for kind, address, fault, at in rows
        if kind == "endpoint"
    ]
    count = sum(kind == "worker" for kind, *_ in rows)
    database = next((_size(text, at) for kind, text, _, at in rows if kind == "size"), None)
    full_at = database.full_at if database else None  # None: not soon or unknown
    days_left = max(0, (full_at - timezone.now()).days) if full_at else None
    return {
        "workers": count,  # that gave a recent sign of life
        "sealed_at": next((at for kind, _, _, at in rows if kind == "head"), None),
        "failing": len(endpoints),
        "outage": outage_for(parts, endpoints) if endpoints else None,
        "database": database,
        "days_left": days_left,
        "is_well": count and not endpoints and (days_left is None or days_left > _SOON_FULL),
    }


def _size(text: str, full_at: datetime | None) -> DatabaseSize:
    size, run_bytes, day_runs = map(int, text.split())
    return DatabaseSize(bytes=size, run_bytes=run_bytes or None, day_runs=day_runs, full_at=full_at)


# The demo's first steps: launch a run, decide its request as a reviewer, verify the record.


def first_steps(user: User) -> list[dict[str, object]]:
    """Return the steps and which are done; none outside `manage.py demo` or long after the last."""
    workspace = demo_of(user)
    if workspace is None:
        return []
    # A run launched by the form has its token; the invented runs have none.
    launched = Run.objects.filter(workspace=workspace, launch_token__isnull=False)
    requests = Escalation.objects.filter(run__in=launched)
    decided = requests.filter(decided_by__isnull=False)
    waiting = requests.filter(state=EscalationState.OPEN).order_by("-pk").values("pk")[:1]
    checked = Event.objects.filter(workspace=workspace, run=None, kind="audit.verified")
    last_check = checked.order_by("-pk").values("at")[:1]
    is_asked, is_decided, checked_at, request = (
        Workspace.objects.filter(pk=workspace.pk)
        .values_list(Exists(requests), Exists(decided), Subquery(last_check), Subquery(waiting))
        .get()
    )
    launch, queue, audit = (
        (name.title(), reverse(name)) for name in ("launch", "approvals", "audit")
    )
    # The request itself: in the queue it comes last, after the invented ones.
    card = ("the request", reverse("approval", args=[request])) if request else queue
    given = (
        ("Launch a run that needs approval", "omar", "operator", launch, is_asked),
        ("Approve up to rita's limit, or reject it", "rita", "reviewer", card, is_decided),
        ("Verify that nothing was changed", "auditor", "auditor", audit, checked_at is not None),
    )
    ahead = next((place for place, (*_, is_done) in enumerate(given) if not is_done), None)
    if ahead is None and checked_at < timezone.now() - _FINISHED:
        return []
    return [
        {
            "text": text,
            "person": person,
            "who": person if person == role else f"{person}, {role}",
            "page": page[0],
            "address": page[1],
            "is_done": is_done,
            "is_next": place == ahead,
        }
        for place, (text, person, role, page, is_done) in enumerate(given)
    ]
