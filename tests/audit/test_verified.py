"""A verification continues from the last successful one and says what it did not read."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from agents.audit import verify
from agents.audit.verify import keep_verified
from agents.models import Event, Head, Role, Run, Sealed, VerifiedHead, Workspace
from tests.audit.test_record import delete, edit, unseen
from tests.audit.test_sealed import hash_again
from tests.commands.test_run_pattern import command
from tests.engine.scene import REFUND_500, Scene, go
from tests.web.test_pages import client_of
from tests.web.verifying import verify_log

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]


def goes_on(*more: str) -> dict[str, Any]:
    ended = command("verify_audit", "--since-last", "--json", *more)
    assert ended.code == (3 if ended.document["faults"] else 0)
    return dict(ended.document)


def another(scene: Scene) -> Run:
    run = go(scene.launch(REFUND_500))
    assert command("seal_audit").code == 0
    run.refresh_from_db()
    return run


def test_what_is_new_is_read_and_what_is_not_is_said(scene: Scene, run: Run) -> None:
    assert "since" not in goes_on(), "nothing was verified before"
    old = [another(scene) for _ in range(3)]
    assert goes_on()["chains"] == 5, "the run that the last head sealed is read too"

    fresh = another(scene)
    unsealed = go(scene.launch(REFUND_500))
    with CaptureQueriesContext(connection) as asked:
        found = goes_on()

    assert (found["chains"], found["unread"], found["faults"]) == (4, 3, [])
    read = " ".join(query["sql"] for query in asked)
    assert str(old[0].pk.hex) not in read.replace("-", "")
    assert str(fresh.pk.hex) in read.replace("-", "")
    assert unsealed.event_count
    said = command("verify_audit", "--since-last").out
    assert "chains without new events" in said, said
    assert "since" not in command("verify_audit", "--json").document


@pytest.mark.proves("I33")
@pytest.mark.breaks("I23", "I32", "I33")
@pytest.mark.parametrize("tamper", [edit, delete])
@pytest.mark.parametrize("again", [False, True])
def test_a_chain_that_went_on_is_proved_from_its_first_event(
    scene: Scene, run: Run, tamper: Callable[[Run], None], again: bool
) -> None:
    """Even if it was rehashed: the newer head's events no longer follow."""
    goes_on()
    another(scene)
    command("erase_subject", scene.workspace.slug, "42", "--reason", "asked for it")
    command("seal_audit")
    run.refresh_from_db()

    def thoroughly(run: Run) -> None:
        tamper(run)
        if again:
            hash_again(run)

    unseen(thoroughly, run)

    assert {fault["chain"] for fault in goes_on()["faults"]} == {f"run {run.pk}"}


@pytest.mark.proves("I33")
@pytest.mark.breaks("I23", "I32", "I33")
def test_full_read_after_a_week_finds_stalled_chains(
    scene: Scene, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        another(scene)
        goes_on()
    unseen(edit, run)
    found = goes_on()
    assert (found["faults"], found["unread"]) == ([], 2), "it says that it did not read it"
    rows = list(VerifiedHead.objects.all())

    assert command("verify_audit", "--run", str(run.pk)).code == 3
    assert [fault["chain"] for fault in goes_on()["faults"]] == [f"run {run.pk}"]

    VerifiedHead.objects.bulk_create(rows)
    monkeypatch.setattr(verify, "LONGEST", timedelta())
    assert [fault["chain"] for fault in goes_on()["faults"]] == [f"run {run.pk}"]
    monkeypatch.undo()
    assert goes_on()["faults"], "after a fault all is read until it holds"


@pytest.mark.breaks("I23", "I32", "I33")
def test_recorded_fault_forces_a_full_read(scene: Scene, run: Run) -> None:
    auditor = client_of(scene.add("auditor", Role.AUDITOR))
    for _ in range(2):
        another(scene)
        goes_on()
    rows = list(VerifiedHead.objects.all())
    unseen(edit, run)
    assert f"run {run.pk}" in verify_log(auditor, all="1")
    assert not VerifiedHead.objects.exists()

    keep_verified(Workspace.objects.all(), rows[0], rows[0])
    assert not VerifiedHead.objects.exists(), "what ends later and went on brings it not back"
    VerifiedHead.objects.bulk_create(rows)

    assert [fault["chain"] for fault in goes_on()["faults"]] == [f"run {run.pk}"]


def test_each_workspace_is_read_fully_within_a_week(
    scene: Scene, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two verified on different days continue together, with the older day for both."""
    goes_on()
    first = VerifiedHead.objects.get().full_at
    assert command("add_workspace", "second", "--name", "Second", "--desk", "bank").code == 0
    assert "since" not in goes_on("--workspace", "second")
    assert VerifiedHead.objects.exclude(full_at=first).exists()
    another(scene)
    assert "since" in goes_on("--workspace", scene.workspace.slug)

    assert "since" in goes_on()

    assert set(VerifiedHead.objects.values_list("full_at", flat=True)) == {first}


def test_a_key_that_was_replaced_has_all_read(scene: Scene, run: Run, settings: Any) -> None:
    goes_on()
    key, settings.OPSCONSOLE_AUDIT_KEY = settings.OPSCONSOLE_AUDIT_KEY, ""
    goes_on()
    settings.OPSCONSOLE_AUDIT_KEY = key
    assert "since" in goes_on(), "who lacks the key takes nothing from those who have it"

    settings.OPSCONSOLE_AUDIT_OLD_KEYS = [key]
    settings.OPSCONSOLE_AUDIT_KEY = "an audit key that came after the other one"

    assert "since" not in goes_on()


def _raise(**columns: Any) -> None:
    VerifiedHead.objects.update(**columns)


def _write(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.proves("I33")
@pytest.mark.parametrize(
    "forge",
    [
        lambda: _raise(head=2, seal=Head.objects.get(number=2).seal),
        lambda: _raise(upto=10**6),
        lambda: _raise(full_at=timezone.now() + timedelta(hours=-1)),
        lambda: _raise(proof="0" * 64),
        lambda: VerifiedHead.objects.all().delete(),
        lambda: _write("UPDATE agents_verifiedhead SET full_at = 'infinity'"),
    ],
)
def test_who_has_only_the_database_has_no_less_read(
    scene: Scene, run: Run, forge: Callable[[], object]
) -> None:
    goes_on()
    another(scene)

    forge()

    assert "since" not in goes_on()


@pytest.mark.breaks("I23", "I32", "I33")
@pytest.mark.parametrize("is_before", [True, False])
def test_how_far_a_head_says_that_it_reaches_is_not_believed(
    scene: Scene, run: Run, is_before: bool
) -> None:
    """No seal covers it; it could make the next verification skip unsealed events."""
    loose = go(scene.launch(REFUND_500)) if is_before else None

    def reach_far(_: Run) -> None:
        Head.objects.update(upto=10**6)

    unseen(reach_far, run)
    assert "since" not in goes_on()
    loose = loose or go(scene.launch(REFUND_500))
    loose.refresh_from_db()

    unseen(edit, loose)

    assert verify.newest_verified(Workspace.objects.all(), at=timezone.now())
    assert [one["chain"] for one in goes_on()["faults"]] == [f"run {loose.pk}"]


@pytest.mark.breaks("I34")
def test_heads_that_changed_since_are_found(scene: Scene, run: Run, heads_file: Path) -> None:
    goes_on()
    newest = another(scene)
    whole = heads_file.read_text()
    heads_file.write_text(whole.replace('"number":2', '"number":3'))
    found = goes_on()
    assert found["faults"]
    assert "since" not in found, "what is lost is taken for changed where not all is read"
    assert command("verify_audit", "--json").document["faults"] == found["faults"]
    heads_file.unlink()
    assert [fault["chain"] for fault in goes_on()["faults"]] == ["heads kept elsewhere"]
    heads_file.write_text(whole.splitlines()[0] + "\n")
    assert goes_on()["faults"] == [], "another host's file may lack the newest"
    heads_file.write_text(whole)
    Sealed.objects.filter(chain=f"run/{newest.pk}").update(event_count=0)
    assert goes_on()["faults"]


def test_page_names_unread_parts_and_can_read_all(scene: Scene, run: Run) -> None:
    auditor = client_of(scene.add("auditor", Role.AUDITOR))
    assert "All 2 chains were read" in verify_log(auditor)
    for _ in range(2):
        another(scene)
        shown = verify_log(auditor)

    assert "Not read: 1 chain without new entries" in shown, shown
    assert "All of the log was last read at" in shown
    shown = client_of(scene.add("second", Role.AUDITOR)).get(reverse("audit")).text
    assert "and not 1 others" in shown
    assert "All of the log was last read at" in shown, "whoever looks, and later too"
    assert "New entries intact at the last check" in shown
    told = auditor.get(reverse("audit") + "?all=1&event=audit.verified").text
    assert "not read: 1." in told
    assert "All 4 chains were read" in verify_log(auditor, all="1")
    assert Event.objects.filter(kind="audit.verified").count() == 4
