"""Routing: the chain of specialists that a case went through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from agents.core.requests import Json
from agents.models import Step
from agents.policies.words import end_sentence
from agents.sdk.desk import tool_title


@dataclass(frozen=True)
class SpecialistAttempt:
    """One specialist's attempt, and their answer."""

    number: str
    target: str
    role: str
    icon: str
    word: str
    why: str


def way(steps: Sequence[Step], now: datetime) -> Json:
    """Return the specialists' attempts, in order."""
    found = []
    for step in steps:
        if step.kind != "use":
            continue
        reply = step.reply if isinstance(step.reply, dict) else {}
        role, icon, word = _standing(step, str(reply.get("status", "")))
        found.append(
            SpecialistAttempt(
                number=step.key.partition("/")[0],
                target=tool_title(str(step.asked["tool"])),
                role=role,
                icon=icon,
                word=word,
                why=end_sentence(step.failed) or str(reply.get("reason", "")).replace("_", " "),
            )
        )
    return {"attempts": found}


def _standing(step: Step, status: str) -> tuple[str, str, str]:
    if step.ended_at is None:
        return "running", "running", "asked"
    if step.failed:
        return "failed", "failed", "failed"
    if status == "needs_reroute":
        return "revise", "route", "declined"
    return "approve", "approve", status or "answered"
