"""The search page; its results are also shown under the field at the top of every page."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse

from agents.core.requests import Json
from agents.core.states import EscalationState
from agents.models import Escalation, Role, Run
from agents.requests.queue import open_in
from agents.requests.words import act
from agents.runs.listing import chip_of, closings, runs_with_words
from agents.shell import access
from agents.shell.formats import spell_out, standing_of
from agents.shell.listing import newest
from agents.shell.pages import HtmxRequest, page, whole_number


@page
def search(request: HtmxRequest) -> HttpResponse:
    """Show what matches the words in the address. A typed-in field gets the results alone."""
    text = request.GET.get("q", "").strip()
    shown = {
        "groups": _find(access.person(request), text),
        "text": text[:_LONGEST],
        "nav": "search",
    }
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


@dataclass(frozen=True)
class _Hit:
    """One hit: its address, its name, and its state as role and word."""

    address: str
    title: str
    chip: tuple[str, str] | None = None


def _find(user: User, text: str) -> dict[str, list[_Hit]]:
    """Return the hits by the title of their group; empty groups are left out."""
    words = text[:_LONGEST].replace("\0", "").casefold().split()
    if not words:
        return {}
    workspaces = access.workspaces_of(user)
    runs = runs_with_words(" ".join(words), workspaces)
    closed = closings(runs[:_MOST])
    groups = {
        "Pages": _pages(user, words),
        "About": _subjects(runs, words),
        "Requests": _requests(user, words, runs),
        "Runs": [
            _Hit(
                reverse("run", args=[run.pk]),
                f"{run.subject_label or spell_out(run.pattern)}: {run.title}",
                chip_of(run, closed),
            )
            for run in runs[:_MOST]
        ],
    }
    said = " ".join(words)
    if len(groups["Requests"]) == _MOST and groups["About"]:  # the inbox looks in names only
        every = f"{reverse('approvals')}?{urlencode({'subject': said})}"
        groups["Requests"].append(_Hit(every, "All open requests"))
    if len(groups["Runs"]) == _MOST:
        every = f"{reverse('runs')}?{urlencode({'text': said})}"
        groups["Runs"].append(_Hit(every, "All runs"))
    return {title: hits for title, hits in groups.items() if hits}


def _pages(user: User, words: Sequence[str]) -> list[_Hit]:
    roles = {part.role for part in access.parts_of(user)}
    return [
        _Hit(reverse(name), title)
        for name, title, allowed in _PAGES
        if roles.intersection(allowed) and _has(title, words)
    ]


def _has(text: str, words: Sequence[str]) -> bool:
    """Tell whether each word begins a word of a text."""
    known = text.casefold().replace("(", " ").split()
    return all(any(one.startswith(word) for one in known) for word in words)


def _subjects(runs: Sequence[Run], words: Sequence[str]) -> list[_Hit]:
    """Return the subjects of these runs whose names have the words."""
    known = {
        (run.desk, run.subject_key, run.subject_label): None
        for run in runs
        if run.subject_key and _has(run.subject_label.replace("#", " "), words)
    }
    return [
        _Hit(reverse("subject", args=[desk, key]), label)
        for desk, key, label in list(known)[:_MOST]
    ]


def _requests(user: User, words: Sequence[str], runs: Sequence[Run]) -> list[_Hit]:
    """Return requests by number, by the runs found and by names in arguments; open ones first."""
    workspaces = access.workspaces_of(user)
    seen = access.escalations_of(user)
    number = whole_number(words[0].removeprefix("#")) if len(words) == 1 else None
    decided = newest(
        Escalation.objects.filter(decided_at__isnull=False), workspaces, "decided_at", _RECENT
    )
    named = [
        pk
        for pk, names in chain(
            _named(open_in(workspaces).order_by("-pk")[:_RECENT]), _named(decided)
        )
        if _has(names, words)
    ]
    is_closed = ExpressionWrapper(~Q(state=EscalationState.OPEN), BooleanField())
    of_runs = seen.filter(run__in=[run.pk for run in runs]).order_by(is_closed, "-pk")
    keys = [
        *([number] if number else []),
        *named[:_MOST],
        *of_runs.values_list("pk", flat=True)[:_MOST],
    ]
    place = {key: at for at, key in reversed(list(enumerate(keys)))}
    requests = sorted(
        seen.filter(pk__in=keys).select_related("run"),
        key=lambda one: (one.pk != number, one.state != EscalationState.OPEN, place[one.pk]),
    )
    return [
        _Hit(reverse("approval", args=[one.pk]), f"{one.pk}: {act(one)}", standing_of(one))
        for one in requests[:_MOST]
    ]


def _named(requests: Json) -> Iterable[tuple[int, str]]:
    """Yield the keys of requests with the names in their arguments."""
    for pk, names in requests.values_list("pk", "review__facts__names"):
        of_all: Mapping[str, Mapping[str, str]] = names or {}
        yield pk, " ".join(name for of_one in of_all.values() for name in of_one.values())
