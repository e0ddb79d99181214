"""The words for a step's key, such as `memo/agents/against/task/execute`."""

from __future__ import annotations

import re

from agents.core.request_kinds import OUTPUT
from agents.core.states import EscalationState

_OF_CALL = re.compile(r"slot/[0-9]{1,4}/[0-9]{1,6}/[a-z]{1,20}(#[0-9]{1,6})?")
_PHASES = {
    "answer": "the answer to {}",
    "call": "the wait for {}",
    "commit": "the plan of {}",
    "delegate": "the specialist's answer in {}",
    "execute": "the execution of {}",
    "finalize": "the final answer",
    "hand_over": "the hand-over to a person",
    "judge": "the verdict on {}",
    "person": "the request for a person's decision on {}",
    "plan": "the plan of the run",
    "post": "the self-check of {}",
    "propose": "the agent's proposal for {}",
    "review": "the policy check of {}",
    "route": "the choice of a specialist in {}",
    "take": "the wait for the agent to take {}",
    "work": "the work on {}",
}
_VERDICTS = {
    "ask_human": "a person decides",
    "continue": "it goes on",
    "halt": "the workflow stops",
    "reorient": "it is done again with corrections",
}
_HALTS = {
    "expired": " It was not decided in time.",
    "rejected": " A reviewer rejected its output.",
    "reorients_used_up": " No further correction is allowed.",
}


def answer_in_words(decision: str, by: str, what: str) -> str:
    """Return what a person did with a step's result, as a sentence."""
    if decision == EscalationState.EXPIRED:
        return f"Nobody decided on {what} in time."
    return f"{by} {OUTPUT.did[EscalationState(decision)].format(it=what)}."


def is_answer_of_run(name: str) -> bool:
    """Tell whether a turn's final words are the run's answer, not a workflow step's output."""
    return name.isdigit() or name == "finalize"


def is_key_of_call(key: object) -> bool:
    """Tell whether a key, which may come from anywhere, is of a step of an agent's call."""
    return isinstance(key, str) and bool(_OF_CALL.fullmatch(key))


def key_of_call(key: str, number: int | None) -> str:
    """Return the key of a step of an agent's run by the number of its call, and of its end."""
    if key.startswith("end/"):
        return f"slot/{key}"
    return f"slot/#{number}/{key.rpartition('/')[2]}" if number else key


def is_of_agent(name: str) -> bool:
    """Tell whether a step is a call or the end of an agent elsewhere."""
    return name.startswith("slot/")


def _of_agent(which: str) -> str:
    if which == "end":
        return "the agent's last words"
    return f"call {which[1:]}" if which.startswith("#") else "a call of the agent"


def step_in_words(name: str) -> str:
    """Return a step's name: "step 2", "step “memo”, agent “against”", "task 1"."""
    first, *rest = name.split("/")
    if first == "dispatch" and rest:
        return f"task {rest[0].removeprefix('t')}"  # plans number them t1, t2
    if first == "slot" and rest:
        return _of_agent(rest[0])
    if first in ("plan", "finalize"):
        return _PHASES[first]
    words = f"step {first}" if first.isdigit() else f"step “{first}”"
    if len(rest) > 1 and (part := rest[0].partition("#"))[0] == "agents":
        again = f", round {part[2]}" if part[2] else ""
        return f"{words}, agent “{rest[1]}”{again}"
    if rest:
        words += f", action {rest[0]}" if rest[0].isdigit() else f", {rest[0].replace('_', ' ')}"
    return words


def phase_in_words(key: str) -> str:
    """Return a key's phase and step as an object: "the execution of step 2 (no. 2)"."""
    name, _, last = key.rpartition("/")
    phase, _, nth = last.partition("#")
    words = _PHASES.get(phase, "{}").format(step_in_words(name or phase))
    return f"{words} (no. {nth})" if nth else words


def verdict_in_words(verdict: str) -> str:
    return _VERDICTS.get(verdict, verdict)


def halt_in_words(why: str) -> str:
    """Return the sentence for a reason code; "" for a reason in a model's words."""
    return _HALTS.get(why, "")
