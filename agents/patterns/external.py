"""External: an agent proposes calls from outside; the console reviews and executes them.

A refusal is an answer to the agent, and only the agent's own end ends the run.
"""

from agents.core.decisions import INQUIRY
from agents.core.json_forms import InvalidAction, check_action
from agents.core.requests import Await, Escalate, Failed, Flow, Json, Say, Stop, Together
from agents.patterns import Brief, Notes, pattern
from agents.patterns.steps import Steps, final_answer, reports_error, without_rule
from agents.patterns.supervisor import REFUSED, ProposalTurn, carry_out

ANSWERED = "call.answered"  # the event, and the kind of the step, that ends a call
CONTINUED = "session_continued"  # the end of a run whose session continues in another
EXECUTED, NOT_EXECUTED, UNKNOWN = "executed", "not_executed", "unknown"


@pattern
def external(brief: Brief, notes: Notes) -> Flow:
    """Await a call -> Review -> a person where the policy wants one -> Execute, until its end."""
    count = brief.slots or brief.limits.at_once
    slots = {str(n): _slot(brief, notes) for n in range(1, count + 1)}
    outcomes = yield Together("slot", slots)
    stopped = next((one.stopped for one in outcomes.values() if one.stopped), "")
    if stopped:
        raise Stop(stopped)
    last = next(one.value for one in outcomes.values())
    if isinstance(last, dict):  # it names the run in which the session continues
        raise Stop(CONTINUED)
    end = ProposalTurn("end", _read({"kind": "final", "answer": last}, brief), notes)
    yield from carry_out(end)
    end.close({"status": "final"})
    return final_answer(end.action)


def _slot(brief: Brief, notes: Notes) -> Flow:
    """Answer one call after another until the agent ends. Return its last words."""
    for number in range(1, brief.limits.max_tool_calls + 2):  # the last one is the end
        call = yield Await(f"{number}/call")
        if "end" in call:
            return call["end"]
        status, reason = yield from _answer(number, call, brief, notes)
        facts = {"call": call["call"], "status": status, "reason": reason}
        yield Say(f"{number}/answer", ANSWERED, facts)
    raise Stop("max_tool_calls")


def _answer(number: int, call: Json, brief: Brief, notes: Notes) -> Steps[tuple[str, str]]:
    """Review one call and execute it if allowed. Return its status and the reason."""
    if "withdrawn" in call:
        return NOT_EXECUTED, "withdrawn"
    if "too_large" in call:
        return NOT_EXECUTED, "invalid_action:too_large"
    if "question" in call:
        return (yield from _ask_person(number, call))
    try:
        action = _read({"kind": "tool", "name": call["name"], "args": call["args"]}, brief)
        turn = ProposalTurn(number, action, notes)
        result = yield from carry_out(turn, brief.by_agent)
    except Stop as no:
        return (UNKNOWN if no.reason == "effect_unknown" else NOT_EXECUTED), no.reason
    is_error = reports_error(result)
    turn.close(result, failed=is_error)
    is_refused = is_error and turn.action["name"] not in brief.reads
    return (NOT_EXECUTED, f"tool_error:{turn.action['name']}") if is_refused else (EXECUTED, "")


def _ask_person(number: int, call: Json) -> Steps[tuple[str, str]]:
    """Ask a person the agent's question. Nothing is executed."""
    action = {"kind": "question", "question": call["question"], "choices": call["choices"]}
    sentence = "It reads the answer, and nothing is carried out."
    review = without_rule("external.question", "agent_asks", sentence, risk=0)
    try:
        answer = yield Escalate(f"{number}/person", INQUIRY.stored, action, review)
    except Failed as no:
        return NOT_EXECUTED, no.reason
    refused = REFUSED.get(answer["decision"], "")
    return (NOT_EXECUTED if refused else EXECUTED), refused


def _read(call: Json, brief: Brief) -> Json:
    """Return the sent call as an action. Raises Stop("invalid_action:…")."""
    try:
        return check_action(call, specs=brief.specs, proposable=brief.limits.proposable)
    except InvalidAction as no:
        raise Stop(f"invalid_action:{no}", phase="agent", action=call) from None
