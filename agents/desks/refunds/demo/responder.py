"""The demo model as responder: the specialist's findings in a sentence or two."""

from __future__ import annotations

from agents.core.names import plan_in_words
from agents.core.requests import Json
from agents.desks.refunds.demo.goals import Misfortune, read_goal
from agents.desks.refunds.demo.writer import usd


def responder_reply(inputs: Json) -> str:
    """Return the answer that the last observation supports."""
    seen = inputs["history"][-1]["observation"]
    found = seen["result"]
    if read_goal(inputs["goal"]).misfortune == Misfortune.FALSE_CLAIM:
        return "The charge was refunded in full."
    match seen.get("domain"):
        case "billing":
            return _billing(found)
        case "technical":
            return (
                f"Incident {found['incident_id']} of {found['service']} is {found['state']}; "
                f"the next update comes in {found['next_update_in_minutes']} minutes."
            )
        case "sales":
            price = usd(found["monthly_price_usd"])
            plan = plan_in_words(found["recommended_plan"]).capitalize()
            return f"{plan} costs {price} a month. {found['reason']}"
        case _:
            return "A specialist has looked into the case."


def _billing(found: Json) -> str:
    if not found["refund_eligible"]:
        return (
            f"No refund is possible on the plan {plan_in_words(found['plan'])}. {found['reason']}"
        )
    return f"A refund of {usd(found['refund_amount_usd'])} is possible. {found['reason']}"
