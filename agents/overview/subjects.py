"""The pages of subjects: whom or what agents act on, over all patterns and agents."""

from datetime import timedelta

from django.contrib.auth.models import User
from django.db.models import Count, Q, Sum
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.text import capfirst

from agents.core.money import format_sums
from agents.core.requests import Json
from agents.core.states import EffectState
from agents.models import Effect, Run
from agents.publishing.versions import readable
from agents.requests.queue import INBOX, open_in, rows_about
from agents.runs.listing import ORDER, RunFilter, find_runs
from agents.sdk.desk import DESKS, offered, tools_at
from agents.shell import access
from agents.shell.listing import newest
from agents.shell.pages import page
from agents.tools import letter_tools

DAYS = 14  # of the money on a page
LISTED = 200  # runs whose subjects a page lists


def subjects_in_words(user: User) -> str:
    """Return the words of a person's desks for their subjects, in the plural, if they are few."""
    read = [readable(part.workspace.policy) for part in access.parts_of(user)]
    desks = {name for limits in read if limits for name in limits.desks}
    kinds = {desk.subject.kind for name, desk in offered().items() if name in desks}
    if not 0 < len(kinds) < 3:
        return "Subjects"
    return capfirst(", ".join(f"{one}s" for one in sorted(kinds, reverse=True)))


@page
def subjects(request: HttpRequest) -> HttpResponse:
    """List the subjects of a page of runs, newest first, with their open requests."""
    user = access.person(request)
    workspaces = access.workspaces_of(user)
    runs = ORDER.after(Run.objects.exclude(subject_key=""), request.GET.get("before", ""))
    runs = runs.only("desk", "subject_key", "subject_label", "created_at")
    shown = ORDER.cut(list(newest(runs, workspaces, "created_at", LISTED + 1)), LISTED)
    found: dict[tuple[str, str], Run] = {}
    for run in shown.rows:
        found.setdefault((run.desk, run.subject_key), run)
    keys = {key for _, key in found}
    held = open_in(workspaces).filter(subject_key__in=keys).order_by()
    waits = held.values_list("run__desk", "subject_key").annotate(n=Count("pk"))
    waiting = {(desk, key): n for desk, key, n in waits}
    rows = [
        (run, DESKS[run.desk].subject.kind if run.desk in DESKS else "", waiting.get(of, 0))
        for of, run in found.items()
    ]
    shown_here = {"rows": rows, "older": shown.older, "nav": "subjects"}
    return render(request, "subjects/list.html", shown_here)


@page
def subject(request: HttpRequest, desk: str, key: str) -> HttpResponse:
    """Show what waits, ran and was executed about a subject, and by whom it was decided."""
    user, before = access.person(request), request.GET.get("before", "")
    wanted = RunFilter.of({"desk": desk, "subject": key})
    runs = find_runs(user, wanted, before)
    if not runs.rows:
        raise Http404
    waiting = rows_about(access.workspaces_of(user), desk, key, at=timezone.now())
    calls = Effect.objects.filter(run__in=[row.run.pk for row in runs.rows])
    asked = ((one.escalation.currency, one.escalation.amount_minor) for one in waiting)
    shown = {
        "nav": "subjects",
        "desk": desk,
        "key": key,
        "label": runs.rows[0].run.subject_label,
        "kind": DESKS[desk].subject.kind if desk in DESKS else "subject",
        "waiting": waiting[:INBOX],
        "is_more": len(waiting) > INBOX,
        "asked": format_sums((code, minor) for code, minor in asked if minor is not None),
        "runs": runs,
        "wanted": wanted,
        "calls": calls.select_related("escalation__decided_by").order_by("-intended_at", "-pk"),
        "days": DAYS,
        **_moved(user, desk, key),
    }
    return render(request, "subjects/page.html", shown)


def _moved(user: User, desk: str, key: str) -> dict[str, Json]:
    """Return what was moved in the last days, in words, and how many calls a person approved."""
    tools = set(tools_at(desk)) - set(letter_tools())
    since = timezone.now() - timedelta(days=DAYS)
    calls = Effect.objects.filter(tool__in=tools, subject_key=key, intended_at__gte=since)
    calls = calls.filter(run__desk=desk, state=EffectState.DONE, amount_minor__isnull=False)
    by_person = Count("pk", filter=Q(escalation__isnull=False))
    sums = calls.in_workspaces(access.workspaces_of(user)).values("currency").order_by()
    found = list(sums.annotate(minor=Sum("amount_minor"), n=Count("pk"), approved=by_person))
    return {
        "moved": format_sums((one["currency"], one["minor"]) for one in found),
        "n": sum(one["n"] for one in found),
        "approved": sum(one["approved"] for one in found),
    }
