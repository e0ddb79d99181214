"""A test's own installation: data directory, database and programs as shipped."""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg

from tests import database, nursery, postgres
from tests.processes import ROOT, UNSAFE, Contenders, contenders
from tests.settings import ON_POSTGRES

LONGEST = 600  # seconds for one command on a busy machine
_OURS = ("OPENAI_", "OPSCONSOLE_", "EMAIL_", "DJANGO_", "DATABASE_")


@dataclass(frozen=True)
class Ended:
    """A command's exit code and output."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Installation:
    """An installation isolated from the suite's settings and data."""

    home: Path
    url: str
    settings: Mapping[str, str] = field(default_factory=dict)
    process: Contenders | None = None  # the process that runs commands; None: one for each

    def environment(self, **more: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k != UNSAFE and not k.startswith(_OURS)}
        ours = {"OPSCONSOLE_DATA_DIR": str(self.home), "OPSCONSOLE_ENV_FILE": ""}
        ours |= {"DATABASE_URL": self.url, "PYTHONUNBUFFERED": "1"}
        return {**kept, **ours, **self.settings, **more}

    def manage(self, *arguments: str, given: str = "", **more: str) -> Ended:
        """Run `manage.py` to its end, with `given` as its input."""
        if self.process:
            assert (given, more) == ("", {}), "its process has begun"
            return Ended(*self.process.meet("tests.processes:run_command", [arguments])[0])
        ended = nursery.run(
            ["manage.py", *arguments],
            cwd=ROOT,
            env=self.environment(**more),
            given=given,
            timeout=LONGEST,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    @contextmanager
    def in_one_process(self) -> Iterator["Installation"]:
        """Run the block's commands in one process, which saves most start-up time."""
        environment = self.environment(DJANGO_SETTINGS_MODULE="opsconsole.settings")
        with contenders(1, environment) as process:
            yield replace(self, process=process)

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        """Run one statement by hand, as an operator's shell does."""
        if self.url.startswith("sqlite"):
            file = self.url.removeprefix("sqlite:///")
            with closing(sqlite3.connect(file, isolation_level=None)) as database:
                return database.execute(statement).fetchall()
        with psycopg.connect(self.url, autocommit=True) as server:
            cursor = server.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@contextmanager
def installation(home: Path, *, is_empty: bool = True, **settings: str) -> Iterator["Installation"]:
    """Make an installation on the suite's kind of database, empty or migrated."""
    home.mkdir(mode=0o700, exist_ok=True)
    if not ON_POSTGRES:
        file = home / "opsconsole.sqlite3"
        if not is_empty:
            database.copy_file(file)
        yield Installation(home, f"sqlite:///{file}", settings)
        return
    name = f"own_{uuid4().hex}"
    with psycopg.connect(postgres.url(), autocommit=True) as server:
        if is_empty:
            server.execute(f'CREATE DATABASE "{name}"'.encode())
        else:
            database.copy_database(name)
        try:
            own = urlsplit(postgres.url())._replace(path=f"/{name}").geturl()
            yield Installation(home, own, settings)
        finally:
            database.drop_database(server, name)
