"""OpenTelemetry's spans of external agents' calls, if its SDK is set up.

A call's states are reported as they are recorded, below the agent's own span if it named one:
proposed, waiting, a person's decision, and the outcome from proposal to answer. Only the API's
package is used, if it is there. Without an SDK nothing is looked up and nothing is made.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from importlib import import_module
from typing import Any

from django.db import transaction

from agents.core.requests import Json
from agents.models import AgentCall, Run, Step
from agents.models.record import Entry
from agents.patterns.external import ANSWERED, EXECUTED, NOT_EXECUTED, UNKNOWN

PARENT = "traceparent"
QUESTION = "question"  # instead of a tool: it asks a person
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

_api: Any = None
with suppress(ImportError):
    _api = import_module("opentelemetry.trace")
    _wire: Any = import_module("opentelemetry.trace.propagation.tracecontext")


def is_on() -> bool:
    """Tell whether an SDK records spans."""
    unset = _api and (_api.ProxyTracerProvider, _api.NoOpTracerProvider)
    return bool(unset) and not isinstance(_api.get_tracer_provider(), unset)


def checked_parent(text: str) -> str:
    """Return a valid traceparent header for storing; "" for an invalid one."""
    return text if _PARENT.fullmatch(text) else ""


def tell_proposed(run: Run, tool: str, parent: str, at: datetime) -> str:
    """Report a committed proposal. Return the parent of its other spans.

    `parent` is from its agent; it is returned if nobody records spans.
    """
    if not is_on():
        return parent
    span = _begin(run, f"propose_tool {tool}", tool, "proposed", parent, at)
    transaction.on_commit(partial(span.end, _nanoseconds(at)), robust=True)
    carrier: dict[str, str] = {}
    _wire.TraceContextTextMapPropagator().inject(carrier, _api.set_span_in_context(span))
    return carrier.get(PARENT, parent)


def tell_recorded(run: Run, entries: Iterable[Entry], at: datetime) -> None:
    """Report the calls' states in these events, once they are committed."""
    states = list(_states_in(entries)) if run.agent_id and is_on() else []
    if states:
        transaction.on_commit(partial(_tell, run, states, at), robust=True)


def _states_in(entries: Iterable[Entry]) -> Iterator[tuple[str, str, str]]:
    """Yield the step, the state and the reason of each call in these events."""
    for entry in entries:
        facts = entry.facts
        if entry.kind == ANSWERED:
            yield facts["key"], facts["status"], facts["reason"]
        elif entry.kind == "escalation.opened":
            yield facts["key"], "waiting", facts["reason"]
        elif entry.kind == "escalation.decided":
            yield facts["key"], facts["decision"], ""


def _tell(run: Run, states: list[tuple[str, str, str]], at: datetime) -> None:
    calls = {f"{key.rpartition('/')[0]}/call" for key, _, _ in states}
    replies = dict(Step.objects.filter(run=run.pk, key__in=calls).values_list("key", "reply"))
    rows = AgentCall.objects.filter(run=run.pk, step__in=calls).values_list("step", "proposed_at")
    proposed_at = dict(rows)
    for key, state, reason in states:
        of = f"{key.rpartition('/')[0]}/call"
        call: Json = replies.get(of)
        if not call or of not in proposed_at:
            continue  # the end, which a person may have to allow
        tool = call.get("name", QUESTION)
        is_answer = state in (EXECUTED, NOT_EXECUTED, UNKNOWN)
        name = f"{'execute_tool' if is_answer else 'review_tool'} {tool}"
        begun_at = proposed_at[of] if is_answer else at
        span = _begin(run, name, tool, state, call.get(PARENT, ""), begun_at)
        span.set_attribute("gen_ai.tool.call.id", str(call["call"]))
        if reason:
            span.set_attribute("opsconsole.reason", reason)
        span.end(_nanoseconds(at))


def _begin(run: Run, name: str, tool: str, state: str, parent: str, at: datetime) -> Any:
    """Begin a span below the one that `parent` names, if any."""
    above = _wire.TraceContextTextMapPropagator().extract({PARENT: parent}) if parent else None
    about = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "opsconsole.agent": run.agent.name if run.agent else "",
        "opsconsole.run": str(run.pk),
        "opsconsole.state": state,
    }
    begun_at = _nanoseconds(at)
    return _api.get_tracer("opsconsole").start_span(
        name, above, attributes=about, start_time=begun_at
    )


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000
