"""What the policy page shows: the version in force, and how it came to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest

from agents.core.limits import BadPolicy, Limits
from agents.models import Event, PolicyVersion, Workspace
from agents.patterns import PATTERNS
from agents.web.policy.limits import Difference, Line, differences, lines

PUBLISHED = 30  # publications shown of one workspace


@dataclass(frozen=True)
class Publication:
    """A version that came into force."""

    version: PolicyVersion | None  # None: there is no such version any more
    number: int
    by: str  # "" is the making of the workspace
    at: datetime
    changes: Sequence[Difference]
    note: str  # why there are no changes to show, or ""


@dataclass(frozen=True)
class Governed:
    """A workspace, the limits its new runs are held to, and its publications, newest first."""

    workspace: Workspace
    newest: Publication | None
    patterns: Sequence[str]
    topics: Sequence[tuple[str, Sequence[Line]]]  # [] where the version cannot be read
    history: Sequence[Publication]
    has_older: bool


def governed(workspaces: Iterable[Workspace]) -> list[Governed]:
    """Return the policies of some workspaces; three queries for each."""
    return [_governed(workspace) for workspace in workspaces]


def _governed(workspace: Workspace) -> Governed:
    events = _publications(workspace)
    shown = events[: PUBLISHED + 1]
    numbers = {event.facts["number"] for event in shown}
    found = PolicyVersion.objects.filter(workspace=workspace, number__in=numbers)
    versions = {version.number: version for version in found}
    names = sorted(PATTERNS)
    history = [
        _publication(event, before, versions, names)
        for event, before in zip_longest(shown, shown[1:])
    ][:PUBLISHED]
    limits = _read(workspace.policy)
    return Governed(
        workspace=workspace,
        newest=history[0] if history else None,
        patterns=names,
        topics=lines(limits.of(name) for name in names) if limits else [],
        history=history,
        has_older=len(events) > PUBLISHED,
    )


def _publications(workspace: Workspace) -> list[Event]:
    """Return the events that put a version into force, newest first.

    A workspace begins with a version that nobody published: it is made together with it.
    """
    own = Event.objects.filter(workspace=workspace, run=None)
    published = own.filter(kind="policy.published").order_by("-seq")[: PUBLISHED + 2]
    first = own.filter(kind="policy.created").order_by("seq")[:1]
    return [*published, *first]


def _publication(
    event: Event,
    before: Event | None,
    versions: dict[int, PolicyVersion],
    names: Sequence[str],
) -> Publication:
    version = versions.get(event.facts["number"])
    new = _read(version)
    old = _read(versions.get(before.facts["number"])) if before else None
    changes, note = [], ""
    if before is None:
        note = "It came with the workspace."
    elif new is None or old is None:
        note = "This release cannot read one of the two, so what changed cannot be said."
    else:
        changes = differences(old, new, patterns=names)
        note = "" if changes else "No limit changed."
    return Publication(version, event.facts["number"], event.actor, event.at, changes, note)


def _read(version: PolicyVersion | None) -> Limits | None:
    """Return the limits of a version, or None for one that cannot be read."""
    try:
        return version.limits() if version else None
    except BadPolicy:
        return None
