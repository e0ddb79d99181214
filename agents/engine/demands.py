"""What a yes to a request takes: by the tiers of the policy that its run pins, and by its tool."""

from __future__ import annotations

from agents.core.kinds import ACTION, kind_of
from agents.core.tiers import Demand, demand_of
from agents.models import Escalation
from agents.tools import TOOLS, Tool

OPEN_TO_ALL = Demand()


def held_tool(escalation: Escalation) -> Tool | None:
    """Return the tool whose call is held, where a yes runs it with arguments of its own."""
    if kind_of(escalation.kind, escalation.action) is not ACTION:
        return None
    return TOOLS.get(escalation.action.get("name", ""))


def demand_for(escalation: Escalation) -> Demand:
    """Return what a yes to a request takes. Without tiers it asks the database nothing."""
    tool, run = held_tool(escalation), escalation.run
    if tool is None or not (run.limits.tiers or tool.people > 1):
        return OPEN_TO_ALL
    tiers = run.limits.tiers_of(run.desk, escalation.currency)
    return demand_of(tiers, escalation.amount_minor, people=tool.people)
