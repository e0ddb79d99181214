"""The gallery as a page shows it: each scenario with its newest run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from agents.desks.refunds.scenarios import PURPOSES, SCENARIOS, Scenario
from agents.models import Run, Workspace

NEWEST = 300  # runs among which a scenario's last one is looked for


@dataclass(frozen=True)
class Offer:
    """A scenario to launch."""

    scenario: Scenario
    token: str  # of its form: sent twice, it is still one run
    last: Run | None  # launched from it, or with the same goal


@dataclass(frozen=True)
class Shelf:
    """What one pattern has to show."""

    pattern: str
    purpose: str
    offers: Sequence[Offer]


def gallery(workspace: Workspace) -> list[Shelf]:
    """Return what a demo workspace offers; nothing elsewhere, because its goals are invented."""
    if not workspace.is_demo:
        return []
    newest = Run.objects.filter(workspace=workspace).order_by("-created_at", "-pk")
    last: dict[tuple[str, str], Run] = {}
    for run in newest.only("pattern", "goal", "state", "created_at")[:NEWEST]:
        last.setdefault((run.pattern, run.goal), run)
    return [
        Shelf(
            pattern,
            purpose,
            [
                Offer(s, uuid4().hex, last.get((s.pattern, s.goal)))
                for s in SCENARIOS
                if s.pattern == pattern
            ],
        )
        for pattern, purpose in PURPOSES.items()
    ]
