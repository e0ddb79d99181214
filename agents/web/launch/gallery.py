"""The gallery on the page: each scenario with its newest run, by desk and pattern."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import uuid4

from agents.core.limits import EXTERNAL
from agents.core.redact import without_values
from agents.models import KillSwitch, Run, Scope, SwitchStage, Workspace
from agents.patterns import offered_at
from agents.runs import kill_switch
from agents.sdk.desk import DESKS, Desk, Scenario, tool_title
from agents.shell.formats import spell_out

NEWEST = 300  # runs among which a scenario's last one is looked for
# By the first word of how a scenario ends: the role of its icon, and whether it would write.
_ENDS = {
    "Answered": ("approve", False),
    "Blocked": ("block", False),
    "Halted": ("block", False),
    "One": ("approve", True),
    "Paid": ("approve", True),
    "Report": ("approve", False),
    "Stopped": ("block", False),
    "Waits": ("escalate", True),
}
# Of a section of scenarios: what stands before the names of these.
_PURPOSES = {
    "supervisor": ("Its agents can", "tools"),
    "routing": ("A question goes to one specialist after another", "specialists"),
    "orchestrator": ("A report from several sources", "sources"),
    "workflow": ("Step by step, each checked by a judge", "workflows"),
}
_ANY_END = ("skip", True)


@dataclass(frozen=True)
class Offer:
    """A scenario to launch."""

    key: str
    title: str
    watch: str  # what to watch for
    ends: str  # how it ends with the demo model; "" if `watch` says so
    role: str  # of that end
    goal: str
    token: str  # of its form: sent twice, it still launches one run
    last: Run | None  # the newest launched from it or with the same goal
    switch: KillSwitch | None  # what would stop it now
    is_first: bool  # among those to try first
    is_found: bool  # it has all words that are searched for


@dataclass(frozen=True)
class GallerySection:
    """A desk's scenarios of one kind."""

    key: str
    desk: str
    title: str
    purpose: str
    offers: Sequence[Offer]


def desks_of(workspace: Workspace) -> dict[str, Desk]:
    """Return the desks that a run can be launched for: those with rules in the policy."""
    return {name: DESKS[name] for name in patterns_of(workspace)}


def patterns_of(workspace: Workspace) -> dict[str, list[str]]:
    """Return the patterns in which a run can be launched, by desk."""
    limits = workspace.policy.limits() if workspace.policy else None
    return {
        name: [
            pattern
            for pattern in offered_at(desk)
            if pattern != EXTERNAL and limits.covers(name, pattern)
        ]
        for name, desk in DESKS.items()
        if limits and limits.covers(name)
    }


def gallery(workspace: Workspace, *, search: str = "") -> list[GallerySection]:
    """Return a demo workspace's gallery; empty elsewhere, because its goals are invented."""
    if not workspace.is_demo:
        return []
    newest = Run.objects.filter(workspace=workspace).order_by("-created_at", "-pk")
    last: dict[tuple[str, str, str], Run] = {}
    for run in newest.only("desk", "pattern", "goal", "state", "created_at")[:NEWEST]:
        last.setdefault((run.desk, run.pattern, without_values(run.goal)), run)
    stopping = _stopping(workspace)

    def offer(desk: str, section: str, one: Scenario) -> Offer:
        newest = last.get((desk, one.pattern, without_values(one.goal)))
        role, writes = _ENDS.get(one.ends.replace(",", "").partition(" ")[0], _ANY_END)
        text = " ".join((section, one.title, one.expect, one.goal, one.ends)).lower()
        return Offer(
            key=one.key,
            title=one.title,
            watch=one.expect,
            ends=one.ends,
            role=role,
            goal=one.goal,
            token=uuid4().hex,
            last=newest,
            switch=stopping(desk, one.pattern) if writes else None,
            is_first=one.is_first,
            is_found=all(word in text for word in search.lower().split()),
        )

    found = [
        GallerySection(
            f"desk-{name}-{pattern}",
            DESKS[name].title,
            title := spell_out(pattern),
            _purpose(DESKS[name], pattern),
            [offer(name, f"{DESKS[name].title} {title}", one) for one in scenarios],
        )
        for name, patterns in patterns_of(workspace).items()
        for pattern, scenarios in DESKS[name].sections.items()
        if pattern in patterns
    ]
    return [section for section in found if section.offers]


def _purpose(desk: Desk, pattern: str) -> str:
    """Return what a desk's agents have in a pattern."""
    if pattern not in _PURPOSES:
        return ""
    who, table = _PURPOSES[pattern]
    titles = {name: one.get("title") for name, one in desk.workflows.items()}
    named = [titles.get(name) or tool_title(name) for name in getattr(desk, table)]
    own = "" if desk.fill_demo else " Its tools act on your own systems, in a demo too."
    return f"{who}: {', '.join(named)}.{own}"


def _stopping(workspace: Workspace) -> Callable[[str, str], KillSwitch | None]:
    """Return what finds a switch that stops a new run of a desk and pattern where it writes."""
    limits = workspace.policy.limits() if workspace.policy else None
    rows = [row.switch for row in kill_switch.standing(workspace.pk)]
    pressed = [switch for switch in rows if switch.stage is SwitchStage.ON]

    def find(desk: str, pattern: str) -> KillSwitch | None:
        tools = limits.of(pattern, desk).executable if limits and pressed else ()
        reach = {Scope.WORKSPACE: ("",), Scope.PATTERN: (pattern,), Scope.TOOL: tools}
        return next((one for one in pressed if one.target in reach.get(Scope(one.scope), ())), None)

    return find
