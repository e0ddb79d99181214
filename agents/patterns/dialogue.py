"""An agent's dialogue by calls: what it proposed so far, what came of it, and what it says next.

A server that speaks `tools` gets it as messages. It follows from earlier steps, so no step keeps
it; and a reply may propose several calls, which are reviewed one after another.
"""

from __future__ import annotations

from agents.core.requests import Ask, Json
from agents.core.results import asks_only
from agents.patterns import Brief, Notes
from agents.patterns.blocks import is_by_person
from agents.patterns.steps import Steps, reply_to, reports_error

FROM_VERSION = 4  # of the patterns' requests; and under `reference` an agent writes an object
MOST_TURNS = 20  # shown at least, where there are as many, and at most twice as many
REACHED = (
    "This was carried out. Go on only if more was asked for; else end now, and say what was done."
)
BLOCKED_OFTEN = 2  # blocks of calls that write, after which an agent may answer in plain text


def dialogue_of(brief: Brief, notes: Notes) -> Json:
    """Return the turns so far, oldest first, and whether a call is required; None: no dialogue.

    A goal that is only a question is offered `only` the tools that read.
    """
    if brief.question_version < FROM_VERSION or brief.limits.profile == "reference":
        return None
    # In whole portions, so that a server can reuse what it has read of the turns before.
    gone = max(0, len(notes.turns) - MOST_TURNS) // MOST_TURNS * MOST_TURNS
    turns = brief.as_models_see([_with_next_step(brief, turn) for turn in notes.turns[gone:]])
    told: dict[str, Json] = {"turns": turns, "required": not has_acted(brief, notes)}
    if asks_only(brief.goal):  # an agent that must call a tool is drawn to those that write
        told["only"] = [name for name in brief.limits.proposable if name in brief.reads]
    return told


def _with_next_step(brief: Brief, turn: Json) -> Json:
    """Return a turn in which a call that wrote says that the goal may be reached."""
    call = turn["call"] or {}
    is_write = call.get("kind") == "tool" and call["name"] not in brief.reads
    if not is_write or turn.get("status") != "ok":
        return turn
    return {**turn, "came": {**turn["came"], "next": REACHED}}


def has_acted(brief: Brief, notes: Notes) -> bool:
    """Tell whether a call that writes was carried out, held by a person or blocked twice."""
    done = (
        past["executed_action"].get("name") not in brief.reads
        and not reports_error(past["observation"])
        for past in notes.history
    )
    blocks = [block for block in notes.blocks if is_call(block) and not only_reads(brief, block)]
    return any(done) or len(blocks) >= BLOCKED_OFTEN or any(map(is_by_person, notes.blocks))


def is_call(block: Json) -> bool:
    """Tell whether a block is of a call, and neither of an answer nor of an unreadable reply."""
    return bool(block.get("action", {}).get("kind") == "tool")


def only_reads(brief: Brief, block: Json) -> bool:
    """Tell whether a block is of a call that changes nothing."""
    return block["action"]["name"] in brief.reads


def next_proposal(asked: Ask, notes: Notes, *, phase: str) -> Steps[str]:
    """Return the next proposal of the agent's last reply or, if none is left, of a new one."""
    if notes.proposed:
        return notes.proposed.pop(0)
    reply = yield from reply_to(asked, phase=phase)
    notes.proposed = list(reply.get("more", ()))
    notes.was_required = "form" in reply and asked.dialogue["required"]
    return str(reply["text"])
