"""What a pattern's page shows above the steps, from real runs."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.audit.case import case_file
from agents.core.states import RunState
from agents.models import Run, Step
from agents.runs.pattern_parts import SpecialistAttempt, StepPart, Task, rounds, tasks, way
from agents.runs.trace import trace
from agents.runs.turns import axis
from agents.shell.event_words import phase_in_words, step_in_words
from tests.engine.scene import go, mails, set_scene

pytestmark = pytest.mark.django_db(transaction=True)


def ran(key: str) -> Run:
    return go(set_scene().launch_scenario(key))


def steps_of(key: str) -> list[Step]:
    return list(ran(key).steps.order_by("position"))


def test_a_case_is_shown_with_everybody_it_was_put_to() -> None:
    found: list[SpecialistAttempt] = way(steps_of("rerouted"), timezone.now())["attempts"]

    assert [attempt.number for attempt in found] == ["1", "2", "3"]
    assert [attempt.word for attempt in found] == ["declined", "declined", "done"]
    assert all(attempt.why for attempt in found[:2])


def test_a_report_is_shown_with_what_is_missing() -> None:
    above = tasks(steps_of("partial-report"), timezone.now())

    found: dict[str, Task] = {task.worker: task for task in above["tasks"]}
    assert above["health"] == ("failed", "Unknown")
    assert above["failed"] == ["Inventory worker"]
    assert found["Inventory worker"].word == "Failed"
    assert "the policy does not allow" in found["Inventory worker"].told
    assert found["Payments worker"].word == "Answered"
    assert [attempt.role for attempt in found["Payments worker"].attempts] == ["failed", "approve"]
    assert above["has_late"]


@pytest.mark.usefixtures("sources_answer_at_once")
def test_a_report_is_shown_with_the_facts_of_the_day_and_its_brief() -> None:
    above = tasks(steps_of("partial-report"), timezone.now())

    told = {part.name: part.told for part in above["parts"]}
    assert told["Sales"] == "Average order USD 37.85 · Gross sales USD 182,450.00 · Orders 4,820"
    assert "Failed payments 2.3%" in told["Payments"]
    assert told["Inventory"] == ""
    day = timezone.now().date() - timedelta(days=1)
    assert above["brief"].text.startswith(f"Health unknown: US, {day}. Partial report")
    assert (above["brief"].word, above["brief"].why) == ("Revised", "")
    assert [x for x, _ in above["quarters"]] == [0, 25, 50, 75]


@pytest.mark.usefixtures("sources_answer_at_once")
def test_a_brief_is_shown_as_the_facts_are_whatever_the_reporter_wrote() -> None:
    brief = tasks(steps_of("rosy-brief"), timezone.now())["brief"]

    assert brief.text.startswith("Health yellow: ")
    assert "green" not in brief.text


@pytest.mark.usefixtures("sources_answer_at_once")
def test_nothing_is_told_of_a_day_that_was_never_put_together() -> None:
    above = tasks(steps_of("critical-failure"), timezone.now())

    assert (above["parts"], above["brief"], above["health"]) == ([], None, None)


def test_the_steps_and_the_pictures_above_them_tell_one_story() -> None:
    run = ran("partial-report")

    turns = {turn.title: turn for turn in trace(run).turns}
    above = tasks(list(run.steps.order_by("position")), timezone.now())

    brief = turns["Brief"]
    assert (above["brief"].role, above["brief"].word) == (brief.role, brief.word)
    drawn = {task.worker: [one.role for one in task.attempts] for task in above["tasks"]}
    assert drawn == {name: [role or "approve" for _, role in turns[name].bars] for name in drawn}
    assert drawn["Payments worker"] == ["failed", "approve"]


def test_a_drift_is_shown_between_two_rounds() -> None:
    parts: list[StepPart] = rounds(steps_of("reoriented"), timezone.now())["parts"]

    draft = next(part for part in parts if part.name == "draft")
    first, second = draft.rounds
    assert [part.name for part in parts] == ["facts", "draft", "check", "send"]
    assert first.reason == "It claims a refund."
    assert first.verdict[2] == "corrected"
    assert first.correction.startswith("Claim no refund")
    assert (second.triggers, second.verdict[2]) == ([], "continue")
    assert draft.standing[2] == "accepted"


def test_a_key_of_a_second_round_is_told_in_words() -> None:
    second = "memo/agents#2/against/task/execute"

    assert step_in_words(second) == "step “memo”, agent “against”, round 2"
    assert phase_in_words(second) == f"the execution of {step_in_words(second)}"
    assert phase_in_words("1/propose#3") == "the agent's proposal for step 1 (no. 3)"


def test_page_and_case_file_agree_that_outputs_of_steps_are_kept_and_not_changed() -> None:
    run = ran("reoriented")

    outputs = [turn for turn in trace(run).turns if turn.title.startswith("Result of step “")]
    reviewed = [entry for entry in case_file(run).entries if entry.review]
    told = [e for e in reviewed if e.review and any(a[0] == "Text" for a in e.review.arguments)]
    assert {turn.word for turn in outputs} == {"Allowed"}
    assert len(told) >= len(outputs) > 2
    assert all("The policy kept what" in entry.line.sentence for entry in told)
    assert not [ruling for entry in told if entry.review for ruling in entry.review.revisions]
    for state, missing in ((RunState.RUNNING, "not yet"), (RunState.STOPPED, "never")):
        run.state = state
        begun = rounds(list(run.steps.order_by("position"))[:3], timezone.now())["parts"][0]
        assert [phase.told for phase in begun.ribbons[0][1]][1:] == ["not finished"] + [missing] * 3


def test_a_convergence_that_reached_its_cap_is_noted_and_accepted() -> None:
    run = ran("capped")

    parts: list[StepPart] = rounds(list(run.steps.order_by("position")), timezone.now())["parts"]

    capped = {part.name: (part.is_capped, part.standing[2]) for part in parts}
    assert capped.pop("check") == (True, "accepted")
    assert set(capped.values()) == {(False, "accepted")}
    assert (run.state, run.stop_reason) == ("done", "success")
    assert mails(run) == [None]


def test_a_step_that_asks_says_so() -> None:
    parts: list[StepPart] = rounds(steps_of("judge-asks"), timezone.now())["parts"]

    facts, draft = parts
    assert (facts.standing[2], draft.standing[2]) == ("accepted", "asks a person")
    assert "May this draft be used?" in draft.rounds[0].question


def test_a_judge_of_another_model_than_the_executor_is_not_called_the_same() -> None:
    steps = steps_of("judge-asks")
    same = rounds(steps, timezone.now())["one_model"]
    for step in steps:
        if step.kind == "ask" and step.asked["role"] == "judge":
            step.model = "another"

    assert (same, rounds(steps, timezone.now())["one_model"]) == ("demo", "")


def test_a_trace_adds_up() -> None:
    run = ran("within-limit")
    found = trace(run)

    assert [turn.title for turn in found.turns] == [
        "Look up customer",
        "Issue refund",
        "Send refund email",
        "Answer",
    ]
    assert found.counts == [
        ("approve", "allowed by policy", 2),
        ("revise", "revised by policy", 2),
    ]
    assert (found.moved, found.asked) == ("USD 500.00", "of USD 500.00 proposed")
    assert [cell.text for cell in found.turns[2].changes[0].cells][:2] != ["", ""]


@pytest.mark.parametrize(
    ("busy", "at", "expected"),
    [
        ([(0, 10)], (0, 10), (0.0, 100.0)),
        ([(0, 10)], (5, 10), (50.0, 50.0)),
        ([(0, 5), (9, 10)], (9, 10), (90.0, 10.0)),  # a short gap keeps its width
        ([(0, 5), (3605, 3610)], (0, 5), (0.0, 44.64)),  # an hour is folded to 12 percent
        ([(0, 5), (3605, 3610)], (3605, 3610), (55.36, 44.64)),
        ([(0, 0)], (0, 0), (0.0, 0.8)),
    ],
)
def test_long_silences_are_folded(
    busy: list[tuple[float, float]], at: tuple[float, float], expected: tuple[float, float]
) -> None:
    bar = axis(busy).bar(*at)

    assert (bar.x, bar.width) == expected
