"""Simultaneous transfers in several processes: accounts and limits hold."""

from typing import Any

import pytest
from django.utils import timezone

from agents.core.requests import EscalationState
from agents.models import Escalation, Role, Run, Workspace
from agents.people import workspaces
from agents.sdk.desk import DESKS
from tests.desks.bank import PAID_AT_ONCE, account_of, bank_scene, euros, launch, postings
from tests.engine.scene import Scene, fresh
from tests.processes import SIX, Contenders

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]

ROUNDS = 5
UNREPEATED = {"rules": [one for one in DESKS["bank"].part()["rules"] if one != "bank.duplicate"]}


def on_one_account(runs: list[Run]) -> list[list[Any]]:
    """Let queued runs use the first one's account. Return the contenders' arguments."""
    Run.objects.filter(pk__in=[run.pk for run in runs]).update(book_id=runs[0].book_id)
    return [[str(run.pk)] for run in runs]


def reasons(runs: list[Run]) -> list[str]:
    waiting = Escalation.objects.filter(run__in=runs, state=EscalationState.OPEN)
    return [escalation.review["deciding"]["reason"] for escalation in waiting]


def test_six_equal_transfers_pay_one_unattended(crowd: Contenders) -> None:
    scene = bank_scene()
    for _ in range(ROUNDS):
        runs = [launch(scene, PAID_AT_ONCE) for _ in range(SIX)]

        crowd.meet("tests.races.contenders:advances", on_one_account(runs))

        assert postings(fresh(runs[0])) == [("P-101", 48000)]
        assert reasons(runs) == ["possible_duplicate"] * (SIX - 1)


def elsewhere(scene: Scene) -> Scene:
    """Return a second workspace, with the same people and rules."""
    at = timezone.now()
    other = workspaces.add_workspace(
        desks=["refunds"], slug="other", name="Other", is_demo=True, at=at
    )
    workspaces.add_member(workspace=other, user=scene.omar, role=Role.OPERATOR, at=at)
    assert scene.workspace.policy is not None
    version = workspaces.policy_version(other, scene.workspace.policy.limits(), at=at)
    Workspace.objects.filter(pk=other.pk).update(policy=version)
    return Scene(Workspace.objects.get(pk=other.pk), scene.rita, scene.omar, scene.eve)


@pytest.mark.proves("I4")
def test_what_leaves_an_account_in_a_day_adds_up_over_workspaces(crowd: Contenders) -> None:
    """The two share no locked row but the account itself."""
    scene = bank_scene(of_part=UNREPEATED, daily=euros("1000.00"))
    other = elsewhere(scene)
    for _ in range(ROUNDS):
        runs = [launch(one, PAID_AT_ONCE) for one in (scene, other) for _ in range(SIX // 2)]

        crowd.meet("tests.races.contenders:advances", on_one_account(runs))

        assert [amount for _, amount in postings(fresh(runs[0]))] == [48000, 48000]
        assert reasons(runs) == ["daily_exposure"] * (SIX - 2)


@pytest.mark.proves("I3")
def test_six_transfers_never_overdraw_an_account(crowd: Contenders) -> None:
    scene = bank_scene(of_part=UNREPEATED, daily=euros("90000.00"), transfers=90)
    for _ in range(ROUNDS):
        runs = [launch(scene, PAID_AT_ONCE) for _ in range(SIX)]
        wants = on_one_account(runs)
        account = account_of(fresh(runs[0]))
        account.opening_minor = account.paid_minor + 100000
        account.save()

        crowd.meet("tests.races.contenders:advances", wants)

        account.refresh_from_db()
        assert (account.free_minor, account.held_minor) == (4000, 0)
        ends = sorted(fresh(run).stop_reason for run in runs)
        assert ends == ["success"] * 2 + ["supervisor_block:insufficient_funds"] * 4
