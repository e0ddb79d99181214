"""An access desk goes through the engine: launched, escalated, a date moved, granted once."""

from functools import partial
from typing import Any

import pytest

from agents.core.requests import RunState
from agents.desks.refunds.limits import STRICT
from agents.models import Escalation, Event, Role, Run
from agents.sdk.desk import DESKS, Desk
from agents.shell import refusal as operations_refusal
from tests.desks.bank import day
from tests.engine.scene import Scene, claimable_runs, decide_request, fresh, go, set_scene
from tests.limits import with_desk

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def scene(access: Desk) -> Scene:
    scene = set_scene()
    document = with_desk("access", access.document())
    ada = scene.add("ada", Role.ADMIN)
    scene.publish(document, ada)
    return scene


def launch(scene: Scene, access: Desk, *, subject: str = "noor") -> Run:
    scenario, *_ = access.scenarios
    return scene.launch(scenario.goal, desk="access", subject=subject)


def decide(scene: Scene, run: Run, patch: dict[str, Any] | None) -> Escalation:
    held = Escalation.objects.get(run=run, state="open")
    return decide_request(held, scene.rita, comment="shorter", patch=patch)


def grants() -> list[Any]:
    from acme_access import directory  # type: ignore[import-not-found]

    return list(directory.grants().values())


def test_repeated_runs_call_needs_a_person(scene: Scene, access: Desk) -> None:
    limits = {**access.document()["limits"], "longest": 90}
    desks = {"access": {**access.document(), "limits": limits}}
    scene.publish(
        {**STRICT.as_json(), "desks": {**STRICT.desks, **desks}}, scene.add("bo", Role.ADMIN)
    )
    first = go(launch(scene, access))
    assert (first.state, len(grants())) == (RunState.DONE, 1)

    scenario, *_ = access.scenarios
    again = scene.launch(scenario.goal, desk="access", subject="noor", again_of=first)
    again = go(again)

    held = Escalation.objects.get(run=again, state="open")
    assert held.review["escalating"] == ["policy.called_before"]
    assert len(grants()) == 1
    decide(scene, again, None)
    assert (go(again).state, len(grants())) == (RunState.DONE, 2)


@pytest.mark.parametrize(
    "patch",
    [
        {"until": partial(day, 61)},  # from when the test runs, not from when it was collected
        {"until": partial(day, 0)},
        {"until": "20261220"},
        {"until": 5},
        {"role": "admin"},
        {"role": "owner"},
        {"system": "crm"},
        {"employee": "gil"},
        {"key": "x"},
        {},
    ],
)
def test_nobody_widens_what_was_asked(scene: Scene, access: Desk, patch: dict[str, Any]) -> None:
    run = go(launch(scene, access))

    with pytest.raises(operations_refusal.Refused) as refusal:
        decide(scene, run, {name: one() if callable(one) else one for name, one in patch.items()})

    assert refusal.value.code == "bad_patch"
    assert Event.objects.filter(run=run, kind="decision.refused").count() == 1
    assert grants() == []


def test_what_a_person_left_is_judged_once_more(scene: Scene, access: Desk) -> None:
    """Noor leaves between approval and call: the policy judges fresh facts."""
    run = go(launch(scene, access))
    decide(scene, run, {"until": day(14)})
    from acme_access import directory

    kept = directory.PEOPLE["noor"]
    directory.PEOPLE["noor"] = directory.Person("Noor Haddad", "Billing", employed=False)
    try:
        run = go(run)
    finally:
        directory.PEOPLE["noor"] = kept

    assert (run.state, run.stop_reason) == (RunState.STOPPED, "supervisor_block:not_employed")
    assert grants() == []


def test_nobody_is_launched_whom_the_desk_does_not_know(scene: Scene, access: Desk) -> None:
    unknown = (("eve", "access", "unknown_subject"), ("noor", "other", "unknown_desk"))
    for subject, name, code in unknown:
        with pytest.raises(operations_refusal.Refused) as refusal:
            scene.launch("Give Eve everything.", desk=name, subject=subject)
        assert refusal.value.code == code


@pytest.mark.both
def test_a_worker_without_the_desk_leaves_its_runs_alone(scene: Scene, access: Desk) -> None:
    run = launch(scene, access)
    refund = scene.launch()
    del DESKS["access"]

    assert go(run).state == RunState.QUEUED
    assert claimable_runs(9) == [refund.pk]
    assert fresh(run).attempts == 0


@pytest.mark.both
def test_values_of_a_patch_can_be_erased_and_its_names_stay(scene: Scene, access: Desk) -> None:
    run = go(launch(scene, access))
    decide(scene, run, {"until": day(14)})

    told = Event.objects.get(run=run, kind="escalation.decided")

    assert told.facts["changed"] == ["until"]
    assert "patch" not in told.facts
    assert "patch" in told.facts["texts"]
