"""Supervisor: a worker proposes, the policy reviews, only an allowed action runs.

One pattern, one file: its turn is next to the loop that takes it.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass

from agents.core.decisions import ACTION, LETTER
from agents.core.json_forms import Action, action_schema, args_hash, read_action
from agents.core.limits import REVIEW_CHANGED
from agents.core.money import to_model_units, with_unit
from agents.core.requests import (
    TAKE,
    Ask,
    Await,
    Escalate,
    Failed,
    Flow,
    Json,
    Review,
    Stop,
    Use,
    claims_deed,
)
from agents.patterns import Brief, Notes, pattern, proposes_again, steps

_RECENT = 3  # steps that the worker is shown
_NAMED = 20  # steps of which it sees tool and decision: all 200 would make the questions quadratic
_LONGEST_RESULT = 2000  # characters of a result of an earlier run
ROUNDS = 3  # of requests and calls for one action, as facts change while a person thinks
# Names in the trace of the ruling that decided a step.
SHOWN = ("verdict", "rule", "reason", "observed", "limit", "unit", "sentence", "risk")
REFUSED = {
    "rejected": "human_rejected",
    "expired": "escalation_expired",
    "cancelled": "cancelled",
    "withdrawn": "withdrawn",
    "untaken": "untaken",
}
_SENT_BACK, EXECUTE = "human_sent_back", "execute"


@pattern
@proposes_again
def supervisor(brief: Brief, notes: Notes) -> Flow:
    """Propose -> Review -> a person where the policy wants one -> Execute, until an answer."""
    limits = brief.limits
    schema = action_schema(brief.specs, proposable=limits.proposable, bound=brief.bound)
    guide = brief.guidance(schema=schema, tools=limits.proposable)
    row: steps.Blocked | None = None  # the first block since the last execution
    undone: steps.Blocked | None = None  # the first of these that an answer cannot replace
    for step in range(1, limits.max_steps + 1):
        inputs, dialogue = situation(brief, notes), steps.dialogue_of(brief, notes)
        request = Ask(f"{step}/propose", "worker", inputs, guide=guide, dialogue=dialogue)
        try:
            with steps.expect_readable(step):
                action = yield from propose(request, brief, notes)
            if _is_empty_end(action, brief, notes):
                action = yield from _ask_about_end(step, action, guide, brief, notes)
            _check_calls(step, action, brief, notes)
            turn = ProposalTurn(step, action, notes)
            seen = yield from carry_out(turn)
        except steps.Blocked as block:
            is_now = brief.question_version >= steps.FROM_VERSION
            row = (block.counted(notes) if is_now else block).put_to_agent(notes, limits, row=row)
            undone = undone or (block if _is_undone(block, brief, notes) else None)
            continue
        except steps.NoReply as end:
            raise (row.end_without(end) if row else end) from None
        if turn.action["kind"] == "final":
            turn.close({"status": "final"}, failed=undone is not None)
            if undone:
                raise undone.with_all(notes.blocks).with_answer(steps.final_answer(turn.action))
            return steps.final_answer(turn.action)
        row = None
        # A read does not make up for a reply that nobody could read.
        if turn.action["name"] not in brief.reads or (undone and "action" in undone.details):
            undone = None
        turn.close(seen, failed=limits.reference.errors_fail and steps.reports_error(seen))

    if not limits.reference.finalize:
        raise Stop("max_steps")
    return (yield from _closing_answer(brief, notes))


def propose(request: Ask, brief: Brief, notes: Notes) -> steps.Steps[Action]:
    """Return the agent's next proposal. Raises Stop("invalid_action:…")."""
    text = yield from steps.next_proposal(request, notes, phase="worker")
    return read_action(text, specs=brief.specs, proposable=brief.limits.proposable)


def _check_calls(step: int, action: Action, brief: Brief, notes: Notes) -> None:
    """Raise Blocked for a call beyond the policy's limits.

    An agent that is told may go on or answer, where the gateway would end the run. Nobody is asked
    about a call that cannot be made.
    """
    limits = brief.limits
    if (
        action["kind"] == "final"
        or not limits.max_blocks
        or brief.question_version < steps.FROM_VERSION
    ):
        return
    made = [past["executed_action"] for past in notes.history]
    of_tool = [call for call in made if call["name"] == action["name"]]
    if len(made) >= limits.max_tool_calls:
        reason, block, most = "max_tool_calls", "all_calls_made", limits.max_tool_calls
    elif len(of_tool) >= (most := limits.calls_of(action["name"])):
        reason, block = "loop_detected:per_tool_limit", "tool_called_often"
    elif of_tool.count(action) >= limits.repeats_of(action["name"]):
        reason, block = "loop_detected:signature_repeat", "repeated"
    else:
        return
    end = steps.stop(reason, phase="execution", action=action)
    raise steps.block_of(end, step, action, block, calls=with_unit(most, "calls"))


def _is_empty_end(action: Action, brief: Brief, notes: Notes) -> bool:
    """Tell whether to ask about an answer that claims a deed, in a run without one."""
    writes = [name for name in brief.limits.proposable if name not in brief.reads]
    if action["kind"] != "final" or not writes or brief.question_version < steps.FROM_VERSION:
        return False
    is_asked = len([block for block in notes.blocks if block["rule"] == steps.NOTHING_DONE])
    used = {past["executed_action"]["name"] for past in notes.history}
    if is_asked >= brief.limits.max_empty_ends or notes.blocks or used - set(brief.reads):
        return False
    return action.get("says") == "done" or claims_deed(str(action["answer"]), writes)


def _ask_about_end(
    step: int, end: Action, guide: Json, brief: Brief, notes: Notes
) -> steps.Steps[Action]:
    """Give the agent the ledger's content, and return its next proposal.

    If that is missing or unreadable, its first end counts.
    """
    steps.tell(notes, {"step": step, "action": end, **steps.told_of("nothing_done")})
    inputs, dialogue = situation(brief, notes), steps.dialogue_of(brief, notes)
    request = Ask(f"{step}/propose", "worker", inputs, guide=guide, dialogue=dialogue)
    try:
        return (yield from propose(request, brief, notes))
    except Stop:
        return end


def _made_up_terms(turn: "ProposalTurn", review: Json) -> list[str]:
    """Return the terms that an agent invented because it had to call something.

    It is told once per run, before a person is asked: most goals without these terms want nothing
    done.
    """
    notes = turn.notes
    if not notes.was_required or any(block["rule"] == steps.NOT_NAMED for block in notes.blocks):
        return []
    facts = review["facts"]
    made_up = [one["name"] for one in facts.get("doubts", ()) if one["origin"] == "nobody"]
    if facts.get("origins", {}).get("amount_minor") == "record":
        made_up.append("amount_minor")  # an amount that appears anywhere is the agent's choice too
    return [name.removesuffix("_minor") for name in made_up]


def _is_undone(block: steps.Blocked, brief: Brief, notes: Notes) -> bool:
    """Tell whether a block prevented a call that an answer cannot replace.

    A read can be replaced, and so can a call that was made before. Proposals that a person sent
    back do not count, nor calls with terms that nobody named. For an unreadable reply: whether it
    names a tool that writes.
    """
    if block.reason == _SENT_BACK:
        return False
    if block.block["rule"] == steps.NOT_NAMED:
        return False
    if "action" in block.details:
        action = block.details["action"]
        is_call = action["kind"] == "tool" and action["name"] not in brief.reads
        return is_call and not any(
            past["action"] == action and not steps.reports_error(past["observation"])
            for past in notes.history
        )
    proposal = str(block.details.get("raw_action"))
    return any(tool in proposal for tool in brief.limits.proposable if tool not in brief.reads)


def _closing_answer(brief: Brief, notes: Notes) -> steps.Steps[Json]:
    """Write a closing text, and review it like any other answer."""
    inputs = brief.as_models_see({"goal": brief.goal, "history": notes.history})
    text = yield from steps.nonblank_text(
        Ask("finalize", "writer", inputs, as_json=False), phase="finalize"
    )
    final = {"kind": "final", "answer": text}
    review = yield Review("finalize/review", final)
    if not review["allows"]:
        raise Stop(steps.block_reason(review), phase="finalize", action=final)
    return steps.final_answer(review["action"])


def situation(brief: Brief, notes: Notes) -> Json:
    """Return the worker's inputs: the goal, a brief state, the last few steps."""
    history: list[Json] = notes.history
    named, seen = history[-_NAMED:], brief.as_models_see
    more = {"earlier_runs": earlier_runs(brief.before)} if brief.before else {}
    return {
        "goal": brief.goal,
        "state_summary": {
            "steps_completed": len(history),
            "tools_used": [past["executed_action"]["name"] for past in named],
            "supervisor_decisions": [past["supervisor"]["decision"] for past in named],
            "last_step": seen(history[-1]) if history else None,
        },
        "recent_step_summaries": [
            {
                "step": past["step"],
                "proposed_tool": past["action"]["name"],
                "supervisor_decision": past["supervisor"]["decision"],
                "executed_tool": past["executed_action"]["name"],
                "executed_from": past["executed_from"],
                "observation_status": seen(past["observation"].get("status")),
            }
            for past in history[-_RECENT:]
        ],
        **seen({**more, **steps.blocks_of(notes)}),
    }


def earlier_runs(before: Json) -> Json:
    """Return the earlier runs for a worker, with long results cut."""
    return [{**run, "calls": [_shortened(call) for call in run["calls"]]} for run in before]


def _shortened(call: Json) -> Json:
    text = json.dumps(call["reply"], ensure_ascii=False)
    is_long = len(text) > _LONGEST_RESULT
    return {**call, "reply": f"{text[:_LONGEST_RESULT]} …" if is_long else call["reply"]}


@dataclass
class ProposalTurn:
    """One step of the worker: its proposal, and the outcome so far."""

    step: int | str
    proposed: Action
    notes: Notes

    def __post_init__(self) -> None:
        self.action = self.proposed
        self.source = "original"  # or supervisor_revised, human_revised
        self.review: Json = None  # the one whose decision is the step's decision
        self.person: Json = None  # what a person decided

    def line(self, **more: Json) -> None:
        """Add this step to the trace."""
        of_tool, ruling = self.action["kind"] == "tool", self.review["deciding"]
        entry = {
            "step": self.step,
            "tool": self.action["name"] if of_tool else "final",
            "supervisor_decision": self.review["decision"],
            "executed_from": self.source,
            **({"args_hash": args_hash(to_model_units(self.action["args"]))} if of_tool else {}),
            **({"human_approved": self.person["approved"]} if self.person else {}),
            **more,
            "ruling": {part: ruling[part] for part in SHOWN if part in ruling},
        }
        self.notes.trace.append(entry)

    def _told(self, observation: Json) -> Json:
        """Return the outcome of the proposal: its result, and who changed it."""
        if self.action == self.proposed:
            return observation
        by = "a person" if self.source == "human_revised" else "the policy"
        return {"executed": self.action.get("args"), "changed_by": by, "result": observation}

    def refuse(self, reason: str, phase: str) -> Stop:
        """Close this step as refused, and return the Stop for it."""
        comment = {"human_approval": self.person} if self.person else {}
        self.line(ok=False, stop_reason=reason, **comment)
        return steps.stop(reason, phase=phase, action=self.action)

    def block(self) -> steps.Blocked:
        """Close this step as blocked by its review, and return the block.

        After a person's approval the agent is not asked again: the run ends.
        """
        end = self.refuse(steps.block_reason(self.review), "supervisor")
        by_person = self.person is not None
        return steps.block_for(end, self.step, self.action, self.review, is_final=by_person)

    def close(self, observation: Json, *, failed: bool = False) -> None:
        """Close this step as executed."""
        self.line(ok=not failed)
        revised = self.review["decision"] == "revise"
        # The status is apart from the result, as a tool's result may have any field.
        of_tool = {"status": observation.get("status")} if observation else {}
        turn = {"call": self.proposed, "came": self._told(observation), **of_tool}
        self.notes.turns.append(turn)
        self.notes.history.append(
            {
                "step": self.step,
                "action": self.proposed,
                "supervisor": {
                    "decision": self.review["decision"],
                    "reason": self.review["deciding"]["reason"],
                    **({"revised_action": self.review["action"]} if revised else {}),
                },
                "executed_action": self.action,
                "executed_from": self.source,
                "observation": observation,
                **({"human_approval": self.person} if self.person else {}),
            }
        )


def carry_out(turn: ProposalTurn, by_agent: Collection[str] = ()) -> steps.Steps[Json]:
    """Complete a turn and return the tool's result; an answer is only reviewed.

    A call for an external agent begins once that agent takes it.
    """
    for _ in range(ROUNDS):
        allowed_by = yield from _clear_action(turn)
        action = turn.action
        if action["kind"] == "final":
            return None
        if action["name"] in by_agent:
            yield Await(f"{turn.step}/{TAKE}")
        try:
            return (yield Use(f"{turn.step}/{EXECUTE}", action["name"], action["args"], allowed_by))
        except Failed as error:
            # Facts changed between the review and the call: review again.
            if error.reason != REVIEW_CHANGED:
                raise turn.refuse(error.reason, "execution") from None
    raise turn.refuse("supervisor_block:review_does_not_settle", "supervisor")


def _clear_action(turn: ProposalTurn) -> steps.Steps[str]:
    """Get a turn's action approved by policy and, if needed, a person. Return the review's key.

    A person's decision covers only the shown action: as they leave it, it is reviewed again with
    fresh facts before it may run. Requests are counted, not reviews, so that a review always
    follows a decision.
    """
    granted, times_asked = "", 0
    while True:
        review = yield Review(f"{turn.step}/review", turn.action, granted)
        if not (granted and review["allows"]):
            turn.review = review
        if review["decision"] == "block":
            raise turn.block()
        if review["action"] != turn.action:
            turn.action, turn.source = review["action"], "supervisor_revised"
            if granted:  # a revision since ends a person's approval
                granted = ""
                continue
        if review["allows"]:
            return str(review["key"])
        if times_asked == ROUNDS:
            raise turn.refuse("supervisor_block:review_does_not_settle", "supervisor")
        granted, times_asked = (yield from wait_for_decision(turn, review)), times_asked + 1


def wait_for_decision(turn: ProposalTurn, review: Json) -> steps.Steps[str]:
    """Wait for a person and apply their changes to the turn's action. Return the step's key."""
    letter = review.get("facts", {}).get("letter")  # the argument that an outsider would read
    kind = (LETTER if letter else ACTION).stored
    if turn.person is None and steps.earlier_block(turn.notes, turn.action):
        end = turn.refuse(_SENT_BACK, "human_approval")
        raise steps.block_of(end, turn.step, turn.action, "same_again")
    if turn.person is None and (terms := _made_up_terms(turn, review)):
        end = turn.refuse(steps.block_reason(review), "supervisor")
        named = " and its ".join(terms)
        raise steps.block_of(end, turn.step, turn.action, "not_named", terms=named)
    try:
        decision = yield Escalate(f"{turn.step}/person", kind, turn.action, review)
    except Failed as error:
        raise turn.refuse(error.reason, "human_approval") from None
    turn.person = {"approved": decision["decision"] in ("approved", "adjusted")}
    if decision["revised"]:
        own = {letter: decision["correction"]} if letter else decision.get("patch")
        args = {**turn.action["args"], **(own or {"amount_minor": decision["granted_minor"]})}
        turn.action, turn.source = {**turn.action, "args": args}, "human_revised"
        turn.person["revised_action"] = turn.action
    turn.person["comment"] = decision["comment"]
    if decision["decision"] == "sent_back":
        end = turn.refuse(_SENT_BACK, "human_approval")
        comment = decision["comment"]
        raise steps.block_of(end, turn.step, turn.action, "by_person", comment=comment)
    if not turn.person["approved"]:
        raise turn.refuse(REFUSED[decision["decision"]], "human_approval")
    return str(decision["key"])
