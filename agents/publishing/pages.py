"""The policy that runs follow, in words, and who published it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import zip_longest

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from agents.core.limits import Limits
from agents.core.requests import Json
from agents.models import Event, PolicyVersion, Role, Team, Workspace
from agents.policies.words import RuleLine
from agents.publishing import words
from agents.publishing.faults import missing_rules
from agents.publishing.versions import readable
from agents.shell import access
from agents.shell.event_words import read_events
from agents.shell.pages import page, whole_number

_LEAST = 10.0  # percent of the scale that the lowest amount takes
_NOT_NAMED: Mapping[str, str] = {}
PUBLISHED = 30  # publications shown of one workspace


@page
def policy(request: HttpRequest) -> HttpResponse:
    """Show a part of the published or the requested version, and the drafts."""
    return show_policy(request)


def show_policy(request: HttpRequest, *, sentence: str = "", status: int = 200) -> HttpResponse:
    """Show it with what was refused. Members read it; who published what is for auditors."""
    mine = access.parts_of(access.person(request))
    workspaces = sorted((part.workspace for part in mine), key=lambda one: one.pk)
    workspace = access.choose_workspace(workspaces, request.GET.get("workspace", ""))
    role = next(part.role for part in mine if part.workspace_id == workspace.pk)
    may_audit = role in access.AUDITS
    version = _version(workspace, request.GET.get("version", ""))
    whole, text = show(workspace, version), request.GET.get("find", "").strip()[:100]
    parts = [(one.name, one.title) for one in whole.desks]
    parts += [(topic, topic) for topic, _ in whole.topics]
    part = request.GET.get("part", parts[0][0] if parts else "")
    against = request.GET.get("against", "") if may_audit else ""
    other = _version(workspace, against) if against else None
    old, new = readable(other), readable(version)
    shown = {
        "nav": "policy",
        "workspaces": workspaces,
        "shown": _narrow(whole, text) if text else _only(whole, part),
        "parts": parts,
        "part": part,
        "may_audit": may_audit,
        "has_history": part == "history" or not whole.topics,
        "has_rules": bool(whole.desks),
        "other": other,
        "against": against,
        "between": words.differences(old, new) if old and new else [],
        "numbers": sorted({one.number for one in whole.history if one.version}),
        "newest": whole.newest if may_audit else None,
        "is_readable": bool(whole.topics),
        "drafts": workspace.drafts.select_related("base", "by").order_by("pk"),
        "trials": workspace.trials.exclude(outcome=None).select_related("by").order_by("-pk")[:5]
        if may_audit
        else [],
        "sentence": sentence,
        "may_draft": role == Role.ADMIN,
        "missing": [fault for *_, fault in missing_rules(new)]
        if new and role == Role.ADMIN and whole.is_published
        else [],
        "find": text,
    }
    return render(request, "policy/page.html", shown, status=status)


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
    changes: Sequence[words.LimitDifference]
    note: str  # why there are no changes to show, or ""
    why: str  # in the words of who published it; ""
    asked_by: str  # the admin who asked a second one to publish it; ""


@dataclass(frozen=True)
class _VersionPage:
    """One version in words, and the workspace's publications, newest first."""

    workspace: Workspace
    version: PolicyVersion | None  # None: the workspace has no policy
    is_published: bool  # new runs follow it
    topics: Sequence[tuple[str, Sequence[words.LimitLine]]]  # [] if the version cannot be read
    desks: Sequence[words.DeskPart]
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
        topics=words.lines(limits) if limits else [],
        desks=words.desk_parts(limits) if limits else [],
        history=[_publication(event, before, versions, teams) for event, before in pairs][
            :PUBLISHED
        ],
        has_older=len(events) > PUBLISHED,
    )


def _only(shown: _VersionPage, part: str) -> _VersionPage:
    """Return a version with one desk or topic."""
    return replace(
        shown,
        topics=[(topic, of) for topic, of in shown.topics if topic == part],
        desks=[desk for desk in shown.desks if desk.name == part],
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
    event: Event, before: Event | None, versions: dict[int, PolicyVersion], teams: Mapping[str, str]
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
        changes = words.differences(old, new)
        note = "" if changes else "No limit changed."
    why, asked_by = (str(event.facts.get(name) or "") for name in ("why", "asked_by"))
    about = (version, event.facts["number"], event.actor, event.at, changes, note)
    return _Publication(*about, why, asked_by)


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
