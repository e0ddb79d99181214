"""What the log says of a database outage, and in which order."""

import logging
from collections.abc import Iterator
from types import SimpleNamespace

import psycopg
import pytest
from django.db import InternalError, OperationalError, ProgrammingError
from django.db.backends.signals import connection_created

from opsconsole import logs


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(logs, "time", found)
    return found


@pytest.fixture
def outages(clock: Clock, caplog: pytest.LogCaptureFixture) -> Iterator[logs.Outages]:
    caplog.set_level(logging.INFO, logger="opsconsole.logs")
    found = logs.Outages()
    yield found
    connection_created.disconnect(found._open)


def fails(outages: logs.Outages, error: Exception | None = None) -> bool:
    """Hit the outage once. Return whether it was logged."""
    error = error or OperationalError("connection refused")
    given = (type(error), error, None)
    return outages.filter(logging.LogRecord("x", logging.ERROR, "x", 1, "It failed", (), given))


def opens() -> None:
    """Signal a new connection of a database that nothing else listens to."""
    connection_created.send(sender=None, connection=SimpleNamespace(vendor="none"))


def test_late_report_starts_no_new_outage(
    outages: logs.Outages, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    assert fails(outages)
    clock.now += 3
    opens()
    clock.now += 5
    late = fails(outages)
    clock.now += 6
    again = fails(outages)

    assert (late, again) == (False, True)
    assert "The database answers again after 3 s" in caplog.text


def read_only_of_postgres() -> Exception:
    error = InternalError("cannot execute UPDATE in a read-only transaction")
    error.__cause__ = psycopg.errors.ReadOnlySqlTransaction(str(error))
    return error


def denied_by_postgres() -> Exception:
    error = ProgrammingError("permission denied for table agents_run")
    error.__cause__ = psycopg.errors.InsufficientPrivilege(str(error))
    return error


@pytest.mark.parametrize(
    "error",
    [
        read_only_of_postgres(),
        denied_by_postgres(),
        OperationalError("attempt to write a readonly database"),
    ],
    ids=["postgres", "permission", "sqlite"],
)
def test_read_only_database_is_logged_once_a_minute(
    outages: logs.Outages, clock: Clock, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    told = 0
    for _ in range(120):  # two minutes
        told += fails(outages, error)
        opens()
        clock.now += 1

    assert told == 2
    assert "answers again" not in caplog.text
