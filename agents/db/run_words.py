"""Find runs by words, with the database's own index.

A word matches the beginning of a word of the run in any case. The index has the run's goal, its
subject's key and name, its stop reason, and its own key as one word. Anything but letters and
digits separates words. PostgreSQL has a generated column that no model declares; SQLite has a table
(FTS5) that triggers maintain, also on erasure. Migration 0054 created both.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, Func, QuerySet

FEW = 200  # runs matching the other filters whose words are looked up by key
TABLE = "agents_run_words"
COLUMNS = ("goal", "subject_key", "subject_label", "stop_reason")
# A run's key or its beginning, as people copy it from an address.
_KEY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]*)+")
_ROW = f"(SELECT rowid FROM {TABLE} WHERE {TABLE} MATCH 'run : \"' || OLD.id || '\"')"  # noqa: S608
SQLITE_TRIGGERS = {
    "insert": f"AFTER INSERT ON agents_run BEGIN INSERT INTO {TABLE} "  # noqa: S608
    "(workspace, run, goal, subject, stop_reason) VALUES (NEW.workspace_id, NEW.id, NEW.goal, "
    "NEW.subject_key || ' ' || NEW.subject_label, NEW.stop_reason); END",
    "update": f"AFTER UPDATE OF {', '.join(COLUMNS)} ON agents_run BEGIN UPDATE {TABLE} "  # noqa: S608
    "SET goal = NEW.goal, subject = NEW.subject_key || ' ' || NEW.subject_label, "
    f"stop_reason = NEW.stop_reason WHERE rowid = {_ROW}; END",
    "delete": f"AFTER DELETE ON agents_run BEGIN DELETE FROM {TABLE} "  # noqa: S608
    f"WHERE rowid = {_ROW}; END",
}


class WordBeginnings(NamedTuple):
    """Word prefixes that a run must contain, anywhere or in its stop reason: all of one way."""

    ways: tuple[tuple[str, ...], ...]
    of_reason: bool = False

    @classmethod
    def of(cls, *texts: str, of_reason: bool = False) -> "WordBeginnings":
        """Return the words of a text in each of its spellings; a run's key is one word."""
        return cls(tuple(dict.fromkeys(map(_words_of, texts))), of_reason)


def _words_of(text: str) -> tuple[str, ...]:
    # Case is left to the index: Python turns İ into two characters, which split a word.
    parts = [
        part.replace("-", "") if _KEY.fullmatch(part.lower()) else part for part in text.split()
    ]
    words = [word for part in parts for word in re.findall(r"[^\W_]+", part)]
    return tuple(dict.fromkeys(words))


class HasWords(Func):
    """True for a run with these words, on PostgreSQL; by the index, or cheaply row by row."""

    output_field = BooleanField()

    def __init__(self, words: WordBeginnings) -> None:
        super().__init__(F("id"))
        self.words = words

    def as_postgresql(
        self, compiler: Any, connection: BaseDatabaseWrapper, **context: Any
    ) -> tuple[str, list[Any]]:
        key, _ = compiler.compile(self.source_expressions[0])
        mark = "A" * self.words.of_reason
        ways = (" & ".join(f"{word}:*{mark}" for word in way) for way in self.words.ways)
        wanted = " | ".join(f"({way})" for way in ways)
        return f"({key.rpartition('.')[0]}.\"words\" @@ to_tsquery('simple', %s))", [wanted]


def newest_on_sqlite(
    runs: QuerySet[Any],
    words: Sequence[WordBeginnings],
    workspaces: Sequence[int],
    *,
    after: UUID | None,
    most: int,
) -> list[UUID]:
    """Return the keys of the newest of some runs that contain these words.

    All are older than the run `after`. The index is read backwards and each run looked up until
    there are enough; if few runs match the other filters, only those are looked up.
    """
    few = list(runs.order_by().values_list("pk", flat=True)[: FEW + 1])
    if not workspaces or not few:
        return []
    homes = " OR ".join(f'"{one}"' for one in workspaces)
    wanted = [f"workspace : ({homes})"]
    for one in words:
        columns = "stop_reason" if one.of_reason else "{run goal subject stop_reason}"
        ways = (" AND ".join(map(_beginning, way)) for way in one.ways)
        wanted.append(f"{columns} : ({' OR '.join(f'({way})' for way in ways)})")
    if len(few) <= FEW:
        keys = " OR ".join(f'"{key.hex}"' for key in few)
        wanted.append(f"run : ({keys})")
    sql, params = runs.order_by().values_list("pk").query.sql_with_params()
    given, older = [*params, " AND ".join(wanted)], ""
    if after:
        older = f"AND w.rowid < (SELECT rowid FROM {TABLE} WHERE {TABLE} MATCH %s)"  # noqa: S608
        given.append(f'run : "{after.hex}"')
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT w.run FROM {TABLE} w CROSS JOIN ({sql}) r ON r.pk = w.run "  # noqa: S608
            f"WHERE w.{TABLE} MATCH %s {older} ORDER BY w.rowid DESC LIMIT %s",
            [*given, most],
        )
        return [UUID(key) for (key,) in cursor.fetchall()]


def _beginning(word: str) -> str:
    return f'"{word}" *'


def purge_words() -> None:
    """Purge deleted words from SQLite's index by merging it."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO {TABLE} ({TABLE}) VALUES ('optimize')")  # noqa: S608
