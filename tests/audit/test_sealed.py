"""The heads reveal changes by someone who can write everything but lacks the key."""

import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event as Event_
from threading import Thread
from typing import Any

import pytest
import time_machine
from django.db import connection, models, transaction
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from agents.audit import sealing
from agents.desks.refunds.models import Charge, Refund, SentMail
from agents.engine.upkeep import sweep as sweeping
from agents.engine.upkeep.sweep import sweep
from agents.models import (
    Effect,
    Escalation,
    Event,
    Head,
    PolicyVersion,
    Role,
    Run,
    Sealed,
    Step,
    Workspace,
)
from agents.models.record import Entry, append_events, hashed_parts
from agents.people import workspaces
from agents.record.seals import link, seal_head
from tests.audit.test_record import cut, delete, edit, insert, swap, unseen
from tests.commands.test_run_pattern import command
from tests.engine.scene import REFUND_500, Scene, go
from tests.processes import together
from tests.settings import ON_POSTGRES

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

OWN_KEY = "a-key-that-the-intruder-made-up-0001"


def faults(*arguments: str) -> list[tuple[str, int]]:
    """Return the places that verify_audit names."""
    ended = command("verify_audit", "--json", *arguments)
    assert ended.code == (3 if ended.document["faults"] else 0)
    return [(fault["chain"], fault["seq"]) for fault in ended.document["faults"]]


def hash_again(run: Run) -> None:
    """Renumber and rehash a run's whole chain and its end, as the program does."""
    previous, count = "", 0
    for event in Event.objects.filter(run=run).order_by("seq"):
        count += 1
        event.seq, event.previous = count, previous
        event.hash = previous = link(previous, hashed_parts(event))
        event.save()
    Run.objects.filter(pk=run.pk).update(event_count=count, head_hash=previous)


@pytest.mark.proves("I33")
@pytest.mark.breaks("I23", "I32")
@pytest.mark.parametrize(
    ("tamper", "seq"), [(edit, 3), (delete, 3), (insert, 3), (swap, 3), (cut, None)]
)
def test_a_chain_that_was_hashed_anew_is_found(
    run: Run, tamper: Callable[[Run], None], seq: int | None
) -> None:
    def thoroughly(run: Run) -> None:
        tamper(run)
        hash_again(run)

    unseen(thoroughly, run)

    assert faults() == [(f"run {run.pk}", seq or run.event_count)]


def remove(run: Run) -> None:
    """Delete a run with all its rows, payments and mails."""
    mine = Refund.objects.filter(key__startswith=f"{run.pk}:")
    Charge.objects.filter(refunds__in=mine).update(refunded_minor=0)
    mine.delete()
    SentMail.objects.filter(key__startswith=f"{run.pk}:").delete()
    for model in (Event, Effect, Escalation, Step):
        model._default_manager.filter(run=run).delete()
    run.delete()


@pytest.mark.both
def test_a_run_that_is_gone_is_found(run: Run) -> None:
    gone, slug = run.pk, run.workspace.slug
    workspaces.add_workspace(desks=["refunds"], slug="eu", name="EU", at=timezone.now())

    unseen(remove, run)

    assert faults() == [(f"run {gone}", 1)]
    assert faults("--workspace", slug) == [(f"run {gone}", 1)]
    assert faults("--workspace", "eu") == []


@pytest.mark.both
def test_missing_workspace_is_found_from_another(run: Run) -> None:
    """Continued verifications cover the other chains one by one and would hide this."""
    _, gone = (
        workspaces.add_workspace(desks=["refunds"], slug=slug, name=slug, at=timezone.now())
        for slug in ("uk", "eu")
    )
    chain, mine = f"workspace {gone.pk}", Workspace.objects.filter(pk=gone.pk)
    assert command("seal_audit").code == 0

    def remove_workspace(run: Run) -> None:
        mine.update(policy=None)
        PolicyVersion.objects.filter(workspace=gone).delete()
        Event.objects.filter(workspace=gone).delete()
        mine.delete()

    unseen(remove_workspace, run)

    assert faults("--workspace", run.workspace.slug) == faults() == [(chain, 1)]
    assert faults("--run", str(run.pk)) == []


@pytest.mark.proves("F44")
@pytest.mark.breaks("I32")
def test_a_head_sealed_with_another_key_is_found(run: Run, heads_file: Path) -> None:
    """The intruder rewrites the run and its head under a key of their own."""

    def reseal(run: Run) -> None:
        edit(run)
        hash_again(run)
        head = Head.objects.get()
        hashes = Event.objects.filter(run=run).order_by("seq").values_list("hash", flat=True)
        [part] = (head.workspaces or {}).values()
        part["moved"][f"run/{run.pk}"] = list(hashes)
        forged = seal_head(head.plain(), OWN_KEY)
        head.key, head.seal = forged.key, forged.seal
        head.save()

    heads_file.unlink()
    unseen(reseal, run)

    assert faults() == [("heads", 1)]


def empty(head: Head) -> None:
    head.workspaces = {}


def backdate(head: Head) -> None:
    head.at = head.at.replace(year=2020)


@pytest.mark.parametrize("tamper", [empty, backdate])
def test_a_head_whose_content_was_changed_is_found(
    run: Run, heads_file: Path, tamper: Callable[[Head], None]
) -> None:
    def change(run: Run) -> None:
        head = Head.objects.get()
        tamper(head)
        head.save()

    heads_file.unlink()
    unseen(change, run)

    assert faults() == [("heads", 1)]


def seal_another(scene: Scene) -> Run:
    another = go(scene.launch(REFUND_500))
    assert command("seal_audit").code == 0
    return another


@pytest.mark.proves("I34")
@pytest.mark.breaks("I23")
def test_the_tail_cut_with_its_heads_is_found_by_the_copy(
    run: Run, scene: Scene, heads_file: Path
) -> None:
    another = seal_another(scene)

    def cut_all(run: Run) -> None:
        cut(another)
        hash_again(another)
        Head.objects.get(number=2).delete()

    unseen(cut_all, run)
    with_copy = faults()
    heads_file.unlink()
    without = faults()

    another.refresh_from_db()
    assert with_copy == [("heads", 2), (f"run {another.pk}", another.event_count + 1)]
    # The remaining heads show nothing; the row still says that the run ended.
    assert {name for name, _ in without} == {f"run {another.pk}"}


@pytest.mark.proves("I34", "F43")
@pytest.mark.both
def test_older_database_is_found_by_other_heads(
    run: Run, scene: Scene, heads_file: Path, tmp_path: Path
) -> None:
    """The whole database was restored; the heads kept elsewhere are newer."""
    before = snapshot()
    another = seal_another(scene)
    elsewhere = shutil.copy(heads_file, tmp_path / "elsewhere.jsonl")
    heads_file.unlink()

    put_back(before, another)

    assert faults() == []
    assert ("heads", 2) in faults("--head", str(elsewhere))


def snapshot() -> set[Any]:
    return set(Event.objects.values_list("pk", flat=True))


def put_back(before: set[Any], another: Run) -> None:
    """Restore the database as it was before `another` was launched."""
    chain = f"run/{another.pk}"

    def undo(run: Run) -> None:
        remove(run)
        later: models.QuerySet[Event] = Event.objects.exclude(pk__in=before)
        later.delete()
        Head.objects.filter(number=2).delete()
        Sealed.objects.filter(chain=chain).delete()

    unseen(undo, another)


def test_the_copy_may_be_behind_and_a_torn_line_is_not_a_head(
    run: Run, scene: Scene, heads_file: Path
) -> None:
    kept = heads_file.read_bytes()
    seal_another(scene)
    heads_file.write_bytes(kept + b'{"number":2,"at"')

    assert faults() == []
    assert command("seal_audit").out == "Nothing is new since the last head.\n"
    assert len(heads_file.read_bytes().splitlines()) == 2  # complete again
    assert faults() == []


@pytest.mark.parametrize("claimed", [10**6, None])
def test_falsely_sealed_chain_stops_the_sealing(
    run: Run, scene: Scene, claimed: int | None
) -> None:
    """The table of counts has no trigger: one row could keep a run out of every head."""
    kept_out = go(scene.launch(REFUND_500))
    kept_out.refresh_from_db()
    count = claimed or kept_out.event_count
    Sealed.objects.create(chain=f"run/{kept_out.pk}", event_count=count)

    refused, checked = command("seal_audit"), command("verify_audit")

    assert (refused.code, checked.code, Head.objects.count()) == (3, 3, 1)
    assert f"counts more events of run/{kept_out.pk} than the heads have" in refused.err
    wanted = f"run {kept_out.pk}: agents_sealed counts {count} sealed events; the heads have 0"
    assert wanted in checked.out
    Sealed.objects.filter(chain=f"run/{kept_out.pk}").delete()
    assert command("seal_audit").code == 0
    assert faults() == []


@pytest.mark.proves("I34")
@pytest.mark.both
@pytest.mark.parametrize("change", ["lowered", "removed", "held back"])
def test_lowered_count_does_not_seal_events_twice(
    run: Run, scene: Scene, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event sealed by two heads would break its chain for good."""
    chain = f"workspace/{scene.workspace.pk}"
    mine = Sealed.objects.filter(chain=chain)
    add_eve = partial(workspaces.add_member, workspace=scene.workspace, user=scene.eve)
    if change == "held back":  # a transaction was under way: events above `upto` are in heads
        monkeypatch.setattr(sealing, "newest_final_key", lambda: None)
        add_eve(role=Role.ADMIN, at=timezone.now())
        assert command("seal_audit").code == 0
    heads, counted = Head.objects.count(), mine.get()
    if change == "removed":
        mine.delete()
    else:
        mine.update(event_count=counted.event_count - 1)

    found = faults()
    add_eve(role=Role.VIEWER, at=timezone.now())
    refused = command("seal_audit")

    assert found == [(f"workspace {scene.workspace.pk}", 0)]
    assert (refused.code, Head.objects.count()) == (3, heads)
    assert f"agents_sealed counts fewer events of {chain} than the heads have" in refused.err
    counted.save()
    assert command("seal_audit").code == 0
    assert faults() == []


@pytest.mark.both
def test_inserted_head_is_neither_followed_nor_filed(
    run: Run, scene: Scene, heads_file: Path
) -> None:
    """Inserting rows must not suffice to change the heads file."""
    kept = heads_file.read_bytes()
    forged = Head.objects.get(number=1)
    forged.number, forged.before = 2, forged.seal  # nor sealed itself
    forged.save(force_insert=True)
    go(scene.launch(REFUND_500))

    for arguments in ([], ["--begin-file"]):
        refused = command("seal_audit", *arguments)
        assert (refused.code, heads_file.read_bytes()) == (3, kept)
        assert "Head 2 is in the database and was not made by this program" in refused.err
    assert ("heads", 2) in faults()

    with connection.cursor() as cursor:  # as docs/operations.md says
        cursor.execute(
            "ALTER TABLE agents_head DISABLE TRIGGER USER"
            if ON_POSTGRES
            else "DROP TRIGGER agents_head_no_delete"
        )
        cursor.execute("DELETE FROM agents_head WHERE number NOT BETWEEN 1 AND 1")
    assert command("migrate", "--no-input").code == 0
    assert command("seal_audit").code == 0
    assert faults() == []


@pytest.mark.proves("F44")
def test_oldest_seal_is_checked_with_a_retired_key(run: Run, scene: Scene, settings: Any) -> None:
    settings.OPSCONSOLE_AUDIT_OLD_KEYS = [settings.OPSCONSOLE_AUDIT_KEY]
    settings.OPSCONSOLE_AUDIT_KEY = "a-new-key-of-at-least-32-characters"
    seal_another(scene)

    assert len(set(Head.objects.values_list("key", flat=True))) == 2
    assert faults() == []
    settings.OPSCONSOLE_AUDIT_OLD_KEYS = []
    assert faults() == [("heads", 1)]
    settings.OPSCONSOLE_AUDIT_KEY = "one-that-another-data-directory-made"
    settings.OPSCONSOLE_OWN_KEYS = ["OPSCONSOLE_AUDIT_KEY"]
    refused, checked = command("seal_audit"), command("verify_audit")
    assert (refused.code, "which this process lacks" in refused.err) == (3, True)
    assert (checked.code, "`audit-key`" in checked.out) == (3, True)
    assert Head.objects.count() == 2
    lost = Head.objects.latest("number").key
    assert command("seal_audit", "--begin-file").code == 3, "a slip is not sealed with"
    assert f"seal_audit --lost-key {lost}:" in refused.err
    assert command("seal_audit", "--lost-key", lost).code == 3, "the next would be refused too"
    go(scene.launch(REFUND_500))
    assert command("seal_audit", "--lost-key", lost).code == 0
    assert (command("seal_audit").code, Head.objects.count()) == (0, 3)


@pytest.mark.proves("F43")
@pytest.mark.both
def test_a_database_that_lost_its_newest_head_is_not_sealed_over(
    run: Run, scene: Scene, heads_file: Path
) -> None:
    before = snapshot()
    put_back(before, seal_another(scene))
    kept = heads_file.read_bytes()

    ended = command("seal_audit")

    assert ended.code == 3
    assert "older copy" in ended.err
    assert (Head.objects.count(), heads_file.read_bytes()) == (1, kept)


@pytest.mark.both
def test_a_chain_longer_than_a_head_takes_is_sealed_by_several(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "EVENTS", 5)
    go(scene.launch(REFUND_500))

    assert command("seal_audit").code == 0

    heads = [head.plain() for head in Head.objects.order_by("number")]
    sizes = [sum(len(hashes) for _, hashes in head.chains()) for head in heads]
    assert set(sizes[:-1]) == {5}
    assert sum(sizes) == Event.objects.count()
    assert faults() == []


@pytest.mark.both
def test_the_sweep_seals_when_the_period_is_over_and_not_before(
    scene: Scene, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "_looked_at", None)
    settings.OPSCONSOLE_SEAL_SECONDS = 300
    sweep()
    at = Head.objects.get().at
    scene.launch(REFUND_500)

    assert sealing.seal_when_due(at=at + timedelta(seconds=299)) == 0
    assert sealing.seal_when_due(at=at + timedelta(seconds=300)) == 1


def test_refused_seal_is_logged_rarely_and_blocks_no_part(
    scene: Scene, settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(sealing, "_looked_at", None)
    monkeypatch.setattr(sweeping, "_told_at", {})
    measured: list[bool] = []
    monkeypatch.setitem(sweeping._LATER, "measure the database", lambda: measured.append(True))
    settings.OPSCONSOLE_SEAL_SECONDS = 1
    for _ in range(2):
        go(scene.launch(REFUND_500))
        assert command("seal_audit").code == 0
    settings.OPSCONSOLE_HEADS_FILE.unlink()

    with time_machine.travel(timezone.now() + timedelta(minutes=5)):
        for _ in range(3):
            sweep()

    said = [one for one in caplog.records if "could not seal the record" in one.getMessage()]
    assert [(bool(one.exc_info), one.getMessage().count("\n")) for one in said] == [(False, 0)]
    assert measured == [True] * 3


@pytest.mark.both
def test_next_seal_adds_a_head_lost_in_a_crash(run: Run, scene: Scene, heads_file: Path) -> None:
    kept = heads_file.read_bytes()
    seal_another(scene)
    whole = heads_file.read_bytes()
    heads_file.write_bytes(kept)

    command("seal_audit")

    assert heads_file.read_bytes() == whole


@pytest.mark.proves("I34")
def test_missing_heads_file_is_a_fault_and_stops_sealing(
    run: Run, scene: Scene, heads_file: Path
) -> None:
    seal_another(scene)
    go(scene.launch(REFUND_500))
    whole = heads_file.read_bytes()

    for left in (None, b"", whole[:100]):
        heads_file.unlink(missing_ok=True)
        if left is not None:
            heads_file.write_bytes(left)
        proof = command("verify_audit")
        refused = command("seal_audit")

        assert proof.code == 3
        assert "heads kept elsewhere: the file is gone or empty" in proof.out
        assert "Nothing was compared with heads kept outside" in proof.out
        assert refused.code == 3
        assert "seal_audit --begin-file" in refused.err
        assert Head.objects.count() == 2
        assert heads_file.read_bytes() == b""

    assert command("seal_audit", "--begin-file").code == 0
    assert heads_file.read_bytes().startswith(whole)
    assert faults() == []
    assert "3 heads were compared" in command("verify_audit").out


@pytest.mark.proves("I34")
@pytest.mark.parametrize("order", [(0, 0, 1), (0, 2), (1, 0)], ids=["twice", "gap", "reversed"])
def test_heads_kept_elsewhere_follow_each_other(
    run: Run, scene: Scene, heads_file: Path, order: tuple[int, ...]
) -> None:
    seal_another(scene)
    seal_another(scene)
    lines = heads_file.read_bytes().splitlines(keepends=True)
    heads_file.write_bytes(b"".join(lines[number] for number in order))

    proof = command("verify_audit")

    assert proof.code == 3
    assert "in what is kept elsewhere" in proof.out


def put_at_the_end(run: Run, at: datetime) -> None:
    """Append an event by SQL and move the chain's end, as the program does."""
    last = Event.objects.filter(run=run).order_by("-seq")[0]
    forged = Event(
        pk=-1,  # below every sealed key
        workspace=run.workspace,
        run=run,
        seq=last.seq + 1,
        kind="decision.refused",
        facts={},
        actor="rita",
        at=at,
        previous=last.hash,
    )
    forged.hash = link(last.hash, hashed_parts(forged))
    forged.save(force_insert=True)
    Run.objects.filter(pk=run.pk).update(event_count=forged.seq, head_hash=forged.hash)


@pytest.mark.both
@pytest.mark.breaks("I32", "I33")
@pytest.mark.parametrize("days", [-1, 1])
def test_an_event_put_at_the_end_by_sql_is_found_by_its_time(
    run: Run, scene: Scene, days: int
) -> None:
    put_at_the_end(run, timezone.now() + timedelta(days=days))
    found = faults()
    seal_another(scene)

    assert found == [(f"run {run.pk}", run.event_count + 1)]
    assert faults() == found


@pytest.mark.proves("I34")
@pytest.mark.parametrize("beyond", [0, 10**15])
def test_events_are_sealed_though_a_head_says_that_they_were(
    run: Run, scene: Scene, beyond: int
) -> None:
    def lie(run: Run) -> None:
        Head.objects.update(upto=Event.objects.latest("pk").pk + beyond)

    go(scene.launch(REFUND_500))
    unseen(lie, run)

    assert command("seal_audit").out.startswith("Head 2: ")
    assert "in no seal" not in command("verify_audit").out


def test_keyless_process_compares_heads_and_seals_nothing(
    run: Run, scene: Scene, settings: Any, heads_file: Path
) -> None:
    settings.OPSCONSOLE_AUDIT_KEY = ""
    go(scene.launch(REFUND_500))

    refused, holds = command("seal_audit"), command("verify_audit")

    assert (refused.code, Head.objects.count()) == (3, 1)
    assert "it seals nothing" in refused.err
    assert holds.code == 0
    assert "The seals were not checked: this process has no key." in holds.out
    document = command("verify_audit", "--json").document
    assert (document["seals_checked"], document["unsealed"] > 0) == (False, True)
    assert document["notes"] == holds.out.splitlines()[1:]
    heads_file.write_text(heads_file.read_text().replace('"number":1', '"number":2'))
    assert faults() == [("heads", 2)]


@pytest.mark.postgres
def test_late_event_with_a_lower_key_gets_the_next_head(run: Run, scene: Scene) -> None:
    """Its transaction was open while a head was made; nothing follows it in its chain."""
    held, done = Event_(), Event_()

    def hold() -> None:
        try:
            with transaction.atomic():
                workspace = scene.workspace.pk
                append_events([Entry("audit.exported")], workspace_id=workspace, at=timezone.now())
                held.set()
                done.wait(10)
        finally:
            connection.close()

    other = Thread(target=hold)
    other.start()
    held.wait(10)
    go(scene.launch(REFUND_500))
    [second] = sealing.seal(at=timezone.now())
    done.set()
    other.join()
    [third] = sealing.seal(at=timezone.now())

    assert [name for name, _ in second.chains() if name.startswith("workspace")] == []
    assert [(name, len(hashes)) for name, hashes in third.chains()] == [
        (f"workspace/{scene.workspace.pk}", 1)
    ]
    assert faults() == []


@pytest.mark.both
@pytest.mark.parametrize("runs", [1, 4])
def test_a_seal_costs_what_is_new_however_many_chains_there_are(
    run: Run, scene: Scene, runs: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(runs):
        go(scene.launch(REFUND_500))
    assert command("seal_audit").code == 0
    workspaces.add_member(
        workspace=scene.workspace, user=scene.eve, role=Role.VIEWER, at=timezone.now()
    )

    with django_assert_num_queries(17 if connection.vendor == "postgresql" else 13) as asked:
        assert command("seal_audit").code == 0

    assert not [sql for sql in asked.captured_queries if "agents_run" in sql["sql"]]


def seal_beside(file: str) -> list[int]:
    """Seal like another host, with its own heads file; run by `together`."""
    from django.conf import settings

    settings.OPSCONSOLE_HEADS_FILE = Path(file)
    made = sealing.seal(at=timezone.now(), begin_file=True)
    return [head.number for head in made]


@pytest.mark.both
def test_hosts_that_seal_at_the_same_moment_make_one_history(
    run: Run, scene: Scene, settings: Any, tmp_path: Path
) -> None:
    go(scene.launch(REFUND_500))
    files = [[str(tmp_path / f"host-{number}.jsonl")] for number in range(4)]

    made = together("tests.audit.test_sealed:seal_beside", files)

    assert [number for numbers in made for number in numbers] == [2]
    assert faults() == []


def test_the_copy_is_written_for_its_owner_only(run: Run, heads_file: Path) -> None:
    assert heads_file.stat().st_mode & 0o777 == 0o600
