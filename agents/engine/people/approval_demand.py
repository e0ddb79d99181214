"""What an approval requires: by the tiers of the run's pinned policy, and by its tool."""

from __future__ import annotations

from agents.core.decisions import Demand, demand_of
from agents.core.request_kinds import ACTION, kind_of
from agents.models import Escalation
from agents.tools import TOOLS, Tool

OPEN_TO_ALL = Demand()


def held_tool(escalation: Escalation) -> Tool | None:
    """Return the held call's tool if an approval may run it with changed arguments."""
    if kind_of(escalation.kind, escalation.action) is not ACTION:
        return None
    return TOOLS.get(escalation.action.get("name", ""))


def demand_for(escalation: Escalation) -> Demand:
    """Return what approving a request requires. Without tiers this takes no query."""
    tool, run = held_tool(escalation), escalation.run
    if tool is None or not (run.limits.tiers or tool.people > 1):
        return OPEN_TO_ALL
    tiers = run.limits.tiers_of(run.desk, escalation.currency)
    return demand_of(tiers, escalation.amount_minor, people=tool.people)
