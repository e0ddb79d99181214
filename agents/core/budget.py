"""A run's budgets, and the gateway's limits on calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from agents.core.digest import args_hash
from agents.core.limits import Limits
from agents.core.money import to_model_units
from agents.core.requests import Json

REVIEW_CHANGED = "review_changed"  # not called, because it is no longer allowed
BUDGETS = frozenset({"max_seconds", "max_tokens", "max_cost"})


@dataclass(frozen=True)
class Spent:
    """What a run has used so far, from its steps."""

    seconds: float = 0.0  # active time; parallel calls count once
    tokens: int = 0  # including those reserved for calls without an answer
    cost_micro_usd: int = 0  # of calls with a known price


def active(spans: Iterable[tuple[float, float]]) -> float:
    """Return the seconds covered by these spans; overlaps count once."""
    total, covered = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, covered))
        covered = max(covered, end)
    return total


def exceeded_budget(spent: Spent, limits: Limits) -> str:
    """Return the stop reason of an exhausted budget, or "".

    A budget of 30 seconds is exhausted at 30.0; tokens and cost may be used up to the limit.
    """
    if spent.seconds >= limits.max_seconds:
        return "max_seconds"
    if spent.tokens > limits.max_tokens:
        return "max_tokens"
    if spent.cost_micro_usd > limits.max_cost_micro_usd:
        return "max_cost"
    return ""


@dataclass(frozen=True)
class Call:
    """One tool call that a run has begun."""

    tool: str
    args: Json

    @cached_property
    def signature(self) -> str:
        return f"{self.tool}:{args_hash(to_model_units(self.args))}"


def refusal(
    call: Call, *, before: Sequence[Call], limits: Limits, registered: Collection[str]
) -> str:
    """Return why the gateway refuses a call, or "" if it may be made.

    The order is the reference's: budget, allowlist, registry, loops (sup-152 to sup-188).
    """
    if len(before) >= limits.max_tool_calls:
        return "max_tool_calls"
    if call.tool not in limits.executable:
        return f"tool_denied:{call.tool}"
    if call.tool not in registered:
        return f"tool_missing:{call.tool}"
    if sum(past.tool == call.tool for past in before) >= limits.calls_of(call.tool):
        return "loop_detected:per_tool_limit"
    if sum(past.signature == call.signature for past in before) >= limits.repeats_of(call.tool):
        return "loop_detected:signature_repeat"
    return ""
