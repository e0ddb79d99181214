"""The policy that runs follow, in words, and who published it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import zip_longest
from math import log10

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from agents.core.decisions import Tiers, read_tiers
from agents.core.limits import LimitField, Limits
from agents.core.money import format_money, is_currency
from agents.core.requests import Json
from agents.models import Event, PolicyVersion, Team, Workspace
from agents.policies.words import RuleLine
from agents.publishing.versions import readable
from agents.publishing.words import (
    CAPS,
    DeskPart,
    LimitDifference,
    LimitLine,
    desk_names,
    desk_parts,
    differences,
    lines,
    who_approves,
)
from agents.sdk.adjustments import money_of
from agents.sdk.desk import DESKS
from agents.shell import access
from agents.shell.event_words import read_events
from agents.shell.formats import desk_title
from agents.shell.pages import page, whole_number

_LEAST = 10.0  # percent of the scale that the lowest amount takes
_NOT_NAMED: Mapping[str, str] = {}
PUBLISHED = 30  # publications shown of one workspace


@page
def policy(request: HttpRequest) -> HttpResponse:
    """Show the published or the requested version; publishing is a command."""
    workspaces = access.workspaces_to_audit(access.person(request), "the policy")
    workspace = access.choose_workspace(workspaces, request.GET.get("workspace", ""))
    version = _version(workspace, request.GET.get("version", ""))
    whole, text = show(workspace, version), request.GET.get("find", "").strip()[:100]
    shown = {
        "nav": "policy",
        "workspaces": workspaces,
        "shown": _narrow(whole, text) if text else whole,
        "newest": whole.newest,
        "is_readable": bool(whole.topics),
        "find": text,
    }
    return render(request, "policy/page.html", shown)


def _version(workspace: Workspace, number: str) -> PolicyVersion | None:
    """Return the version in an address, by default the published one. Raises Http404."""
    if not number or (workspace.policy and number == str(workspace.policy.number)):
        return workspace.policy
    wanted = whole_number(number)
    if wanted is None:
        raise Http404
    version = PolicyVersion.objects.filter(workspace=workspace, number=wanted).first()
    if version is None:
        raise Http404
    return version


# One version in words, and the workspace's publications.


@dataclass(frozen=True)
class _Publication:
    version: PolicyVersion | None  # None: the version is gone
    number: int
    by: str  # "": the workspace was created with it
    at: datetime
    changes: Sequence[LimitDifference]
    note: str  # why there are no changes to show, or ""


@dataclass(frozen=True)
class _VersionPage:
    """One version in words, and the workspace's publications, newest first."""

    workspace: Workspace
    version: PolicyVersion | None  # None: the workspace has no policy
    is_published: bool  # new runs follow it
    topics: Sequence[tuple[str, Sequence[LimitLine]]]  # [] if the version cannot be read
    desks: Sequence[DeskPart]
    ladders: Sequence[_Ladder]
    history: Sequence[_Publication]
    has_older: bool

    @property
    def newest(self) -> _Publication | None:
        return self.history[0] if self.history else None


def show(workspace: Workspace, version: PolicyVersion | None) -> _VersionPage:
    """Return a version of a workspace's policy for the page, in four queries."""
    events = _publications(workspace)
    numbers = {event.facts["number"] for event in events[: PUBLISHED + 1]}
    rows = PolicyVersion.objects.filter(workspace=workspace, number__in=numbers)
    versions = {one.number: one for one in rows}
    teams = team_names(workspace.pk)
    limits = readable_limits(version, teams)
    pairs = zip_longest(events[: PUBLISHED + 1], events[1 : PUBLISHED + 1])
    return _VersionPage(
        workspace=workspace,
        version=version,
        is_published=version is not None and version.pk == workspace.policy_id,
        topics=lines(limits) if limits else [],
        desks=desk_parts(limits) if limits else [],
        ladders=ladders(limits) if limits else [],
        history=[_publication(event, before, versions, teams) for event, before in pairs][
            :PUBLISHED
        ],
        has_older=len(events) > PUBLISHED,
    )


def _narrow(shown: _VersionPage, text: str) -> _VersionPage:
    """Return a version with only the limits and rules that contain all words of a text."""
    wanted = text.casefold().split()

    def has(*parts: str) -> bool:
        return all(word in " ".join(parts).casefold() for word in wanted)

    def rules_of(rules: Sequence[RuleLine]) -> list[RuleLine]:
        return [one for one in rules if has(one.title, one.sentence, one.rule)]

    topics = [
        (topic, [one for one in of if has(one.name, one.means, one.value)])
        for topic, of in shown.topics
    ]
    desks = [
        replace(
            desk,
            limits=[one for one in desk.limits if has(one.name, one.means, one.value)],
            rules=rules_of(desk.rules),
        )
        for desk in shown.desks
    ]
    return replace(
        shown,
        topics=[(topic, of) for topic, of in topics if of],
        desks=[desk for desk in desks if desk.limits or desk.rules],
        ladders=[],
        history=[],
    )


def _publications(workspace: Workspace) -> list[Event]:
    """Return the readable events that published a version, newest first.

    A workspace is created with its first version, which nobody published.
    """
    own = Event.objects.filter(workspace=workspace, run=None)
    published = read_events(own.filter(kind="policy.published").order_by("-pk"), PUBLISHED + 2)
    first = read_events(own.filter(kind="policy.created").order_by("pk"), 1)
    rows = [row for row in (*published, *first) if isinstance(row, Event)]
    return [row for row in rows if isinstance(row.facts, dict) and _has_number(row.facts)]


def _has_number(facts: Mapping[str, object]) -> bool:
    number = facts.get("number")
    return isinstance(number, int) and 0 < number < 2**31


def _publication(
    event: Event,
    before: Event | None,
    versions: dict[int, PolicyVersion],
    teams: Mapping[str, str],
) -> _Publication:
    version = versions.get(event.facts["number"])
    new = readable_limits(version, teams)
    old = readable_limits(versions.get(before.facts["number"]), teams) if before else None
    changes, note = [], ""
    if before is None:
        note = "Initial version."
    elif new is None or old is None:
        note = "This release cannot read one of the two versions, so what changed is not known."
    else:
        changes = differences(old, new)
        note = "" if changes else "No limit changed."
    return _Publication(version, event.facts["number"], event.actor, event.at, changes, note)


def team_names(workspace: int) -> dict[str, str]:
    """Return the names of a workspace's teams by short name."""
    return dict(Team.objects.filter(workspace=workspace).values_list("slug", "name"))


def readable_limits(
    version: PolicyVersion | None, teams: Mapping[str, str] = _NOT_NAMED
) -> Limits | None:
    """Return a version's limits for display, or None if they cannot be read.

    Tiers then have the full names of `teams` instead of short ones.
    """
    limits = readable(version)
    if limits is None or not limits.tiers or not teams:
        return limits
    return replace(limits, tiers=_with_team_names(limits.tiers, teams))


def _with_team_names(held: Json, teams: Mapping[str, str]) -> Json:
    if isinstance(held, dict):
        return {
            key: teams.get(value, value) if key == "team" else _with_team_names(value, teams)
            for key, value in held.items()
        }
    return [_with_team_names(one, teams) for one in held] if isinstance(held, list) else held


# The amounts of a policy in order, for a picture: what is small, and how far the next one is.


@dataclass(frozen=True)
class _Rung:
    """One amount, and its place in percent of a logarithmic scale."""

    name: str
    amount: str
    place: float

    @property
    def rest(self) -> float:
        return round(100 - self.place, 2)


@dataclass(frozen=True)
class _Ladder:
    """The amounts of a desk in one currency, lowest first."""

    title: str
    rungs: Sequence[_Rung]
    above: str  # who approves the largest amounts, in words; "": there are no tiers


def ladders(limits: Limits) -> list[_Ladder]:
    """Return a ladder for each desk and currency that has amounts."""
    tiers = read_tiers(limits.tiers or {})
    shown = []
    for desk in desk_names(limits):
        amounts: dict[str, list[tuple[int, str]]] = {}
        for currency, minor, name in (*_limits(limits, desk), *_caps(limits, desk)):
            amounts.setdefault(currency, []).append((minor, name))
        for currency, bands in tiers.get(desk, {}).items():
            amounts.setdefault(currency, []).extend(
                (band.up_to_minor, f"Approved by {who_approves(band)}")
                for band in bands
                if band.up_to_minor
            )
        for currency, of in sorted(amounts.items()):
            title, above = f"{desk_title(desk)}, {currency}", _above(tiers, desk, currency)
            shown.append(_Ladder(title, _rungs(of, currency), above))
    return [one for one in shown if one.rungs]


def _above(tiers: Mapping[str, Mapping[str, Tiers]], desk: str, currency: str) -> str:
    bands = tiers.get(desk, {}).get(currency)
    if not bands:
        return ""
    bound = bands[-2].up_to_minor if len(bands) > 1 else None
    what = f"Above {format_money(bound, currency)}" if bound else "Any amount"
    return f"{what}: approved by {who_approves(bands[-1])}."


def _limits(limits: Limits, desk: str) -> Iterator[tuple[str, int, str]]:
    """Yield the amounts among a desk's limits, in any pattern, as currency, units and name."""
    if desk in DESKS:
        patterns = ("", *limits.part_of(desk, "patterns"))
        held = [limits.of(pattern, desk).part_of(desk, "limits") for pattern in patterns]
        for one in DESKS[desk].limit_fields:
            if is_currency(one.unit):
                yield from _amounts(one, [part.get(one.name, one.default) for part in held])


def _amounts(one: LimitField, values: Iterable[Json]) -> Iterator[tuple[str, int, str]]:
    for minor in {money.minor if (money := money_of(value)) else value for value in values}:
        yield one.unit, minor, one.label


def _caps(limits: Limits, desk: str) -> Iterator[tuple[str, int, str]]:
    for currency, caps in limits.caps_of(desk).items():
        for key, minor in caps.items():
            yield currency, minor, CAPS.get(key, key)


def _rungs(amounts: Sequence[tuple[int, str]], currency: str) -> list[_Rung]:
    """Place amounts above zero: each ten times larger one is equally far from the last."""
    of = sorted((one for one in amounts if one[0] > 0), key=lambda one: one[0])
    if not of:
        return []
    low, high = log10(of[0][0]), log10(of[-1][0])
    wide = (100 - _LEAST) / (high - low) if high > low else 0

    def place(minor: int) -> float:
        return round(_LEAST + (log10(minor) - low) * wide, 2) if wide else 50.0

    return [_Rung(name, format_money(minor, currency), place(minor)) for minor, name in of]
