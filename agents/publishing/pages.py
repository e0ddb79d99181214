"""The policy that runs follow, in words, and who published it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from agents.core.limits import Limits
from agents.core.requests import Json
from agents.models import Event, PolicyVersion, Role, Team, Workspace
from agents.publishing import words
from agents.publishing.faults import missing_rules
from agents.publishing.trial_pages import headline
from agents.publishing.versions import readable
from agents.shell import access
from agents.shell.event_words import read_events
from agents.shell.pages import page, whole_number

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
    may_audit, is_admin = role in access.AUDITS, role == Role.ADMIN
    version = version_in(workspace, request.GET.get("version", ""))
    is_published, teams = version == workspace.policy, team_names(workspace.pk)
    limits, text = readable_limits(version, teams), request.GET.get("find", "").strip()[:100]
    topics = words.lines(limits) if limits else []
    desks = words.desk_parts(limits) if limits else []
    events = _publications(workspace)
    history = _history(workspace, events, teams)
    parts = [*((one.name, one.title) for one in desks), *((topic, topic) for topic, _ in topics)]
    part = request.GET.get("part", parts[0][0] if parts else "")
    against = request.GET.get("against", "") if may_audit else ""
    other = version_in(workspace, against) if against else None
    old, new = readable(other), readable(version)
    tried = workspace.trials.filter(outcome__has_key="rows").select_related("by", "policy")
    shown = {
        "nav": "policy",
        "workspaces": workspaces,
        "workspace": workspace,
        "version": version,
        "is_published": is_published,
        "topics": _topics(topics, text) if text else [one for one in topics if one[0] == part],
        "desks": _desks(desks, text) if text else [one for one in desks if one.name == part],
        "history": history,
        "has_older": len(events) > PUBLISHED,
        "parts": parts,
        "part": part,
        "may_audit": may_audit,
        "has_history": part == "history" or not topics,
        "has_rules": bool(desks),
        "other": other,
        "against": against,
        "between": words.differences(old, new) if old and new else [],
        "numbers": sorted({one["number"] for one in history if one["version"]}),
        "newest": history[0] if history and may_audit else None,
        "is_readable": bool(topics),
        "drafts": workspace.drafts.select_related("base", "by").order_by("pk"),
        "trials": [(one, headline(one)) for one in tried.order_by("-pk")[:5]] if may_audit else [],
        "sentence": sentence,
        "may_draft": is_admin,
        "missing": [fault for *_, fault in missing_rules(new)]
        if new and is_admin and is_published
        else [],
        "find": text,
    }
    return render(request, "policy/page.html", shown, status=status)


def version_in(workspace: Workspace, number: str) -> PolicyVersion | None:
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


# One version in words, narrowed to the limits and rules that contain all words of a text.


def _has(text: str, *parts: str) -> bool:
    return all(word in " ".join(parts).casefold() for word in text.casefold().split())


def _limits_with(text: str, limits: Sequence[words.LimitLine]) -> list[words.LimitLine]:
    return [one for one in limits if _has(text, one.name, one.means, one.value)]


def _topics(
    topics: Sequence[tuple[str, Sequence[words.LimitLine]]], text: str
) -> list[tuple[str, list[words.LimitLine]]]:
    return [(topic, found) for topic, of in topics if (found := _limits_with(text, of))]


def _desks(desks: Sequence[words.DeskPart], text: str) -> list[words.DeskPart]:
    found = []
    for desk in desks:
        limits = _limits_with(text, desk.limits)
        rules = [one for one in desk.rules if _has(text, one.title, one.sentence, one.rule)]
        if limits or rules:
            found.append(replace(desk, limits=limits, rules=rules))
    return found


# The workspace's publications.


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


def _history(
    workspace: Workspace, events: Sequence[Event], teams: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the newest publications, each with what it changed."""
    numbers = {event.facts["number"] for event in events[: PUBLISHED + 1]}
    rows = PolicyVersion.objects.filter(workspace=workspace, number__in=numbers)
    versions = {one.number: one for one in rows}
    found = []
    for event, before in zip_longest(events[:PUBLISHED], events[1 : PUBLISHED + 1]):
        version = versions.get(event.facts["number"])  # None: it is gone
        new = readable_limits(version, teams)
        old = readable_limits(versions.get(before.facts["number"]), teams) if before else None
        changes = words.differences(old, new) if old and new else []
        note = "No limit changed."
        if before is None:
            note = "Initial version."
        elif new is None or old is None:
            note = "This release cannot read one of the two versions, so what changed is not known."
        about = {**event.facts, "version": version, "by": event.actor, "at": event.at}
        found.append({**about, "changes": changes, "note": note})
    return found


def team_names(workspace: int) -> dict[str, str]:
    """Return the names of a workspace's teams by short name."""
    return dict(Team.objects.filter(workspace=workspace).values_list("slug", "name"))


def readable_limits(
    version: PolicyVersion | None, teams: Mapping[str, str] | None = None
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
