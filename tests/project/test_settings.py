"""Settings: as people write them, as Django gets them, and as a command meets them."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from opsconsole.databases import SQLITE_OPTIONS, database_settings
from opsconsole.environment import Environment, from_file
from tests import nursery
from tests.engine.scene import set_scene

ROOT = Path(__file__).resolve().parents[2]
HOSTED = {"OPSCONSOLE_PRODUCTION": "1", "OPSCONSOLE_ALLOWED_HOSTS": "ops.example.com"}


def manage(*arguments: str, **given: str) -> subprocess.CompletedProcess[str]:
    """Run a command with these variables beside what the suite sets."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "opsconsole.settings", **given}
    return nursery.run(["manage.py", *arguments], cwd=ROOT, env=environment, timeout=60)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"OPSCONSOLE_LEASE_SECONDS": "soon"}, "OPSCONSOLE_LEASE_SECONDS is 'soon', but it must"),
        (
            {"OPSCONSOLE_DISPATCH": "procrastinate", "DATABASE_URL": ""},
            "OPSCONSOLE_DISPATCH is 'procrastinate', which needs PostgreSQL",
        ),
        ({"OPSCONSOLE_DISPATCH": "celery"}, "must be one of polling, procrastinate"),
        ({"DATABASE_URL": "mysql://omar:hunter2@db/ops"}, "DATABASE_URL is not a database"),
        ({"OPSCONSOLE_PRODUCTION": "1"}, "OPSCONSOLE_ALLOWED_HOSTS must name the hosts"),
        (
            {"OPSCONSOLE_PRODUCTION": "1", "OPSCONSOLE_DEBUG": "1"},
            "OPSCONSOLE_DEBUG and OPSCONSOLE_PRODUCTION are both on",
        ),
        (
            {**HOSTED, "OPSCONSOLE_DEMO": "1"},
            "OPSCONSOLE_DEMO and OPSCONSOLE_PRODUCTION are both on",
        ),
        pytest.param(
            {"OPSCONSOLE_DATA_DIR": "/proc", "OPSCONSOLE_SECRET_KEY": ""},
            "The key secret-key can be neither read nor made in the data directory",
            marks=pytest.mark.skipif(os.getuid() != 0, reason="only root is let in there"),
        ),
        pytest.param(
            {"OPSCONSOLE_DATA_DIR": "/proc"},
            "OPSCONSOLE_DATA_DIR is a place that cannot be used (Permission denied)",
            marks=pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere"),
        ),
        ({"OPSCONSOLE_DATA_DIR": "/dev/null/var"}, "OPSCONSOLE_DATA_DIR is a place that cannot"),
        ({"OPSCONSOLE_HEADS_FILE": "/tmp"}, "OPSCONSOLE_HEADS_FILE is a directory"),  # noqa: S108
        ({"OPSCONSOLE_APPS": "no.such.app"}, "OPSCONSOLE_APPS is 'no.such.app', but it must be a"),
        ({"EMAIL_HOST": "a..b"}, "EMAIL_HOST is 'a..b', but it must be the name or address"),
        ({"OPSCONSOLE_ALLOWED_HOSTS": "https://x.example"}, "OPSCONSOLE_ALLOWED_HOSTS is 'https"),
        ({"OPSCONSOLE_CSRF_TRUSTED_ORIGINS": "ops.example.com"}, "like https://ops.example.com"),
        ({"OPSCONSOLE_HOST": "https://here"}, "OPSCONSOLE_HOST is 'https://here', but it must be"),
        ({"OPSCONSOLE_AUDIT_OLD_KEYS": "hunter2"}, "OPSCONSOLE_AUDIT_OLD_KEYS is set to something"),
        ({"DEFAULT_FROM_EMAIL": "nonsense"}, "DEFAULT_FROM_EMAIL is 'nonsense', but it must be an"),
        ({"OPSCONSOLE_WRONG_CLOCKS": "10:00/11:00"}, "like 2026-11-22T10:00Z/2026-11-22T11:30Z"),
    ],
)
def test_a_wrong_setting_is_one_sentence_and_exit_code_2(
    given: dict[str, str], sentence: str
) -> None:
    done = manage("check", **given)

    assert done.returncode == 2
    assert done.stderr.startswith("opsconsole cannot start: ")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert "hunter2" not in done.stderr


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.env"
    file.write_text("OPENAI_MODEL=from-file\nOPENAI_MODEL_WRITER=from-file\n")
    program = "from django.conf import settings as s; print(s.OPENAI_MODEL, s.OPENAI_MODELS)"

    done = manage(
        "shell", "-v", "0", "-c", program, OPSCONSOLE_ENV_FILE=str(file), OPENAI_MODEL="given"
    )

    assert done.stdout.strip() == "given {'writer': 'from-file'}"


@pytest.mark.proves("W20")
def test_debug_is_off_unless_asked_for() -> None:
    program = "from django.conf import settings; print(settings.DEBUG)"

    done = manage("shell", "-v", "0", "-c", program)

    assert done.stdout.strip() == "False"


def test_a_command_starts_without_clients_of_models_and_sign_on() -> None:
    program = "import sys, django; django.setup(); import opsconsole.urls; print(*sys.modules)"
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "opsconsole.settings"}

    command = [sys.executable, "-c", program]
    loaded = subprocess.check_output(command, cwd=ROOT, env=environment, text=True).split()

    assert {"django", "agents.llm"} <= set(loaded)
    assert not {"openai", "aiohttp", "authlib", "joserfc", "requests", "mcp"} & set(loaded)


def test_a_command_that_is_interrupted_ends_without_a_traceback() -> None:
    done = manage("shell", "-v", "0", "-c", "raise KeyboardInterrupt")

    assert (done.returncode, done.stderr) == (130, "Interrupted.\n")


def read(value: str) -> Environment:
    return Environment({"NAME": value})


@pytest.mark.parametrize(
    ("value", "ask", "allowed"),
    [
        ("maybe", lambda e: e.flag("NAME", default=False), "1 or 0"),
        ("abc", lambda e: e.number("NAME", default=1, low=0, high=9), "a number from 0 to 9"),
        ("nan", lambda e: e.number("NAME", default=1, low=0, high=9), "a number from 0 to 9"),
        ("inf", lambda e: e.number("NAME", default=1, low=0, high=9), "a number from 0 to 9"),
        ("10", lambda e: e.number("NAME", default=1, low=0, high=9), "a number from 0 to 9"),
        ("8.5", lambda e: e.whole("NAME", default=1, low=0, high=9), "a whole number from 0 to 9"),
        ("xml", lambda e: e.choice("NAME", default="a", allowed=("a", "b")), "one of a, b"),
    ],
)
def test_wrong_setting_is_named_with_allowed_values(
    value: str, ask: Callable[[Environment], object], allowed: str
) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        ask(read(value))

    assert str(refused.value) == f"NAME is {value!r}, but it must be {allowed}."


@pytest.mark.parametrize(
    "value",
    [
        *("ftp://models.example.com", "models.example.com/v1", "https://"),
        "https://omar:hunter2@models.example.com/v1",
        *("https://models.example.com/v1?key=hunter2", "https://models.example.com:port/v1"),
        "https://[::1/v1",
    ],
)
def test_an_address_that_is_refused_is_not_repeated(value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="NAME is not an address") as refused:
        read(value).url("NAME")

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("host", ["::1", "mail", "10.0.0.1", "m-1.example.com."], ["a..b", "-a", "a:25", "a b"]),
        ("served host", [".example.com", "*", "[::1]"], ["x.example:8000", "x.example/", "*.x"]),
        (
            "origin",
            ["https://ops.example.com", "https://*.example.com:8443", "http://[::1]:8000"],
            ["https://", "https://omar:hunter2@x.example", "https://x.example/path", "//x"],
        ),
        (
            "sender",
            ["a@localhost", "Refunds <refunds@example.com>", '"Haddad, Noor" <n@x.example>'],
            ["nonsense", "a@b@c", "a@b, c@d", "Refunds <refunds@>", "Noor, H <n@x.example>"],
        ),
    ],
)
def test_a_text_of_a_kind_is_held_to_its_form(kind: str, good: list[str], bad: list[str]) -> None:
    for value in good:
        assert read(value).text("NAME", kind=kind) == value
    for value in bad:
        with pytest.raises(ImproperlyConfigured, match=r"^NAME .* must be ") as refused:
            read(value).text("NAME", kind=kind)
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("value", ["two words", "line\nbreak", "schlüssel", "hunter2"])
def test_a_key_that_is_refused_is_not_repeated(value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="cannot be a key") as refused:
        read(value).secret("NAME", least=10)

    assert value not in str(refused.value)


def test_a_file_is_read_with_quotes_comments_and_export(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text(
        "# a comment\n\nPLAIN=one\nexport EXPORTED = two  # said so\n"
        "QUOTED='three # not a comment'\nHASH=four#five\nEMPTY=\nCOMMENT= # only this\n"
    )

    assert from_file(path) == {
        "PLAIN": "one",
        "EXPORTED": "two",
        "QUOTED": "three # not a comment",
        "HASH": "four#five",
        "EMPTY": "",
        "COMMENT": "",
    }


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
        *("mysql://omar:hunter2@db/ops", "postgres://omar:hunter2@db:port/ops"),
        *("postgres://omar:hunter2@db", "postgres://omar:hunter2/+x@db/ops", "sqlite://:memory:"),
        *("sqlite://", "hunter2"),
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
