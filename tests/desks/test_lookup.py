"""A desk's remote look-up runs before any lock and is repeated once it is old."""

from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from agents.core.requests import RunState
from agents.models import Event, Run, Workspace
from agents.sdk.desk import Desk
from agents.sdk.rules import Asked
from agents.shell import refusal
from tests.desks.test_access import decide, grants, launch, scene
from tests.engine.scene import Scene, fresh, go

__all__ = ["scene"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@dataclass(frozen=True)
class Seen:
    """A person's entry in the directory."""

    employed: bool


class Directory:
    """Another machine, whose answer needs the rows that an intent locks."""

    def __init__(self) -> None:
        self.is_up, self.employed, self.asked = True, True, 0

    def find(self, subject: str) -> Seen:
        with transaction.atomic():
            Workspace.objects.select_for_update().get()
        self.asked += 1
        if not self.is_up:
            raise ConnectionError("no route to the directory")
        return Seen(self.employed)


@pytest.fixture
def directory(access: Desk, monkeypatch: pytest.MonkeyPatch) -> Directory:
    from acme_access.desk import AccessFacts  # type: ignore[import-not-found]

    found = Directory()

    def gather(subject: str, asked: Asked) -> AccessFacts:
        return AccessFacts(asked.ahead.employed, (), 0)

    monkeypatch.setattr(access, "ahead", found.find)
    monkeypatch.setattr(access, "fresh", timedelta(seconds=60))
    monkeypatch.setattr(access, "gather", gather)
    return found


def test_it_is_asked_without_a_lock_and_kept_with_its_time(
    scene: Scene, access: Desk, directory: Directory
) -> None:
    run = go(launch(scene, access))
    decide(scene, run, None)
    run = go(run)

    assert (run.state, len(grants())) == (RunState.DONE, 1)
    review = run.steps.filter(kind="review").order_by("position")[0].reply or {}
    kept = review["facts"]["lookup"]
    assert kept["value"] == {"employed": True}
    assert kept["at"] <= timezone.now().isoformat()
    assert directory.asked == 3  # for each claim by a worker, and for the decision


def test_change_after_the_decision_is_seen_before_the_call(
    scene: Scene, access: Desk, directory: Directory
) -> None:
    run = go(launch(scene, access))
    decide(scene, run, None)
    directory.employed = False

    assert go(run).stop_reason == "supervisor_block:not_employed"
    assert grants() == []


def test_a_machine_that_is_down_costs_no_run_its_end(
    scene: Scene, access: Desk, directory: Directory
) -> None:
    directory.is_up = False
    run = go(launch(scene, access))
    assert (run.state, run.wake_at is not None) == (RunState.QUEUED, True)

    directory.is_up = True
    Run.objects.filter(pk=run.pk).update(wake_at=None)
    assert go(run).state == RunState.WAITING

    directory.is_up = False
    with pytest.raises(refusal.Refused) as no:
        decide(scene, run, None)
    assert no.value.code == "lookup_failed"
    assert Event.objects.filter(run=run, kind="decision.refused").count() == 1

    directory.is_up = True
    decide(scene, run, None)
    assert go(fresh(run)).state == RunState.DONE


def test_an_answer_that_is_old_counts_for_nothing(
    scene: Scene, access: Desk, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "fresh", timedelta(seconds=-1))

    run = go(launch(scene, access))

    assert (run.state, run.wake_at is not None, grants()) == (RunState.QUEUED, True, [])
