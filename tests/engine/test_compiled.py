"""Compiled queries return what plain ones return."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from django.db import (
    DEFAULT_DB_ALIAS,
    DatabaseError,
    DataError,
    IntegrityError,
    connection,
    connections,
    transaction,
)
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.db.compiled import CompiledSelect, CompiledUpdate, Param, Params, spread
from agents.db.driver import pipeline, this_connection
from agents.db.inserts import insert_rows, send_rows
from agents.desks.refunds import facts
from agents.models import Membership, Role, Run, Workspace
from opsconsole.databases import PREPARE_THRESHOLD
from tests.engine.scene import Scene, fresh

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def test_a_row_is_a_model_like_any_other(scene: Scene) -> None:
    run = scene.launch()
    some = CompiledSelect(lambda: Run.objects.filter(pk=Param("pk")).only("goal"))

    [partly], [whole] = (
        some.all(pk=run.pk),
        CompiledSelect(lambda: Run.objects.filter(pk=run.pk)).all(),
    )

    assert (partly.goal, partly.get_deferred_fields() & {"goal", "state"}) == (run.goal, {"state"})
    assert (partly.state, partly.workspace, partly) == (run.state, scene.workspace, run)
    whole.goal = "changed"
    whole.save()  # an UPDATE: it knows that it is in the database
    assert (fresh(run).goal, Run.objects.count()) == ("changed", 1)


def test_a_text_of_the_query_itself_is_compared_to_the_letter(scene: Scene) -> None:
    goal = "It's 100% of %s, \\ 'all' of 5%%"
    run, other = scene.launch(), scene.launch()
    Run.objects.filter(pk=run.pk).update(goal=goal)
    some = CompiledSelect(lambda: Run.objects.filter(goal=goal, pk=Param("pk")).only("pk"))
    rename = CompiledUpdate(lambda: Run.objects.filter(pk=Param("pk"), goal=goal), goal=f"{goal}!")

    assert (some.all(pk=run.pk), some.all(pk=other.pk)) == ([run], [])
    assert (rename(pk=other.pk), rename(pk=run.pk), fresh(run).goal) == (0, 1, f"{goal}!")


def test_rows_that_are_read_together_are_models_like_any_other(scene: Scene) -> None:
    run = scene.launch()
    later = ExpressionWrapper(Q(fence__gt=0), BooleanField())
    some = CompiledSelect(
        lambda: (
            Run.objects.filter(pk=Param("pk"))
            .select_related("policy", "workspace")
            .annotate(is_claimed=later)
        )
    )

    found = some.get(pk=run.pk)

    with CaptureQueriesContext(connection) as captured:
        assert (found.policy, found.workspace) == (run.policy, scene.workspace)
        assert found.policy.limits() == run.policy.limits()
        assert vars(found)["is_claimed"] is False
    assert not captured.captured_queries


def test_a_row_that_is_read_through_another_belongs_to_that(scene: Scene) -> None:
    empty = Workspace.objects.create(
        slug="empty", name="Empty", book=scene.workspace.book, created_at=timezone.now()
    )
    for workspace in (scene.workspace, empty):
        Membership.objects.get_or_create(
            workspace=workspace, user=scene.rita, defaults={"role": Role.ADMIN}
        )
    parts = CompiledSelect(
        lambda: (
            Membership.objects.filter(user=Param("user"))
            .select_related("workspace__policy", "user")
            .order_by("pk")
        )
    )

    found = parts.all(user=scene.rita.pk)

    with CaptureQueriesContext(connection) as captured:
        assert [part.workspace for part in found] == [scene.workspace, empty]
        assert [part.workspace.policy for part in found] == [scene.workspace.policy, None]
        assert [part.user for part in found] == [scene.rita] * 2
    assert not captured.captured_queries


@pytest.mark.parametrize("is_left_out", [False, True])
def test_a_list_may_have_any_number_of_values(scene: Scene, is_left_out: bool) -> None:
    runs = [scene.launch().pk for _ in range(3)]

    for count in (0, 1, 3):
        is_listed = Q(pk__in=Params("keys", count), workspace__in=Params("homes", 1))
        wanted = Run.objects.filter(~is_listed if is_left_out else is_listed)
        found = CompiledSelect(wanted.all)
        given = spread("keys", runs[:count]) | spread("homes", [scene.workspace.pk])
        expected = runs[count:] if is_left_out else runs[:count]
        assert {run.pk for run in found.all(**given)} == set(expected)


def test_what_watches_statements_sees_those_that_are_compiled(scene: Scene) -> None:
    run, seen = scene.launch(), []

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append((sql.split()[0], context["connection"].alias))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(watch):
        CompiledSelect(lambda: Run.objects.filter(pk=Param("pk"))).get(pk=run.pk)
    with CaptureQueriesContext(connection) as captured:
        CompiledSelect(lambda: Run.objects.filter(pk=Param("pk"))).get(pk=run.pk)

    assert seen == [("SELECT", "default")]
    assert len(captured) == 1


def test_an_error_of_the_driver_is_one_of_django(scene: Scene) -> None:
    run = scene.launch()

    with pytest.raises(IntegrityError):
        insert_rows(Run.objects.get(pk=run.pk))


def test_a_percent_sign_in_a_statement_stays_one(scene: Scene) -> None:
    run = scene.launch()
    like = CompiledSelect(lambda: Run.objects.filter(goal__contains="%", pk=Param("pk")))

    assert like.all(pk=run.pk) == []
    Run.objects.filter(pk=run.pk).update(goal="100 % of it")
    assert like.all(pk=run.pk) == [run]


def test_postgresql_keeps_the_plan_of_a_statement_whatever_its_numbers(scene: Scene) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite's driver keeps statements by itself")
    by_subject = CompiledSelect(lambda: Run.objects.filter(event_count=Param("subject")).only("pk"))

    for subject in (1, 40_000, 2**40, 2, 3):
        by_subject.all(subject=subject)

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE %s",
            ['%WHERE "agents_run"."event_count" = %'],
        )
        assert cursor.fetchone() == (1,)


def test_what_is_sent_together_is_answered_afterwards(scene: Scene) -> None:
    first, second = scene.launch(), scene.launch()
    by_key = CompiledSelect(lambda: Run.objects.filter(pk=Param("pk")))
    name = CompiledUpdate(lambda: Run.objects.filter(pk=Param("pk")), goal=Param("goal"))

    with transaction.atomic(), pipeline():
        before = by_key.fetch(pk=first.pk)
        count = name.send(pk=first.pk, goal="Another")
        after, other = by_key.fetch(pk=first.pk), by_key.fetch_tuples(pk=second.pk)

    assert ([run.goal for run in before.get()], count.get()) == ([first.goal], 1)
    assert ([run.goal for run in after.get()], len(other.get())) == (["Another"], 1)


def test_what_is_sent_together_goes_with_its_begin_before_any_answer(
    scene: Scene, tmp_path: Path
) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite sends one statement at a time")
    run, seen = scene.launch(), tmp_path / "messages"
    by_key = CompiledSelect(lambda: Run.objects.filter(pk=Param("pk")).only("pk"))

    with transaction.atomic(), seen.open("wb") as file:
        driver_s = connection.connection.pgconn
        driver_s.trace(file.fileno())
        with pipeline():
            found = [by_key.fetch(pk=run.pk) for _ in range(3)]
        driver_s.untrace()

    assert [one.get() for one in found] == [[run]] * 3
    sent = [line.split("\t")[1:4:2] for line in seen.read_text().splitlines()]
    senders = "".join(sender for sender, _ in sent)
    assert senders == "F" * senders.count("F") + "B" * senders.count("B")
    assert [name for _, name in sent].count("Execute") == 4  # one is the BEGIN
    assert [name for _, name in sent].count("Sync") == 1


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


def test_what_is_not_answered_yet_is_no_answer(scene: Scene) -> None:
    name = CompiledUpdate(lambda: Run.objects.filter(pk=Param("pk")), goal=Param("goal"))
    run = scene.launch()

    with pytest.raises(RuntimeError, match="when the block has ended"), pipeline():
        name(pk=run.pk, goal="Another")
    with pytest.raises(RuntimeError, match="only compiled"), pipeline():
        Run.objects.filter(pk=run.pk).update(goal="Another")

    assert Run.objects.filter(goal="Another").count() == 1  # sent, and not in a transaction


def test_what_was_skipped_after_an_error_is_not_taken_for_prepared(scene: Scene) -> None:
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


def test_a_statement_is_asked_again_once_its_columns_have_changed(scene: Scene) -> None:
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


def test_statements_go_where_django_s_go_also_in_a_thread_with_a_loop() -> None:
    """Django keeps another connection there, as in a test's thread with a browser."""

    async def connections_here() -> tuple[object, object]:
        return this_connection(), connections[DEFAULT_DB_ALIAS]

    assert this_connection() is connections[DEFAULT_DB_ALIAS]
    ours, django_s = asyncio.run(connections_here())
    assert ours is django_s
