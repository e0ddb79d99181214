"""Spans of an agent's calls: its own trace goes on, and the states can be told apart."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from agents.engine import tracing
from agents.models import Step
from tests.api.test_endpoints import LOOK as LOOK_UP
from tests.api.test_endpoints import Caller
from tests.api.test_journey import make_agent
from tests.engine.scene import Scene, decide_request, patch_of
from tests.engine.test_external import LOOK, Session, held, refund
from tests.processes import ROOT

pytestmark = [pytest.mark.django_db(transaction=True)]
trace = pytest.importorskip("opentelemetry.trace")
sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="an SDK is not installed")
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Set up an SDK that keeps spans in memory. Return them."""
    export = import_module("opentelemetry.sdk.trace.export")
    memory = import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    provider, kept = sdk.TracerProvider(), memory.InMemorySpanExporter()
    provider.add_span_processor(export.SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield kept.get_finished_spans
    provider.shutdown()


def states(spans: Any) -> list[tuple[str, str]]:
    return [(span.name, span.attributes["opsconsole.state"]) for span in spans()]


def test_a_call_is_told_from_its_proposal_to_its_answer(scene: Scene, spans: Any) -> None:
    session = Session(scene)
    session.propose("k0", LOOK)
    session.propose("k1", refund(1200))
    decide_request(held(session), scene.rita, patch=patch_of(80000), comment="partly used")
    session.drive()
    session.propose("k2", refund(300))
    decide_request(held(session), scene.rita, approve=False, comment="no")
    session.drive()

    assert states(spans) == [
        ("propose_tool get_refund_context", "proposed"),
        ("execute_tool get_refund_context", "executed"),
        ("propose_tool issue_refund", "proposed"),
        ("review_tool issue_refund", "waiting"),
        ("review_tool issue_refund", "adjusted"),
        ("execute_tool issue_refund", "executed"),
        ("propose_tool issue_refund", "proposed"),
        ("review_tool issue_refund", "waiting"),
        ("review_tool issue_refund", "rejected"),
        ("execute_tool issue_refund", "not_executed"),
    ]
    paid = spans()[2:6]
    assert {span.parent.span_id for span in paid[1:]} == {paid[0].context.span_id}
    assert paid[-1].start_time < paid[-1].end_time
    assert paid[-1].attributes["gen_ai.tool.call.id"] == str(session.agent.calls.get(key="k1").pk)
    assert spans()[-1].attributes["opsconsole.reason"] == "human_rejected"


def test_the_trace_of_the_agent_goes_on(scene: Scene, spans: Any) -> None:
    caller = Caller(make_agent(scene)[1])
    run = caller.open()

    for key, parent in (("k0", PARENT), ("k1", "of no trace")):
        headers = {"idempotency-key": key, "traceparent": parent}
        assert caller.post(f"/runs/{run}/calls", LOOK_UP, **headers).status_code == 202

    mine, other = spans()
    assert (f"{mine.context.trace_id:032x}", f"{mine.parent.span_id:016x}") == (TRACE, SPAN)
    assert other.parent is None


SENDS = """
import sys
from opsconsole_client.http import Sent, _request
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
proposal = Sent("POST", "/runs/1/calls", {}, "k0")
print("traceparent" in _request(proposal)["headers"])
with trace.get_tracer("agent").start_as_current_span("answer") as span:
    sent = _request(proposal)["headers"]["traceparent"]
print(sent.split("-")[1:3] == [f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"])
"""


@pytest.mark.parametrize("propagators", ["tracecontext,baggage", "none", "b3"])
def test_the_client_sends_the_span_of_a_program(propagators: str) -> None:
    env = {"PYTHONPATH": str(ROOT / "clients/python/src"), "OTEL_PROPAGATORS": propagators}
    said = subprocess.run(
        [sys.executable, "-c", SENDS], env=env, capture_output=True, text=True, check=True
    )

    assert said.stdout.split() == ["False", "True"]


def test_agents_span_is_kept_without_an_sdk(scene: Scene) -> None:
    assert not tracing.is_on()
    session = Session(scene)
    caller = Caller(make_agent(scene, "triage")[1])
    headers = {"idempotency-key": "k0", "traceparent": PARENT}
    caller.post(f"/runs/{session.run.pk}/calls", LOOK_UP, **headers)
    session.drive()

    [step] = Step.objects.filter(run=session.run, kind="await", ended_at__isnull=False)
    assert json.dumps(step.reply).count(PARENT) == 1
