"""What a call is about and how much it moves, by its tool's declaration."""

from __future__ import annotations

from agents.core.actions import Action
from agents.core.call_target import CallTarget
from agents.core.pseudonyms import has_name
from agents.models.masked_value import pseudonyms_of
from agents.models.run import Run
from agents.sdk.desk import DESKS


def target_of(run: Run, action: Action) -> CallTarget:
    """Return what an action is about and how much it moves; of what is no call, its run's."""
    desk, given = DESKS[run.desk], action.get("args") or {}
    tool = desk.tools.get(str(action.get("name")))
    if tool is None:
        return CallTarget(run.subject_key)
    real = pseudonyms_of(run).resolve(given) if has_name(given) else given
    money = tool.amount_of(tool.read(real)) if tool.amount else None
    about = str(real[tool.subject]), tool.resource_of(given)
    return CallTarget(*about, *((money.minor, money.currency) if money else ()))
