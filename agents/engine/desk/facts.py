"""Ask the business behind a run's desk for the facts of a review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from agents.core.actions import Action
from agents.core.facts import Facts
from agents.core.limits import Limits
from agents.core.requests import Json
from agents.db.driver import Pending
from agents.engine.desk.fresh_lookup import LookedUp
from agents.engine.desk.gathering import fetch_declared
from agents.engine.desk.repeats import repeats_of
from agents.engine.desk.step_facts import sent_back_by
from agents.engine.redaction import RunBorder
from agents.models import Run, Step
from agents.sdk.desk import DESKS


def fetch_facts(
    run: Run,
    action: Action,
    limits: Limits,
    steps: Sequence[Step],
    *,
    at: datetime,
    lock: bool,
    done: Mapping[int, Json] | None = None,
    ahead: LookedUp | None = None,
    turn: str = "",
) -> Pending[tuple[Facts, str]]:
    """Fetch the facts for reviewing `action`, in an open pipeline if any.

    The answer is the facts, and the desk's key of the resource that the action uses, or "".
    `turn` is the prefix of the keys of its own steps, where it is proposed.
    """
    about = (run, action, limits, steps)
    fetch = DESKS[run.desk].fetch_facts or fetch_declared
    asked = fetch(*about, at=at, lock=lock, done=done or {}, ahead=ahead)
    more: dict[str, Any] = {"sent_back_by": sent_back_by(steps, action), "border": RunBorder(run)}

    def answer() -> tuple[Facts, str]:
        facts, resource = asked.get()
        if turn:
            more["repeats"] = repeats_of(run, action, steps, turn)
        return replace(facts, **more), resource

    return Pending(answer)
