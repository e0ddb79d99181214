"""Patterns: generators that yield requests and do nothing themselves."""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from agents.core.json_forms import ArgSpecs
from agents.core.limits import EXTERNAL, Limits
from agents.core.money import to_model_units
from agents.core.registry import enter, load
from agents.core.requests import Flow, Json, Reply, replay
from agents.sdk.desk import Desk

# The version of the patterns' requests. A run keeps the version of its launch. 3 is from 0.2.0, the
# oldest version that upgrades.
QUESTION_VERSION = 4


@dataclass(frozen=True)
class Brief:
    """The pinned inputs of a run, so that a replay reads the same."""

    goal: str
    limits: Limits
    specs: ArgSpecs  # the arguments of every tool a model may name
    scope: Json = None  # what a report is about, as texts by name
    # Compute a report's figures from the lines of its tasks and the expected sources.
    figures: Callable[[Sequence[Json], Collection[str]], dict[str, Json]] | None = None
    workflow: Json = None  # the declared document, where the pattern follows one
    before: Json = None  # goals, effects and results of the earlier runs
    inputs: Mapping[str, str] = field(default_factory=dict)  # the values of its parameters
    bound: Mapping[str, Json] = field(default_factory=dict)  # arguments of one value only
    more_tools: Mapping[str, str] = field(default_factory=dict)  # usage that no prompt has
    desk: Json = None  # the desk's task and subject, for a model of a declared desk
    question_version: int = QUESTION_VERSION  # pinned: an older run asks in its own form
    reads: Collection[str] = ()  # the tools that change nothing
    by_agent: Collection[str] = ()  # the tools whose calls an external agent executes
    slots: int = 0  # for calls of an external agent at once; 0: `at_once`
    in_model_units: bool = True  # in ``_usd``: at the first desk

    def guidance(self, *, schema: Json = None, tools: Collection[str] = ()) -> Json:
        """Return the guide for a model with a question, or None.

        It has the schema of the answer, the desk, and the usage of tools that the prompt does not
        describe.
        """
        usage = {name: used for name, used in self.more_tools.items() if name in tools}
        parts = {"schema": schema, "desk": self.desk, "more_tools": usage}
        return {name: part for name, part in parts.items() if part} or None

    def as_models_see(self, value: Json) -> Json:
        """Return a value in the units of the run's models and its result."""
        return to_model_units(value) if self.in_model_units else value


@dataclass
class Notes:
    """A flow's notes on its own course, in the reference's words."""

    trace: list[Json] = field(default_factory=list)
    history: list[Json] = field(default_factory=list)
    blocks: list[Json] = field(default_factory=list)  # as the agent is told them
    turns: list[Json] = field(default_factory=list)  # proposals, each with its outcome
    proposed: list[str] = field(default_factory=list)  # in the last reply, and not reviewed yet
    was_required: bool = False  # the agent had to call one of its tools in that reply


PatternFlow: TypeAlias = Callable[[Brief, Notes], Flow]
PATTERNS: dict[str, PatternFlow] = {}
# Each desk names those that it offers; a pattern from another file is offered at every desk.
_OF_DESKS = ("supervisor", "routing", "orchestrator", "workflow", EXTERNAL)


def offered_at(desk: Desk) -> list[str]:
    """Return the patterns that a person can launch at a desk."""
    return ["supervisor", *desk.patterns, *(name for name in PATTERNS if name not in _OF_DESKS)]


PROPOSE_AGAIN: set[str] = set()  # patterns whose requests a reviewer can send back


def pattern(flow: PatternFlow) -> PatternFlow:
    """Register a generator function under its own name; its docstring is its phases."""
    enter(PATTERNS, flow.__name__, flow)
    return flow


def proposes_again(flow: PatternFlow) -> PatternFlow:
    """Mark a pattern as handling the decision "sent_back": its agent gets the reason and continues.

    Other patterns' requests cannot be sent back.
    """
    PROPOSE_AGAIN.add(flow.__name__)
    return flow


def result(name: str, brief: Brief, replies: Mapping[str, Reply]) -> dict[str, Json]:
    """Return a run's result in the reference's form, from its recorded steps alone.

    A run that has not ended has status "running".
    """
    notes = Notes()
    strand = replay(PATTERNS[name](brief, notes), replies)
    end: dict[str, Json] = {"status": "running"}
    if strand.outcome and strand.outcome.stopped:
        end = {"status": "stopped", "stop_reason": strand.outcome.stopped, **strand.details}
    elif strand.outcome:
        end = {"status": "ok", "stop_reason": "success", **strand.outcome.value}
    # A model's raw reply is kept unchanged.
    raw = {key: end.pop(key) for key in ("raw_action", "raw_route", "raw_plan") if key in end}
    return {**brief.as_models_see({**end, "trace": notes.trace, "history": notes.history}), **raw}


load(sys.modules[__name__])
