"""A desk's declarations for the demo: its model's replies in scenarios, and its past.

The contents of a script are next to the code that plays them.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

from agents.core.checkpoints import CONTINUE, HALT, REORIENT, Verdict
from agents.core.json_forms import parse
from agents.core.money import to_model_units
from agents.core.requests import Json
from agents.core.workflows import BadWorkflow, read_workflow

# The reply to a goal without a scenario.
ONLY_SCENARIOS = "The demo model plays scenarios only: launch one, or connect a model."
# A planner's inputs besides the scope of the report.
OF_PLANNER = {"goal", "max_tasks", "blocked", "desk", "more_tools"}
PATTERN_OF = {  # by the role that asks a model
    **dict.fromkeys(("worker", "writer"), "supervisor"),
    **dict.fromkeys(("router", "responder"), "routing"),
    **dict.fromkeys(("planner", "reporter"), "orchestrator"),
    **dict.fromkeys(("committer", "executor", "assessor", "judge"), "workflow"),
}
_LONGEST_TICKET = 300  # characters of a ticket in the goal's words
_GONE_BACK = "Nothing was done: a reviewer sent it back."
_SENT_BACK = "person.sent_back"  # instead of a rule, after a person sent a proposal back
_NUMBER = r"(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
_AMOUNT = re.compile(rf"(?:\b[A-Z]{{3}} ?|[$€£]){_NUMBER}|{_NUMBER} ?[A-Z]{{3}}\b")


class NeverAnswers(Exception):
    """A scenario's model is silent until the caller's deadline."""


@dataclass(frozen=True)
class DayAhead:
    """A day counted from the run's day."""

    days: int

    def on(self, today: date) -> str:
        return (today + timedelta(days=self.days)).isoformat()


def in_days(days: int) -> DayAhead:
    return DayAhead(days)


@dataclass(frozen=True)
class OutputOf:
    """The output of an earlier workflow step, as the value of an argument."""

    step: str


class Says:
    """The model proposes a call; arguments as JSON, days by `in_days`."""

    def __init__(self, tool: str, /, **args: Any) -> None:
        self.tool, self.args = tool, args

    def reply(self, today: date, outputs: Mapping[str, str] | None = None) -> Json:
        def value_of(value: Any) -> Any:
            if isinstance(value, DayAhead):
                return value.on(today)
            if isinstance(value, OutputOf):
                return (outputs or {}).get(value.step, "")
            return value

        args = {name: value_of(value) for name, value in self.args.items()}
        return {"kind": "tool", "name": self.tool, "args": args}


class BreaksOff(Says):
    """The model proposes a call, and only half of its reply arrives."""


class Silent:
    """The model does not answer."""


@dataclass(frozen=True)
class Answers:
    """The model ends the run; the console adds the ledger's words to the answer."""

    text: str = "Done."

    def reply(self, today: date) -> Json:
        return {"kind": "final", "answer": self.text}


class Routes:
    """The router hands the case to a specialist; without a ticket, in the goal's words."""

    def __init__(self, specialist: str, ticket: str = "") -> None:
        self.specialist, self.ticket = specialist, ticket

    def reply(self, today: date) -> Json:
        return {"kind": "route", "target": self.specialist, "args": {"ticket": self.ticket}}


class Plans:
    """The planner asks these sources; `Answers` then supplies the report's text.

    `other` is a mistaken scope of the planner.
    """

    def __init__(self, *sources: str, **other: str) -> None:
        self.sources, self.other = sources, other


class ScriptStep:
    """A step of a workflow: its agent's calls, then its output.

    A second step of the same name is the reply after the first was sent back. With several agents,
    `agents` are their texts. A step that is not `content` asks for improvement each time.
    """

    def __init__(
        self,
        name: str,
        *said: Says | OutputOf | str,
        agents: Mapping[str, str] | None = None,
        content: bool = True,
    ) -> None:
        self.name, self.agents, self.content = name, agents or {}, content
        self.calls = [one for one in said if isinstance(one, Says)]
        self.text = next((one for one in said if isinstance(one, str | OutputOf)), "Done.")


@dataclass(frozen=True)
class Judge:
    """The judge's first verdict on a step: reorient, ask_human or halt. Others are accepted."""

    step: str
    verdict: str
    reason: str
    correction: str = ""  # what to do instead
    question: str = ""  # to a person


_LINES: Mapping[str, tuple[type[Any], ...]] = {
    "supervisor": (Says, Answers, Silent),
    "routing": (Routes, Answers),
    "orchestrator": (Plans, Answers),
    "workflow": (ScriptStep, Judge),
}


Own: TypeAlias = Mapping[str, Callable[..., Any]]
_KINDS: Own = {
    "BreaksOff": BreaksOff,
    **{kind.__name__.removeprefix("Script"): kind for kinds in _LINES.values() for kind in kinds},
}


def read_script(written: Json, own: Own) -> list[Any]:
    """Return the lines of a script in JSON: ["Says", "pay", {"amount": 5}].

    Each names its kind, or one of a desk's `own` functions that return one or several lines. Values
    follow, which may be lines too, and at last those that have names.
    """
    lines: list[Any] = []
    for name, *values in written:
        named = values.pop() if values and isinstance(values[-1], dict) else {}
        values = [read_script([one], own)[0] if isinstance(one, list) else one for one in values]
        made = {**_KINDS, **own}[name](*values, **named)
        lines += made if isinstance(made, list) else [made]
    return lines


def read_scenarios(path: Path, own: Own) -> list[dict[str, Any]]:
    """Return what a file has of each scenario, as `Desk.scenario` takes it."""
    cases: list[dict[str, Any]] = parse(path.read_text(encoding="utf-8"))
    return [{**case, "demo": read_script(case["demo"], own)} for case in cases]


def check_script(
    title: str, demo: Sequence[Any], pattern: str, known: Collection[str], workflow: Json
) -> Iterator[Says]:
    """Yield the calls of a scenario's lines. Raises TypeError for an invalid line.

    `known` are the desk's specialists or sources, and `workflow` is its document.
    """
    steps = [step.name for step in _steps_of(title, workflow)] if workflow else []
    scripted = [line.name for line in demo if isinstance(line, ScriptStep)]
    if missing := [name for name in steps if demo and name not in scripted]:
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
    """Return the reply of a scenario's model in a role, as a server would send it.

    `critical` are the critical sources. Without a scenario, the reply says so. Raises NeverAnswers.
    """
    if not demo:
        return _without_scenario(role, inputs)
    if role in ("responder", "reporter", "writer"):
        return next((line.text for line in reversed(demo) if isinstance(line, Answers)), "Done.")
    if role == "planner":
        return json.dumps(_plan(demo, inputs, critical))
    if PATTERN_OF[role] == "workflow":
        reply = _OF_STEP[role](demo, inputs, today)
        return reply if isinstance(reply, str) else _written(reply)
    if role == "router":
        lines = [line for line in demo if isinstance(line, Routes)]
        line = _line_at(lines, inputs["state_summary"]["attempts_completed"])
        ticket = line.ticket or " ".join(inputs["goal"].split())[:_LONGEST_TICKET]
        return _written(Routes(line.specialist, ticket).reply(today))
    return _of_worker(demo, inputs, today)


def _line_at(lines: Sequence[Any], place: int) -> Any:
    return lines[min(place, len(lines) - 1)]


def _written(reply: Json, *, breaks_off: bool = False) -> str:
    text = json.dumps(to_model_units(reply))
    return text[: len(text) // 2] if breaks_off else text


def _of_worker(demo: Sequence[Any], inputs: Json, today: date) -> str:
    """Return the next line, unless a person, the policy or the tool refused the last one."""
    state, blocked = inputs["state_summary"], inputs.get("blocked") or [{"rule": ""}]
    if blocked[-1]["rule"] == _SENT_BACK:
        return _written(_heeding(blocked[-1]))
    place, last = state["steps_completed"], state.get("last_step") or {}
    made = (last.get("executed_action") or {}).get("name")
    mine = (at for at, line in enumerate(demo) if getattr(line, "tool", "") == made)
    place = max(place, 1 + next((at for at in mine if at >= place - 1), -1))  # some are left out
    if (last.get("observation") or {}).get("status") == "error":
        why = str(last["observation"].get("error", "")).replace("_", " ")
        return _written(Answers(f"Nothing was done: {why or 'it was refused'}.").reply(today))
    line = _line_at(demo, place)
    if isinstance(line, Silent):
        raise NeverAnswers
    after = demo[place + 1 : place + 2]
    is_no = blocked[-1].get("action", {}).get("name") == getattr(line, "tool", None)
    if is_no and after and isinstance(after[0], Says) and after[0].tool != line.tool:
        line = after[0]  # a line after the refused one may still fit
    return _written(line.reply(today), breaks_off=isinstance(line, BreaksOff))


def _heeding(block: Json) -> Json:
    """Return the call with the amount that a person asked for in sending it back, or an end."""
    call = block.get("action") or {}
    args = call.get("args", {})
    match = _AMOUNT.search(block["sentence"])
    wanted = (match[1] or match[2]).replace(",", "") if match else ""
    for name, value in args.items() if wanted else ():
        if isinstance(value, dict) and value.keys() == {"amount", "currency"}:
            other: Json = {**value, "amount": wanted}
        elif name.endswith("_usd"):
            other = float(wanted)
        else:
            continue
        if other != value:
            return {**call, "args": {**args, name: other}}
    return {"kind": "final", "answer": _GONE_BACK}


def _without_scenario(role: str, inputs: Json) -> str:
    if role == "worker" or inputs.get("answer_as") == "action":
        return json.dumps({"kind": "final", "answer": ONLY_SCENARIOS})
    if role == "judge":
        return json.dumps(Verdict(HALT, reason=ONLY_SCENARIOS).as_json())
    return ONLY_SCENARIOS


def _plan(demo: Sequence[Any], inputs: Json, critical: Collection[str]) -> Json:
    [plan] = [line for line in demo if isinstance(line, Plans)]
    args = {name: inputs[name] for name in inputs if name not in OF_PLANNER} | plan.other
    tasks = [
        {"id": f"t{number}", "worker": name, "args": args, "critical": name in critical}
        for number, name in enumerate(plan.sources, 1)
    ]
    return {"kind": "plan", "tasks": tasks}


def _is_corrected(inputs: Json) -> bool:
    return "\n\n" in inputs["instruction"]


def _execute(demo: Sequence[Any], inputs: Json, today: date) -> Json:
    lines = [one for one in demo if isinstance(one, ScriptStep) and one.name == inputs["step"]]
    lines = lines or [ScriptStep(inputs["step"])]  # a document without a scenario
    line = lines[-1 if _is_corrected(inputs) else 0]
    text = line.agents.get(inputs.get("agent", ""), line.text)
    if isinstance(text, OutputOf):
        text = inputs["earlier_outputs"].get(text.step, "")
    if inputs["answer_as"] == "action":
        if any(block["rule"] == _SENT_BACK for block in inputs.get("blocked", ())):
            return {"kind": "final", "answer": _GONE_BACK}
        left = line.calls[len(inputs["done"]) :]
        call = left[0].reply(today, inputs["earlier_outputs"]) if left else None
        return call or {"kind": "final", "answer": text}
    if inputs["answer_as"] == "iteration":
        return {"result": text, "converged": line.content and bool(inputs["iterations"])}
    return text


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
        return Verdict(first.verdict, first.correction, first.question, first.reason).as_json()
    if inputs.get("triggers"):
        advice = "Say only what the facts say."
        return Verdict(REORIENT, advice, reason=inputs["triggers"][0]).as_json()
    return Verdict(CONTINUE, reason="The output is what the step asks for.").as_json()


_OF_STEP = {"committer": _commit, "executor": _execute, "assessor": _assess, "judge": _judge}


# The past: cases, and the decisions on them.


@dataclass(frozen=True)
class PastAnswer:
    """A reviewer's decision on a case's request."""

    by: str
    approve: bool
    comment: str
    patch: Mapping[str, Json] = field(default_factory=dict)  # the changed arguments


@dataclass(frozen=True)
class PastCase:
    """A case of the past, and its frequency per thousand."""

    goal: str
    weight: int = 0
    answer: PastAnswer | None = None
    subject: str = ""  # of the demo's book; "": a report
    pattern: str = "supervisor"
    workflow: str = ""
    demo: Sequence[Any] = ()  # its model's replies
    by: str = "omar"  # who launched it


@dataclass(frozen=True)
class Past:
    """The cases of a fortnight, the open ones, and the people that they are about.

    A case's goal names its subject as in "Noor (employee noor)". Each run is about another one:
    `fill(book, at, key, number, name)` enters it, named by `names`, instead of the subject `key`.
    """

    cases: Sequence[PastCase]
    waiting: Sequence[PastCase]
    names: Sequence[str]
    fill: Callable[[int, datetime, str, int, str], object] | None = None
    caps: Mapping[str, Mapping[str, int]] | None = None  # its own; None: as in the policy

    @property
    def all_cases(self) -> Sequence[PastCase]:
        return [*self.cases, *self.waiting]


def read_past(path: Path, own: Own, fill: Callable[..., object] | None = None) -> Past:
    """Return the past that a file has, with scripts as scenarios have them."""
    past = parse(path.read_text(encoding="utf-8"))
    cases, waiting = ([_read_case(one, own) for one in past[part]] for part in ("cases", "waiting"))
    return Past(cases, waiting, past["names"], fill, past["caps"])


def _read_case(case: Json, own: Own) -> PastCase:
    answer = PastAnswer(**case["answer"]) if "answer" in case else None
    return PastCase(**{**case, "answer": answer, "demo": read_script(case.get("demo", ()), own)})
