"""Ask the business behind a run's desk for what a review may know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from agents.core.actions import Action
from agents.core.facts import Facts
from agents.core.limits import Limits
from agents.core.requests import Json
from agents.db.driver import Pending
from agents.engine.desk_lookup import LookedUp
from agents.models import Run, Step
from agents.systems import SYSTEMS


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
) -> Pending[tuple[Facts, str]]:
    """Ask for the facts for reviewing `action`, maybe together with other things.

    The answer is they, and the desk's key of the resource that the action uses, or "".
    """
    about = (run, action, limits, steps)
    return SYSTEMS[run.desk].fetch_facts(*about, at=at, lock=lock, done=done or {}, ahead=ahead)
