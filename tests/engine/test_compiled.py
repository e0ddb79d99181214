"""Compiled queries return what plain ones return."""

import pytest
from django.db import DatabaseError, DataError, IntegrityError, connection, transaction

from agents.db.compiled import CompiledSelect, CompiledUpdate, Param
from agents.db.driver import pipeline
from agents.db.inserts import send_rows
from agents.desks.refunds import facts
from agents.models import Run
from opsconsole.databases import PREPARE_THRESHOLD
from tests.engine.scene import Scene, fresh

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def test_a_text_of_the_query_itself_is_compared_to_the_letter(scene: Scene) -> None:
    goal = "It's 100% of %s, \\ 'all' of 5%%"
    run, other = scene.launch(), scene.launch()
    Run.objects.filter(pk=run.pk).update(goal=goal)
    some = CompiledSelect(lambda: Run.objects.filter(goal=goal, pk=Param("pk")).only("pk"))
    rename = CompiledUpdate(lambda: Run.objects.filter(pk=Param("pk"), goal=goal), goal=f"{goal}!")

    assert (some.all(pk=run.pk), some.all(pk=other.pk)) == ([run], [])
    assert (rename(pk=other.pk), rename(pk=run.pk), fresh(run).goal) == (0, 1, f"{goal}!")


def test_an_error_of_what_is_sent_together_undoes_all_of_it(scene: Scene) -> None:
    run = scene.launch()
    name = CompiledUpdate(lambda: Run.objects.filter(pk=Param("pk")), goal=Param("goal"))

    def both() -> None:
        with transaction.atomic(), pipeline():
            name.send(pk=run.pk, goal="Another")
            send_rows(run)

    with pytest.raises(IntegrityError):
        both()
    assert Run.objects.get(pk=run.pk).goal == run.goal


def test_skipped_statement_does_not_count_as_prepared(scene: Scene) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite sends one statement at a time")
    run = scene.launch()
    by_subject = CompiledSelect(lambda: Run.objects.filter(event_count=Param("subject")).only("pk"))
    by_key = CompiledSelect(lambda: Run.objects.filter(pk=Param("pk")).only("pk"))
    for _ in range(PREPARE_THRESHOLD):  # from now on it is prepared
        by_key.all(pk=run.pk)

    def both() -> None:
        with pipeline():
            by_subject.fetch(subject=2**63)
            by_key.fetch(pk=run.pk)

    with pytest.raises(DataError):
        both()

    assert by_key.all(pk=run.pk) == [run]


def test_statement_is_prepared_again_after_a_change(scene: Scene) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite compiles a statement anew when the schema has changed")
    run = scene.launch()
    by_key = CompiledSelect(lambda: Run.objects.filter(pk=Param("pk")).only("pattern"))
    for _ in range(PREPARE_THRESHOLD + 1):
        by_key.all(pk=run.pk)

    elsewhere = connection.copy()
    try:
        with elsewhere.cursor() as cursor:
            cursor.execute("ALTER TABLE agents_run ALTER pattern TYPE varchar(41)")
        with pytest.raises(DatabaseError):
            by_key.all(pk=run.pk)
        assert by_key.all(pk=run.pk) == [run]
    finally:
        with elsewhere.cursor() as cursor:
            cursor.execute("ALTER TABLE agents_run ALTER pattern TYPE varchar(40)")
        elsewhere.close()


def test_what_was_refunded_to_a_customer_is_found_by_its_index() -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL chooses by what the tables hold")
    query = facts._UNATTENDED.for_database(connection)

    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {query.sql}", ["1" for _ in query.places])
        plan = " ".join(row[-1] for row in cursor.fetchall())

    assert "effect_of_subject (tool=? AND subject_key=? AND intended_at>?)" in plan
