"""The demo model as router: first the specialists whose field the goal names, then the others."""

from __future__ import annotations

import json

from agents.core.requests import Json
from agents.desks.refunds.demo.goals import Misfortune, read_goal
from agents.desks.refunds.ticket_topics import TOPICS, is_about

LONGEST = 300  # characters of a ticket


def router_reply(inputs: Json) -> str:
    """Return the next route as it would arrive: JSON, or broken JSON."""
    goal = read_goal(inputs["goal"])
    wrong = goal.misfortune == Misfortune.WRONG_DESK
    target = _target(inputs["goal"], inputs["forbidden_targets"], wrong=wrong)
    ticket = " ".join(inputs["goal"].split())[:LONGEST]
    route = json.dumps({"kind": "route", "target": target, "args": {"ticket": ticket}})
    return route[: len(route) // 2] if goal.misfortune == Misfortune.BROKEN_JSON else route


def _target(goal: str, forbidden: list[str], *, wrong: bool) -> str:
    """Return the next specialist: the goal's field first, unless the wrong desk is demanded."""
    by_fit = sorted(TOPICS, key=lambda topic: is_about(topic, goal) == wrong)
    left = [name for topic in by_fit if (name := f"{topic}_specialist") not in forbidden]
    return left[0] if left else f"{by_fit[0]}_specialist"
