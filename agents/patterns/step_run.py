"""A supervised step under way, and its notes."""

from __future__ import annotations

from dataclasses import dataclass, field

from agents.core.checkpoints import Assessment, Commitment, Verdict
from agents.core.requests import Json, Say
from agents.core.workflows import Supervision
from agents.patterns import Notes
from agents.patterns.execution import Work

COMMIT, POST, RECONCILE, SUPERVISE = "COMMIT", "POST", "RECONCILE", "SUPERVISE"


@dataclass
class StepRound:
    """One round: its output, its triggers, and the verdicts on it."""

    number: int
    output: str
    reviewed: Json = None  # the output as the policy let it stand: its answer, and its note
    assessment: Assessment = field(default_factory=Assessment)
    triggers: list[str] = field(default_factory=list)
    verdict: Verdict | None = None
    question: str = ""
    person: Json = None
    noted: dict[str, Json] = field(default_factory=dict)  # its entry in the history

    def as_json(self, course: StepRun) -> Json:
        step, commitment = course.work.step, course.commitment
        instruction = course.work.instruction
        pre = {"step_id": step.name, "step_kind": step.kind, "instruction": instruction}
        post = {"step_id": step.name, "actual_output": self.output}
        return {
            "step": step.name,
            "kind": step.kind,
            "mode": course.mode.word,
            "round": self.number,
            "pre": {**pre, **commitment.as_json()},
            "post": {**post, **self.assessment.as_json()},
            "triggers": self.triggers,
            "escalate": bool(self.triggers),
            "verdict": self.verdict.as_json() if self.verdict else None,
            "question": self.question,
            "person": self.person,
            "tools": course.work.calls_made,
        }


@dataclass
class StepRun:
    """A step under way: its commitment, its rounds, and its notes."""

    work: Work
    mode: Supervision
    notes: Notes
    commitment: Commitment = field(default_factory=Commitment)
    rounds: int = 0
    reorients: int = 0

    def line(self, phase: str, *, ok: bool = True, **more: Json) -> None:
        """Add a phase to the trace."""
        entry = {"step": self.work.step.name, "phase": phase, "round": self.rounds}
        self.notes.trace.append({**entry, "ok": ok, **more})

    def note(self, now: StepRound) -> None:
        """Note a round, or more of it; a page shows it while a person thinks."""
        if not now.noted:
            self.notes.history.append(now.noted)
        now.noted.update(now.as_json(self))

    def say(self, kind: str, **facts: Json) -> Say:
        """Return the line of the record that tells of a phase."""
        about = {"step": self.work.step.name, "round": self.rounds}
        return Say(f"{self.work.label}/{kind}", kind, {**about, **facts})
