"""Compiled queries return what plain ones return."""

import pytest
from django.db import DatabaseError, connection

from agents.db.compiled import CompiledSelect, Param
from agents.desks.refunds import facts
from agents.models import Run
from opsconsole.databases import PREPARE_THRESHOLD
from tests.engine.scene import Scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


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
