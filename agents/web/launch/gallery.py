"""The gallery as a page shows it: each scenario with its newest run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from agents.core.former import FIRST_DESK
from agents.desks.refunds.scenarios import PURPOSES, SCENARIOS
from agents.models import Run, Workspace
from agents.sdk.desk import DESKS, Desk
from agents.web.launch.forms import desk_scenarios

NEWEST = 300  # runs among which a scenario's last one is looked for


@dataclass(frozen=True)
class Offer:
    """A scenario to launch."""

    key: str
    title: str
    watch: str  # what will be seen
    ends: str  # how it ends with the demo model; "" where `watch` says so
    goal: str
    token: str  # of its form: sent twice, it is still one run
    last: Run | None  # launched from it, or with the same goal


@dataclass(frozen=True)
class Shelf:
    """What one pattern of refunds, or one other desk, has to show."""

    key: str
    title: str
    purpose: str
    offers: Sequence[Offer]


def desks_of(workspace: Workspace) -> list[Desk]:
    """Return the declared desks that a run can be launched for: the policy names them."""
    named = (workspace.policy.limits().desks if workspace.policy else None) or {}
    return [desk for name, desk in DESKS.items() if name in named]


def gallery(workspace: Workspace) -> list[Shelf]:
    """Return what a demo workspace offers; nothing elsewhere, because its goals are invented."""
    if not workspace.is_demo:
        return []
    newest = Run.objects.filter(workspace=workspace).order_by("-created_at", "-pk")
    last: dict[tuple[str, str, str], Run] = {}
    for run in newest.only("desk", "pattern", "goal", "state", "created_at")[:NEWEST]:
        last.setdefault((run.desk, run.pattern, run.goal), run)

    def offer(key: str, title: str, watch: str, ends: str, *of: str) -> Offer:
        return Offer(key, title, watch, ends, of[2], uuid4().hex, last.get((of[0], of[1], of[2])))

    shelves = [
        Shelf(
            pattern,
            pattern.capitalize(),
            purpose,
            [
                offer(s.key, s.title, s.watch, s.ends, FIRST_DESK, pattern, s.goal)
                for s in SCENARIOS
                if s.pattern == pattern
            ],
        )
        for pattern, purpose in PURPOSES.items()
    ]
    for desk in desks_of(workspace):
        own = [
            offer(key, s.title, s.expect, "", desk.name, "supervisor", s.goal)
            for key, s in desk_scenarios().items()
            if key.startswith(f"{desk.name}/")
        ]
        if own:
            shelves.append(Shelf(f"desk-{desk.name}", desk.title, desk.brief, own))
    return shelves
