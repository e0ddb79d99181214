"""Every change to the record is found."""

from collections.abc import Callable

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import F

from agents.audit import protection
from agents.models import Event, Run
from agents.models.record import EventText, hashed_parts
from agents.record.seals import link
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene, go

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.fixture
def run(scene: Scene) -> Run:
    return scene.done_refund()


@pytest.mark.parametrize("statement", ["UPDATE agents_event SET kind = 'x'", "DELETE FROM {0}"])
def test_the_database_refuses_to_change_an_event(run: Run, statement: str) -> None:
    with (
        pytest.raises(DatabaseError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement.format("agents_event"))


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite cannot truncate")
def test_the_database_refuses_to_truncate_the_events(run: Run) -> None:
    with (
        pytest.raises(DatabaseError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute("TRUNCATE agents_event CASCADE")


@pytest.mark.skipif(connection.vendor != "sqlite", reason="an idiom of SQLite")
def test_insert_or_replace_does_not_pass_the_triggers(run: Run) -> None:
    with pytest.raises(DatabaseError, match="append-only"), connection.cursor() as cursor:
        cursor.execute("INSERT OR REPLACE INTO agents_event SELECT * FROM agents_event LIMIT 1")


def unseen(tamper: Callable[[Run], None], run: Run) -> None:
    """Change the record with its triggers dropped, then create them again."""
    protection.unprotect(connection)
    tamper(run)
    protection.protect(connection)


def edit(run: Run) -> None:
    Event.objects.filter(run=run, seq=3).update(facts={"key": "another"})


def rename(run: Run) -> None:
    Event.objects.filter(run=run, seq=3).update(actor="somebody else")


def delete(run: Run) -> None:
    Event.objects.filter(run=run, seq=3).delete()


def insert(run: Run) -> None:
    Event.objects.filter(run=run, seq__gte=3).order_by("-seq").update(seq=F("seq") + 1000)
    Event.objects.filter(run=run, seq__gte=1000).update(seq=F("seq") - 999)
    third = Event.objects.get(run=run, seq=2)
    third.pk, third.seq = None, 3
    third.save(force_insert=True)


def swap(run: Run) -> None:
    Event.objects.filter(run=run, seq=3).update(seq=9999)
    Event.objects.filter(run=run, seq=4).update(seq=3)
    Event.objects.filter(run=run, seq=9999).update(seq=4)


def cut(run: Run) -> None:
    Event.objects.filter(run=run).order_by("-seq").first().delete()  # type: ignore[union-attr]


def rehash(run: Run) -> None:
    """Change an event and rehash everything after it except the chain's head."""
    Event.objects.filter(run=run, seq=3).update(actor="somebody else")
    previous = Event.objects.get(run=run, seq=2).hash
    for event in Event.objects.filter(run=run, seq__gte=3).order_by("seq"):
        event.previous, event.hash = previous, link(previous, hashed_parts(event))
        previous = event.hash
        event.save()


@pytest.mark.proves("I33")
@pytest.mark.slow
@pytest.mark.breaks("I23", "I32", "I33")
@pytest.mark.parametrize(
    ("tamper", "seq"),
    [(edit, 3), (rename, 3), (delete, 3), (insert, 3), (swap, 3), (cut, None), (rehash, None)],
)
def test_whoever_gets_past_the_triggers_is_found(
    run: Run, tamper: Callable[[Run], None], seq: int | None
) -> None:
    last = run.event_count

    unseen(tamper, run)
    ended = command("verify_audit", "--run", str(run.pk), "--json")

    assert ended.code == 3
    assert [fault["seq"] for fault in ended.document["faults"]] == [seq or last]


@pytest.mark.proves("I33")
@pytest.mark.breaks("I23", "I32", "I33")
def test_verify_audit_says_which_event_and_why(run: Run) -> None:
    unseen(edit, run)

    ended = command("verify_audit")

    assert ended.code == 3
    assert f"run {run.pk}: event 3: its content is not what was hashed" in ended.out
    assert ended.err == "The record does not hold: 1 place."


@pytest.mark.usefixtures("_nothing_takes_long")
def test_a_text_lies_beside_the_event_of_its_own_run(scene: Scene) -> None:
    """Both decisions have the same place in their chains."""
    _, *runs = [go(scene.launch()) for _ in range(3)]  # the first in a process has one more event

    for run in runs:
        scene.decide(run)

    texts = EventText.objects.filter(event__kind="escalation.decided").order_by("pk")
    told = texts.select_related("event").filter(name="comment")
    assert [text.event.run_id for text in told] == [run.pk for run in runs]
    assert len({text.event.seq for text in told}) == 1
