"""A workflow is checked as a whole before it runs, and an agent's statements are read strictly."""

import json
from typing import Any

import pytest

from agents.core.checkpoints import Commitment, evidence, read_assessment, reconcile
from agents.core.workflows import (
    BadWorkflow,
    Supervision,
    WorkflowStep,
    bind_parameters,
    cap_of,
    check_workflow,
    read_workflow,
)
from agents.desks.refunds.limits import STRICT
from agents.tools import specs

LIMITS = STRICT.of("workflow", "refunds")


def workflow_of(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    described = [{"kind": "goal", "description": "Do it.", **step} for step in steps]
    return {"name": "wf", "sequences": [{"name": "s", "steps": described}], **more}


def problems(document: dict[str, Any]) -> list[str]:
    with pytest.raises(BadWorkflow) as found:
        check_workflow(read_workflow(document), LIMITS, tools=specs("refunds"))
    return str(found.value).removeprefix("preflight: ").split("\n")


def test_every_problem_is_named_at_once() -> None:
    document = workflow_of(
        {"name": "a", "tools": ["issue_refund"]},
        {"name": "a", "description": "Use $b."},
        {"name": "b/c", "agents": [{"name": "x"}, {"name": "x"}], "tools": ["send_reply"]},
        {"kind": "convergence", "name": "d", "within": 99},
        {"kind": "convergence", "name": "e", "within": 2, "within_var": "n", "tools": ["t"]},
    )

    assert problems(document) == [
        "step a: the name is used 2 times",
        "goal a: $b is not declared as a parameter or upstream output",
        "goal b/c: a name is at most 60 letters, digits, spaces, points, - and _",
        "goal b/c: agent x: the name is used 2 times",
        "goal b/c: a goal has tools or agents, not both",
        "convergence d: 'within' must be > 0 and at most 20",
        "convergence e: 'within' and 'within_var' are set; set one",
        "convergence e: a convergence has neither agents nor tools",
        "convergence e: $n is not declared as a parameter or upstream output",
        "goal a: the policy lets nobody propose issue_refund",
        "convergence e: the policy lets nobody propose t",
    ]


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ([], "The workflow cannot be"),
        ({"steps": []}, "steps cannot be"),
        (workflow_of({"name": "a", "mode": "by_nobody"}), "it is one of unsupervised"),
        (workflow_of({"name": "a", "mode": 2}), "it is one of unsupervised"),
        (workflow_of({"kind": "loop"}), "'goal' or 'convergence'"),
        (workflow_of({"name": 7}), "steps.0.name cannot be 7"),
        (workflow_of({"name": "a", "within": True}), "within cannot be True"),
        ({"name": "wf", "sequences": {}}, "sequences cannot be {}"),
    ],
)
def test_a_document_of_another_shape_is_refused(document: Any, says: str) -> None:
    with pytest.raises(BadWorkflow, match=says):
        read_workflow(document)


@pytest.mark.parametrize(
    ("whole", "sequence", "step", "holds"),
    [
        ("by_person", "by_model", "unsupervised", Supervision.BY_PERSON),
        ("unsupervised", "by_model", "by_person", Supervision.BY_PERSON),
        ("unsupervised", "by_model", "unsupervised", Supervision.BY_MODEL),
        ("unsupervised", "unsupervised", "unsupervised", Supervision.UNSUPERVISED),
    ],
)
def test_the_stricter_mode_holds(whole: str, sequence: str, step: str, holds: Supervision) -> None:
    document = workflow_of({"name": "a", "mode": step}, mode=whole)
    document["sequences"][0]["mode"] = sequence

    assert [mode for _, mode in read_workflow(document).steps] == [holds]


def test_a_parameter_has_its_default_and_no_other_is_taken() -> None:
    parameters = [{"name": "goal"}, {"name": "tone", "default": "brief"}]
    workflow = read_workflow(workflow_of({"name": "a"}, parameters=parameters))

    assert bind_parameters(workflow, {"goal": "g"}) == {"goal": "g", "tone": "brief"}
    with pytest.raises(BadWorkflow, match="required parameter missing: goal"):
        bind_parameters(workflow, {})
    with pytest.raises(BadWorkflow, match="no parameter mood"):
        bind_parameters(workflow, {"goal": "g", "mood": "sad"})


@pytest.mark.parametrize("value", ["", "0", "-3", "many", "1.5"])
def test_a_cap_that_is_no_number_above_nought_is_refused(value: str) -> None:
    step = WorkflowStep("convergence", "k", "d", within_var="n")

    with pytest.raises(BadWorkflow, match="convergence k: withinVar"):
        cap_of(step, {"n": value})


GIVEN = Commitment(given=True, confidence="high", scope_in=("send_reply to the customer",))


def test_triggers_come_in_the_order_of_the_specification() -> None:
    said = {"met_commitment": False, "unexpected": ["u"], "concerns": ["c", ""]}

    found = reconcile(GIVEN, read_assessment(json.dumps({**said, "deviations": ["d1", "ü 2"]})))

    assert found == [
        "commitment_not_met",
        "deviation:d1",
        "deviation:ü 2",
        "concern:c",
        "unexpected:u",
    ]


@pytest.mark.parametrize(
    "said",
    [
        "fine, all done",
        '{"met_commitment": true',
        '{"met_commitment": "false"}',
        '{"met_commitment": true, "deviations": "none"}',
        '{"met_commitment": true, "met_commitment": true}',
        '{"met_commitment": true, "Met_Commitment": false}',
        '{"met_commitment": true} {"met_commitment": true}',
    ],
)
def test_an_assessment_that_cannot_be_read_met_nothing(said: str) -> None:
    found = reconcile(GIVEN, read_assessment(said))

    assert found == ["commitment_not_met", "assessment_unparseable"]


@pytest.mark.parametrize(
    ("commitment", "found"),
    [
        (GIVEN, []),
        (Commitment(given=True, confidence="high"), ["tool_outside_scope:send_reply"]),
        (
            Commitment(
                given=True,
                confidence="high",
                scope_in=("send_reply",),
                scope_out=("calling send_reply twice",),
            ),
            ["tool_outside_scope:send_reply"],
        ),
    ],
)
def test_undeclared_tool_is_evidence_without_admission(
    commitment: Commitment, found: list[str]
) -> None:
    assert evidence(commitment, used=["send_reply"], claim="") == found
