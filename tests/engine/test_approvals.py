"""What a person allows happens, or their card, the overview and the record say why it did not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents import operations
from agents.core.states import EscalationState, RunState
from agents.desk import refunds
from agents.desk.models import Charge
from agents.engine import crashpoints
from agents.models import Escalation, Role, Run
from tests.engine.scene import (
    REFUND_500,
    Scene,
    go,
    go_elsewhere,
    in_thread,
    on_the_charge_of,
    paid,
    set_scene,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.fixture
def scene() -> Iterator[Scene]:
    yield set_scene()
    crashpoints.watch(None)


@pytest.fixture
def ada(scene: Scene) -> User:
    return scene.add("ada", Role.ADMIN)


def approve(run: Run, by: User, amount_minor: int | None = None) -> Escalation:
    """Have somebody allow what waits, all of it or an amount."""
    open_one = Escalation.objects.get(run=run, state=EscalationState.OPEN)
    return operations.decide(
        escalation_id=open_one.pk,
        by=by,
        approve=True,
        amount_minor=amount_minor,
        comment="as agreed",
        at=timezone.now(),
    )


def refund_elsewhere(run: Run, amount_minor: int) -> None:
    refunds.pay(
        book_id=run.book_id,
        customer_number=42,
        amount_minor=amount_minor,
        currency="USD",
        reason="by phone",
        key=f"phone {amount_minor}",
        at=timezone.now(),
    )


def charge_of(run: Run, amount_minor: int) -> None:
    """Have Anna have paid another amount."""
    charge = Charge.objects.filter(customer__book_id=run.book_id, customer__number=42)
    charge.update(amount_minor=amount_minor)


def kept(run: Run) -> list[tuple[int | None, str]]:
    """Return what people granted in a run and why nothing came of it, oldest first."""
    rows = Escalation.objects.filter(run=run).order_by("pk")
    return list(rows.values_list("granted_minor", "not_carried_out"))


def recorded(run: Run) -> list[str]:
    told = run.events.filter(kind="escalation.not_carried_out").order_by("seq")
    return [event.facts["reason"] for event in told]


def test_a_second_yes_after_the_charge_shrank_is_carried_out(scene: Scene, ada: User) -> None:
    run = go(scene.launch())
    approve(run, ada)
    refund_elsewhere(run, 10000)
    assert go(run).state == RunState.WAITING

    approve(run, ada)
    run = go(run)

    assert (run.state, run.stop_reason) == (RunState.DONE, "success")
    assert paid(run) == [10000, 110000]
    assert kept(run) == [(120000, "asked_again"), (110000, "")]
    assert recorded(run) == ["asked_again"]


@pytest.mark.usefixtures("_nothing_takes_long")
def test_a_call_that_was_not_made_is_no_repetition(scene: Scene, ada: User) -> None:
    """700 are allowed, and 500 paid to the same charge just before: the person is asked anew."""
    run = go(scene.launch())
    other = on_the_charge_of(run, scene.launch(REFUND_500))
    approve(run, ada, 70000)

    def the_other_pays(point: str) -> None:
        if point == "journal.before_commit":  # of the intent
            crashpoints.watch(None)
            in_thread(lambda: go_elsewhere(other))

    crashpoints.watch(the_other_pays)
    assert go(run).state == RunState.WAITING
    assert run.steps.get(key="2/execute").failed == "review_changed"

    approve(run, ada)
    run = go(run)

    assert (run.state, run.stop_reason) == (RunState.DONE, "success")
    assert paid(run) == [50000, 70000]


def test_a_new_reason_to_ask_is_a_new_question(scene: Scene, ada: User) -> None:
    """Rita was asked for the amount; meanwhile small refunds of the charge add up too."""
    run = go(scene.launch())
    go(on_the_charge_of(run, scene.launch(REFUND_500)))

    approve(run, ada, 70000)
    assert go(run).state == RunState.WAITING
    again = Escalation.objects.get(run=run, state=EscalationState.OPEN)
    assert again.review["deciding"]["reason"] == "refunds_add_up"
    approve(run, ada)
    run = go(run)

    assert paid(run) == [50000, 70000]
    assert kept(run) == [(70000, "asked_again"), (70000, "")]


def test_a_yes_to_both_reasons_is_not_asked_for_the_first_again(scene: Scene, ada: User) -> None:
    """Two runs wait for one charge of 2,400: the second yes has to settle what the first did."""
    run = go(scene.launch())
    charge_of(run, 240000)
    go(on_the_charge_of(run, scene.launch(REFUND_500)))

    approve(run, ada)  # 1,200, which is above the limit
    go(run)
    approve(run, ada)  # and with the 500 it adds up
    run = go(run)

    assert (run.stop_reason, paid(run)) == ("success", [50000, 120000])


def test_what_the_policy_lowered_below_its_limit_is_not_the_persons_payment(
    scene: Scene, ada: User
) -> None:
    run = go(scene.launch())
    approve(run, ada)
    refund_elsewhere(run, 40000)

    run = go(run)

    assert paid(run) == [40000, 80000]
    assert kept(run) == [(120000, "amount_changed")]
    assert recorded(run) == ["amount_changed"]


def test_a_run_that_ends_after_a_yes_says_why_nothing_was_paid(scene: Scene, ada: User) -> None:
    run = go(scene.launch())
    approve(run, ada)
    refund_elsewhere(run, 120000)

    run = go(run)

    assert kept(run) == [(120000, "supervisor_block:charge_fully_refunded")]
    assert recorded(run) == ["supervisor_block:charge_fully_refunded"]


def test_a_switch_and_a_cancellation_after_a_yes_say_so(scene: Scene, ada: User) -> None:
    stopped, cancelled = go(scene.launch()), go(scene.launch())
    approve(stopped, ada)
    approve(cancelled, ada)
    operations.kill(workspace=scene.workspace, by=ada, reason="look", at=timezone.now())

    go(stopped)
    operations.cancel(run_id=cancelled.pk, by=scene.omar, reason="enough", at=timezone.now())

    assert kept(stopped) == [(120000, "killed")]
    assert kept(cancelled) == [(120000, "cancelled")]
