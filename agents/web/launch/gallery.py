"""The gallery on the page: each scenario with its newest run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from agents.core.pseudonyms import without_values
from agents.models import Run, Workspace
from agents.systems import SYSTEMS, Example, System

NEWEST = 300  # runs among which a scenario's last one is looked for


@dataclass(frozen=True)
class Offer:
    """A scenario to launch."""

    key: str
    title: str
    watch: str  # what to watch for
    ends: str  # how it ends with the demo model; "" if `watch` says so
    goal: str
    token: str  # of its form: sent twice, it still launches one run
    last: Run | None  # the newest launched from it or with the same goal


@dataclass(frozen=True)
class GallerySection:
    """A desk's scenarios of one kind."""

    key: str
    title: str
    purpose: str
    offers: Sequence[Offer]


def desks_of(workspace: Workspace) -> dict[str, System]:
    """Return the desks that a run can be launched for: those with rules in the policy."""
    limits = workspace.policy.limits() if workspace.policy else None
    return {name: system for name, system in SYSTEMS.items() if limits and limits.covers(name)}


def gallery(workspace: Workspace) -> list[GallerySection]:
    """Return a demo workspace's gallery; empty elsewhere, because its goals are invented."""
    if not workspace.is_demo:
        return []
    newest = Run.objects.filter(workspace=workspace).order_by("-created_at", "-pk")
    last: dict[tuple[str, str, str], Run] = {}
    for run in newest.only("desk", "pattern", "goal", "state", "created_at")[:NEWEST]:
        last.setdefault((run.desk, run.pattern, without_values(run.goal)), run)

    def offer(desk: str, one: Example) -> Offer:
        newest = last.get((desk, one.pattern, without_values(one.goal)))
        return Offer(one.key, one.title, one.watch, one.ends, one.goal, uuid4().hex, newest)

    return [
        GallerySection(
            shelf.key, shelf.title, shelf.purpose, [offer(name, one) for one in shelf.examples]
        )
        for name, system in desks_of(workspace).items()
        for shelf in system.shelves()
    ]
