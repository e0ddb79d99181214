"""What a command says where the database does not do what it needs: a sentence, an exit code."""

from __future__ import annotations

from django.core.management import get_commands
from django.db import DatabaseError, connection

from agents.engine.database_state import pending_migrations

UNUSABLE, BEHIND = 5, 6  # exit codes of every command
# Commands that make the tables they need, or need none.
UPGRADE = ("migrate", "demo", "record_cases", "startdesk")


def refusal(name: str) -> str:
    """Return why one of our commands may not begin: its database lacks migrations; else ""."""
    if get_commands().get(name) != "agents" or name in UPGRADE:
        return ""
    count = _pending()  # 0 also where the database is away: it may come back
    connection.close()  # threads that work or serve have their own
    return _behind(count) if count else ""


def explanation(error: DatabaseError) -> tuple[str, int]:
    """Return why a command met this error, in a sentence, and its exit code.

    The sentence holds no value of a statement, and no address.
    """
    count = _pending()
    if count:
        return _behind(count), BEHIND
    first = str(error).partition("\n")[0].partition(":")[0].strip() or type(error).__name__
    said = f"The database cannot be used ({first}). What was not reported done was not done."
    return said, UNUSABLE


def _pending() -> int:
    try:
        return pending_migrations()
    except DatabaseError:
        return 0


def _behind(count: int) -> str:
    lacks = f"{count} migration{'' if count == 1 else 's'}"
    return f"The database is older than this program and lacks {lacks}: run manage.py migrate."
