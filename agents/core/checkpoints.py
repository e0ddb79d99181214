"""Read an agent's commitment before a step, and its own assessment afterwards.

Both are claims of a model. Unreadable ones never count as good news: a missing commitment and an
unreadable assessment are triggers of their own (SVC-Q2, SVC-Q8).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from agents.core.actions import is_hidden
from agents.core.requests import Json
from agents.core.strict_json import BadJson, parse

NOT_SHOWN = "�"  # in place of a character that would control the display


class UnreadableReply(ValueError):
    """The reply has no object of the expected kind. The message says why."""


@dataclass(frozen=True)
class Commitment:
    """What the agent intends to do. `given` is False if its reply was unreadable."""

    interpretation: str = ""
    scope_in: tuple[str, ...] = ()
    scope_out: tuple[str, ...] = ()
    approach: str = ""
    predicted_output: str = ""
    confidence: str = "low"  # high, medium, low; another word is kept as it was said
    assumptions: tuple[str, ...] = ()
    given: bool = False

    def as_json(self) -> dict[str, Json]:
        return asdict(self)


@dataclass(frozen=True)
class Assessment:
    """The agent's assessment of its own work. `readable` is False if its reply was not."""

    met_commitment: bool = False
    deviations: tuple[str, ...] = ()
    concerns: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    readable: bool = False

    def as_json(self) -> dict[str, Json]:
        return asdict(self)


def read_commitment(text: str) -> Commitment:
    """Return the commitment in a reply; a missing one is empty and of low confidence.

    All or nothing: one value of the wrong kind discards the whole.
    """
    try:
        said = object_in(text)
        return Commitment(
            interpretation=text_of(said, "interpretation"),
            scope_in=_texts(said, "scope_in"),
            scope_out=_texts(said, "scope_out"),
            approach=text_of(said, "approach"),
            predicted_output=text_of(said, "predicted_output"),
            confidence=text_of(said, "confidence") or "medium",
            assumptions=_texts(said, "assumptions"),
            given=True,
        )
    except UnreadableReply:
        return Commitment()


def no_commitment(reason: str) -> Commitment:
    """Return the substitute for a commitment that the model failed to give."""
    return Commitment(assumptions=(f"Failed to obtain commitment from agent: {reason}",))


def read_assessment(text: str) -> Assessment:
    """Return the assessment in a reply; an unreadable one has met no commitment."""
    try:
        said = object_in(text)
        return Assessment(
            met_commitment=_flag(said, "met_commitment"),
            deviations=_texts(said, "deviations"),
            concerns=_texts(said, "concerns"),
            unexpected=_texts(said, "unexpected"),
            readable=True,
        )
    except UnreadableReply:
        return Assessment()


def no_assessment(reason: str) -> Assessment:
    """Return the substitute for an assessment that the model failed to give."""
    return Assessment(concerns=(f"Failed to obtain self-assessment: {reason}",), readable=True)


def object_in(text: str) -> dict[str, Json]:
    """Return the object between the first { and the last } of a reply. Raises Unreadable.

    Prose and fences around it are ignored, and so is the case of keys.
    """
    begin, end = text.find("{"), text.rfind("}")
    if begin < 0 or end < begin:
        raise UnreadableReply("")
    try:
        said = parse(text[begin : end + 1])
    except BadJson as error:
        raise UnreadableReply(str(error)) from None
    found = {key.lower(): value for key, value in said.items()}
    if len(found) < len(said):
        raise UnreadableReply("a key stands twice, in different cases of letters")
    return found


def text_of(said: Mapping[str, Json], key: str) -> str:
    """Return a text; absent and null are "". Raises Unreadable."""
    value = said.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UnreadableReply(f"{key} is no text")
    return printable_text(value)


def printable_text(text: str) -> str:
    """Return a text without the characters that control a display, nor NUL."""
    return "".join(NOT_SHOWN if is_hidden(char) else char for char in text)


def _texts(said: Mapping[str, Json], key: str) -> tuple[str, ...]:
    value = said.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise UnreadableReply(f"{key} is no list")
    return tuple(text_of({key: item}, key) for item in value)


def _flag(said: Mapping[str, Json], key: str) -> bool:
    value = said.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise UnreadableReply(f"{key} is neither true nor false")
    return value
