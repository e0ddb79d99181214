"""An impossible value in a row is a named fault, not a traceback."""

import sys
from typing import Any

import pytest
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from agents.models import Effect, Event, Head, Role, Run
from tests.audit.test_record import unseen
from tests.commands.test_run_pattern import command
from tests.engine.scene import REFUND_500, Scene, go
from tests.settings import ON_POSTGRES
from tests.web.test_pages import client_of
from tests.web.verifying import verify_log

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.fixture
def auditor(scene: Scene) -> Client:
    return client_of(scene.add("auditor", Role.AUDITOR))


SIGN = "'zz'"
NEVER = {"sqlite": "garbage", "postgresql": "infinity"}  # a time that Python cannot represent


# Switches foreign-key checks off and on.
FREE = {
    "sqlite": ("PRAGMA foreign_keys = OFF", "PRAGMA foreign_keys = ON"),
    "postgresql": (
        "SET session_replication_role = replica",
        "SET session_replication_role = origin",
    ),
}


@pytest.mark.proves("I33")
@pytest.mark.parametrize("column", ["policy_id", "launched_by_id", "workspace.policy_id"])
def test_a_row_that_refers_to_nothing_is_named(run: Run, column: str) -> None:
    """Such a run was once left out of the check with all its events."""
    table, _, name = column.rpartition(".")
    row: Any = run.workspace if table else run
    before, (off, on) = getattr(row, name), FREE[connection.vendor]

    def refer(to: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute(off)
            type(row).objects.filter(pk=row.pk).update(**{name: to})
            cursor.execute(on)

    unseen(lambda _: refer(999_999), run)
    checked = command("verify_audit")
    unseen(lambda _: refer(before), run)

    place = "workspace demo" if table else f"run {run.pk}"
    assert checked.code == 3
    assert f"{place}: a row of it cannot be read" in checked.out.replace(": event 0", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("UPDATE agents_head SET workspaces = '[1]'", "heads: head 1: it cannot be read"),
        ("UPDATE agents_head SET at = '{never}'", "heads: head 1: it cannot be read"),
        ("UPDATE agents_event SET at = '{never}' WHERE seq = 3", ": event 3: it cannot be read"),
        ("UPDATE agents_effect SET args = '[1]'", "args_sha256 is "),
    ],
)
def test_a_forged_row_is_named_and_nothing_crashes(
    run: Run, scene: Scene, auditor: Client, statement: str, place: str
) -> None:
    def forge(run: Run) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement.format(never=NEVER[connection.vendor]))

    go(scene.launch(REFUND_500))
    written = [*Head.objects.all(), *Event.objects.all(), *Effect.objects.all()]
    unseen(forge, run)

    checked = command("verify_audit")
    sealed = command("seal_audit")
    text = verify_log(auditor)
    listed = auditor.get(reverse("audit"))

    def put_back(run: Run) -> None:
        for row in written:
            row.save()

    unseen(put_back, run)
    assert checked.code == 3
    assert place in checked.out
    assert sealed.code in (0, 3)
    assert listed.status_code == 200
    assert place in text


def _more(model: type[Model], **other: str) -> str:
    """Return how to insert a row again with other values, as SQL spells them."""
    columns = [str(field.column) for field in model._meta.concrete_fields]
    names = [name for name in columns if name != "id"]
    names += ["id"] if "id" in other else []
    values = ", ".join(other.get(name, name) for name in names)
    return f"INSERT INTO {model._meta.db_table} ({', '.join(names)}) SELECT {values} FROM"


DEEP = {
    "sqlite": "replace(hex(zeroblob(495)), '0', '[') || replace(hex(zeroblob(495)), '0', ']')",
    "postgresql": "(repeat('[', 3000) || repeat(']', 3000))::jsonb",
}[connection.vendor]
ANY = pytest.mark.skipif(ON_POSTGRES, reason="a column of PostgreSQL holds what it can be alone")
HEAD, EVENT = "heads: 1.5 is not a valid key", "missing; the next one is 500"
# Newer Pythons read JSON as deep as either database stores it.
TOO_DEEP = ": event 500: it cannot be read" if sys.version_info < (3, 12) else EVENT
NO_UTF8 = _more(Event, seq="500", actor="cast(x'ff41' as text)")


@pytest.mark.parametrize(
    ("statement", "place", "seals"),
    [
        (f"{_more(Event, seq='500', facts=DEEP)} agents_event WHERE seq = 3", TOO_DEEP, 3),
        pytest.param(f"{NO_UTF8} agents_event WHERE seq = 3", EVENT, 3, marks=ANY),
        (f"{_more(Head, number='0')} agents_head", "heads: 0 is not a valid key", 0),
        pytest.param(f"{_more(Head, number='1.5')} agents_head", HEAD, 3, marks=ANY),
        pytest.param(f"{_more(Head, number='0.5')} agents_head", "heads: 0.5 is no", 0, marks=ANY),
        pytest.param(f"{_more(Head, number=SIGN)} agents_head", "heads: 'zz' is no", 3, marks=ANY),
        pytest.param("UPDATE agents_head SET upto = 'zz'", "", 0, marks=ANY),
        pytest.param(f"{_more(Run, id=SIGN)} agents_run", "'zz' is not a valid key", 0, marks=ANY),
    ],
)
def test_a_value_of_another_type_is_named_and_the_check_ends(
    run: Run, statement: str, place: str, seals: int
) -> None:
    def forge(run: Run) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement)

    unseen(forge, run)

    checked = command("verify_audit")
    sealed = command("seal_audit")
    again = command("verify_audit", "--json")

    def put_back(run: Run) -> None:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM agents_event WHERE seq = 500")
            cursor.execute("DELETE FROM agents_head WHERE number <> 1")
            if connection.vendor == "sqlite":
                cursor.execute("DELETE FROM agents_run WHERE id = 'zz'")

    unseen(put_back, run)
    assert checked.code == (3 if place else 0), checked.err
    assert place in checked.out
    assert sealed.code == seals
    assert "Traceback" not in checked.err + sealed.err
    found = {fault["chain"] for fault in again.document["faults"]}
    assert found <= {f"run {run.pk}", "workspace demo", "heads", "runs"}
