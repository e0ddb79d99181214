"""Writers that wait for locks: none deadlocks, and each sees what the other did.

A writer is stopped while it holds a lock until the other one waits for it.
"""

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from agents.audit import erasing
from agents.core.requests import EscalationState, RunState
from agents.db.driver import fetch_now
from agents.desks.refunds import billing
from agents.desks.refunds.books import COLUMNS, import_customers
from agents.desks.refunds.facts import RefundFacts
from agents.desks.refunds.models import Charge, Customer
from agents.engine.desk.facts import fetch_facts
from agents.engine.kill_switch import switch_against
from agents.engine.tools import admission
from agents.models import Effect, Escalation, KillSwitch, Membership, Role, Run, Workspace
from agents.models.runs import pseudonyms_of
from agents.people import workspaces
from agents.requests import deciding, granting
from agents.runs import launching
from agents.sdk.desk import DESKS
from agents.shell import refusal
from tests.desks.bank import LARGE, PAID_AT_ONCE, bank_scene, euros, launch, postings
from tests.desks.bank import decide as decide_at_bank
from tests.desks.conftest import no_desk_left as no_desk_left
from tests.desks.post import IBAN, OTHER_IBAN, calls, install, model
from tests.desks.post import launch as launch_at_post
from tests.engine.scene import (
    REFUND_500,
    Scene,
    decide_request,
    fresh,
    go,
    go_elsewhere,
    payments,
    refund_by_phone,
    set_scene,
)
from tests.limits import with_desk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]


# A wait for a row is a wait for a transaction, which belongs to no database; but the waiter
# has also locked its table, which tells this database from the suite's others.
WAITING = """
SELECT count(*) FROM pg_locks waiting JOIN pg_locks held USING (pid)
JOIN pg_database ON pg_database.oid = held.database
WHERE NOT waiting.granted AND held.granted AND datname = current_database()
"""


EUROS = {"amount": "5.00", "currency": "EUR"}


def until_somebody_waits() -> None:
    """Return once a transaction waits for another's lock, or after five seconds."""
    for _ in range(500):
        with connection.cursor() as cursor:
            cursor.execute(WAITING)
            if cursor.fetchone()[0]:
                return
        time.sleep(0.01)


def decide_beside(scene: Scene, run: Run, stopped: Event, other: Callable[[], object]) -> None:
    """Decide about `run`, and do `other` once the decision has stopped."""
    with ThreadPoolExecutor(1) as threads:
        decision = threads.submit(decide, scene, run)
        assert stopped.wait(30)
        other()
        decision.result()


def decide(scene: Scene, run: Run) -> None:
    """Decide in a thread with its own connection."""
    try:
        scene.decide(run)
    finally:
        connection.close()


def stop_before(monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> Event:
    """Stop a writer there once, in its transaction, until another waits; the event tells it."""
    goes_on, stopped = getattr(module, name), Event()

    def stop(*args: Any, **named: Any) -> Any:
        if connection.in_atomic_block and not stopped.is_set():
            stopped.set()
            until_somebody_waits()
        return goes_on(*args, **named)

    monkeypatch.setattr(module, name, stop)
    return stopped


def test_decision_and_intent_want_the_same_charge(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, other = go(scene.launch()), scene.launch(REFUND_500)
    Run.objects.filter(pk=other.pk).update(book_id=held.book_id)
    # With the charge locked, and nothing written yet that names the workspace.
    stopped = stop_before(monkeypatch, granting, "review")

    decide_beside(scene, held, stopped, lambda: go(other))

    assert fresh(held).state == RunState.QUEUED
    assert fresh(other).state == RunState.DONE
    assert payments(held) == [50000]


def test_decision_and_intent_want_the_same_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """A declared desk's resource has no row of ours, so its key alone is locked."""
    scene = bank_scene()
    held, other = go(launch(scene, LARGE)), launch(scene, PAID_AT_ONCE)
    Run.objects.filter(pk=other.pk).update(book_id=held.book_id)
    stopped = stop_before(monkeypatch, granting, "review")

    def decide_transfer() -> None:
        try:
            decide_at_bank(scene, held)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        decision = threads.submit(decide_transfer)
        assert stopped.wait(30)
        go(other)
        decision.result()

    assert fresh(held).state == RunState.QUEUED
    assert [minor for _, minor in postings(go(held))] == [48000, 195000]


@pytest.mark.parametrize("desk", ["refunds", "bank"])
def test_a_proposal_reviewed_after_a_no_waits(desk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both runs were allowed before the no was committed, and wait for what it has locked."""
    scene = bank_scene() if desk == "bank" else set_scene()
    if desk == "bank":
        runs = [launch(scene, PAID_AT_ONCE) for _ in range(2)]
        part = {**DESKS["bank"].document()}
        part["limits"] |= {"unattended": euros("100.00")}
        scene.publish(with_desk("bank", part), User.objects.get(username="ada"))
        first = launch(scene, PAID_AT_ONCE)
    else:
        runs, first = [scene.launch(REFUND_500) for _ in range(2)], scene.launch()
    held = go(first)
    Run.objects.filter(pk__in=[run.pk for run in runs]).update(book_id=held.book_id)
    stopped = stop_before(monkeypatch, deciding, "answer")  # with the no written

    def reject() -> None:
        try:
            scene.decide(held, approve=False)
        finally:
            connection.close()

    def go_beside() -> None:
        try:
            go_elsewhere(runs[1])
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as threads:
        decision = threads.submit(reject)
        assert stopped.wait(30)
        beside = threads.submit(go_beside)
        go(runs[0])
        beside.result()
        decision.result()

    assert {fresh(run).state for run in runs} == {RunState.WAITING}
    assert not Effect.objects.exists()
    asked = Escalation.objects.filter(run__in=runs).values_list("review__escalating", flat=True)
    assert all("policy.rejected" in one for one in asked)


def test_decision_and_press_want_the_same_request(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, admin = go(scene.launch()), scene.add("admin", Role.ADMIN)
    # With the request decided, and nothing written yet that names the workspace.
    stopped = stop_before(monkeypatch, deciding, "answer")

    def press() -> None:
        scene.kill(admin, "it misbehaves")

    decide_beside(scene, held, stopped, press)

    escalation = Escalation.objects.get(run=held)
    assert (escalation.state, escalation.frozen_at) == (EscalationState.ADJUSTED, None)


def test_a_stop_does_not_wait_for_the_intent_of_another_run(scene: Scene) -> None:
    held = go(scene.launch())

    def stop() -> None:
        try:
            launching.cancel(run_id=held.pk, by=scene.rita, reason="", at=timezone.now())
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads, transaction.atomic():
        switch_against(
            held, "issue_refund"
        )  # as an intent does, holding the workspace until its end
        threads.submit(stop).result(timeout=30)

    assert fresh(held).state == RunState.STOPPED


def test_approved_calls_do_not_wait_for_each_other(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = go(scene.launch()), go(scene.launch())
    for run in (first, second):
        scene.decide(run)
    is_under_lock, goes_on, judge = Event(), Event(), admission.review

    def stop(action: Any, *facts: Any, **more: Any) -> Any:
        if connection.in_atomic_block and not is_under_lock.is_set():
            is_under_lock.set()
            assert goes_on.wait(60)
        return judge(action, *facts, **more)

    def go_beside() -> None:
        try:
            go(first)
        finally:
            connection.close()

    monkeypatch.setattr(admission, "review", stop)
    with ThreadPoolExecutor(1) as threads:
        held = threads.submit(go_beside)
        try:
            assert is_under_lock.wait(30)
            go_elsewhere(second)
            assert (payments(first), payments(second)) == ([], [80000])
        finally:
            goes_on.set()
        held.result()

    assert payments(first) == [80000]


@pytest.mark.proves("I30")
def test_press_waits_only_for_starting_writes(scene: Scene) -> None:
    """Thirty-two writers without a pause; a press that they starved would give up after 5 s."""
    run, admin, begun = scene.launch(), scene.add("admin", Role.ADMIN), Counter[str]()

    def write() -> None:
        try:
            while True:
                with transaction.atomic():
                    if switch_against(run, "issue_refund"):
                        return
                    begun["writes"] += 1
        finally:
            connection.close()

    with ThreadPoolExecutor(32) as threads:
        writers = [threads.submit(write) for _ in range(32)]
        try:
            while begun["writes"] < 100:
                time.sleep(0.001)
        finally:
            with transaction.atomic():
                scene.kill(admin, "it misbehaves")
                under_lock = begun["writes"]
        for writer in writers:
            writer.result()

    assert begun["writes"] == under_lock


@pytest.mark.proves("I30")
def test_a_press_outlasts_a_writer_that_stands_still(scene: Scene) -> None:
    """Its host was paused, say: the server ends its transaction, here after one idle second."""
    run, admin = scene.launch(), scene.add("admin", Role.ADMIN)
    holds, is_over = Event(), Event()

    def stand_still() -> None:
        try:
            with suppress(DatabaseError), transaction.atomic():
                with connection.cursor() as cursor:
                    cursor.execute("SET idle_in_transaction_session_timeout = 1000")
                switch_against(run, "issue_refund")
                holds.set()
                is_over.wait(30)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        writer = threads.submit(stand_still)
        assert holds.wait(30)
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = 100")  # of anybody else
        try:
            scene.kill(admin, "it misbehaves")
        finally:
            is_over.set()
            connection.close()
        writer.result()

    assert KillSwitch.objects.standing().count() == 1


@pytest.mark.proves("I43")
def test_sums_of_calls_are_counted_one_at_a_time(scene: Scene, no_desk_left: None) -> None:
    """Of two accounts, so that no resource is locked by both."""
    scene.add("ada", Role.ADMIN)
    install(scene)
    with model(calls("pay", iban=IBAN, amount=EUROS)):
        run = launch_at_post(scene, f"Pay EUR 5.00 into {IBAN}.")
    paid = Effect.objects.filter(run=run, tool="pay")
    made = paid.get().args
    limits = run.policy.limits().of(run.pattern, "post")

    pseudonyms_of(run)  # read before others are asked

    def review_payment(iban: str) -> int:
        action = {"kind": "tool", "name": "pay", "args": {**made, "iban": iban}}
        facts, _ = fetch_now(fetch_facts, run, action, limits, [], at=timezone.now(), lock=True)
        own: Any = facts.desk
        return int(own.own.paid_before)

    def review_beside() -> int:
        try:
            with transaction.atomic():
                return review_payment(OTHER_IBAN)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            assert review_payment(IBAN) == 1
            waits = threads.submit(review_beside)
            until_somebody_waits()
            paid.update(args={**made, "iban": OTHER_IBAN})
        assert waits.result() == 1
    paid.update(args=made)


@pytest.mark.parametrize("locked", ["run", "workspace"])
def test_a_decision_reads_who_may_decide_once_it_has_the_lock(scene: Scene, locked: str) -> None:
    held = go(scene.launch())

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            row: Any = held if locked == "run" else held.workspace
            type(row).objects.select_for_update(no_key=True).get(pk=row.pk)
            decision = threads.submit(decide, scene, held)
            until_somebody_waits()
            Membership.objects.filter(user=scene.rita).delete()
        with pytest.raises(refusal.Refused, match="is not a member"):
            decision.result()

    assert Escalation.objects.get(run=held).state == EscalationState.OPEN


def test_outside_refund_waits_for_an_intent(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    run = scene.launch(REFUND_500)
    stopped = stop_before(monkeypatch, admission, "review")

    def refund_all() -> None:
        assert stopped.wait(30)
        try:
            refund_by_phone(run)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        by_phone = threads.submit(refund_all)
        run = go(run)
        with pytest.raises(billing.RefundRefused, match="exceeds"):
            by_phone.result()

    assert (run.state, payments(run)) == (RunState.DONE, [50000])


def test_what_was_refunded_is_read_once_the_charge_is_locked(scene: Scene) -> None:
    run = go(scene.launch(REFUND_500))
    effects = Effect.objects.filter(run=run, tool="issue_refund")
    pk = Charge.objects.get(customer__book=run.book_id, customer__number=42).pk
    limits = run.policy.limits().of(run.pattern, "refunds")
    refund = {"kind": "tool", "name": "issue_refund", "args": {"user_id": 42}}
    effects.update(resource="")

    def read_unattended() -> int:
        try:
            with transaction.atomic():
                facts, _ = fetch_now(
                    fetch_facts, run, refund, limits, [], at=timezone.now(), lock=True
                )
            assert facts.desk
            own: RefundFacts = facts.desk.own
            return own.unattended_minor
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            Charge.objects.select_for_update().get(pk=pk)
            waits = threads.submit(read_unattended)
            until_somebody_waits()
            effects.update(resource=str(pk))  # as another run's commit, in any workspace
        assert waits.result() == 50000


def test_an_erasure_and_a_late_decision_want_the_same_run(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = go(scene.launch())
    escalation = Escalation.objects.get(run=run)
    scene.decide(run, approve=False)
    go(run)
    stopped = stop_before(monkeypatch, erasing, "names_of")  # with its subject locked

    with ThreadPoolExecutor(1) as threads:
        erasure = threads.submit(erase, scene.workspace, 42)
        assert stopped.wait(30)
        with pytest.raises(deciding.AlreadyDecided):
            decide_request(escalation, scene.rita)
        assert erasure.result() == 1


def test_an_erasure_and_an_import_want_the_same_customer(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    eu = workspaces.add_workspace(desks=["refunds"], slug="eu", name="EU", at=timezone.now())
    table = [",".join(COLUMNS) + "\n", "107,Jo Lind,jo@example.com,SE,,,,,\n"]
    known: dict[str, Any] = {"workspace": eu, "at": timezone.now(), "actor": "omar"}
    import_customers(lines=table, **known)
    stopped = stop_before(monkeypatch, erasing, "names_of")

    with ThreadPoolExecutor(1) as threads:
        erasure = threads.submit(erase, eu, 107)
        assert stopped.wait(30)
        again = import_customers(lines=table, **known)
        erasure.result()

    assert (again.erased, again.left_out) == ((107,), 1)
    assert Customer.objects.get(book=eu.book, number=107).name == ""


def erase(workspace: Workspace, number: int) -> int:
    """Erase in a thread with its own connection."""
    try:
        return erasing.erase_subject(
            desk="refunds",
            workspace=workspace,
            key=str(number),
            reason="asked to",
            at=timezone.now(),
            actor="omar",
        ).runs
    finally:
        connection.close()
