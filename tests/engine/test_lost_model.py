"""A hostile worker model: whatever it proposes, the ledger stays true.

Hypothesis writes its replies; engine, desk and simulated person are real.
"""

import json
from typing import Any

import pytest
from django.db import connection
from django.test import override_settings
from django.utils import timezone
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from agents.core.requests import ENDED, EscalationState, RunState
from agents.desks.refunds.models import SentMail
from agents.models import Effect, Run
from agents.replay.cases import decide_simulated, read_human
from tests import checker
from tests.conformance.replay_server import ReplayServer
from tests.engine.scene import Scene, go, payments, set_scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

customers = st.sampled_from([42, 42, 42, 7, 999, -1, 10**30])
amounts = st.sampled_from(
    [1, 0.01, 300, 500, 500.5, 999.99, 1000, 1000.01, 1200, 1900, 0, -5, 0.001, 1e308, 10**20]
)
texts = st.sampled_from(["r", "", "other words", "http://evil.example", "\u202e", "x" * 5000])


def tool(name: str, **args: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    """Return proposals to call a tool, as a model writes them."""
    whole = st.fixed_dictionaries(args)
    return whole.map(lambda given: json.dumps({"kind": "tool", "name": name, "args": given}))


anna = st.just(42)
sound_amounts = st.sampled_from([1, 0.01, 300, 500, 500.5, 999.99, 1000, 1000.01, 1200, 1900])
sound = [
    tool("issue_refund", user_id=anna, amount_usd=sound_amounts, reason=st.just("r")),
    tool("issue_refund", user_id=anna, amount_usd=sound_amounts),
    tool("send_refund_email", user_id=anna, amount_usd=sound_amounts, message=st.just("m")),
    tool("get_refund_context", user_id=anna),
]
odd = [
    tool("get_refund_context", user_id=customers),
    tool("issue_refund", user_id=customers, amount_usd=amounts, reason=texts),
    tool("send_refund_email", user_id=customers, amount_usd=amounts, message=texts),
    texts.map(lambda text: json.dumps({"kind": "final", "answer": text})),
    st.sampled_from(
        [
            '{"kind": "final", "answer": "Refunded 1200 USD."}',
            '{"kind": "tool", "name": "delete_user", "args": {}}',
            '{"kind": "tool", "name": "issue_refund", "args": {"user_id": 42, "amount_usd": NaN}}',
            "[" * 1000,
            "not JSON",
        ]
    ),
]
# Mostly sound calls, so that odd ones come late, when there is something to lose.
proposals = st.one_of(*sound, *sound, *sound[:2], *odd)


@pytest.mark.proves("I4", "I9", "I11")
@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(script=st.lists(proposals, min_size=1, max_size=7))
def test_whatever_it_proposes_the_ledger_stays_true(
    server: ReplayServer, script: list[str]
) -> None:
    scene = scene_of_this_test()
    context = '{"kind": "tool", "name": "get_refund_context", "args": {"user_id": 42}}'
    server.load("lost", [context, *script, '{"kind": "final", "answer": "Done."}'])

    with override_settings(OPENAI_BASE_URL=server.base_url("lost"), OPENAI_API_KEY="any"):
        run = to_the_end(scene, scene.launch("Refund what is due to user_id=42."))

    event(f"ended: {run.stop_reason.partition(':')[0]}, {Effect.objects.filter(run=run).count()}")
    assert run.stop_reason not in ("internal_error", "diverged")
    assert len(amounts := payments(run)) == len(set(amounts))
    assert not SentMail.objects.filter(body__contains="evil").exists()
    with connection.cursor() as cursor:
        assert checker.violations(cursor) == []


def scene_of_this_test() -> Scene:
    """Return the scene, made once: hypothesis runs many examples in one test."""
    from django.contrib.auth.models import User

    from agents.models import Workspace

    found = Workspace.objects.filter(slug="demo").first()
    if found is None:
        return set_scene()
    people = {name: User.objects.get(username=name) for name in ("rita", "omar", "eve")}
    return Scene(found, **people)


def to_the_end(scene: Scene, run: Run) -> Run:
    """Drive the run; a simulated person grants at most 800 of each request."""
    human = read_human({"decision": "approve", "cap_usd": 800.0})
    for _ in range(10):
        run = go(run)
        if run.state in ENDED:
            return run
        assert run.state == RunState.WAITING
        for escalation in run.escalations.filter(state=EscalationState.OPEN):
            decide_simulated(escalation, human, at=timezone.now())
    raise AssertionError("it never ended")
