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
from agents.tools import TOOLS


def calls_before(run: Run, action: Action) -> list[Step]:
    """Return the calls of the session's earlier runs, on which a review rests as on the run's own.

    None for what merely reads. Call outside a pipeline.
    """
    earlier = run.earlier_runs() if run.agent_id and run.again_of_id else []
    tool = TOOLS.get(str(action.get("name")))
    if not earlier or (tool is not None and not tool.writes):
        return []
    made = Step.objects.filter(run__in=earlier, kind="use", failed="", ended_at__isnull=False)
    return list(made.order_by("begun_at", "pk"))


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
            own = [step for step in steps if step.run_id == run.pk]
            more["repeats"] = repeats_of(run, action, own, turn, at=at)
        return replace(facts, **more), resource

    return Pending(answer)
