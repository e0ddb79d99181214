"""The demo model as the agent of a workflow's steps.

It commits to its instruction, reads the customer's context, writes what it read, and sends the
checked text. It never admits a deviation, so only the evidence reveals one.
"""

from __future__ import annotations

import json

from agents.core.names import plan_in_words
from agents.core.requests import Json
from agents.desks.refunds.demo.goals import Goal, Misfortune, read_goal
from agents.desks.refunds.demo.worker import SENT_BACK
from agents.desks.refunds.demo.writer import usd, who_is

CONTEXT, REPLY = "get_refund_context", "send_reply"
NOT_KNOWN = "is not known."


def commitment_reply(inputs: Json) -> str:
    """Return the agent's commitment for a step."""
    tools = [f"call {tool}" for tool in inputs["tools"]]
    return json.dumps(
        {
            "interpretation": f"Do the step {inputs['step']} as described.",
            "scope_in": [*tools, "write the text that is asked for"],
            "scope_out": ["moving money", "writing to anybody else"],
            "approach": "Use what earlier steps found and nothing else.",
            "predicted_output": "A short text in plain sentences.",
            "confidence": "high",
            "assumptions": [],
        }
    )


def execution_reply(inputs: Json) -> str:
    """Return the agent's next reply in the requested form."""
    match inputs["answer_as"]:
        case "action":
            return json.dumps(_action(inputs))
        case "iteration":
            text = inputs["iterations"][-1] if inputs["iterations"] else _last(inputs)
            wants_more = read_goal(inputs["goal"]).misfortune == Misfortune.UNSATISFIED
            satisfied = bool(inputs["iterations"]) and not wants_more
            return json.dumps({"result": text, "converged": satisfied})
        case _:
            return _text(inputs)


def assessment_reply(inputs: Json) -> str:
    """Return the agent's assessment: as committed, whatever it did."""
    return json.dumps({"met_commitment": True, "deviations": [], "concerns": [], "unexpected": []})


def _action(inputs: Json) -> Json:
    """Return the one call of the step's tool, then the output."""
    goal = read_goal(inputs["goal"])
    if any(block["rule"] == SENT_BACK for block in inputs.get("blocked", ())):
        return {"kind": "final", "answer": "No reply was sent: a reviewer sent it back."}
    if not inputs["done"]:
        reply = {"message": _last(inputs)} if REPLY in inputs["tools"] else {}
        args = {"user_id": goal.customer, **reply}
        return {"kind": "tool", "name": inputs["tools"][0], "args": args}
    call = inputs["done"][-1]
    seen = call["observation"]
    if call["name"] == CONTEXT:
        return {"kind": "final", "answer": _facts(goal, seen)}
    sent = seen.get("status") == "ok"
    answer = f"The reply was sent to {seen['email']['to']}." if sent else "No reply was sent."
    return {"kind": "final", "answer": answer}


def _facts(goal: Goal, seen: Json) -> str:
    billing = seen.get("billing") or {}
    if not billing:
        return f"Customer {goal.customer} {NOT_KNOWN}"
    return (
        f"{who_is(goal.customer, seen)} with the plan {plan_in_words(billing['plan'])}; the "
        f"last charge was {usd(billing['last_charge_usd'])}, "
        f"{billing['days_since_payment']} days ago. The refund window is "
        f"{seen['policy_hint']['refund_window_days']} days."
    )


def _text(inputs: Json) -> str:
    facts = inputs["earlier_outputs"].get("facts", "Nothing is known.")
    if "agent_outputs" in inputs:
        return _memo(facts, inputs["agent_outputs"])
    if "agent" in inputs:
        side = "The customer has been loyal" if inputs["agent"] == "for" else "The terms are clear"
        return f"{side}. {facts}"
    corrected = "\n\n" in inputs["instruction"]
    misfortune = read_goal(inputs["goal"]).misfortune
    if misfortune == Misfortune.OWN_WORDS and not corrected:
        return f"[[greeting]]\n\nThank you for your question. As promised we know that {facts}"
    if misfortune == Misfortune.FALSE_CLAIM and not corrected:
        return "[[greeting]]\n\nYour charge was refunded in full. [[charge]]"
    if facts.endswith(NOT_KNOWN):
        return "Hello,\n\nThank you for your question. We are looking into it."
    thanks = "Thank you for your question. Here is what we see:"
    return f"[[greeting]]\n\n{thanks}\n\n[[charge]] [[window]]"


def _memo(facts: str, found: dict[str, str]) -> str:
    sides = "\n".join(f"{name}: {text.partition('. ')[0]}." for name, text in found.items())
    fields = json.dumps({"recommendation": "keep to the terms", "amount": 0})
    return f"{facts}\n{sides}\nRecommendation: keep to the terms.\n\n{fields}"


def _last(inputs: Json) -> str:
    """Return the output of the previous step."""
    return str(list(inputs["earlier_outputs"].values())[-1])
