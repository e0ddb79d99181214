"""A person's decision on a request: one form from page and command to the reply, row and event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agents.core.requests import Json
from agents.core.states import EscalationState


@dataclass(frozen=True)
class Decision:
    """What a person wants, and what they saw of it, as far as their form says.

    `send_back` instead of an approval lets the agent propose something else, with the comment as
    the reason. `patch` holds the changed arguments as JSON, of those that the tool lets people
    change. `correction` is the instruction for running a workflow's step again, the answer to a
    question, or the text to send instead of a letter.
    """

    approve: bool
    send_back: bool = False
    comment: str = ""
    correction: str = ""
    patch: Mapping[str, Json] | None = None  # None: no change
    action_sha256: str | None = None  # of the action that they saw
    approval: int | None = None  # the first of two approvals that they saw; 0: none
    is_reported: bool | None = None  # whether they saw what an agent reported of its call
    bulk: str = ""  # the bulk rejection it is part of

    def __post_init__(self) -> None:
        kept = {
            "send_back": self.send_back and not self.approve,
            "comment": self.comment.strip(),
            "correction": self.correction.strip(),
            "patch": dict(self.patch) if self.patch is not None and self.approve else None,
        }
        for name, value in kept.items():
            object.__setattr__(self, name, value)

    def state(self, *, is_changed: bool) -> EscalationState:
        """Return what becomes of the request; `is_changed`: other arguments were granted."""
        if not self.approve:
            return EscalationState.SENT_BACK if self.send_back else EscalationState.REJECTED
        is_other = bool(self.correction) or is_changed
        return EscalationState.ADJUSTED if is_other else EscalationState.APPROVED

    def reply(
        self, state: EscalationState, *, granted_minor: int | None, by: str, is_simulated: bool
    ) -> dict[str, Json]:
        """Return what the run is told, and the record: see REPLY."""
        return {
            "decision": state.value,
            "granted_minor": granted_minor,
            "revised": bool(self.correction or self.patch),
            "comment": self.comment,
            "by": by,
            "simulated": is_simulated,
            **({"correction": self.correction} if self.correction else {}),
            **({"patch": self.patch} if self.patch else {}),
        }


# The parts of a reply, each with its value where it is not named.
REPLY: Mapping[str, Json] = {
    **dict.fromkeys(("decision", "granted_minor", "revised", "patch", "by", "simulated")),
    "comment": "",
    "correction": "",
}
