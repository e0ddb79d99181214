"""The demo model's replies in a desk's scenarios, without the key of a real model."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from agents.core.requests import Json
from agents.core.workflows import BadWorkflow, read_workflow

# What it says of a goal that is no scenario.
ONLY_SCENARIOS = "The demo model plays scenarios only: launch one, or connect a model of your own."
# What a planner is told besides what the report is about.
OF_PLANNER = {"goal", "max_tasks", "blocked", "desk", "more_tools"}
PATTERN_OF = {  # of what asks a model in this role
    "worker": "supervisor",
    **dict.fromkeys(("router", "responder"), "routing"),
    **dict.fromkeys(("planner", "reporter"), "orchestrator"),
    **dict.fromkeys(("committer", "executor", "assessor", "judge"), "workflow"),
}


@dataclass(frozen=True)
class DayAhead:
    """A day counted from that of the run."""

    days: int

    def on(self, today: date) -> str:
        return (today + timedelta(days=self.days)).isoformat()


def in_days(days: int) -> DayAhead:
    return DayAhead(days)


class Says:
    """The model proposes a call; arguments as JSON, days by `in_days`."""

    def __init__(self, tool: str, /, **args: Any) -> None:
        self.tool, self.args = tool, args

    def reply(self, today: date) -> Json:
        args = {
            name: value.on(today) if isinstance(value, DayAhead) else value
            for name, value in self.args.items()
        }
        return {"kind": "tool", "name": self.tool, "args": args}


@dataclass(frozen=True)
class Answers:
    """The model ends the run; the console puts the answer in the ledger's words."""

    text: str = "Done."

    def reply(self, today: date) -> Json:
        return {"kind": "final", "answer": self.text}


class Routes:
    """The router hands the case to a specialist."""

    def __init__(self, specialist: str, ticket: str) -> None:
        self.specialist, self.ticket = specialist, ticket

    def reply(self, today: date) -> Json:
        return {"kind": "route", "target": self.specialist, "args": {"ticket": self.ticket}}


class Plans:
    """The planner asks these sources; the report is then written with the text of `Answers`."""

    def __init__(self, *sources: str) -> None:
        self.sources = sources


class ScriptStep:
    """A step of a workflow: the calls that its agent makes, then what it puts out.

    A second one of the same name is said once the step was sent back.
    """

    def __init__(self, name: str, *said: Says | str) -> None:
        self.name = name
        self.calls = [one for one in said if isinstance(one, Says)]
        self.text = next((one for one in said if isinstance(one, str)), "Done.")


@dataclass(frozen=True)
class Judge:
    """The judge's first verdict on a step: reorient, ask_human or halt. It lets others stand."""

    step: str
    verdict: str
    reason: str
    correction: str = ""  # what to do otherwise
    question: str = ""  # to a person


_LINES: Mapping[str, tuple[type[Any], ...]] = {
    "supervisor": (Says, Answers),
    "routing": (Routes, Answers),
    "orchestrator": (Plans, Answers),
    "workflow": (ScriptStep, Judge),
}


def check_script(
    title: str, demo: Sequence[Any], pattern: str, known: Collection[str], workflow: Json
) -> Iterator[Says]:
    """Yield the calls of a scenario's lines. Raises TypeError for a line that cannot be said.

    `known` are the desk's specialists or sources, and `workflow` is the document that it follows.
    """
    steps = [step.name for step in _steps_of(title, workflow)] if workflow else []
    told = [line.name for line in demo if isinstance(line, ScriptStep)]
    if missing := [name for name in steps if demo and name not in told]:
        raise TypeError(f"scenario {title!r}: no Step says what {missing[0]} puts out")
    for line in demo:
        if not isinstance(line, _LINES[pattern]):
            can = " and ".join(kind.__name__.removeprefix("Script") for kind in _LINES[pattern])
            raise TypeError(f"scenario {title!r}: in {pattern}, models say {can}")
        named = {Routes: "specialist", Plans: "sources", ScriptStep: "name", Judge: "step"}
        name = getattr(line, named.get(type(line), ""), ())
        for one in (name,) if isinstance(name, str) else name:
            if one not in (steps or known):
                raise TypeError(f"scenario {title!r}: nothing above it is called {one}")
        yield from [line] if isinstance(line, Says) else getattr(line, "calls", ())


def _steps_of(title: str, workflow: Json) -> list[Any]:
    try:
        return [step for step, _ in read_workflow(workflow).steps]
    except BadWorkflow as error:
        raise TypeError(f"scenario {title!r}: {error}") from None


def spoken(
    demo: Sequence[Any], role: str, inputs: Json, today: date, *, critical: Collection[str]
) -> str:
    """Return what the model of a scenario says in a role, as it would arrive.

    `critical` are the sources that are; without a scenario, it says so.
    """
    if not demo:
        return _without_scenario(role, inputs)
    if role in ("responder", "reporter"):
        return next((line.text for line in reversed(demo) if isinstance(line, Answers)), "Done.")
    if role == "planner":
        return json.dumps(_plan(demo, inputs, critical))
    if PATTERN_OF[role] == "workflow":
        said = _OF_STEP[role](demo, inputs, today)
        return said if isinstance(said, str) else json.dumps(said)
    so_far = "attempts_completed" if role == "router" else "steps_completed"
    lines = [line for line in demo if role != "router" or isinstance(line, Routes)]
    return json.dumps(lines[min(inputs["state_summary"][so_far], len(lines) - 1)].reply(today))


def _without_scenario(role: str, inputs: Json) -> str:
    if role == "worker" or inputs.get("answer_as") == "action":
        return json.dumps({"kind": "final", "answer": ONLY_SCENARIOS})
    if role == "judge":
        return json.dumps(_verdict("halt", ONLY_SCENARIOS))
    return ONLY_SCENARIOS


def _plan(demo: Sequence[Any], inputs: Json, critical: Collection[str]) -> Json:
    [asked] = [line.sources for line in demo if isinstance(line, Plans)]
    args = {name: inputs[name] for name in inputs if name not in OF_PLANNER}
    tasks = [
        {"id": f"t{number}", "worker": name, "args": args, "critical": name in critical}
        for number, name in enumerate(asked, 1)
    ]
    return {"kind": "plan", "tasks": tasks}


def _is_corrected(inputs: Json) -> bool:
    return "\n\n" in inputs["instruction"]


def _execute(demo: Sequence[Any], inputs: Json, today: date) -> Json:
    lines = [one for one in demo if isinstance(one, ScriptStep) and one.name == inputs["step"]]
    line = lines[-1 if _is_corrected(inputs) else 0]
    if inputs["answer_as"] == "action":
        left = line.calls[len(inputs["done"]) :]
        return left[0].reply(today) if left else {"kind": "final", "answer": line.text}
    if inputs["answer_as"] == "iteration":
        return {"result": line.text, "converged": True}
    return line.text


def _commit(demo: Sequence[Any], inputs: Json, today: date) -> Json:
    return {
        "interpretation": f"Do the step {inputs['step']} as described.",
        "scope_in": [*(f"call {tool}" for tool in inputs["tools"]), "write what is asked for"],
        "scope_out": [],
        "approach": "Use what earlier steps found and nothing else.",
        "predicted_output": "A short text.",
        "confidence": "high",
        "assumptions": [],
    }


def _assess(demo: Sequence[Any], inputs: Json, today: date) -> Json:
    return {"met_commitment": True, "deviations": [], "concerns": [], "unexpected": []}


def _judge(demo: Sequence[Any], inputs: Json, today: date) -> Json:
    mine = [one for one in demo if isinstance(one, Judge) and one.step == inputs["step"]]
    if mine and not _is_corrected(inputs):
        first = mine[0]
        return _verdict(first.verdict, first.reason, first.correction, first.question)
    return _verdict("continue", "The output is what the step asks for.")


def _verdict(word: str, reason: str, correction: str = "", question: str = "") -> Json:
    told = {"correction": correction, "question": question, "reason": reason}
    return {"verdict": word, **told}


_OF_STEP = {"committer": _commit, "executor": _execute, "assessor": _assess, "judge": _judge}
