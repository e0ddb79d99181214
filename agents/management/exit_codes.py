"""The exit codes of commands, and the sentence of one that the database fails.

docs/operations.md has the table.
"""

from datetime import timedelta

from django.core.management import get_commands
from django.core.management.base import CommandError
from django.db import DatabaseError, connection
from django.utils import timezone

from agents.core.money import with_unit
from agents.db.driver import is_of_a_lock
from agents.engine.runtime import database

BAD_USAGE = 2  # or a setting that cannot be used
REFUSED = 3  # or not as it should be
WAITING = 4  # for a person
UNUSABLE = 5  # the database
BEHIND = 6  # the database lacks migrations, or is too old to get them


class BadUsage(CommandError):
    """A command was used wrongly; the message says how to use it."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, returncode=BAD_USAGE)


_APART = timedelta(minutes=5)  # clocks; the record doubts a time that is ten minutes off
_UPGRADE = ("migrate", "demo")  # commands that create the tables
_APART_FROM_IT = ("startdesk", "test_policy")  # that do not use this database


def refusal(name: str, *options: str) -> tuple[str, int]:
    """Return why a command may not begin, and its exit code; "" if it may.

    The database may be too old or lack migrations, or the host's clock would put wrong times on
    record.
    """
    is_check = name == "check" and any(option.startswith("--database") for option in options)
    if not is_check and (get_commands().get(name) != "agents" or name in _APART_FROM_IT):
        return "", 0
    behind = _behind(name)  # "" if the database is unreachable, as it may come back
    apart = 0 if name in _UPGRADE else _seconds_apart()
    connection.close()  # threads that work or serve have their own
    if behind:
        return behind, BEHIND
    if abs(apart) > _APART.total_seconds():
        ahead = f"{abs(apart):.0f} s {'ahead of' if apart > 0 else 'behind'} the database's"
        return f"The clock of this host is {ahead}: put the wrong one right first.", REFUSED
    return "", 0


def explanation(error: DatabaseError, name: str) -> tuple[str, int]:
    """Explain a command's database error in a sentence; return it with an exit code.

    The sentence has no values of a statement and no address. For commands that apply migrations,
    missing ones are no explanation.
    """
    if behind := _behind(name):
        return behind, BEHIND
    if is_of_a_lock(error):
        reason = "another session holds a lock on it; try again later"
        outcome = "Nothing beyond the lines above was done."
    else:
        reason = str(error).partition("\n")[0].partition(":")[0].strip() or type(error).__name__
        # The answer to a COMMIT can be lost on its way.
        outcome = "More than the lines above may be done: check before you run it again."
    return f"The database cannot be used ({reason}). {outcome}", UNUSABLE


def _seconds_apart() -> float:
    """Return by how much this host's clock is ahead of the database's; 0 if unreachable."""
    try:
        return (timezone.now() - database.database_time()).total_seconds()
    except DatabaseError:
        return 0


def _behind(name: str) -> str:
    """Say how the database is older than a command needs; "" if it is not, or is unreachable."""
    try:
        database.check_not_too_old()
        count = 0 if name in _UPGRADE else database.pending_migrations()
    except database.DatabaseTooOld as old:
        return str(old)
    except DatabaseError:
        return ""
    if not count:
        return ""
    lacks = with_unit(count, "migrations")
    return f"The database is older than this program and lacks {lacks}: run manage.py migrate."
