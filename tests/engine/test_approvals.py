"""An approved action happens, or card, overview and record say why not."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents.core.requests import EscalationState, RunState
from agents.core.reviews import CallTarget
from agents.db.driver import fetch_now
from agents.desks.refunds.limits import STRICT
from agents.desks.refunds.models import Charge
from agents.engine.desk.facts import fetch_facts
from agents.engine.runtime import crashpoints
from agents.models import Escalation, Membership, Run
from agents.requests.granting import own_bounds
from agents.runs import kill_switch, launching
from agents.shell import refusal
from tests.engine.scene import (
    REFUND_500,
    Scene,
    decide_request,
    go,
    go_elsewhere,
    in_thread,
    on_the_charge_of,
    patch_of,
    payments,
    refund_by_phone,
    set_scene,
)

MEMO = "Anna asks for an exception."
UNSURE = "Anna (customer 42) asks: tell me frankly, is my plan still right for me?"
NOBODYS = "Hello there."

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def scene() -> Iterator[Scene]:
    yield set_scene()
    crashpoints.watch(None)


def approve(run: Run, by: User, amount_minor: int | None = None) -> Escalation:
    """Approve the run's waiting request, in full or an amount."""
    open_one = Escalation.objects.get(run=run, state=EscalationState.OPEN)
    return decide_request(open_one, by, patch=patch_of(amount_minor), comment="as agreed")


def send_back(run: Run, by: User) -> None:
    open_one = Escalation.objects.get(run=run, state=EscalationState.OPEN)
    decide_request(open_one, by, correction="Say less.")


def charge_of(run: Run, amount_minor: int) -> None:
    """Set the amount of Anna's charge."""
    charge = Charge.objects.filter(customer__book_id=run.book_id, customer__number=42)
    charge.update(amount_minor=amount_minor)


def grants_of(run: Run) -> list[tuple[int | None, str]]:
    """Return a run's grants and why they were not carried out, oldest first."""
    rows = Escalation.objects.filter(run=run).order_by("pk")
    return list(rows.values_list("granted_minor", "not_carried_out"))


def recorded_reasons(run: Run) -> list[str]:
    told = run.events.filter(kind="escalation.not_carried_out").order_by("seq")
    quoted = [event.texts.filter(name="reason").first() for event in told]
    pairs = zip(told, quoted, strict=True)
    return [json.loads(text.text) if text else event.facts["reason"] for event, text in pairs]


@pytest.mark.both
@pytest.mark.proves("I41")
def test_a_second_yes_after_the_charge_shrank_is_carried_out(scene: Scene, ada: User) -> None:
    run = go(scene.launch())
    approve(run, ada)
    refund_by_phone(run, 10000)
    assert go(run).state == RunState.WAITING

    approve(run, ada)
    run = go(run)

    assert (run.state, run.stop_reason) == (RunState.DONE, "success")
    assert payments(run) == [10000, 110000]
    assert grants_of(run) == [(120000, "asked_again"), (110000, "")]
    assert recorded_reasons(run) == ["asked_again"]


@pytest.mark.proves("I16")
def test_a_yes_counts_for_no_more_than_the_person_was_shown(scene: Scene, ada: User) -> None:
    """They saw 500 and then 600 on a charge; meanwhile another 400 were paid unattended."""
    first = scene.launch(REFUND_500)
    charge_of(first, 300000)
    go(first)
    run = go(on_the_charge_of(first, scene.launch(REFUND_500.replace("500", "600"))))
    shown = approve(run, ada).review["deciding"]
    go(on_the_charge_of(first, scene.launch(REFUND_500.replace("500", "400"))))

    run = go(run)

    assert (shown["rule"], shown["observed"]) == ("refunds.unattended_total", 110000)
    assert run.state == RunState.WAITING
    asked = approve(run, ada).review["deciding"]
    assert (asked["rule"], asked["observed"]) == ("refunds.unattended_total", 150000)
    assert go(run).state == RunState.DONE
    assert sorted(payments(run)) == [40000, 50000, 60000]


@pytest.mark.proves("I41")
@pytest.mark.usefixtures("_nothing_takes_long")
@pytest.mark.parametrize("granted", [True, False])
def test_a_call_that_was_not_made_is_no_repetition(scene: Scene, ada: User, granted: bool) -> None:
    """700 are allowed, but 500 have just been paid on the charge: a person is asked, or again."""
    run = scene.launch(REFUND_500.replace("500", "1200" if granted else "700"))
    other = on_the_charge_of(run, scene.launch(REFUND_500))
    if granted:  # such a call is reviewed in the transaction of its intent
        approve(go(run), ada, 70000)

    def the_other_pays(point: str) -> None:
        if point == "journal.before_commit":  # of the intent
            crashpoints.watch(None)
            in_thread(lambda: go_elsewhere(other))

    crashpoints.watch(the_other_pays)
    assert go(run).state == RunState.WAITING
    assert run.steps.filter(key="2/execute", failed="review_changed").exists() != granted

    approve(run, ada)
    run = go(run)

    assert (run.state, run.stop_reason) == (RunState.DONE, "success")
    assert payments(run) == [50000, 70000]


@pytest.mark.proves("I41")
def test_a_new_reason_to_ask_is_a_new_question(scene: Scene, ada: User) -> None:
    """Rita was asked because of the amount; meanwhile small refunds of the charge add up."""
    run = go(scene.launch())
    go(on_the_charge_of(run, scene.launch(REFUND_500)))

    approve(run, ada, 70000)
    assert go(run).state == RunState.WAITING
    again = Escalation.objects.get(run=run, state=EscalationState.OPEN)
    assert again.review["deciding"]["reason"] == "refunds_add_up"
    approve(run, ada)
    run = go(run)

    assert payments(run) == [50000, 70000]
    assert grants_of(run) == [(70000, "asked_again"), (70000, "")]


@pytest.mark.proves("I41")
def test_a_yes_to_both_reasons_is_not_asked_for_the_first_again(scene: Scene, ada: User) -> None:
    """Two runs share a charge of 2,400: the second approval covers the first one's refund too."""
    run = go(scene.launch())
    charge_of(run, 240000)
    go(on_the_charge_of(run, scene.launch(REFUND_500)))

    approve(run, ada)  # 1,200, which is above the limit
    go(run)
    approve(run, ada)  # and with the 500 it adds up
    run = go(run)

    assert (run.stop_reason, payments(run)) == ("success", [50000, 120000])


@pytest.mark.proves("I41")
def test_amount_lowered_by_policy_is_not_the_persons(scene: Scene, ada: User) -> None:
    run = go(scene.launch())
    approve(run, ada)
    refund_by_phone(run, 40000)

    run = go(run)

    assert payments(run) == [40000, 80000]
    assert grants_of(run) == [(120000, "amount_changed")]
    assert recorded_reasons(run) == ["amount_changed"]


def test_a_run_that_ends_after_a_yes_says_why_nothing_was_paid(scene: Scene, ada: User) -> None:
    run = go(scene.launch())
    approve(run, ada)
    refund_by_phone(run, 120000)

    run = go(run)

    assert grants_of(run) == [(120000, "supervisor_block:charge_fully_refunded")]
    assert recorded_reasons(run) == ["supervisor_block:charge_fully_refunded"]


@pytest.mark.proves("I41")
def test_a_switch_and_a_cancellation_after_a_yes_say_so(scene: Scene, ada: User) -> None:
    stopped, cancelled = go(scene.launch()), go(scene.launch())
    approve(stopped, ada)
    approve(cancelled, ada)
    kill_switch.kill(workspace=scene.workspace, by=ada, reason="look", at=timezone.now())

    go(stopped)
    launching.cancel(run_id=cancelled.pk, by=scene.omar, reason="enough", at=timezone.now())

    assert grants_of(stopped) == [(120000, "killed")]
    assert grants_of(cancelled) == [(120000, "cancelled")]


# Not tool calls: a memo, a judge's question, a case without a specialist.
OTHER_QUESTIONS: dict[str, dict[str, Any]] = {
    "output": {"goal": MEMO, "pattern": "workflow", "workflow": "exception-memo"},
    "question": {"goal": UNSURE, "pattern": "workflow", "workflow": "customer-reply"},
    "hand_over": {"goal": NOBODYS, "pattern": "routing"},
}


@pytest.mark.proves("I41")
@pytest.mark.parametrize("kind", OTHER_QUESTIONS)
def test_approved_non_call_shows_its_cancelled_run(scene: Scene, ada: User, kind: str) -> None:
    run = go(scene.launch(**OTHER_QUESTIONS[kind]))
    assert approve(run, ada).kind == kind

    launching.cancel(run_id=run.pk, by=scene.omar, reason="enough", at=timezone.now())

    assert grants_of(run) == [(None, "cancelled")]
    assert recorded_reasons(run) == ["cancelled"]


@pytest.mark.proves("I41")
@pytest.mark.parametrize("kind", OTHER_QUESTIONS)
def test_what_is_no_call_and_was_heeded_says_nothing_else(
    scene: Scene, ada: User, kind: str
) -> None:
    run = go(scene.launch(**OTHER_QUESTIONS[kind]))
    approve(run, ada)

    run = go(run)

    assert run.stop_reason == ("max_route_attempts" if kind == "hand_over" else "success")
    assert grants_of(run) == [(None, "")]


@pytest.mark.proves("I41")
def test_a_correction_counts_once_it_was_worked_on(scene: Scene, ada: User) -> None:
    early, late = (go(scene.launch(**OTHER_QUESTIONS["output"])) for _ in range(2))
    for run in (early, late):
        send_back(run, ada)
    assert go(late).state == RunState.WAITING

    for run in (early, late):
        launching.cancel(run_id=run.pk, by=scene.omar, reason="enough", at=timezone.now())

    assert grants_of(early) == [(None, "cancelled")]
    assert grants_of(late) == [(None, ""), (None, "")]


def refusal_of(run: Run, by: User, amount_minor: int | None = None) -> refusal.Refused:
    with pytest.raises(refusal.Refused) as no:
        approve(run, by, amount_minor)
    return no.value


@pytest.mark.both
@pytest.mark.proves("I43")
def test_a_persons_own_limit_holds_for_the_sum_on_one_charge(scene: Scene, ada: User) -> None:
    """Rita grants her limit of 800, and another run asks for the rest of the charge."""
    run = go(scene.launch())
    charge_of(run, 240000)
    approve(run, scene.rita, 70000)
    go(run)
    second = go(on_the_charge_of(run, scene.launch()))

    no = refusal_of(second, scene.rita)

    assert no.code == "above_own_limit"
    assert "With the USD 700.00 you already granted for this in 30 days" in str(no)
    assert "Grant at most USD 100.00" in str(no)
    approve(second, scene.rita, 10000)
    assert payments(go(second)) == [70000, 10000]


@pytest.mark.both
def test_a_grant_that_came_to_nothing_uses_no_limit_up(scene: Scene, ada: User) -> None:
    run = go(scene.launch())
    second = go(on_the_charge_of(run, scene.launch()))
    approve(run, scene.rita, 70000)
    launching.cancel(run_id=run.pk, by=scene.omar, reason="enough", at=timezone.now())

    assert approve(second, scene.rita, 80000).granted_minor == 80000


@pytest.mark.parametrize(
    ("refunded", "name", "amount", "says"),
    [
        (0, "rita", 130000, "USD 1,300.00 is above your own limit of USD 800.00"),
        (30000, "rita", 95000, "USD 950.00 is above your own limit of USD 800.00"),
        (40000, "rita", 95000, "more than the USD 800.00 that is left of the charge"),
        (110000, "ada", 130000, "more than the USD 100.00 that is left of the charge"),
        (0, "ada", 130000, "From USD 0.01 to USD 1,200.00"),
    ],
    ids=["own limit, range", "own limit, charge", "charge, own limit", "charge, range", "range"],
)
def test_of_two_bounds_a_refusal_names_the_tighter(
    scene: Scene, ada: User, refunded: int, name: str, amount: int, says: str
) -> None:
    run = go(scene.launch())
    if refunded:
        refund_by_phone(run, refunded)

    assert says in str(refusal_of(run, User.objects.get(username=name), amount))


def under(scene: Scene, **limits: Any) -> None:
    scene.publish({**STRICT.as_json(), **limits}, User.objects.get(username="ada"))


@pytest.mark.both
@pytest.mark.proves("I43")
def test_policy_caps_a_persons_daily_grants(scene: Scene, ada: User) -> None:
    under(scene, reviewer_daily_minor=150000)
    first, second = go(scene.launch()), go(scene.launch())
    approve(first, ada)

    no = refusal_of(second, ada)

    assert no.code == "above_daily_total"
    assert "Grant at most USD 300.00" in str(no)
    assert approve(second, scene.rita, 80000).granted_minor == 80000
    under(scene, reviewer_daily_minor=50000)  # less than either has granted
    third = go(scene.launch())
    assert "above the USD 500.00 that one person may approve" in str(refusal_of(third, ada, 100))


@pytest.mark.both
@pytest.mark.proves("I43")
def test_payments_and_grants_count_in_their_window_only(scene: Scene, ada: User) -> None:
    under(scene, reviewer_daily_minor=150000)
    first, second = go(scene.launch()), go(scene.launch())
    approve(first, scene.rita, 70000)
    go(scene.launch(REFUND_500))
    held = Escalation.objects.get(run=second)
    target = CallTarget("42", Escalation.objects.get(run=first).resource, 120000, "USD")
    rita = Membership.objects.get(user=scene.rita)
    held.run.book_id = first.book_id

    def left(days: int) -> tuple[int, ...]:
        at = timezone.now() + timedelta(days=days)
        steps = list(second.steps.all())
        asked = (second, held.action, second.limits, steps)
        facts: Any = fetch_now(fetch_facts, *asked, at=at, lock=False)[0]
        bounds = own_bounds(held, rita, target, at=at)
        sums = facts.unattended
        return (sums["workspace"], sums["launcher"], *(bound.most_minor for bound in bounds))

    assert left(0) == (50000, 50000, 10000, 80000)
    assert left(1) == (0, 0, 10000, 150000)
    assert left(31) == (0, 0, 80000, 150000)


@pytest.mark.both
@pytest.mark.proves("I45")
def test_an_inbox_that_is_full_of_one_launcher_takes_no_more(scene: Scene, ada: User) -> None:
    under(scene, open_per_launcher=2)
    runs = [scene.launch() for _ in range(3)]

    ended = [go(go(run)) for run in runs]  # once more where it was refused

    assert [run.state for run in ended] == ["waiting", "waiting", "stopped"]
    assert ended[2].stop_reason == "too_many_open_requests:launcher"
    with pytest.raises(refusal.Refused, match="2 requests from omar are already waiting"):
        scene.launch()
    approve(runs[0], ada)
    assert go(scene.launch()).state == "waiting"


@pytest.mark.both
@pytest.mark.proves("I45")
def test_an_inbox_that_is_full_about_one_customer_takes_no_more(scene: Scene, ada: User) -> None:
    under(scene, open_per_subject=1)
    first = go(scene.launch())

    second = go(go(on_the_charge_of(first, scene.launch())))

    assert second.stop_reason == "too_many_open_requests:subject"
    assert go(scene.launch()).state == "waiting"  # its own copy of the customers
