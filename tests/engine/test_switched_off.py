"""A tool switched off between plan and execution, and a hostile planner."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.json_forms import read_plan
from agents.core.requests import Stop
from agents.core.reviews import Facts
from agents.desks.refunds.limits import STRICT
from agents.desks.refunds.scenarios import WORKERS
from agents.models import Role
from agents.policies import review
from agents.shell import refusal
from agents.tools import specs
from tests.engine.scene import REFUND_500, go, payments, set_scene
from tests.engine.test_external import LOOK, Session
from tests.limits import with_part

LIMITS = STRICT.of("orchestrator", "refunds")
SCOPE = {"report_date": "2026-02-26", "region": "US"}


@pytest.mark.django_db(transaction=True)
def test_nothing_is_switched_off_for_one_run_outside_a_demo() -> None:
    scene = set_scene()
    scene.workspace.is_demo = False
    scene.workspace.save(update_fields=["is_demo"])

    with pytest.raises(refusal.Refused, match="only in a demo"):
        scene.launch(
            "Prepare the report.", pattern="orchestrator", subject=None, off=("inventory_worker",)
        )


@pytest.mark.both
@pytest.mark.django_db(transaction=True)
def test_a_tool_is_off_at_the_next_call_of_open_runs() -> None:
    scene = set_scene()
    session, waiting, chief = Session(scene), go(scene.launch()), scene.add("chief", Role.ADMIN)
    queued = scene.launch(REFUND_500)
    assert session.propose("k0", LOOK)["status"] == "executed"
    scene.decide(waiting)

    off = ["issue_refund", "get_refund_context"]
    scene.publish(with_part(off=off, limits={"auto_limit_minor": 0}).as_json(), chief)
    ended, again = go(waiting), session.propose("k1", LOOK)

    assert (ended.stop_reason, payments(ended)) == ("tool_off:issue_refund", [])
    assert again["reason"] == "tool_off:get_refund_context"
    assert again["sentence"].endswith("has get refund context switched off.")
    scene.publish(with_part(limits={"auto_limit_minor": 0}).as_json(), chief)
    assert session.propose("k2", LOOK)["status"] == "executed"
    assert payments(go(queued)) == [50000]  # by its own version's limit


WORDS = st.sampled_from([*WORKERS, "rm_worker", "", " sales_worker "])
ARGS = st.one_of(
    st.just(SCOPE),
    st.fixed_dictionaries({"report_date": st.text(max_size=12), "region": st.text(max_size=4)}),
    st.dictionaries(st.sampled_from(["report_date", "region", "key"]), st.none() | st.integers()),
)
TASKS = st.fixed_dictionaries(
    {
        "id": st.text(max_size=4) | st.none(),
        "worker": WORDS,
        "args": ARGS,
        "critical": st.booleans() | st.none(),
    }
)


@given(st.one_of(st.text(), st.lists(TASKS, max_size=5)))
def test_a_lost_planner_makes_no_plan_that_misleads(said: Any) -> None:
    text = said if isinstance(said, str) else json.dumps({"kind": "plan", "tasks": said})
    try:
        tasks = read_plan(text, specs=specs("refunds"), allowed=WORKERS, max_tasks=4)
    except Stop:
        return  # refused before anybody is asked

    found = review({"kind": "plan", "tasks": tasks}, Facts(scope=SCOPE), LIMITS)

    if found.allows:
        planned = found.action["tasks"]
        assert sorted(task["worker"] for task in planned) == sorted(WORKERS)
        assert {task["args"]["report_date"] for task in planned} == {"2026-02-26"}
        assert all(task["critical"] for task in planned if task["worker"] in LIMITS.critical)
