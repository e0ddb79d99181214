"""The demo model as judge: it considers triggers and output, and errs on demand."""

from __future__ import annotations

import json

from agents.core.requests import Json
from agents.desks.refunds.demo.goals import Misfortune, read_goal

CORRECTION = "Claim no refund, because the ledger holds none. Say only what the facts say."


def judge_reply(inputs: Json) -> str:
    """Return the verdict on one round of a step."""
    match read_goal(inputs["goal"]).misfortune:
        case Misfortune.HALT:
            return _verdict("halt", reason="The case is on legal hold.")
        case Misfortune.UNSURE if _in_doubt(inputs):
            question = "The tone is a matter of taste. May this draft be used?"
            return _verdict("ask_human", question=question, reason="Nothing decides it.")
        case Misfortune.BABBLE:
            return "Well, it all looks rather nice to me!"
    doubts = list(inputs["triggers"])
    if "refunded in full" in inputs.get("output", ""):  # the shipped workflows claim no refund
        doubts.append("It claims a refund.")
    if doubts:
        return _verdict("reorient", correction=CORRECTION, reason=doubts[0])
    return _verdict("continue", reason="The output stays within what was committed to.")


def _in_doubt(inputs: Json) -> bool:
    """Tell whether this is what it asks a person about: the first text, the first time.

    A step that called a tool looks something up, and one that is run again heeds an answer.
    """
    is_text = not inputs["done"] and len(inputs["earlier_outputs"]) < 2
    return is_text and "\n\n" not in inputs["instruction"]


def _verdict(word: str, *, correction: str = "", question: str = "", reason: str) -> str:
    return json.dumps(
        {"verdict": word, "correction": correction, "question": question, "reason": reason}
    )
