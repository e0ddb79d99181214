"""The search page, whose results also show under the field of every page, and pages of subjects."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import chain
from typing import TypeAlias
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.db.models import Count, Q, Sum
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.text import capfirst

from agents.core.money import format_sums
from agents.core.requests import EffectState, EscalationState, Json
from agents.models import Effect, Escalation, Role, Run
from agents.publishing.versions import readable
from agents.requests.queue import INBOX, open_in, rows_about
from agents.runs.listing import ORDER, RunFilter, chip_of, closings, find_runs, runs_with_words
from agents.sdk.desk import DESKS, offered, tools_at
from agents.shell import access
from agents.shell.formats import spell_out, standing_of
from agents.shell.listing import newest
from agents.shell.pages import HtmxRequest, page, whole_number
from agents.tools import letter_tools


@page
def search(request: HtmxRequest) -> HttpResponse:
    """Show what matches the words in the address. A typed-in field gets the results alone."""
    text = request.GET.get("q", "").replace("\0", "").strip()[:_LONGEST]
    shown = {"groups": _find(access.person(request), text), "text": text, "nav": "search"}
    is_part = (request.htmx.target or "").endswith("found")  # found, as htmx writes it: div#found
    return render(request, "search/_found.html" if is_part else "search/page.html", shown)


# What a person finds by words: pages, subjects, requests and runs, a few of each.
#
# Runs have an index of words. Names in a request's arguments, such as a payee's, have none: open
# requests and the _RECENT newest decided ones are read.


_MOST = 5  # of each group
_RECENT = 300
_LONGEST = 200  # characters
_EVERYBODY = frozenset(Role)
# Names of addresses with their titles, and the roles that may open them.
_PAGES: Sequence[tuple[str, str, Iterable[Role]]] = (
    ("home", "Overview", _EVERYBODY),
    ("approvals", "Approvals", _EVERYBODY),
    ("decided", "Decided requests", _EVERYBODY),
    ("runs", "Runs", _EVERYBODY),
    ("launch", "Launch", access.LAUNCHES),
    ("audit", "Audit log", access.AUDITS),
    ("policy", "Policy", _EVERYBODY),
    ("members", "Members", access.AUDITS),
    ("team", "Team", (*access.DECIDES, Role.AUDITOR)),
    ("notifications", "Notifications", _EVERYBODY),
    ("second-factor", "Second factor", _EVERYBODY),
    ("settings", "Settings", _EVERYBODY),
    ("password", "Change password", _EVERYBODY),
    ("kill", "Kill switches", _EVERYBODY),
)


# A hit: its address, its name, and its state as role and word or None.
_Hit: TypeAlias = tuple[str, str, tuple[str, str] | None]


def _find(user: User, text: str) -> dict[str, list[_Hit]]:
    """Return the hits by the title of their group; empty groups are left out."""
    words = text.casefold().split()
    if not words:
        return {}
    workspaces = access.workspaces_of(user)
    said = " ".join(words)
    about = Run.objects.filter(subject_key__in={said.removeprefix("#"), text})
    found = [*newest(about, workspaces, "created_at", _MOST), *runs_with_words(said, workspaces)]
    runs = list({run.pk: run for run in found}.values())
    closed = closings(runs[:_MOST])
    roles = {part.role for part in access.parts_of(user)}
    groups: dict[str, list[_Hit]] = {
        "Pages": [
            (reverse(name), title, None)
            for name, title, allowed in _PAGES
            if roles.intersection(allowed) and _has(title, words)
        ],
        "About": _subjects(runs, said.replace("#", " ").split()),
        "Requests": _requests(user, words, runs),
        "Runs": [
            (
                reverse("run", args=[run.pk]),
                f"{run.subject_label or spell_out(run.pattern)}: {run.title}",
                chip_of(run, closed),
            )
            for run in runs[:_MOST]
        ],
    }
    if len(groups["Requests"]) == _MOST and groups["About"]:  # the inbox looks in names only
        every = f"{reverse('approvals')}?{urlencode({'subject': said})}"
        groups["Requests"].append((every, "All open requests", None))
    if len(groups["Runs"]) == _MOST:
        every = f"{reverse('runs')}?{urlencode({'text': said})}"
        groups["Runs"].append((every, "All runs", None))
    return {title: hits for title, hits in groups.items() if hits}


def _has(text: str, words: Sequence[str]) -> bool:
    """Tell whether each word begins a word of a text."""
    known = text.casefold().replace("(", " ").replace("#", " ").split()
    return all(any(one.startswith(word) for one in known) for word in words)


def _subjects(runs: Sequence[Run], words: Sequence[str]) -> list[_Hit]:
    """Return the subjects of these runs whose names or keys have the words."""
    known = {
        (run.desk, run.subject_key, run.subject_label): None
        for run in runs
        if run.subject_key and _has(f"{run.subject_label} {run.subject_key}", words)
    }
    return [
        (reverse("subject", args=[desk, key]), label, None)
        for desk, key, label in list(known)[:_MOST]
    ]


def _requests(user: User, words: Sequence[str], runs: Sequence[Run]) -> list[_Hit]:
    """Return requests by number, by the runs found and by names in arguments.

    Those with exactly this number or key come first, and open ones before decided ones.
    """
    workspaces = access.workspaces_of(user)
    seen, key = access.escalations_of(user), " ".join(words).removeprefix("#")
    number, waits = whole_number(key), EscalationState.OPEN
    decided = newest(
        Escalation.objects.filter(decided_at__isnull=False), workspaces, "decided_at", _RECENT
    )
    recent = chain(_named(open_in(workspaces).order_by("-pk")[:_RECENT]), _named(decided))
    named = {pk: names.casefold().split() for pk, names in recent if _has(names, words)}
    about = Q(run__in=[run.pk for run in runs]) | Q(pk__in=[*named, number or 0])
    ranked = sorted(
        (pk != number, key not in (whom.casefold(), *named.get(pk, ())), state != waits, -pk)
        for pk, whom, state in seen.filter(about).values_list("pk", "subject_key", "state")
    )
    requests = seen.select_related("run").in_bulk([-pk for *_, pk in ranked[:_MOST]])
    found: list[_Hit] = []
    for one in (requests[-pk] for *_, pk in ranked[:_MOST]):
        told, whom = f"{one.pk}: {one.in_words()}", one.run.subject_label
        title = told if whom in told else f"{told}, {whom}"
        found.append((reverse("approval", args=[one.pk]), title, standing_of(one)))
    return found


def _named(requests: Json) -> Iterable[tuple[int, str]]:
    """Yield the keys of requests with what their arguments name: its keys and names."""
    for pk, names in requests.values_list("pk", "review__facts__names"):
        of_all: Mapping[str, Mapping[str, str]] = names or {}
        yield pk, " ".join(part for one in of_all.values() for pair in one.items() for part in pair)


# The pages of subjects: whom or what agents act on, over all patterns and agents.


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
    calls = Effect.objects.filter(run__in=[row["run"].pk for row in runs.rows])
    asked = ((one.escalation.currency, one.escalation.amount_minor) for one in waiting)
    shown = {
        "nav": "subjects",
        "desk": desk,
        "key": key,
        "label": runs.rows[0]["run"].subject_label,
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
