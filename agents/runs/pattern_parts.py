"""What each pattern's page shows above its steps, read from the same rows.

A pattern that is not in ABOVE shows only its steps.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agents.core.checkpoints import Assessment, Commitment, read_assessment, read_commitment
from agents.core.compat_0_2 import currency_of
from agents.core.money import with_unit
from agents.core.requests import ENDED, Json
from agents.models import Step
from agents.policies.words import end_sentence, why_not
from agents.runs.turns import Axis, axis, span_of
from agents.sdk.adjustments import label_of, money_of
from agents.sdk.desk import tool_title
from agents.shell.event_words import answer_in_words
from agents.shell.formats import CHIPS, RULING_ROLES, field_in_words, fields_in_words

# Orchestrator: the tasks of a plan on one time axis, with a bar for each attempt.


def tasks(steps: Sequence[Step], now: datetime) -> Json:
    """Return the plan's tasks, the figures made of their findings, and the brief."""
    review = next((s.reply for s in steps if s.key == "plan/review" and s.reply), None)
    plan = review["action"]["tasks"] if review else []
    spans = {step.pk: span_of(step, now) for step in steps if step.kind == "use"}
    scale = axis(list(spans.values()))
    shown = [_task(task, steps, spans, scale) for task in plan]
    finalized = next((s.asked for s in steps if s.key == "finalize"), None)
    figures = finalized["inputs"]["aggregate"] if finalized else None
    return {
        "tasks": shown,
        "quarters": scale.quarters,
        "health": _health(figures),
        "failed": _missing(figures),
        "has_late": any(one["role"] == "failed" for task in shown for one in task["attempts"]),
        "parts": _parts(steps, figures),
        "brief": _brief(steps),
    }


def _task(
    task: Json, steps: Sequence[Step], spans: dict[int, tuple[float, float]], scale: Axis
) -> dict[str, Any]:
    """Return one task of the plan, its attempts and its state."""
    own = [s for s in steps if s.kind == "use" and s.key.startswith(f"dispatch/{task['id']}/")]
    attempts = [
        {"bar": scale.bar(*spans[s.pk]), "role": _role(s), "text": f"{s.seconds:.1f} s"}
        for s in own
    ]
    count = len(own)
    tried = with_unit(count, "attempts") if count else "not begun"
    why = why_not(own[-1].failed) if own else ""
    earlier = [why_not(step.failed) for step in own[:-1] if step.failed]
    text = ", ".join(filter(None, (tried, why, f"first: {earlier[0]}" if earlier else "")))
    role = _role(own[-1]) if own else "waiting"
    return {
        "worker": tool_title(task["worker"]),
        "is_critical": task["critical"],
        "role": role,
        "word": _WORDS[role],
        "attempts": attempts,
        "text": text,
    }


_WORDS = {"waiting": "Waiting", "running": "Running", "failed": "Failed", "approve": "Answered"}


def _role(step: Step) -> str:
    if step.ended_at is None:
        return "running"
    return "failed" if step.failed else "approve"


def _health(aggregate: Json) -> tuple[str, str] | None:
    """Return role and word of the health among the figures; None if there is none."""
    health = (aggregate or {}).get("health")
    return CHIPS["health"].get(str(health), ("failed", str(health))) if health else None


def _missing(aggregate: Json) -> Sequence[str]:
    """Return the tasks without an answer."""
    failed = aggregate.get("failed_tasks", []) if aggregate else []
    return [tool_title(task["worker"] if isinstance(task, dict) else task) for task in failed]


def _parts(steps: Sequence[Step], aggregate: Json) -> list[dict[str, str]]:
    """Return the figures by part, without what the page says elsewhere; none before there are."""
    planned: Json = next((s.asked["inputs"] for s in steps if s.key == "plan"), {})
    shown = {*planned, "health", "failed_tasks", "missing"}
    return [
        {
            "name": label_of(name),
            "text": fields_in_words(dict(sorted(value.items())))
            if isinstance(value, dict) and not money_of(value)
            else field_in_words(name, value, currency_of(aggregate or {})),
        }
        for name, value in (aggregate or {}).items()
        if name not in shown
    ]


def _brief(steps: Sequence[Step]) -> dict[str, str] | None:
    """Return the newest brief that was reviewed, and its ruling; None before there is one."""
    reviewed = [s for s in steps if s.kind == "review" and s.asked["action"]["kind"] == "brief"]
    review = reviewed[-1].reply if reviewed else None
    if not review:
        return None
    is_held = not review["allows"]
    role, word = ("block", "Withheld") if is_held else RULING_ROLES[review["decision"]]
    why = str(review["deciding"]["sentence"]) if is_held else ""
    return {"text": str(review["action"]["answer"]), "role": role, "word": word, "why": why}


# Routing: the chain of specialists that a case went through.


def way(steps: Sequence[Step], now: datetime) -> Json:
    """Return the specialists' attempts, in order."""
    attempts = []
    for step in steps:
        if step.kind != "use":
            continue
        reply = step.reply if isinstance(step.reply, dict) else {}
        role, icon, word = _standing_of_attempt(step, str(reply.get("status", "")))
        attempts.append(
            {
                "number": step.key.partition("/")[0],
                "target": tool_title(str(step.asked["tool"])),
                "role": role,
                "icon": icon,
                "word": word,
                "why": end_sentence(step.failed) or str(reply.get("reason", "")).replace("_", " "),
            }
        )
    return {"attempts": attempts}


def _standing_of_attempt(step: Step, status: str) -> tuple[str, str, str]:
    if step.ended_at is None:
        return "running", "running", "asked"
    if step.failed:
        return "failed", "failed", "failed"
    if status == "needs_reroute":
        return "revise", "route", "declined"
    return "approve", "approve", status or "answered"


# Workflow: each step's rounds, and each round's five phases with the evidence for its verdict.
_VERDICTS = {
    "continue": ("approve", "approve", "continue"),
    "reorient": ("revise", "retry", "corrected"),
    "ask_human": ("human", "human", "asks a person"),
    "halt": ("block", "block", "stopped"),
}


def rounds(steps: Sequence[Step], now: datetime) -> Json:
    """Return the steps of the workflow in the order in which they began."""
    parts: dict[str, StepPart] = {}
    is_over = bool(steps) and steps[0].run.state in ENDED
    for step in steps:
        name = step.key.partition("/")[0]
        part = parts.setdefault(name, StepPart(name))
        part.calls += step.kind == "use"
        part.is_supervised |= step.key.startswith(f"{name}/commit")
        if step.kind == "say":
            _take_event(part, step.asked["kind"], step.asked["facts"])
        elif step.kind == "review" and step.key == f"{name}/review":
            part.is_busy = False
        elif step.key.partition("#")[0] == f"{name}/person" and step.reply:
            round_ = part.round_of(step.asked["action"].get("round", 1))
            round_.instructions = str(step.reply.get("correction", ""))
        elif step.kind == "ask" and step.reply:
            _take_text(part, step.key.partition("#")[0], str(step.reply.get("text", "")))
    for part in parts.values():
        part.round_of(1)
        for round_ in part.rounds:
            round_.missing = "never" if is_over else "not yet"
    return {"parts": list(parts.values()), "one_model": _one_model(steps)}


@dataclass
class _Round:
    number: int
    events: dict[str, Json] = field(default_factory=dict)  # recorded facts by kind of line
    assessment: Assessment | None = None
    instructions: str = ""  # of the person who sent it back
    missing: str = "not yet"  # shown while the phase is open

    @property
    def verdict(self) -> tuple[str, str, str]:
        """Return role, icon and words of the judge's verdict."""
        word = self.events.get("verdict.rendered", {}).get("verdict", "")
        if "step.halted" in self.events:
            word = "halt"
        if not word and "human.asked" in self.events:
            word = "ask_human"
        icon = "waiting" if self.missing == "not yet" else "skip"
        return _VERDICTS.get(word, ("waiting", icon, self.missing))

    @property
    def reason(self) -> str:
        event = self.events.get("verdict.rendered", {}) or self.events.get("step.halted", {})
        return str(event.get("reason", ""))

    @property
    def triggers(self) -> Sequence[str]:
        return [str(t) for t in self.events.get("drift.reconciled", {}).get("triggers", [])]

    @property
    def correction(self) -> str:
        return str(self.events.get("step.reoriented", {}).get("correction", ""))

    @property
    def question(self) -> str:
        return str(self.events.get("human.asked", {}).get("question", ""))

    @property
    def answer(self) -> str:
        event = self.events.get("human.answered", {})
        return answer_in_words(event["decision"], event["by"], "the draft") if event else ""


@dataclass
class StepPart:
    """One step of the declared workflow."""

    name: str
    commitment_facts: Json = None  # the line on how the commitment was given
    commitment: Commitment | None = None
    rounds: list[_Round] = field(default_factory=list)
    calls: int = 0
    is_supervised: bool = False
    is_capped: bool = False
    is_busy: bool = True

    def round_of(self, number: int) -> _Round:
        while len(self.rounds) < max(number, 1):
            self.rounds.append(_Round(len(self.rounds) + 1))
        return self.rounds[max(number, 1) - 1]

    @property
    def by_round(self) -> list[tuple[_Round, list[dict[str, str]]]]:
        """Return the rounds with their phases; the last verdict is that of the step."""
        told = [(round_, _phases(self, round_)) for round_ in self.rounds]
        told[-1][1][-1] = _verdict(*self.standing)
        return told

    @property
    def standing(self) -> tuple[str, str, str]:
        """Return role, icon and words of the step's state."""
        if not self.is_supervised:
            words = "running" if self.is_busy else "not supervised"
            return ("running", "running", words) if self.is_busy else ("waiting", "skip", words)
        newest = self.rounds[-1]
        if "step.accepted" in newest.events:
            return "approve", "approve", "accepted"
        return newest.verdict


def _one_model(steps: Sequence[Step]) -> str:
    """Return the model that judged its own work; "" if judge and executor differ."""
    by_role: dict[str, set[str]] = {}
    for step in steps:
        if step.kind == "ask" and step.model:
            by_role.setdefault(step.asked["role"], set()).add(step.model)
    return ", ".join(sorted(by_role.get("judge", set()) & by_role.get("executor", set())))


def _take_text(part: StepPart, key: str, text: str) -> None:
    """Store the agent's commitment or, after a round, its own account of the work."""
    if key == f"{part.name}/commit":
        part.commitment = read_commitment(text)
    elif key == f"{part.name}/post":
        done = sum(round_.assessment is not None for round_ in part.rounds)
        part.round_of(done + 1).assessment = read_assessment(text)


def _take_event(part: StepPart, kind: str, facts: Json) -> None:
    if kind == "checkpoint.committed":
        part.commitment_facts = facts
        part.round_of(1).events[kind] = facts
    elif kind == "convergence.cap_reached":
        part.is_capped = True
    else:
        part.round_of(int(facts.get("round", 1))).events[kind] = facts


def _phases(part: StepPart, now: _Round) -> list[dict[str, str]]:
    events = now.events
    given = part.commitment_facts
    assessed, drift = events.get("checkpoint.assessed"), events.get("drift.reconciled")

    commit = unfinished = now.missing
    if given:
        unfinished = "not finished"
        commit = f"confidence {given['confidence']}" if given.get("given") else "none was given"
    return [
        _phase("Plan", bool(given), commit, good=bool(given and given.get("given"))),
        _phase("Work", bool(assessed), _calls(part) if assessed else unfinished),
        _phase(
            "Self-check",
            bool(assessed),
            _assessment_text(assessed) or now.missing,
            good=bool(assessed and assessed.get("readable") and assessed.get("met_commitment")),
        ),
        _phase("Comparison", bool(drift), _drift(drift) or now.missing, good=not now.triggers),
        _verdict(*now.verdict),
    ]


def _verdict(role: str, icon: str, text: str) -> dict[str, str]:
    return {"name": "Verdict", "role": role, "icon": icon, "text": text}


def _phase(name: str, is_over: bool, text: str, *, good: bool = True) -> dict[str, str]:
    role = "approve" if good else "escalate"
    role, icon = (role, role) if is_over else ("waiting", "dot")
    return {"name": name, "role": role, "icon": icon, "text": text}


def _calls(part: StepPart) -> str:
    return with_unit(part.calls, "calls") if part.calls else "no call"


def _assessment_text(assessed: Json) -> str:
    if not assessed:
        return ""
    if not assessed.get("readable"):
        return "cannot be read"
    return "as planned" if assessed.get("met_commitment") else "not as planned"


def _drift(drift: Json) -> str:
    if drift is None:
        return ""
    count = len(drift.get("triggers", []))
    return with_unit(count, "deviations") if count else "no deviations"


# Each pattern's template, and what fills it.
ABOVE: Mapping[str, tuple[str, Callable[[Sequence[Step], datetime], Json]]] = {
    "routing": ("runs/_routing.html", way),
    "orchestrator": ("runs/_orchestrator.html", tasks),
    "workflow": ("runs/_workflow.html", rounds),
}
