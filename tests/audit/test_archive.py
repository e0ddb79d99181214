"""Two files and the log prove what was archived; nothing else is ever deleted."""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import DatabaseError, connection, transaction
from django.urls import reverse
from django.utils import timezone

from agents.audit import archiving, copies, rows_in_tables, sealing
from agents.audit.archiving import Archived, ArchiveFiles
from agents.models import (
    Archive,
    Effect,
    Escalation,
    Event,
    EventText,
    Head,
    Role,
    Run,
    Sealed,
    Step,
    Tombstone,
    Workspace,
)
from agents.people import workspaces
from agents.record.seals import TEXTS, name_of
from agents.shell.refusal import Refused
from tests.audit.test_bundle import VERIFIER, Copy
from tests.audit.test_bundle_attacks import rename, take_chain
from tests.commands.test_run_pattern import command
from tests.engine.scene import REFUND_500, Scene, go
from tests.limits import UNCAPPED
from tests.privacy.searching import texts_in_files
from tests.processes import LONGEST, contenders
from tests.settings import ON_POSTGRES
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def files(scene: Scene, tmp_path: Path) -> ArchiveFiles:
    return ArchiveFiles.of(tmp_path / "archives", scene.workspace.slug, 1)


@pytest.fixture
def archive(scene: Scene, run: Run, files: ArchiveFiles) -> Callable[..., Archived]:
    def call(before: datetime | None = None, directory: Path | None = None) -> Archived:
        newest = Head.objects.latest("number").at
        return archiving.archive_runs(
            workspace=scene.workspace,
            before=before or newest,
            directory=directory or files.record.parent,
            actor="ada",
            at=timezone.now(),
        )

    return call


def proof(*found: str) -> tuple[int, str]:
    """Seal, run `verify_audit`, and return its exit code and output."""
    command("seal_audit")
    ended = command("verify_audit")
    return ended.code, ended.out


def check(files: ArchiveFiles, *options: object) -> tuple[int, str]:
    """Return exit code and output of an archive's standalone check."""
    keys = files.record.parent / "keys"
    keys.write_text(django_settings.OPSCONSOLE_AUDIT_KEY)
    heads = django_settings.OPSCONSOLE_HEADS_FILE
    line = [sys.executable, "-I", VERIFIER, files.record, "--head", heads, "--keys", keys, *options]
    ended = subprocess.run(
        list(map(str, line)), capture_output=True, text=True, timeout=LONGEST, check=False
    )
    return ended.returncode, ended.stdout + ended.stderr


def _lengthen(copy: Copy) -> None:
    last = {**copy.events()[-1], "kind": "escalation.decided", "actor": "rita", "facts": {}}
    copy.documents.insert(copy.at(len(copy.events())) + 1, {"event": last})
    copy.hash_again()


def _cut(copy: Copy) -> None:
    del copy.documents[copy.at(len(copy.events()) - 1) :]
    copy.hash_again()


def _date(copy: Copy, at: str = "2127-01-01T00:00:00.000000Z") -> None:
    copy.documents[0]["at"] = at


def _lengthen_and_date(copy: Copy) -> None:
    _lengthen(copy)
    _date(copy)


def _cut_and_date(copy: Copy) -> None:
    _cut(copy)
    _date(copy, copy.events()[-1]["at"])


def _cut_the_end_and_date(copy: Copy) -> None:
    del copy.documents[copy.at(len(copy.events()))]
    copy.hash_again()
    _date(copy, copy.events()[-1]["at"])


def _invent_and_date(copy: Copy) -> None:
    _invent(copy)
    _date(copy)


def _invent(copy: Copy) -> None:
    lines = deepcopy(take_chain(copy, f"run/{copy.run}"))
    rename(lines, "0" * 8 + copy.run[8:])
    copy.documents += lines


@pytest.mark.proves("I54")
def test_what_ended_is_archived_and_all_of_it_is_proved(
    scene: Scene, run: Run, archive: Callable[..., Archived], files: ArchiveFiles, tmp_path: Path
) -> None:
    waiting = go(scene.launch())
    unsealed = go(scene.launch(REFUND_500))
    count, effects = run.event_count, list(Effect.objects.order_by("pk").values())
    decided = list(Escalation.objects.order_by("pk").values())
    salts = list(EventText.objects.filter(event__run=run).values_list("salt", flat=True))
    assert ON_POSTGRES or texts_in_files(salts) == salts

    done = archive()

    assert done == Archived((1,), 1)
    assert not Event.objects.filter(run=run).exists()
    assert not EventText.objects.filter(event__run=run).exists()
    assert ON_POSTGRES or texts_in_files(salts) == [], "neither in free pages nor in the log"
    assert not Step.objects.filter(run=run).exclude(asked={}, reply=None).exists()
    assert Event.objects.filter(run__in=[waiting, unsealed]).exists()
    assert list(Effect.objects.order_by("pk").values()) == effects
    assert list(Escalation.objects.order_by("pk").values()) == decided
    assert {path.stat().st_mode & 0o777 for path in files.record.parent.iterdir()} == {0o600}
    assert proof()[0] == 0, proof()
    code, said = check(files, "--texts", files.texts)
    assert (code, f"{count} events in 1 chains hold" in said) == (0, True), said
    assert said.count("NOT PROVED") == 2, "the first line and the trace"
    assert Archive.objects.get().sha256 in files.record.read_text().splitlines()[-1]
    copy = tmp_path / "copy"
    copy.mkdir()
    for forge, why in (
        (_lengthen, f"event {count + 1}: it is in no seal"),
        (_cut, f"the chain ends after {count - 2} events of {count}"),
        (_invent, "event 1: it is in no seal"),
        (_lengthen_and_date, f"event {count + 1}: it is in no seal"),
        (_cut_and_date, f"event {count - 1}: heads seal 2 more"),
        (_cut_the_end_and_date, f"event {count - 1}: its run has not ended"),
        (_invent_and_date, "event 1: it is in no seal"),
    ):
        made = Copy(
            copy, [*map(json.loads, files.record.read_text().splitlines()[:-1])], str(run.pk)
        )
        forge(made)
        made.write()
        code, said = check(ArchiveFiles(copy / "record.jsonl", files.texts))
        assert (code, why in said) == (3, True), said
    (copy / "record.jsonl").unlink()
    assert command("export_audit", "--output", str(copy / "record.jsonl")).code == 0
    command("seal_audit")
    code, said = check(ArchiveFiles(copy / "record.jsonl", files.texts))
    assert (code, "what 1 runs did that are archived" in said) == (0, True), said

    client = client_of(scene.add("auditor", Role.AUDITOR))
    assert "Entries of 1 archived run are" in client.get(reverse("audit")).text
    assert "entries of 1 archived runs" in client.post(reverse("export")).getvalue().decode()
    page = words(client.get(reverse("run", args=[run.pk])).text)
    for of_steps in ("Within all limits", "Limits of this run"):
        assert of_steps not in page
    assert "The entries of this run are in its archive." in page
    file = words(client.get(reverse("case", args=[run.pk])).text)
    assert "The archived entries name the people who acted on its requests." in file
    assert "The entries are in the archive." in file
    later = reverse("audit") + f"?since={timezone.now() + timedelta(days=2):%Y-%m-%dT%H:%M}"
    assert "archived run" not in client.get(later).text
    assert archive(before=unsealed.ended_at) == Archived((), 0), "run twice, nothing is left to do"


@pytest.mark.proves("I54")
def test_unfinished_or_unknown_runs_are_not_archived(
    scene: Scene, run: Run, archive: Callable[..., Archived]
) -> None:
    effects = Effect.objects.filter(run=run)
    effects.update(state="unknown")
    assert archive() == Archived((), 0)
    effects.update(state="done")
    for late in (timezone.now() + timedelta(days=1), timezone.now()):
        with pytest.raises(Refused, match="newest seal is of"):
            archive(before=late)
    before = Head.objects.latest("number").at
    with pytest.raises(Refused, match="in the future"):
        archiving.archive_runs(
            workspace=scene.workspace,
            before=before - timedelta(days=2),
            directory=Path("nowhere"),
            actor="",
            at=before - timedelta(days=1),
        )


@pytest.mark.proves("I54")
@pytest.mark.parametrize(
    ("place", "is_told"), [("_tell", False), ("take_places", True), ("_let_go", True)]
)
def test_an_erasure_reaches_an_archive_that_was_interrupted(
    scene: Scene,
    run: Run,
    archive: Callable[..., Archived],
    files: ArchiveFiles,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    is_told: bool,
) -> None:
    def die(*args: Any) -> None:
        raise Killed

    where: Any = {"take_places": ArchiveFiles}.get(place, archiving)
    with monkeypatch.context() as dying:
        dying.setattr(where, place, die)
        with pytest.raises(Killed):
            archive()
    assert proof()[0] == 0, proof()

    eu = workspaces.add_workspace(
        desks=["refunds"], slug=f"{scene.workspace.slug}-eu", name="EU", at=timezone.now()
    )
    for directory in (files.record.parent, files.record.parent / "none"):
        command("archive", eu.slug, str(directory), "--before", "2000-01-01")
    command("erase_subject", scene.workspace.slug, "42", "--reason", "asked for it")
    other = command("archive", scene.workspace.slug, str(directory), "--forget")
    assert (other.code, "archive 1" in other.err) == (3 * bool(is_told), is_told), other.err
    done = command("archive", scene.workspace.slug, str(files.record.parent), "--forget")
    assert (done.code, f"texts of {int(is_told)} run" in done.out) == (0, True), done.out
    left = "".join(path.read_text() for path in files.record.parent.glob("*.jsonl*"))
    assert "customer 42" not in left
    command("seal_audit")

    assert archive() == Archived((1,), 1)

    assert not Event.objects.filter(run=run).exclude(kind="person.erased").exists()
    assert proof()[0] == 0, proof()
    assert check(files, "--texts", files.texts)[0] == 0
    assert not list(files.record.parent.glob("*.part"))


@pytest.mark.proves("I54")
@pytest.mark.slow
def test_archive_killed_at_any_step_loses_nothing(
    scene: Scene,
    run: Run,
    archive: Callable[..., Archived],
    files: ArchiveFiles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process is killed before each commit, flush, rename and removal."""
    for name in ("OPSCONSOLE_HEADS_FILE", "OPSCONSOLE_AUDIT_KEY"):
        monkeypatch.setenv(name, str(getattr(django_settings, name)))
    directory, slug = files.record.parent, scene.workspace.slug
    scene.put_in_force(UNCAPPED)

    with contenders(1) as processes:

        def ends(number: int, act: str) -> int:
            given = [number, act, slug, str(directory)]
            (code,) = processes.meet("tests.audit.killed:dies", [given])
            return int(code)

        for number in range(1, 100):
            runs = [go(scene.launch(REFUND_500)) for _ in range(2)]
            command("seal_audit")
            code = ends(number, "archive")
            assert proof()[0] == 0, (number, proof())
            archive()
            assert Tombstone.objects.filter(run__in=runs).count() == 2, number
            if code == 0:
                break
            assert code == -9, number
        assert number > 10, "it writes, tells, renames, seals and lets go"
        assert not Event.objects.filter(run__isnull=False).exists()
        assert proof()[0] == 0, proof()

        command("erase_subject", slug, "42", "--reason", "asked for it")
        assert [ends(number, "forget") for number in (*range(1, 7), 1000)] == [-9] * 6 + [0]
    told = Event.objects.filter(kind="archive.erased").values_list("facts", flat=True)
    assert sum(facts["runs"] for facts in told) == Tombstone.objects.count()
    for number in Archive.objects.values_list("number", flat=True):
        own = ArchiveFiles.of(directory, slug, number)
        assert list(archiving.read_runs(own))
        assert "customer 42" not in own.texts.read_text()
    assert not list(directory.glob("*.part")) + list(directory.glob("*.next"))
    assert check(files, "--texts", files.texts)[0] == 0
    assert proof()[0] == 0, proof()


@pytest.mark.proves("I54")
def test_copy_during_an_archive_is_whole_or_says_archived(
    scene: Scene, run: Run, archive: Callable[..., Archived]
) -> None:
    """Runs are archived just before each query that reads events or tombstones."""

    def read() -> None:
        lines = copies.lines(Workspace.objects.all(), at=timezone.now())
        documents = [json.loads(line) for line in lines]
        chains = [found["chain"] for found in documents if "chain" in found]
        events = [found["event"] for found in documents if "event" in found]
        wanted = {one["name"]: one["count"] for one in chains}
        kept = Counter(name_of(workspace=one["workspace"], run=one["run"]) for one in events)
        gone = Counter({one["name"]: one.get("archived", {"count": 0})["count"] for one in chains})
        assert kept + gone == wanted
        assert all(
            one["facts"].get(TEXTS, {}).keys() == one.get("texts", {}).keys() for one in events
        )

    for number in range(1, 100):
        go(scene.launch(REFUND_500))
        command("seal_audit")
        count = 0

        def act(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
            nonlocal count
            count += bool(re.match(r'SELECT .*FROM "agents_(event|tombstone)', sql))
            if count == number:  # noqa: B023
                count = 1_000
                archive()
            return execute(sql, *rest)

        with connection.execute_wrapper(act):
            read()
        if count < number:
            break
    assert number > 3


@pytest.mark.proves("I54")
def test_of_two_at_once_one_archives(
    scene: Scene,
    run: Run,
    archive: Callable[..., Archived],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_files = archiving._check_files

    def late(*args: Any) -> Any:
        monkeypatch.setattr(archiving, "_check_files", check_files)
        with pytest.raises(Refused, match="in this directory"):
            archive()
        assert archive(directory=tmp_path / "of another host").runs == 1
        return check_files(*args)

    monkeypatch.setattr(archiving, "_check_files", late)
    with pytest.raises(Refused, match="Try again"):
        archive()

    assert (Archive.objects.count(), Tombstone.objects.count()) == (1, 1)
    assert proof()[0] == 0, proof()


@pytest.mark.proves("I54")
def test_an_altered_file_is_found_and_keeps_the_events_here(
    run: Run, archive: Callable[..., Archived], files: ArchiveFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as dying:
        dying.setattr(archiving, "_let_go", lambda *args: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            archive()
    whole = files.record.read_text()
    for old, new in [('"actor":"omar"', '"actor":"eve"'), (whole.splitlines()[-1], "")]:
        files.record.write_text(whole.replace(old, new))
        assert files.record.read_text() != whole
        assert check(files)[0] == 3
        with pytest.raises(Refused, match="Nothing of it was deleted"):
            archive()
    files.record.write_text(whole)
    [line] = map(json.loads, (texts := files.texts.read_text()).splitlines())
    for robbed in ({"run": line["run"], "erased": True}, {**line, "steps": []}):
        files.texts.write_text(json.dumps(robbed) + "\n")
        with pytest.raises(Refused, match="Nothing of it was deleted"):
            archive()
    assert Event.objects.filter(run=run).count() == run.event_count

    files.texts.write_text(texts)
    assert archive() == Archived((1,), 1)


def test_another_databases_files_stay_untouched(
    scene: Scene, run: Run, archive: Callable[..., Archived], files: ArchiveFiles
) -> None:
    """The database was restored from a backup older than the archive."""
    slug, directory = scene.workspace.slug, files.record.parent
    directory.mkdir()
    files.record.write_text("of the time that is lost")
    with pytest.raises(Refused, match="Archive 1 in this directory is not one of this database"):
        archive()
    assert files.record.read_text() == "of the time that is lost"
    assert command("archive", slug, str(directory), "--forget").code == 3
    files.record.unlink()

    archive()
    command("erase_subject", slug, "42", "--reason", "asked for it")
    whole, words = files.record.read_text(), files.texts.read_text()
    files.record.write_text(whole.replace(str(run.pk), str(scene.workspace.pk)))
    other = command("archive", slug, str(directory), "--forget")
    assert (other.code, "archive 1 are not in" in other.err) == (3, True), other.err
    assert files.texts.read_text() == words
    files.record.write_text(whole)
    assert command("archive", slug, str(directory), "--forget").code == 0


@pytest.mark.parametrize("key", ["", None])
def test_a_count_that_was_raised_lets_go_of_nothing(
    scene: Scene, run: Run, archive: Callable[..., Archived], settings: Any, key: str | None
) -> None:
    chain = name_of(workspace=scene.workspace.pk)
    Sealed.objects.filter(chain=chain).update(event_count=1_000)
    if key is None:
        with pytest.raises(Refused, match="nothing is sealed"):
            archive()
    else:
        settings.OPSCONSOLE_AUDIT_KEY = key
        assert archive() == Archived((), 0, (1,))
    assert Event.objects.filter(run=run).count() == run.event_count


def _forge(run: Run, other: Run) -> None:
    """Make an archive name one more run, and delete that run's events."""
    stone = Tombstone.objects.get(run=run)
    head = (other.event_count, other.head_hash)
    digest = rows_in_tables.tombstones_of([other.pk])[other.pk]
    columns = dict(zip(("event_count", "head_hash"), head, strict=True))
    Tombstone.objects.create(run=other, archive_id=stone.archive_id, sha256=digest, **columns)
    Run.objects.filter(pk=other.pk).update(archived_at=timezone.now())
    _let_go_of(other)


def _let_go_of(run: Run) -> None:
    events = Event.objects.filter(run=run)
    texts = EventText.objects.filter(event__in=events.values("pk"))
    texts._raw_delete(texts.db)
    events._raw_delete(events.db)


def _forge_elsewhere(run: Run, other: Run) -> None:
    """Make another workspace's archive name a run, unknown to the run's own workspace."""
    at = timezone.now()
    eu = workspaces.add_workspace(desks=["refunds"], slug="eu", name="EU", at=at)
    command("seal_audit")
    parts = {"number": 1, "before": at, "at": at, "runs": 1, "sha256": "", "tombstones": ""}
    archive = Archive.objects.create(workspace=eu, seq=1, **parts)
    Tombstone.objects.create(
        run=other,
        archive=archive,
        event_count=other.event_count,
        head_hash=other.head_hash,
        sha256=rows_in_tables.tombstones_of([other.pk])[other.pk],
    )
    Run.objects.filter(pk=other.pk).update(archived_at=at)
    _let_go_of(other)


@pytest.mark.proves("I54")
@pytest.mark.parametrize(
    ("attack", "why"),
    [
        (_forge, "its tombstones"),
        (_forge_elsewhere, "archive of another workspace"),
        (lambda run, other: Effect.objects.filter(run=run).update(amount_minor=1), "rows differ"),
        (
            lambda run, other: Run.objects.filter(pk=other.pk).update(archived_at=timezone.now()),
            "it is marked as archived",
        ),
        (lambda run, other: Run.objects.filter(pk=run.pk).update(event_count=1), "event"),
    ],
)
@pytest.mark.breaks("I2", "I8", "I11", "I20", "I23", "I24", "I33")
def test_a_run_that_was_not_archived_cannot_pass_for_one(
    scene: Scene,
    run: Run,
    archive: Callable[..., Archived],
    attack: Callable[[Run, Run], object],
    why: str,
) -> None:
    archive()
    other = go(scene.launch(REFUND_500))
    command("seal_audit")

    attack(run, other)

    command("seal_audit")
    attacked = run if Run.objects.filter(pk=other.pk, archived_at=None).exists() else other
    for narrow in ([], ["--workspace", scene.workspace.slug], ["--run", str(attacked.pk)]):
        ended = command("verify_audit", *narrow)
        assert (ended.code, why in ended.out) == (3, True), (narrow, ended.out)


@pytest.mark.proves("I54")
def test_only_what_a_sealed_archive_has_can_be_deleted(
    scene: Scene, run: Run, archive: Callable[..., Archived], monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*args: Any) -> None:
        assert is_refused("DELETE FROM agents_event")
        raise Killed

    def is_refused(statement: str) -> bool:
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)
        return True

    monkeypatch.setattr(sealing, "seal", lambda at: None)
    assert archive() == Archived((), 0, (1,)), "its event is in no seal yet"
    for table in ("agents_eventtext", "agents_event", "agents_archive", "agents_tombstone"):
        assert is_refused(f"DELETE FROM {table}")  # noqa: S608
    assert is_refused("UPDATE agents_archive SET runs = runs + 1")
    assert is_refused("UPDATE agents_tombstone SET event_count = event_count + 1")
    monkeypatch.undo()

    go(scene.launch(REFUND_500))
    assert archive() == Archived((1, 2), 2) or Tombstone.objects.count() == 1
    assert is_refused("DELETE FROM agents_event WHERE run_id IS NULL")


@pytest.mark.proves("I54")
def test_an_erasure_reaches_what_was_archived(
    scene: Scene, run: Run, archive: Callable[..., Archived], files: ArchiveFiles
) -> None:
    """Searches every file of the directory for name and number."""
    archive()
    whole, words = files.record.read_bytes(), files.texts.read_text()
    personal = ("customer 42", "Anna")
    assert [text for text in personal if text in words] == list(personal)

    ended = command("erase_subject", scene.workspace.slug, "42", "--reason", "asked for it")
    assert (ended.code, "archives 1" in ended.out) == (0, True), ended.out
    done = command("archive", scene.workspace.slug, str(files.record.parent), "--forget")

    assert (done.code, "texts of 1 run." in done.out) == (0, True), done.out
    told = [event.facts for event in Event.objects.filter(kind="archive.erased")]
    files.texts.write_text(words)  # a copy kept elsewhere
    done = command("archive", scene.workspace.slug, str(files.record.parent), "--forget")
    assert (done.code, "texts of 1 run." in done.out) == (0, True), done.out
    assert [event.facts for event in Event.objects.filter(kind="archive.erased")] == told
    files.texts.write_text(words)
    files.record.write_bytes(whole[: len(whole) // 2])
    done = command("archive", scene.workspace.slug, str(files.record.parent), "--forget")
    assert (done.code, "archive 1 are not in" in done.err) == (3, True), "nothing vouches for it"
    files.record.write_bytes(whole)
    for torn in (words[:-20], "[]", "x", "{}", "\udcff", ""):
        files.texts.write_text(torn, errors="surrogateescape")
        done = command("archive", scene.workspace.slug, str(files.record.parent), "--forget")
        assert (done.code, "Nothing of it was emptied" in done.err) == (3, True), torn
    files.texts.write_text(words)
    assert command("archive", scene.workspace.slug, str(files.record.parent), "--forget").code == 0
    left = "".join(path.read_text() for path in files.record.parent.iterdir())
    assert [text for text in personal if text in left] == []
    assert files.record.read_bytes() == whole
    assert [key for key, *_ in archiving.read_runs(files)] == [run.pk]
    code, said = check(files, "--texts", files.texts)
    assert (code, "the texts of 1 runs: their file says that they were erased" in said) == (
        0,
        True,
    ), said
    assert proof()[0] == 0, proof()
