"""The requests that a pattern can make.

A pattern is a generator: each ``yield`` passes the engine one request and returns the recorded
reply. Requests are plain data, so running a pattern again over the same replies always reaches the
same place. Anything that could answer differently tomorrow is a request: a model, a tool, a person,
and also the policy, because the facts it reads change while a run waits.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Json: TypeAlias = Any  # whatever json.dumps accepts

TAKE = "take"
STOP_REASON_LENGTH = 200  # a stop reason may quote the model, so it is cut to its column


@dataclass(frozen=True)
class Ask:
    """Ask a model. Reply: {"text"}; text is "" when the model said nothing.

    From a model that was offered tools, each call is a text, and "more" holds all but the first.
    """

    label: str
    role: str
    inputs: Json
    as_json: bool = True
    # Guidance for the model, stored but not compared, so that it may be improved while runs wait:
    # "schema" of the JSON answer, "desk" that it acts for, "more_tools" unknown to its prompt.
    guide: Json = None
    # For a model that is offered tools, see `patterns.dialogue`. It follows from earlier steps.
    dialogue: Json = None


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
    """Call a tool through the gateway. Reply: the tool's result.

    `allowed_by` names the step that allowed these very arguments: a review or an escalation.
    """

    label: str
    tool: str
    args: Json
    allowed_by: str


@dataclass(frozen=True)
class Await:
    """Wait for what an agent elsewhere proposes next. Reply: {"call", "name", "args"} or {"end"}.

    `call` is the number of the call's row; `end` is the agent's last words. Under the label TAKE it
    waits until the agent takes a call that it is to execute itself.
    """

    label: str


@dataclass(frozen=True)
class Say:
    """Put a line on the record, once. Reply: None."""

    label: str
    kind: str  # of the event: verdict.rendered
    facts: Json


@dataclass(frozen=True)
class Together:
    """Run flows in parallel. Reply: {name: FlowOutcome} once every flow has ended."""

    label: str
    flows: Mapping[str, Flow]
    at_once: int | None = None  # the most at a time, in order; None: all


Request: TypeAlias = Ask | Review | Escalate | Use | Await | Say | Together
Flow: TypeAlias = Generator[Request, Any, Json]
_NOT_STORED = ("label", "dialogue")


def request_body(request: Request) -> Json:
    """Return a request's content as stored with its step, without the label, which is the key."""
    body = {name: part for name, part in vars(request).items() if name not in _NOT_STORED}
    return {"effect": type(request).__name__.lower(), **body}


def question(asked: Json) -> Json:
    """Return what a replay must repeat of a step's request: all but the model's guidance."""
    return {name: part for name, part in asked.items() if name != "guide"}


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
    """A step failed. Raised inside the pattern, which may catch it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason[:STOP_REASON_LENGTH]
