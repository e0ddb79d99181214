"""Which specialist a case may be put to."""

from __future__ import annotations

from agents.core.actions import Action
from agents.core.facts import Facts
from agents.core.limits import Limits
from agents.core.rulings import Ruling, RulingKind
from agents.policies import rule


@rule
def reading(action: Action, facts: Facts, limits: Limits) -> Ruling | None:
    """A specialist looks things up and changes nothing; a ticket is all they are given."""
    if action.get("kind") != "tool" or action["name"] not in limits.proposable:
        return None
    if set(action["args"]) != {"ticket"}:
        return None
    sentence = "A specialist only looks things up."
    return Ruling(RulingKind.APPROVE, "read_only_delegation", sentence, 5)
