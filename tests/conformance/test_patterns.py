"""All recorded cases of three patterns: equal where the reference is sound, safe where it is not.

The orchestrator's time runs five times as fast here: deadlines, delays of models and workers are
divided alike.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agents.desks.days import DEMO_SECONDS
from tests.conformance import harness, safe, safe_orchestrator, safe_routing
from tests.conformance.replay_server import ReplayServer
from tests.conformance.safe_orchestrator import SHOWN_BY_PLAN

Case = dict[str, Any]
PACE = 0.2

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True)
class Pattern:
    """What is safe where a pattern's reference has a hole, and under which profile that shows."""

    name: str
    safe: Mapping[str, safe.Check]
    is_under_reference: Callable[[Case, str], bool]

    @property
    def cases(self) -> list[Case]:
        return harness.cases(self.name)


PATTERNS = {
    one.name: one
    for one in (
        Pattern(
            "supervisor",
            {quirk: check for quirk, check in safe.SAFE.items() if quirk.startswith("SUP-")},
            lambda case, quirk: quirk in safe.REFERENCE_ONLY,
        ),
        Pattern("routing", safe_routing.SAFE, lambda case, quirk: bool(case["config"])),
        Pattern(
            "orchestrator",
            safe_orchestrator.SAFE,
            lambda case, quirk: bool(case["config"]) and quirk not in SHOWN_BY_PLAN,
        ),
    )
}
CASES = [case for pattern in PATTERNS.values() for case in pattern.cases]
SOUND = [case for case in CASES if not case["quirk"]]
QUIRKS = [case for case in CASES if case["quirk"]]


def checks(case: Case, *, under_reference: bool) -> list[safe.Check]:
    """Return the checks for a case's outcome under a profile."""
    pattern = PATTERNS[case["pattern"]]
    return [
        pattern.safe[quirk]
        for quirk in case["quirk_ids"]
        if pattern.is_under_reference(case, quirk) == under_reference
    ]


def params(cases: Sequence[Case]) -> list[Any]:
    """Return the cases for parametrize."""
    return [pytest.param(case, id=case["id"]) for case in cases]


@pytest.fixture(autouse=True)
def _sources_keep_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    for source, (first, later) in list(DEMO_SECONDS.items()):
        monkeypatch.setitem(DEMO_SECONDS, source, (first * PACE, later * PACE))


def faster(case: Case) -> Case:
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


def run(case: Case, server: ReplayServer, tmp_path: Path, profile: str) -> harness.Ran:
    played = faster(case) if case["pattern"] == "orchestrator" else case
    timeout = harness.timeout_of(case)
    return harness.run_case(played, server, tmp_path, profile=profile, timeout=timeout)


@pytest.mark.parametrize("case", params(SOUND))
def test_a_sound_case_ends_as_recorded(case: Case, server: ReplayServer, tmp_path: Path) -> None:
    ran = run(case, server, tmp_path, "reference")

    assert harness.difference(harness.decode_value(case["expect"]), ran.result) == ""
    assert ran.code == (0 if case["expect"]["status"] == "ok" else 3)
    state = ran.session.state()
    assert (state["calls"], state["unused"]) == (case["llm_calls"], case["llm_unused"])
    recorded = harness.decode_value(case["llm_requests"])
    assert harness.difference(recorded, ran.model_calls) == ""
    assert harness.difference(ran.model_calls, recorded) == ""


@pytest.mark.parametrize("case", params(QUIRKS))
def test_a_quirk_ends_honestly_under_reference(
    case: Case, server: ReplayServer, tmp_path: Path
) -> None:
    ran = run(case, server, tmp_path, "reference")

    assert ran.result["status"] in ("ok", "stopped")
    assert ran.result["stop_reason"] not in ("internal_error", "diverged")
    assert isinstance(ran.result["trace"], list)
    assert isinstance(ran.result["history"], list)
    assert ran.code == (0 if ran.result["status"] == "ok" else 3)
    for is_safe in checks(case, under_reference=True):
        is_safe(case, ran.result)


@pytest.mark.parametrize(
    "case", params([case for case in QUIRKS if checks(case, under_reference=False)])
)
def test_a_quirk_has_the_safe_outcome(case: Case, server: ReplayServer, tmp_path: Path) -> None:
    ran = run(case, server, tmp_path, "strict")

    for is_safe in checks(case, under_reference=False):
        is_safe(case, ran.result)


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_every_quirk_is_named_in_a_case(pattern: Pattern) -> None:
    quirks = [case for case in pattern.cases if case["quirk"]]
    named = {quirk for case in quirks for quirk in case["quirk_ids"]}

    assert all(case["quirk_ids"] for case in quirks)
    assert named <= set(pattern.safe)
    if harness.IS_OURS:
        assert named == set(pattern.safe)
