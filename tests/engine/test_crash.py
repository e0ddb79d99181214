"""A worker that dies anywhere: the run ends as if nothing had happened, and pays once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from agents import results
from agents.core.states import RunState
from agents.desks.refunds.profiles import STRICT
from agents.engine import crashpoints
from agents.models import Run
from agents.sdk.desk import DESKS
from tests.desks import bank
from tests.engine.dying import die_at, die_everywhere, result_and_steps, to_the_end
from tests.engine.memory import Crash
from tests.engine.scene import Scene, fresh, go, mails, payments, recover, set_scene
from tests.processes import ROOT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]


@pytest.fixture
def points_reached() -> Iterator[list[str]]:
    """Watch the crash points; nobody watches afterwards."""
    seen: list[str] = []
    crashpoints.watch(seen.append)
    yield seen
    crashpoints.watch(None)


def outcome_of(run: Run) -> dict[str, Any]:
    """Return a run's outcome without what naturally differs between runs."""
    result = results.result(fresh(run))
    result.pop("run_id")
    for past in result["history"]:
        for part in ("refund", "email", "transfer"):
            made = past["observation"].get(part, {})
            for key in ("transaction_id", "email_id", "message", "reference"):
                made.pop(key, None)
        for action in ("executed_action",):
            past[action].get("args", {}).pop("message", None)
        past["supervisor"].pop("revised_action", None)
        past.pop("human_approval", None)
    result["trace"] = [
        {k: v for k, v in line.items() if k != "args_hash"} for line in result["trace"]
    ]
    return result


def refunds_and_mails(run: Run) -> Any:
    return payments(run), mails(run)


def transfers_and_balance(run: Run) -> Any:
    account = bank.account_of(run)
    return bank.postings(run), account.free_minor, account.held_minor


def lower_transfer(scene: Scene, run: Run) -> None:
    bank.decide(scene, run, {"amount": bank.euros("600.00")})


def launch_transfer(scene: Scene) -> Run:
    return bank.launch(scene, bank.FIRST_PAYMENT)


REFUND = (set_scene, Scene.launch, Scene.decide, refunds_and_mails, ([80000], [80000]), 20)
TRANSFER = (
    bank.bank_scene,
    launch_transfer,
    lower_transfer,
    transfers_and_balance,
    ([("P-103", 60000)], 440000, 0),
    12,
)


@pytest.mark.parametrize("case", [REFUND, TRANSFER], ids=["refund", "transfer"])
def test_a_crash_at_any_point_changes_nothing(case: Any) -> None:
    set_it, launch, decide, did, done, least = case
    scene = set_it()

    points, (came_to, _, _) = die_everywhere(
        lambda: launch(scene),
        lambda run: (
            did(run),
            outcome_of(run),
            list(run.steps.order_by("position").values_list("key")),
        ),
        lambda run: decide(scene, run),
    )

    assert len(points) > least
    assert came_to == done


PATTERNS: list[Any] = [("routing", "", []), ("orchestrator", "", [])]
PATTERNS += [("workflow", "pay-bill", [("P-101", 48000)])]


@pytest.mark.parametrize(("pattern", "workflow", "posted"), PATTERNS)
def test_a_crash_in_any_pattern_of_a_declared_desk_changes_nothing(
    pattern: str, workflow: str, posted: list[tuple[str, int]]
) -> None:
    scene = bank.bank_scene()
    own = {**DESKS["bank"].document(), "caps": {}}  # the runs pay more in a day than they allow
    scene.publish({**STRICT.as_json(), "desks": {"bank": own}}, User.objects.get(username="ada"))
    one = next(one for one in DESKS["bank"].scenarios if one.pattern == pattern)
    asked: Any = {"desk": "bank", "subject": one.subject or None, "pattern": pattern}

    def ending(run: Run) -> Any:
        told = json.dumps(result_and_steps(run), sort_keys=True)
        return re.sub(r"tr_\w{12}", "tr", told), bank.postings(run), fresh(run).state

    points, (_, came_to, state) = die_everywhere(
        lambda: scene.launch(one.goal, workflow=workflow, **asked), ending
    )

    assert len(points) > 9
    assert (came_to, state) == (posted, RunState.DONE)


def test_a_sweep_that_dies_is_made_again(points_reached: list[str]) -> None:
    scene = set_scene()
    run = scene.launch()
    die_at(1, only="model.after_call")
    with pytest.raises(Crash):
        go(run)

    die_at(1, only="sweep.after_commit")
    with pytest.raises(Crash):
        recover(run.pk)
    assert fresh(run).state == RunState.QUEUED

    crashpoints.watch(None)
    to_the_end(run, scene.decide)
    assert (payments(run), mails(run)) == ([80000], [80000])


def test_every_crash_point_of_the_registry_is_reached(points_reached: list[str]) -> None:
    scene = set_scene()
    run = scene.launch()

    to_the_end(run, scene.decide)
    recover(run.pk)

    assert set(points_reached) == set(crashpoints.POINTS)


def test_the_registry_names_each_crash_point_that_the_code_has() -> None:
    code = [path.read_text(encoding="utf-8") for path in (ROOT / "agents").rglob("*.py")]
    named = [name for text in code for name in re.findall(r'crashpoint\("([^"]+)"\)', text)]

    assert sorted(named) == sorted(crashpoints.POINTS)
