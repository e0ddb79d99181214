"""The demo model as worker: context, refund, email, answer."""

from __future__ import annotations

import json

from agents.core.names import plan_in_words
from agents.core.requests import Json
from agents.desks.refunds.demo.goals import ANNA, MAX, Goal, Misfortune, read_goal
from agents.desks.refunds.demo.writer import told_of_refund, usd, who_is

CONTEXT, REFUND, MAIL = "get_refund_context", "issue_refund", "send_refund_email"
SENT_BACK = "person.sent_back"  # in place of a rule, if a person sent it back
PAID_BEFORE = "refunds.same_again"
UNCHECKED_USD = 100.0  # proposed if neither the goal nor the context names an amount
_REASONS = {
    "refund_exceeds_last_charge": "the amount is more than the last charge",
    "refund_amount_must_be_positive": "the amount is not above zero",
}


def worker_reply(inputs: Json) -> str:
    """Return the worker's next proposal as it would arrive: JSON, or broken JSON."""
    goal = read_goal(inputs["goal"])
    proposal = json.dumps(_proposal(goal, inputs))
    if goal.misfortune == Misfortune.BROKEN_JSON and '"issue_refund"' in proposal:
        return proposal[: len(proposal) // 2]
    return proposal


def _proposal(goal: Goal, inputs: Json) -> Json:
    last = inputs["state_summary"]["last_step"]
    if (blocked := inputs.get("blocked")) and blocked[-1]["rule"] == SENT_BACK:
        return _heeding(blocked[-1])
    if last is None:
        return _refund(goal, {}) if goal.misfortune == Misfortune.NO_CONTEXT else _context(goal)
    done, seen = last["executed_action"], last["observation"]
    match done["name"]:
        case "get_refund_context" if blocked and blocked[-1]["rule"] == PAID_BEFORE:
            return _mail(blocked[-1]["action"]["args"])  # by the run that this one repeats
        case "get_refund_context":
            return _after_context(goal, seen)
        case "issue_refund":
            return _after_refund(goal, done, seen)
        case _:
            return _after_mail(done, seen, inputs["recent_step_summaries"])


def _heeding(block: Json) -> Json:
    """Propose the amount that a person named when sending a refund back, if any."""
    args = block["action"].get("args", {})
    amount = read_goal(block["sentence"]).amount_usd
    if block["action"].get("name") != REFUND or amount in (None, args.get("amount_usd")):
        return _final("Nothing was refunded: a reviewer sent the request back.")
    return _tool(REFUND, **{**args, "amount_usd": amount})


def _context(goal: Goal) -> Json:
    return _tool(CONTEXT, user_id=goal.customer)


def _after_context(goal: Goal, seen: Json) -> Json:
    if goal.misfortune == Misfortune.LOOP:
        return _context(goal)
    billing = seen.get("billing") or {}
    if "user" not in seen:
        return _final(f"Nothing was refunded: customer {goal.customer} is not known.")
    if not billing:
        return _final(f"{who_is(goal.customer, seen)}. There is no charge to refund.")
    if goal.misfortune == Misfortune.FALSE_CLAIM:
        amount = goal.amount_usd or billing["last_charge_usd"]
        return _final(f"{usd(amount)} was refunded to customer {goal.customer}.")
    if not goal.wants_refund:
        return _final(f"{who_is(goal.customer, seen)}. [[charge]] [[window]]")
    return _refund(goal, billing)


def _refund(goal: Goal, billing: Json) -> Json:
    customer = goal.customer
    if goal.misfortune == Misfortune.STRANGER:
        customer = ANNA if customer == MAX else MAX
    amount = goal.amount_usd
    if amount is None:
        amount = billing.get("last_charge_usd", UNCHECKED_USD)
    args = {"user_id": customer, "amount_usd": amount}
    if goal.misfortune != Misfortune.NO_REASON:
        args["reason"] = _reason(billing)
    return _tool(REFUND, **args)


def _reason(billing: Json) -> str:
    if not billing:
        return "Customer asked for a refund"
    days = billing["days_since_payment"]
    return (
        f"Customer asked for a refund of {plan_in_words(billing['plan'])}, charged {days} days ago"
    )


def _after_refund(goal: Goal, done: Json, seen: Json) -> Json:
    if seen.get("status") != "ok":
        error = str(seen.get("error", ""))
        why = _REASONS.get(error, error.replace("_", " ") or "the refund did not go through")
        return _final(f"Nothing was refunded: {why}.")
    if goal.misfortune == Misfortune.TWICE:
        return _tool(REFUND, **{**done["args"], "reason": "The customer asks once more"})
    return _mail(seen["refund"])


def _mail(refund: Json) -> Json:
    message = f"Your refund of {usd(refund['amount_usd'])} was issued."
    return _tool(MAIL, user_id=refund["user_id"], amount_usd=refund["amount_usd"], message=message)


def _after_mail(done: Json, seen: Json, recent: Json) -> Json:
    by_person = any(
        past["executed_tool"] == REFUND and past["executed_from"] == "human_revised"
        for past in recent
    )
    answer = told_of_refund(
        done["args"]["amount_usd"],
        customer=done["args"]["user_id"],
        mailed=seen.get("status") == "ok",
    )
    return _final(f"{answer} A person set the amount." if by_person else answer)


def _tool(name: str, **args: Json) -> Json:
    return {"kind": "tool", "name": name, "args": args}


def _final(answer: str) -> Json:
    return {"kind": "final", "answer": answer}
