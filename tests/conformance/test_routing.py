"""All recorded routing cases: equal where the reference is sound, safe where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from agents.core.money import to_model_units
from agents.desks.refunds.books import open_demo_book
from agents.policies.profiles import REFERENCE
from agents.tools import TOOLS, Context
from tests.conformance import harness
from tests.conformance.replay_server import ReplayServer
from tests.conformance.safe_routing import SAFE

CASES = harness.cases("routing")
SOUND = [case for case in CASES if not case["quirk"]]
QUIRKS = [case for case in CASES if case["quirk"]]

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def server() -> Iterator[ReplayServer]:
    with harness.replaying() as server:
        yield server


def ids(case: dict[str, Any]) -> str:
    return case["id"]


@pytest.mark.parametrize("case", SOUND, ids=ids)
def test_a_sound_case_ends_as_recorded(
    case: dict[str, Any], server: ReplayServer, tmp_path: Path
) -> None:
    timeout = harness.timeout_of(case)

    ran = harness.run_case(case, server, tmp_path, profile="reference", timeout=timeout)

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
    timeout = harness.timeout_of(case)

    ran = harness.run_case(case, server, tmp_path, profile="reference", timeout=timeout)

    assert ran.result["status"] in ("ok", "stopped")
    assert ran.result["stop_reason"] not in ("internal_error", "diverged")
    assert isinstance(ran.result["trace"], list)
    assert isinstance(ran.result["history"], list)
    assert ran.code == (0 if ran.result["status"] == "ok" else 3)


@pytest.mark.parametrize("case", QUIRKS, ids=ids)
def test_a_quirk_has_the_safe_outcome(
    case: dict[str, Any], server: ReplayServer, tmp_path: Path
) -> None:
    timeout = harness.timeout_of(case)
    profile = "reference" if case["config"] else "strict"
    assert case["quirk_ids"]

    ran = harness.run_case(case, server, tmp_path, profile=profile, timeout=timeout)

    for quirk in case["quirk_ids"]:
        SAFE[quirk](case, ran.result)


def test_every_routing_quirk_is_named_in_a_case() -> None:
    named = {quirk for case in QUIRKS for quirk in case["quirk_ids"]}

    assert named <= set(SAFE)
    if harness.IS_OURS:
        assert named == set(SAFE)


@pytest.mark.parametrize("unit", harness.units("routing_workers"), ids=lambda u: u["ticket"])
def test_a_specialist_answers_as_recorded(unit: dict[str, Any]) -> None:
    at = timezone.now()
    context = Context(open_demo_book(at=at).pk, "key", at, REFERENCE.of("routing"))

    seen = TOOLS[unit["worker"]].call(context, ticket=unit["ticket"])

    assert to_model_units(seen) == unit["returns"]
