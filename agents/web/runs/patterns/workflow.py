"""Workflow: each step's rounds, and each round's five phases with the evidence for its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from agents.core.checkpoints import Assessment, Commitment, read_assessment, read_commitment
from agents.core.money import with_unit
from agents.core.requests import Json
from agents.core.states import ENDED
from agents.models import Step
from agents.shell.event_words import answer_in_words

VERDICTS = {
    "continue": ("approve", "approve", "continue"),
    "reorient": ("revise", "retry", "corrected"),
    "ask_human": ("human", "human", "asks a person"),
    "halt": ("block", "block", "stopped"),
}


@dataclass(frozen=True)
class Phase:
    """One of the five phases."""

    name: str
    role: str
    icon: str
    told: str


@dataclass
class Round:
    """One round of a step."""

    number: int
    said: dict[str, Json] = field(default_factory=dict)  # recorded facts by kind of line
    assessment: Assessment | None = None
    instructions: str = ""  # of the person who sent it back
    missing: str = "not yet"  # in place of what has not come

    @property
    def verdict(self) -> tuple[str, str, str]:
        """Return role, icon and words of the judge's verdict."""
        word = self.said.get("verdict.rendered", {}).get("verdict", "")
        if "step.halted" in self.said:
            word = "halt"
        if not word and "human.asked" in self.said:
            word = "ask_human"
        icon = "waiting" if self.missing == "not yet" else "skip"
        return VERDICTS.get(word, ("waiting", icon, self.missing))

    @property
    def reason(self) -> str:
        said = self.said.get("verdict.rendered", {}) or self.said.get("step.halted", {})
        return str(said.get("reason", ""))

    @property
    def triggers(self) -> Sequence[str]:
        return [str(t) for t in self.said.get("drift.reconciled", {}).get("triggers", [])]

    @property
    def correction(self) -> str:
        return str(self.said.get("step.reoriented", {}).get("correction", ""))

    @property
    def went_well(self) -> bool:
        """Tell whether the round had no trigger and the judge's verdict was to continue."""
        return not self.triggers and self.verdict == VERDICTS["continue"]

    @property
    def question(self) -> str:
        return str(self.said.get("human.asked", {}).get("question", ""))

    @property
    def answer(self) -> str:
        said = self.said.get("human.answered", {})
        return answer_in_words(said["decision"], said["by"], "the draft") if said else ""


@dataclass
class StepPart:
    """One step of the declared workflow."""

    name: str
    told: Json = None  # the line on how the commitment was given
    commitment: Commitment | None = None
    rounds: list[Round] = field(default_factory=list)
    calls: int = 0
    is_supervised: bool = False
    is_capped: bool = False
    is_busy: bool = True

    def round_of(self, number: int) -> Round:
        while len(self.rounds) < max(number, 1):
            self.rounds.append(Round(len(self.rounds) + 1))
        return self.rounds[max(number, 1) - 1]

    @property
    def ribbons(self) -> list[tuple[Round, list[Phase]]]:
        return [(found, _phases(self, found)) for found in self.rounds]

    @property
    def standing(self) -> tuple[str, str, str]:
        """Return role, icon and words of the step's state."""
        if not self.is_supervised:
            words = "running" if self.is_busy else "not supervised"
            return ("running", "running", words) if self.is_busy else ("waiting", "skip", words)
        newest = self.rounds[-1]
        if "step.accepted" in newest.said:
            return "approve", "approve", "accepted"
        return newest.verdict


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
            asked = part.round_of(step.asked["action"].get("round", 1))
            asked.instructions = str(step.reply.get("correction", ""))
        elif step.kind == "ask" and step.reply:
            _take_text(part, step.key.partition("#")[0], str(step.reply.get("text", "")))
    for part in parts.values():
        part.round_of(1)
        for found in part.rounds:
            found.missing = "never" if is_over else "not yet"
    return {"parts": list(parts.values()), "one_model": _one_model(steps)}


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
        done = sum(found.assessment is not None for found in part.rounds)
        part.round_of(done + 1).assessment = read_assessment(text)


def _take_event(part: StepPart, kind: str, facts: Json) -> None:
    if kind == "checkpoint.committed":
        part.told = facts
        part.round_of(1).said[kind] = facts
    elif kind == "convergence.cap_reached":
        part.is_capped = True
    else:
        part.round_of(int(facts.get("round", 1))).said[kind] = facts


def _phases(part: StepPart, found: Round) -> list[Phase]:
    said = found.said
    given = part.told
    assessed, drift = said.get("checkpoint.assessed"), said.get("drift.reconciled")
    role, icon, words = found.verdict
    commit = unfinished = found.missing
    if given:
        unfinished = "not finished"
        commit = f"confidence {given['confidence']}" if given.get("given") else "none was given"
    return [
        _phase("Plan", bool(given), commit, good=bool(given and given.get("given"))),
        _phase("Work", bool(assessed), _calls(part) if assessed else unfinished),
        _phase(
            "Self-check",
            bool(assessed),
            _assessment_text(assessed) or found.missing,
            good=_keeps_commitment(assessed),
        ),
        _phase("Comparison", bool(drift), _drift(drift) or found.missing, good=not found.triggers),
        Phase("Verdict", role, icon, words),
    ]


def _phase(name: str, is_over: bool, told: str, *, good: bool = True) -> Phase:
    if not is_over:
        return Phase(name, "waiting", "dot", told)
    role = "approve" if good else "escalate"
    return Phase(name, role, role, told)


def _calls(part: StepPart) -> str:
    return with_unit(part.calls, "calls") if part.calls else "no call"


def _keeps_commitment(assessed: Json) -> bool:
    return bool(assessed and assessed.get("readable") and assessed.get("met_commitment"))


def _assessment_text(assessed: Json) -> str:
    if not assessed:
        return ""
    if not assessed.get("readable"):
        return "cannot be read"
    return "self-check passed" if assessed.get("met_commitment") else "self-check failed"


def _drift(drift: Json) -> str:
    if drift is None:
        return ""
    count = len(drift.get("triggers", []))
    return with_unit(count, "deviations") if count else "no deviations"
