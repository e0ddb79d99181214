"""All recorded orchestrator cases: equal where the reference is sound, safe where it is not.

Time runs five times as fast here: deadlines, delays of models and workers are divided alike.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from agents.core.money import to_model_units
from agents.desks.refunds import metrics
from agents.desks.refunds.books import open_demo_book
from agents.policies.profiles import REFERENCE
from agents.tools import TOOLS, Context
from tests.conformance import harness
from tests.conformance.replay_server import ReplayServer
from tests.conformance.safe_orchestrator import SAFE, SHOWN_BY_PLAN

CASES = harness.cases("orchestrator")
SOUND = [case for case in CASES if not case["quirk"]]
QUIRKS = [case for case in CASES if case["quirk"]]
SEEN_UNDER_STRICT = [
    case for case in QUIRKS if not case["config"] or SHOWN_BY_PLAN & set(case["quirk_ids"])
]
PACE = 0.2

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def server() -> Iterator[ReplayServer]:
    with harness.replaying() as server:
        yield server


@pytest.fixture(autouse=True)
def _sources_keep_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    for source, (first, later) in metrics.DEMO_SECONDS.items():
        monkeypatch.setitem(metrics.DEMO_SECONDS, source, (first * PACE, later * PACE))


def ids(case: dict[str, Any]) -> str:
    return case["id"]


def faster(case: dict[str, Any]) -> dict[str, Any]:
    """Return a case with all its times divided alike; budgets are never printed.

    Where the model is to fall silent the run keeps its time: a server's silence is not divided.
    """
    case = copy.deepcopy(case)
    config = case["config"]
    budget = {"task_timeout_seconds": 2.0, "max_seconds": 25.0, **config.get("budget", {})}
    kept = "max_seconds" if harness.timeout_of(case) < harness.PATIENT else ""
    config["budget"] = {
        name: value * PACE if "seconds" in name and name != kept else value
        for name, value in budget.items()
    }
    for timed in (*config.get("faults", ()), *config.get("registry_add", {}).values()):
        if "sleep_s" in timed:
            timed["sleep_s"] *= PACE
    if "aggregate_sleep_s" in config:
        config["aggregate_sleep_s"] *= PACE
    for entry in case["llm"]:
        if isinstance(entry, dict) and "delay_s" in entry:
            entry["delay_s"] *= PACE
    return case


def run(case: dict[str, Any], server: ReplayServer, tmp_path: Path, profile: str) -> harness.Ran:
    timeout = harness.timeout_of(case)
    return harness.run_case(faster(case), server, tmp_path, profile=profile, timeout=timeout)


@pytest.mark.parametrize("case", SOUND, ids=ids)
def test_a_sound_case_ends_as_recorded(
    case: dict[str, Any], server: ReplayServer, tmp_path: Path
) -> None:
    ran = run(case, server, tmp_path, "reference")

    assert harness.difference(harness.decoded(case["expect"]), ran.result) == ""
    assert ran.code == (0 if case["expect"]["status"] == "ok" else 3)
    state = ran.session.state()
    assert (state["calls"], state["unused"]) == (case["llm_calls"], case["llm_unused"])
    recorded = harness.decoded(case["llm_requests"])
    assert harness.difference(recorded, ran.asked) == ""
    assert harness.difference(ran.asked, recorded) == ""


@pytest.mark.parametrize("case", QUIRKS, ids=ids)
def test_a_quirk_ends_honestly_under_reference(
    case: dict[str, Any], server: ReplayServer, tmp_path: Path
) -> None:
    ran = run(case, server, tmp_path, "reference")

    assert ran.result["status"] in ("ok", "stopped")
    assert ran.result["stop_reason"] not in ("internal_error", "diverged")
    assert isinstance(ran.result["trace"], list)
    assert isinstance(ran.result["history"], list)
    assert ran.code == (0 if ran.result["status"] == "ok" else 3)
    if case["config"]:
        for quirk in set(case["quirk_ids"]) - SHOWN_BY_PLAN:
            SAFE[quirk](case, ran.result)


@pytest.mark.parametrize("case", SEEN_UNDER_STRICT, ids=ids)
def test_a_quirk_has_the_safe_outcome(
    case: dict[str, Any], server: ReplayServer, tmp_path: Path
) -> None:
    assert case["quirk_ids"]

    ran = run(case, server, tmp_path, "strict")

    for quirk in case["quirk_ids"]:
        if not case["config"] or quirk in SHOWN_BY_PLAN:
            SAFE[quirk](case, ran.result)


def test_every_orchestrator_quirk_is_named_in_a_case() -> None:
    named = {quirk for case in QUIRKS for quirk in case["quirk_ids"]}

    assert named <= set(SAFE)
    if harness.IS_OURS:
        assert named == set(SAFE)


@pytest.mark.parametrize("unit", harness.units("orchestrator_workers"), ids=str)
def test_a_worker_answers_as_recorded(unit: dict[str, Any]) -> None:
    if "raises" in unit:  # a region that is no text is refused with the plan (ORC-Q4)
        return
    at = timezone.now()
    context = Context(open_demo_book(at=at).pk, "key", at, REFERENCE.of("orchestrator"), nth=2)

    seen = TOOLS[unit["worker"]].call(context, **unit["args"])

    assert to_model_units(seen) == unit["returns"]
