"""Ask on: launch a run about the same, which has what an ended run did and read before it.

It follows that run as one that was launched again does: on the same books, held to its effects, and
decided by nobody who launched either. The earlier run's steps are copied, so that a value keeps the
source that it had there, whatever becomes of that run.
"""

from __future__ import annotations

import json
from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User

from agents.core.requests import Json
from agents.core.results import AFTER_BLOCK
from agents.core.states import ENDED
from agents.engine.redaction import RunBorder
from agents.models import Role, Run
from agents.operations.runs.launching import LaunchOptions, launch
from agents.sdk.desk import DESKS, WORDS
from agents.shell.refusal import Refused, require_member

MOST = 100_000  # characters of what came before, as JSON


def can_be_asked_on(run: Run) -> bool:
    """Tell whether a run ended at a desk that answers in words, with its steps still here."""
    desk = DESKS.get(run.desk)
    # What an agent elsewhere claimed as its goal is nobody's request to go on from.
    is_here = run.state in ENDED and not (run.is_emptied or run.simulation or run.agent_id)
    return bool(is_here and run.subject_key and desk and desk.answers == WORDS)


def ask_on(*, run_id: UUID, goal: str, by: User, at: datetime) -> Run:
    """Launch a run with a new goal after an ended one. Raises Refused.

    Each run is followed by one other at most: a second submit returns the first one's run.
    """
    ended = Run.objects.select_related("workspace__policy", "policy").get(pk=run_id)
    require_member(ended.workspace, by, Role.OPERATOR, Role.ADMIN)
    if not can_be_asked_on(ended):
        raise Refused("not_on", "This run has not ended, or what it read is no longer here.")
    before = [*(ended.before or ()), _copy_of(ended)]
    if len(json.dumps(before)) > MOST:
        raise Refused("too_long", "What came before is too long to go on from. Launch a new run.")
    newer = launch(
        workspace=ended.workspace,
        pattern="supervisor",
        goal=goal,
        desk=ended.desk,
        subject=ended.subject_key,
        by=by,
        at=at,
        options=LaunchOptions(
            token=f"again:{ended.pk.hex}", model=ended.model, again_of=ended, before=before
        ),
    )
    if newer.created_at != at and RunBorder(newer).resolve(newer.goal) != goal:
        raise Refused("gone_on", "Another run follows this one already. Ask on from that one.")
    return newer


def _copy_of(run: Run) -> Json:
    outcome = run.outcome if isinstance(run.outcome, dict) else {}
    answer = outcome.get(AFTER_BLOCK, outcome)
    calls = run.steps.filter(kind="use", failed="", ended_at__isnull=False).order_by("position")
    return {
        "goal": run.goal,
        "record": str(answer.get("answer", "")),
        "answer": str(answer.get("note", "")),
        "calls": [
            {"tool": step.asked["tool"], "args": step.asked["args"], "reply": step.reply}
            for step in calls
        ],
    }
