"""On SQLite a process's writers take turns, however many there are."""

import time
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.utils import load_backend

ON_SQLITE = pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has many writers")
WRITERS, TURNS, SECONDS = 30, 5, 0.02


@pytest.mark.proves("F16")
@ON_SQLITE
@pytest.mark.django_db(transaction=True)
def test_no_writer_gives_up_because_others_are_many() -> None:
    """Together they take ten times as long as any would wait for another process."""
    settings = deepcopy(connection.settings_dict)
    settings["OPTIONS"]["timeout"] = 0.3

    def write(number: int) -> int:
        own = load_backend(settings["ENGINE"]).DatabaseWrapper(settings)
        try:
            for _ in range(TURNS):
                own.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
                try:
                    with own.cursor() as cursor:
                        cursor.execute("DELETE FROM agents_worker WHERE owner = 'nobody'")
                    time.sleep(SECONDS)
                    own.commit()
                except DatabaseError:
                    own.rollback()
                    raise
                finally:
                    own.set_autocommit(True)
            return TURNS
        finally:
            own.close()

    with ThreadPoolExecutor(WRITERS) as crowd:
        assert sum(crowd.map(write, range(WRITERS))) == WRITERS * TURNS


@pytest.mark.proves("F16")
@ON_SQLITE
@pytest.mark.django_db(transaction=True)
def test_a_writer_that_fails_or_hangs_up_gives_its_turn_on() -> None:
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("INSERT INTO nowhere VALUES (1)")
    own = load_backend(connection.settings_dict["ENGINE"]).DatabaseWrapper(connection.settings_dict)
    own.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
    own.close()

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM agents_worker WHERE owner = 'nobody'")
