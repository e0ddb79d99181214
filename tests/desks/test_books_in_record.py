"""A desk's books are compared with the ledger: forged, missing and doubled rows are named."""

from dataclasses import replace
from typing import Any

import pytest
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from agents.audit import erasing
from agents.core.requests import Json
from agents.desks.bank.models import Account, Payee, Transfer
from agents.models import Event, Run
from agents.sdk.desk import DESKS
from agents.sdk.values import Money, arguments_of
from agents.shell import refusal
from agents.shell.event_words import tell_events
from tests.audit.test_rows import reasons
from tests.commands.test_run_pattern import command
from tests.desks.bank import (
    ATTACKS,
    LARGE,
    NEW_PAYEE,
    PAID_AT_ONCE,
    bank_scene,
    decide,
    euros,
    launch,
)
from tests.engine.scene import Scene, fresh, go
from tests.privacy.searching import places_of
from tests.web.test_pages import client_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def transfer_posted() -> Transfer:
    return Transfer.objects.get(key__contains=":")


def amount(run: Run) -> None:
    Transfer.objects.filter(pk=transfer_posted().pk).update(amount_minor=1)


def payee(run: Run) -> None:
    other = Payee.objects.get(book=run.book_id, key="P-103")
    Transfer.objects.filter(pk=transfer_posted().pk).update(payee=other)


def account(run: Run) -> None:
    mine = Account.objects.get(book=run.book_id)
    mine.pk, mine.key = None, "other"
    mine.save()
    Transfer.objects.filter(pk=transfer_posted().pk).update(account=mine)


def book(run: Run) -> None:
    Account.objects.filter(book=run.book_id).update(book=F("book") + 1000)


def purpose(run: Run) -> None:
    Transfer.objects.filter(pk=transfer_posted().pk).update(purpose="gift")


def day(run: Run) -> None:
    Transfer.objects.filter(pk=transfer_posted().pk).update(on="2020-01-02")


def gone(run: Run) -> None:
    transfer_posted().delete()


def release_transfer(run: Run) -> None:
    Transfer.objects.filter(pk=transfer_posted().pk).update(state="released")


def double_transfer(run: Run) -> None:
    copy = transfer_posted()
    copy.pk, copy.key = None, f"{copy.key}x"
    copy.save()


def under_the_key_of_another_call(run: Run) -> None:
    copy, entry = transfer_posted(), Payee.objects.exclude(entry=None).get()
    copy.pk, copy.key = None, str(entry.entry)
    copy.save()


def payee_renamed(run: Run) -> None:
    Payee.objects.exclude(entry=None).update(name="Helios Partners")


def payee_gone(run: Run) -> None:
    Payee.objects.exclude(entry=None).delete()


def payee_forged(run: Run) -> None:
    known = Payee.objects.exclude(entry=None).get()
    known.pk, known.key, known.entry = None, "P-900", f"{run.pk}:9/execute"
    known.save()


TAMPERED = {
    amount: "paid_minor is 1; the record says 48000",
    payee: "booked payee is 'P-103'; the record says 'P-101'",
    account: "booked account is 'other'; the record says 'main'",
    book: "its book is ",
    purpose: "booked purpose is 'gift'; the record says 'INV-7'",
    day: "booked on is '2 January 2020'",
    gone: "took_place is False; the record says True",
    release_transfer: "took_place is False; the record says True",
    double_transfer: "/executex: no event records it",
    under_the_key_of_another_call: "transfer_money ",
    payee_renamed: "booked name is 'Helios Partners'; the record says 'Atelier Sommer'",
    payee_gone: "took_place is False; the record says True",
    payee_forged: ":9/execute: no event records it",
}


@pytest.mark.proves("I33")
@pytest.mark.slow
def test_a_row_of_the_books_that_no_call_left_so_is_named() -> None:
    scene = bank_scene()
    paid, entered = go(launch(scene, PAID_AT_ONCE)), go(launch(scene, NEW_PAYEE))
    decide(scene, entered)
    go(entered)
    assert reasons() == []

    for tamper, expected in TAMPERED.items():
        with transaction.atomic():
            tamper(paid)
            found = reasons()
            transaction.set_rollback(True)

        assert any(expected in reason for reason in found), (tamper.__name__, found)


@pytest.mark.judged_otherwise
def test_calls_stay_proved_after_their_tool_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = bank_scene()
    go(launch(scene, PAID_AT_ONCE))
    asked = go(launch(scene, LARGE))
    desk, name = DESKS["bank"], "transfer_money"
    for table in ("tools", "all_tools"):  # copies: what is put back would come last in the table
        monkeypatch.setattr(desk, table, dict(getattr(desk, table)))

    def transfer_money(call: Any, *, account: str, amount: Money, reason: str) -> Json:
        """A payment tool under another name."""

    other = arguments_of(transfer_money)
    for tools in (desk.tools, desk.all_tools):
        tools[name] = replace(tools[name], arguments=other)

    for patch in (None, {"amount": euros("100.00")}):
        with pytest.raises(refusal.Refused, match="has changed since") as no:
            decide(scene, asked, patch)
        assert no.value.code == "tool_changed"
    assert reasons() == []
    del desk.tools[name], desk.all_tools[name]
    assert reasons() == []

    gone = "This server has no tool &#x27;transfer_money&#x27;: reject this"
    held = asked.escalations.get()
    said = command("decide", str(held.pk), "--approve", "--as", "rita")
    assert (said.code, gone.replace("&#x27;", "'") in said.err) == (3, True)
    card = client_of(scene.rita).get(f"/approvals/{held.pk}/").text
    assert (gone in card, 'value="approve"' in card, 'value="reject"' in card) == (
        True,
        False,
        True,
    )
    said = command("decide", str(held.pk), "--reject", "--reason", "Gone.", "--as", "rita")
    assert (said.code, fresh(asked).state) == (0, "queued"), said.err


@pytest.mark.proves("I37")
def test_an_account_is_forgotten_everywhere_and_the_record_holds() -> None:
    scene = bank_scene()
    run = go(launch(scene, ATTACKS[0]))
    with pytest.raises(refusal.Refused, match="account main is still going"):
        erase(scene, "main")
    decide(scene, run, {"amount": euros("100.00")})
    ended = go(run)
    Account.objects.filter(book=ended.book_id).update(name="Canary account")
    Run.objects.filter(pk=ended.pk).update(subject_label="Canary account")
    words = ("Canary account", "NOTE TO THE ASSISTANT", "Papier Hansen, envelopes")
    assert [word for word in words if not places_of(word)] == []

    done = command("erase_subject", "demo", "main", "--desk", "bank", "--reason", "letter 7")

    assert (done.code, done.out) == (0, "Account main is forgotten, with 1 run.\n")
    assert [word for word in words if places_of(word)] == []
    assert (transfer_posted().amount_minor, transfer_posted().purpose) == (10000, "")
    assert reasons() == []
    [told] = tell_events(Event.objects.filter(kind="person.erased", run=None))
    assert told.sentence.startswith("Erased account main from 1 run. “letter 7”")
    pages = client_of(scene.rita)
    for address in (f"/runs/{ended.pk}/", f"/approvals/{run.escalations.get().pk}/"):
        assert pages.get(address).status_code == 200, address
    assert Run.objects.get(pk=ended.pk).subject_label == "account main"
    with pytest.raises(refusal.Refused, match="no account nobody"):
        erase(scene, "nobody")


def erase(scene: Scene, key: str) -> erasing.Erasure:
    return erasing.erase_subject(
        workspace=scene.workspace,
        desk="bank",
        key=key,
        reason="asked for",
        at=timezone.now(),
        actor="ada",
    )
