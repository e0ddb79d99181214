"""What a pattern may ask for.

A pattern is a generator: each ``yield`` hands the engine one request and gets the recorded
reply back. Requests are plain data, so running a pattern again over the same replies always
reaches the same place. Whatever could answer differently tomorrow is a request: a model, a
tool, a person, and also the policy, because the facts it reads change while a run waits.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

Json: TypeAlias = Any  # whatever json.dumps accepts

STOP_REASON_LENGTH = 200  # a stop reason may quote the model, so it is cut to its column


@dataclass(frozen=True)
class Ask:
    """Ask a model. Reply: {"text"}; text is "" when the model said nothing."""

    label: str
    role: str
    inputs: Json
    as_json: bool = True
    # What only helps a model to answer well, kept and not compared, so that it may be improved
    # while runs wait: "schema" of the JSON answer, "more_tools" that its prompt does not know.
    guide: Json = None


@dataclass(frozen=True)
class Review:
    """Put an action to the policy. Reply: a Review as JSON (see `core.rulings`).

    `granted` names the escalation whose decision allowed exactly this action, or is "".
    """

    label: str
    action: Json
    granted: str = ""


@dataclass(frozen=True)
class Escalate:
    """Wait for a person. Reply: {"decision", "granted_minor", "by", "comment", …}."""

    label: str
    kind: str  # `stored` of a kind in core.kinds
    action: Json
    review: Json


@dataclass(frozen=True)
class Use:
    """Call a tool through the gateway. Reply: what the tool returned.

    `allowed_by` names the step that allowed these very arguments: a review or an escalation.
    """

    label: str
    tool: str
    args: Json
    allowed_by: str


@dataclass(frozen=True)
class Say:
    """Put a line on the record, once. Reply: None."""

    label: str
    kind: str  # of the event: verdict.rendered
    facts: Json


@dataclass(frozen=True)
class Together:
    """Run flows side by side. Reply: {name: FlowOutcome} once every flow has ended."""

    label: str
    flows: Mapping[str, Flow]
    at_once: int | None = None  # how many at a time, in their order; None: all of them


Request: TypeAlias = Ask | Review | Escalate | Use | Say | Together
Flow: TypeAlias = Generator[Request, Any, Json]


def request_body(request: Request) -> Json:
    """Return what a request asks for, as it is stored with its step; the label is the key."""
    body = {f.name: getattr(request, f.name) for f in fields(request) if f.name != "label"}
    return {"effect": type(request).__name__.lower(), **body}


def question(asked: Json) -> Json:
    """Return what a replay must ask again of what a step asked: all but what guides a model.

    Steps of version 0.1.0 kept the guidance among the rest, and it still does not count.
    """
    if "schema" not in asked:
        return {name: part for name, part in asked.items() if name != "guide"}
    inputs = asked["inputs"]
    if isinstance(inputs, dict):
        inputs = {name: part for name, part in inputs.items() if name != "more_tools"}
    return {**{name: asked[name] for name in asked if name != "schema"}, "inputs": inputs}


@dataclass(frozen=True)
class FlowOutcome:
    """How a flow ended: with a value, or stopped for a reason."""

    value: Json = None
    stopped: str = ""


class Stop(Exception):
    """End the run on purpose; `reason` is shown to people and kept in the record."""

    def __init__(self, reason: str, **details: Json) -> None:
        super().__init__(reason)
        self.reason = reason[:STOP_REASON_LENGTH]
        self.details = details


class Failed(Exception):
    """A step came to nothing. Raised inside the pattern, which may catch it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason[:STOP_REASON_LENGTH]
