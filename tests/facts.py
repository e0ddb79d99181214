"""The facts of a review at the refunds desk, for rules that are asked without a run."""

from collections.abc import Mapping
from typing import Any

from agents.core.reviews import DeskFacts, Facts
from agents.desks.refunds.facts import RefundFacts
from agents.sdk.rules import NO_CASE

NOTHING = {"launcher": 0, "workspace": 0}


def seen(
    own: RefundFacts,
    *,
    done: tuple[str, ...] = (),
    record: Mapping[str, str] | None = None,
    letter: str = "",
    outdated: Mapping[str, str] | None = None,
    answered: tuple[str, ...] = (),
    unattended: Mapping[str, int] = NOTHING,
) -> Facts:
    """Return the desk's own facts with those that the console adds."""
    told: dict[str, Any] = {**(record or {}), **own.sentences}
    desk = DeskFacts(own, NO_CASE, done, {"unattended": unattended}, told, answered)
    if not letter:
        return Facts(desk=desk)
    return Facts(letter=letter, desk=desk, ledger=done, record=told, outdated=outdated or {})
