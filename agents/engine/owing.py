"""Whether a run still owes somebody a letter about money that it has moved."""

from __future__ import annotations

from agents.core.limits import Limits
from agents.engine import simulation
from agents.engine.journal import Journal
from agents.models import Step
from agents.systems import SYSTEMS


def owes_letter(journal: Journal, limits: Limits) -> bool:
    """Tell whether a run has moved money since its last letter and may still write one.

    Until it has, its time is not what ends it: nobody would be told.
    """
    system = SYSTEMS.get(journal.run.desk)
    if system is None or not system.notice or not limits.first_limit(system.notice.limit):
        return False
    registered = simulation.registry(journal.run)
    letters = {n for n, tool in registered.items() if tool.letter and "amount_usd" in tool.spec}
    letters &= set(limits.executable)
    owes = False
    for step in list(journal.uses):
        if _is_done(step):
            if step.asked["tool"] in letters:
                owes = False
            elif "amount_minor" in step.asked["args"]:
                owes = bool(letters)
    return owes


def moves_money(journal: Journal, tool: str) -> bool:
    """Tell whether a tool is one that a letter is written about."""
    known = simulation.registry(journal.run).get(tool)
    return known is not None and "amount_usd" in known.spec and not known.letter


def _is_done(step: Step) -> bool:
    reply = step.reply
    return isinstance(reply, dict) and reply.get("status") == "ok"
