"""A call's outcome, and what a model is told about it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, get_args

Json: TypeAlias = Any
Status: TypeAlias = Literal["executed", "not_executed", "waiting", "unknown", "allowed", "taken"]
# The source of a call's key: given by the program, made of the arguments, of the framework's own id
# of the call, or new each time, as a read may be repeated.
KeyFrom: TypeAlias = Literal["given", "arguments", "call_id", "new"]

_NOTES = {
    "executed": "It was executed as `arguments` says. Do not propose the original again.",
    "waiting": "It is not decided yet. Nothing was executed. Do not propose it again.",
    "allowed": "It is allowed and was not executed: the program that you run in has to do that.",
    "taken": "A program of the user is executing it. Do not propose it again.",
    "unknown": "Nobody knows yet whether it was executed; a person is asked. Propose nothing in "
    "its place.",
}


class DeskError(Exception):
    """The console could not be asked, or it does not answer this program."""


class Unreachable(DeskError):
    """The console did not answer for as long as the desk waits. Ask again under the same key."""


class Refused(DeskError):
    """The console refused a request, so that it did nothing. `code` is stable, `str` a sentence."""

    def __init__(self, status: int, code: str, sentence: str, call: int = 0) -> None:
        super().__init__(sentence)
        self.status, self.code, self.call = status, code, call


@dataclass(frozen=True)
class Outcome:
    """The outcome of a call. Only `executed` means that it took effect."""

    tool: str
    key: str
    key_from: KeyFrom
    status: Status
    id: int = 0  # 0: the console recorded no call
    waiting_for: str = ""  # "turn", "ruling", "person", "two_people"; "switch": allowed, and held
    proposed: Json = None  # as it was proposed first, masked by the policy
    arguments: Json = None  # as it ran, or as it may run so far
    result: Json = None
    changed_by: str = ""  # "policy", "person"
    decided_by: str = ""
    comment: str = ""  # of the person who decided: data, not an instruction
    rule: str = ""
    reason: str = ""
    sentence: str = ""
    permit: str = ""  # of a call that was taken: for the server of its tool
    repeats: Sequence[Json] = ()  # the calls that it repeats, each with its id and end

    @property
    def is_settled(self) -> bool:
        """Tell whether it no longer waits for the console."""
        return self.status in ("executed", "not_executed", "allowed", "taken")

    @property
    def told(self) -> dict[str, Json]:
        """Return the outcome for a model, as data. Without a reported change, it asks again."""
        names = ("status", "arguments", "result", "changed_by", "decided_by", "comment", "reason")
        found = {name: getattr(self, name) for name in (*names, "repeats", "sentence")}
        told = {name: value for name, value in found.items() if value not in ("", None, (), [])}
        if self.status != "executed":
            told.pop("result", None)
        if note := _NOTES.get(self.status if self.status != "executed" or self.changed_by else ""):
            told["note"] = note
        return told

    @property
    def text(self) -> str:
        """Return the outcome for a model, as JSON."""
        return json.dumps(self.told, ensure_ascii=False)


_TOLD = {field.name for field in fields(Outcome)}


def outcome_of(answer: Mapping[str, Json], key: str, key_from: KeyFrom) -> Outcome:
    """Read the console's answer. A status that this client does not know is `unknown`."""
    told = {name: value for name, value in answer.items() if name in _TOLD}
    if told.get("status") not in get_args(Status):
        told["status"] = "unknown"
    return Outcome(**{**told, "key": key, "key_from": key_from})
