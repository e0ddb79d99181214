"""The database of a session of tests: made quickly, and put back quickly after each test.

It is a copy of one that was migrated once for a state of what migrations depend on: a file, or on
PostgreSQL a database of the same server. Sessions share that, those of planted mistakes too, and
tests copy it that need an installation of their own. After a transactional test SQLite's file gets
its first content back, which takes a millisecond. On PostgreSQL only the rows that are there are
deleted: truncating all tables, as Django does, takes a tenth of a second.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from copy import deepcopy
from functools import cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
from django.core.management.sql import emit_post_migrate_signal
from django.db import connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from tests import nursery, postgres
from tests.processes import LONGEST
from tests.settings import ALONE

T = TypeVar("T")
ROOT = Path(__file__).parent.parent
# Whatever takes part in migrating; and what is done anew after it, each time.
MADE_BY = (
    *("agents/**/migrations/*.py", "opsconsole/settings.py", "opsconsole/databases.py"),
    "agents/db/run_words.py",
    "requirements-dev.lock",
)
AFTERWARDS = (
    *("agents/**/apps.py", "agents/audit/protection.py"),
    *("agents/audit/*.sql", "agents/audit/stays.toml"),
)

# What migrating has written and no test changes.
KEPT = {"django_content_type", "auth_permission"}
# The record's triggers refuse to delete; foreign keys are looked at when all is gone.
_DELETE = """
DO $$ DECLARE name text; is_filled boolean; filled text[] = '{{}}'; guard text; BEGIN
FOREACH name IN ARRAY ARRAY[{tables}] LOOP
    EXECUTE format('SELECT EXISTS (SELECT FROM %I)', name) INTO is_filled;
    IF is_filled THEN
        EXECUTE format('ALTER TABLE %I DISABLE TRIGGER USER', name);
        EXECUTE format('DELETE FROM %I', name);
        filled = filled || name;
    END IF;
END LOOP;
SET CONSTRAINTS ALL IMMEDIATE;
FOREACH name IN ARRAY filled LOOP
    EXECUTE format('ALTER TABLE %I ENABLE TRIGGER USER', name);
    FOR guard IN SELECT tgname FROM pg_trigger
        WHERE tgrelid = name::regclass AND NOT tgisinternal AND name LIKE 'agents_%' LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER %I', name, guard);
    END LOOP;
END LOOP; END $$
"""
# Every trigger with its function, as one value.
_GUARDS = """
SELECT md5(string_agg(concat_ws(' ', tgrelid::regclass, tgname, tgenabled, prosrc), ';'
    ORDER BY tgrelid, tgname))
FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid WHERE NOT tgisinternal
"""

_images: dict[str, tuple[sqlite3.Connection, Any]] = {}  # name -> a filled database, what made it
_kept: tuple[str, Any] | None = None  # the image that is in the database, and what it was then
_reader: sqlite3.Connection | None = None  # of the session's file, never used
_empty: Any = None  # what the database was when it was put back


def open_copy(connection: BaseDatabaseWrapper) -> None:
    """Point a connection to a freshly migrated database of this session's own."""
    connection.close()
    given = connection.settings_dict
    name = str(given["TEST"]["NAME"] or f"test_{given['NAME']}")
    if connection.vendor == "sqlite":
        copy_file(Path(name))
        _keep_log(name)
    else:
        copy_database(name)
    given["NAME"] = name


def _keep_log(name: str) -> None:
    """Keep SQLite's log open: the last to close a database copies the log into it, after each test.

    That takes as long as everything else about an empty test.
    """
    global _reader
    _reader = sqlite3.connect(name)
    _reader.execute("SELECT 1 FROM sqlite_master").fetchall()  # before, it has not opened the log


def copy_file(place: Path) -> None:
    """Put a migrated file of SQLite's in a place."""
    kept = migrated_file()
    if not kept.exists():
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Sessions side by side may both come here: each puts a whole file in place.
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            made = Path(folder) / "made"
            for other in islice(kept.parent.glob(f"{kept.name.partition('-')[0]}-*"), 1):
                shutil.copy(other, made)
            _migrate(f"sqlite:///{made}")
            os.replace(made, kept)
    shutil.copy(kept, place)


def copy_database(name: str) -> None:
    """Make a migrated database of PostgreSQL's, in place of what has its name."""
    kept, made = f"opsconsole_{_digest(*MADE_BY, *AFTERWARDS)}", f"opsconsole_made_{uuid4().hex}"
    with psycopg.connect(postgres.url(), autocommit=True) as server:
        server.execute("SELECT pg_advisory_lock(hashtext(%s))", [kept])  # until it is closed
        there = "SELECT 1 FROM pg_database WHERE datname = %s"
        if not server.execute(there, [kept]).fetchone():
            server.execute(f"CREATE DATABASE {made}".encode())
            try:
                _migrate(urlsplit(postgres.url())._replace(path=f"/{made}").geturl())
                # The lock is of one database: who was given another may have been first.
                with suppress(psycopg.errors.DuplicateDatabase):
                    server.execute(f"ALTER DATABASE {made} RENAME TO {kept}".encode())
            finally:
                drop_database(server, made)
        drop_database(server, name)
        server.execute(f'CREATE DATABASE "{name}" TEMPLATE {kept}'.encode())


def drop_database(server: psycopg.Connection, name: str) -> None:
    server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())


def _migrate(url: str) -> None:
    """Migrate an empty database in a process of its own, whatever this one is connected to."""
    env = {**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    migrate = ["manage.py", "migrate", "--verbosity", "0", "--run-syncdb", "--skip-checks"]
    ended = nursery.run(migrate, cwd=ROOT, env=env, timeout=LONGEST)
    assert ended.returncode == 0, ended.stderr


def make_once(name: str, make: Callable[[], T]) -> T:
    """Return what `make` returns once it has filled the database: empty, or as another left it.

    On SQLite it does so once a session. Later the database becomes a copy of what it left, in a
    millisecond; rows keep the times of the first. What else is there is not written over.
    """
    global _kept, _empty
    # SQLite's backup would wait for the test's own transaction for ever; no worker sees its rows.
    assert not connection.in_atomic_block, "Mark this test django_db(transaction=True)."
    if connection.vendor != "sqlite" or (before := _base()) is None:
        return make()
    name = f"{before}/{name}"
    if name not in _images:
        made, image = make(), sqlite3.connect(":memory:", check_same_thread=False)
        connection.connection.backup(image)
        _images[name] = image, made
    image, made = _images[name]
    image.backup(connection.connection)
    _kept, _empty = (name, _state()), None
    return deepcopy(made)


def _base() -> str | None:
    """Return the image that the database is a copy of, "" where it is empty, else None."""
    state = _state()
    if _kept and _kept[1] == state:
        return _kept[0]
    return "" if state == _empty or _is_empty() else None


def _state() -> Any:
    """Return what is another after any write: of this connection, of others, to the tables."""
    connection.ensure_connection()
    ours = connection.connection
    others = [ours.execute(f"PRAGMA {of}").fetchone() for of in ("data_version", "schema_version")]
    return ours, ours.total_changes, others


def _is_empty() -> bool:
    exists = 'EXISTS (SELECT 1 FROM "{}")'
    with connection.cursor() as cursor:
        cursor.execute("SELECT " + " OR ".join(map(exists.format, _tables(connection))))
        return not cursor.fetchone()[0]


def _tables(connection: BaseDatabaseWrapper) -> list[str]:
    """Return the tables of models. Those of SQLite's word index are never empty, and follow."""
    names = connection.introspection.django_table_names(only_existing=True, include_views=False)
    return sorted(set(names) - KEPT)


def resetter(connection: BaseDatabaseWrapper) -> Callable[[Any], None]:
    """Return what takes the place of TransactionTestCase's emptying of the tables."""
    return _sqlite(connection) if connection.vendor == "sqlite" else _postgresql(connection)


def _sqlite(connection: BaseDatabaseWrapper) -> Callable[[Any], None]:
    image = sqlite3.connect(":memory:", check_same_thread=False)
    with closing(sqlite3.connect(migrated_file())) as kept:
        kept.backup(image)

    def put_back(test_case: Any) -> None:
        global _kept, _empty
        _kept = None  # a copy is no change that is counted
        if _empty is None or _state() != _empty:
            connection.ensure_connection()
            image.backup(connection.connection)
            _empty = _state()

    return put_back


def _postgresql(connection: BaseDatabaseWrapper) -> Callable[[Any], None]:
    statement = _DELETE.format(tables=", ".join(f"'{table}'" for table in _tables(connection)))

    def guards() -> Any:
        with connection.cursor() as cursor:
            return cursor.execute(_GUARDS).fetchone()

    whole = guards()

    def delete_rows(test_case: Any) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)
        if guards() != whole:  # a test has lifted the record's triggers
            emit_post_migrate_signal(verbosity=0, interactive=False, db=connection.alias)

    return delete_rows


def migrated_file() -> Path:
    """Return where the migrated file is, or will be once a session has opened its copy."""
    folder = Path(tempfile.gettempdir()) / f"opsconsole-tests-{os.getuid()}"
    return folder / f"{_digest(*MADE_BY)}-{_digest(*AFTERWARDS)}.sqlite3"


@cache
def _digest(*patterns: str) -> str:
    digest = sha256(ALONE.encode())
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]
