"""All recorded cases of the five phases: equal where the reference is sound, safe elsewhere."""

from typing import Any

import pytest

from tests.conformance import harness, phases
from tests.conformance.replay_server import ReplayServer
from tests.conformance.safe_workflow import SAFE
from tests.engine.scene import Scene

CASES = harness.cases("supervise_cases")
SOUND = [case for case in CASES if not case["quirk"]]
QUIRKS = [(quirk, case) for case in CASES for quirk in case["quirk_ids"]]
BY_MEANING = {"context canceled": "cancelled", "context deadline exceeded": "escalation_expired"}
CHECKPOINTS = ("pre", "post", "triggers", "escalate")
VERDICT = ("verdict", "correction", "question", "reason")

pytestmark = pytest.mark.django_db(transaction=True)


def person_of(case: dict[str, Any]) -> phases.Person:
    """Return who answers: a person, nobody in time, or the person who cancels the run."""
    if case["human"].get("cancel"):
        return phases.cancel_run
    return phases.let_expire if case["human"].get("silent") else phases.answer_request


@pytest.mark.parametrize("case", SOUND, ids=lambda case: case["id"])
def test_a_sound_case_ends_as_recorded(
    case: dict[str, Any], server: ReplayServer, scene: Scene
) -> None:
    expected = phases.in_our_words(case, case["expect"])

    played = phases.play(case, server, scene, person=person_of(case))

    assert played.phases == [call["phase"] for call in expected["calls"] or []]
    assert rounds(played) == [without_nulls(entry) for entry in expected["reconcile"] or []]
    assert verdicts(played) == [
        {**{key: said[key] for key in VERDICT}, "triggers_given": said["triggers_given"]}
        for said in expected["verdicts"] or []
        if "error" not in said
    ]
    assert questions(played) == (expected["asked_human"] or [])
    ends_as(expected, played)


def ends_as(expected: dict[str, Any], played: phases.Played) -> None:
    """Hold the end of a case against the recorded one: outputs, or the error."""
    if "error" not in expected:
        assert played.result["status"] == "ok"
        assert played.result["outputs"] == expected["outputs"]
        assert played.result["failures"] == expected["failures"]
    elif expected["error"] in BY_MEANING:
        assert played.result["stop_reason"] == BY_MEANING[expected["error"]]
    elif played.refused:
        assert played.refused == expected["error"]
    else:
        assert played.result["status"] == "stopped"
        assert phases.plain(played.result["error"]) == expected["error"]


def rounds(played: phases.Played) -> list[dict[str, Any]]:
    """Return each round's checkpoints and triggers, as far as the reference has them."""
    ours = ("given", "readable")
    return [
        {
            part: {k: v for k, v in value.items() if k not in ours and v not in ([], None)}
            if isinstance(value, dict)
            else value
            for part in CHECKPOINTS
            for value in [entry[part]]
        }
        for entry in phases.plain(played.rounds)
    ]


def without_nulls(entry: dict[str, Any]) -> dict[str, Any]:
    """Drop lists that are absent: the reference tells null from empty, and nothing follows."""
    return {
        part: {k: v for k, v in value.items() if v not in ([], None)}
        if isinstance(value, dict)
        else value
        for part, value in entry.items()
    }


def verdicts(played: phases.Played) -> list[dict[str, Any]]:
    judged = [entry for entry in phases.plain(played.rounds) if entry["verdict"]]
    return [
        {**{key: entry["verdict"][key] for key in VERDICT}, "triggers_given": entry["triggers"]}
        for entry in judged
    ]


def questions(played: phases.Played) -> list[str]:
    """Return the questions to people, if there are any."""
    asked = [entry["question"] for entry in phases.plain(played.rounds) if entry["question"]]
    return [] if played.result.get("stop_reason") == "nobody_to_ask" else asked


@pytest.mark.parametrize(
    ("quirk", "case"), QUIRKS, ids=[f"{quirk}-{case['id']}" for quirk, case in QUIRKS]
)
def test_a_quirk_has_the_safe_outcome(
    quirk: str, case: dict[str, Any], server: ReplayServer, scene: Scene
) -> None:
    SAFE[quirk](case, server, scene)


def test_every_quirk_of_the_five_phases_is_named_in_a_case() -> None:
    named = {quirk for quirk, _ in QUIRKS}

    assert named <= set(SAFE)
    if harness.IS_OURS:
        assert named == set(SAFE)
