"""Orchestrator: the tasks of a plan on one time axis, with a bar for each attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from agents.core.money import with_unit
from agents.core.old_names import currency_of
from agents.core.requests import Json
from agents.models import Step
from agents.policies.words import why_not
from agents.sdk.adjustments import label_of, money_of
from agents.sdk.desk import tool_title
from agents.shell.formats import RULING_ROLES, field_in_words, fields_in_words
from agents.web.runs.timeline import Axis, Bar, axis

HEALTH = {  # role and word of the aggregate's finding
    "green": ("approve", "Green"),
    "yellow": ("waiting", "Yellow"),
    "red": ("block", "Red"),
    "unknown": ("failed", "Unknown"),
}


@dataclass(frozen=True)
class TaskAttempt:
    """One dispatch of a task."""

    bar: Bar
    role: str
    told: str


@dataclass(frozen=True)
class Task:
    """One task of the plan, and its state."""

    worker: str
    is_critical: bool
    role: str
    word: str
    attempts: Sequence[TaskAttempt]
    told: str


@dataclass(frozen=True)
class WorkerPart:
    """A part of the figures, in words; "" if unknown."""

    name: str
    told: str


@dataclass(frozen=True)
class Written:
    """The brief of the report, and whether it was accepted or held back."""

    text: str
    role: str
    word: str
    why: str


def tasks(steps: Sequence[Step], now: datetime) -> Json:
    """Return the plan's tasks, the figures made of their findings, and the brief."""
    review = next((s.reply for s in steps if s.key == "plan/review" and s.reply), None)
    plan = review["action"]["tasks"] if review else []
    spans = {step.pk: _span(step, now) for step in steps if step.kind == "use"}
    scale = axis(list(spans.values()))
    found = [_task(task, steps, spans, scale) for task in plan]
    figures = _aggregate(steps)
    return {
        "tasks": found,
        "quarters": scale.quarters,
        "health": _health(figures),
        "failed": _missing(figures),
        "has_late": any(one.role == "failed" for task in found for one in task.attempts),
        "parts": _parts(steps, figures),
        "brief": _brief(steps),
    }


def _span(step: Step, now: datetime) -> tuple[float, float]:
    begin = step.begun_at.timestamp()
    return begin, begin + step.seconds if step.ended_at else max(now.timestamp(), begin)


def _task(
    task: Json, steps: Sequence[Step], spans: dict[int, tuple[float, float]], scale: Axis
) -> Task:
    own = [s for s in steps if s.kind == "use" and s.key.startswith(f"dispatch/{task['id']}/")]
    attempts = [
        TaskAttempt(scale.bar(*spans[step.pk]), _role(step), f"{step.seconds:.1f} s")
        for step in own
    ]
    role, word = _standing(own)
    count = len(own)
    tried = with_unit(count, "attempts") if count else "not begun"
    why = why_not(own[-1].failed) if own else ""
    earlier = [why_not(step.failed) for step in own[:-1] if step.failed]
    told = ", ".join(filter(None, (tried, why, f"first: {earlier[0]}" if earlier else "")))
    return Task(tool_title(task["worker"]), task["critical"], role, word, attempts, told)


def _role(step: Step) -> str:
    if step.ended_at is None:
        return "running"
    return "failed" if step.failed else "approve"


def _standing(own: Sequence[Step]) -> tuple[str, str]:
    if not own:
        return "waiting", "Waiting"
    words = {"running": "Running", "failed": "Failed", "approve": "Answered"}
    role = _role(own[-1])
    return role, words[role]


def _aggregate(steps: Sequence[Step]) -> Json:
    asked = next((s.asked for s in steps if s.key == "finalize"), None)
    return asked["inputs"]["aggregate"] if asked else None


def _health(found: Json) -> tuple[str, str] | None:
    """Return role and word of the health among the figures; None if there is none."""
    health = (found or {}).get("health")
    return HEALTH.get(str(health), ("failed", str(health))) if health else None


def _missing(found: Json) -> Sequence[str]:
    """Return the tasks without an answer."""
    failed = found.get("failed_tasks", []) if found else []
    return [tool_title(task["worker"] if isinstance(task, dict) else task) for task in failed]


def _parts(steps: Sequence[Step], found: Json) -> list[WorkerPart]:
    """Return the figures by part, without what the page says elsewhere; none before there are."""
    planned: Json = next((s.asked["inputs"] for s in steps if s.key == "plan"), {})
    told = {*planned, "health", "failed_tasks", "missing"}
    return [
        WorkerPart(
            label_of(name),
            fields_in_words(dict(sorted(value.items())))
            if isinstance(value, dict) and not money_of(value)
            else field_in_words(name, value, currency_of(found or {})),
        )
        for name, value in (found or {}).items()
        if name not in told
    ]


def _brief(steps: Sequence[Step]) -> Written | None:
    """Return the newest brief that was reviewed; None before there is one."""
    reviewed = [s for s in steps if s.kind == "review" and s.asked["action"]["kind"] == "brief"]
    said = reviewed[-1].reply if reviewed else None
    if not said:
        return None
    text = str(said["action"]["answer"])
    if said["allows"]:
        return Written(text, *RULING_ROLES[said["decision"]], "")
    return Written(text, "block", "Withheld", str(said["deciding"]["sentence"]))
