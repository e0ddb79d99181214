"""DATABASE_URL as Django's settings."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from opsconsole.databases import SQLITE_OPTIONS, database_settings
from tests.engine.scene import set_scene

BASE, DEFAULT = Path("/srv/ops"), Path("/srv/ops/var/ops.sqlite3")


def settings_of(url: str) -> dict[str, Any]:
    return database_settings(url, base=BASE, default=DEFAULT, keep=60)


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("", DEFAULT),
        ("sqlite:///data/x.sqlite3", BASE / "data/x.sqlite3"),
        ("sqlite:////data/x.sqlite3", Path("/data/x.sqlite3")),
    ],
)
def test_sqlite_file_ignores_the_working_directory(url: str, file: Path) -> None:
    found = settings_of(url)

    assert found["NAME"] == str(file)
    assert found["OPTIONS"]["transaction_mode"] == "IMMEDIATE"


def test_postgresql_address_overrides_our_limits() -> None:
    found = settings_of("postgres://omar:pw@db/ops?sslmode=require&options=-c%20lock_timeout=9")

    assert found["OPTIONS"]["sslmode"] == "require"
    assert found["OPTIONS"]["options"].startswith("-c lock_timeout=5000")
    assert found["OPTIONS"]["options"].endswith("-c lock_timeout=9")
    assert (found["CONN_MAX_AGE"], found["CONN_HEALTH_CHECKS"]) == (60, True)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://omar:hunter2@db/ops",
        "postgres://omar:hunter2@db:port/ops",
        "postgres://omar:hunter2@db",
        "postgres://omar:hunter2/+x@db/ops",
        "sqlite://:memory:",
        "sqlite://",
        "hunter2",
    ],
)
def test_unknown_database_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^DATABASE_URL ") as refused:
        settings_of(url)

    assert "hunter2" not in str(refused.value)
    assert settings_of("postgres://omar:a%2F%23%3F%40@db/ops")["PASSWORD"] == "a/#?@"


@pytest.mark.proves("F18")
def test_sqlite_is_opened_as_the_settings_ask(tmp_path: Path) -> None:
    asked = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "recursive_triggers": 1}
    asked |= {"secure_delete": 1, "page_size": 2048}

    with closing(sqlite3.connect(tmp_path / "x.sqlite3")) as opened:
        opened.executescript(str(SQLITE_OPTIONS["init_command"]))
        found = {name: opened.execute(f"PRAGMA {name}").fetchone()[0] for name in asked}

    assert found == asked


@pytest.mark.django_db
def test_a_scene_in_a_transaction_fails_at_once() -> None:
    with pytest.raises(AssertionError, match=r"Mark this test django_db\(transaction=True\)"):
        set_scene()


@pytest.mark.postgres
@pytest.mark.django_db
def test_postgresql_is_opened_as_the_settings_ask() -> None:
    asked = {
        "lock_timeout": "5s",
        "statement_timeout": "15s",
        "idle_in_transaction_session_timeout": "10s",
    }

    with connection.cursor() as cursor:
        found = {name: cursor.execute(f"SHOW {name}").fetchone()[0] for name in asked}

    assert found == asked
