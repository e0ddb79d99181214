"""Move the events of runs that ended long ago into files, checking that nothing is lost."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from agents.audit import archiving
from agents.core.money import with_unit
from agents.management.exit_codes import BAD_USAGE, REFUSED
from agents.management.operation_command import WORKSPACE, OperationCommand, argument, one_of


class Command(OperationCommand):
    help = (
        "Archive the runs of a workspace that ended before a day (UTC), or empty the texts of "
        "archived runs that were erased since. Run it again after an interruption. Exit code: "
        "0 done, 3 refused, 2 bad usage."
    )

    arguments = (
        WORKSPACE,
        argument("directory", type=Path, help="directory of its archives"),
        one_of(
            argument(
                "--before",
                metavar="DATE",
                help="archive runs that ended before this day: 2026-01-31",
            ),
            argument("--forget", action="store_true", help="empty texts that were erased"),
            required=True,
        ),
    )

    def act(self, options: dict[str, Any], **given: Any) -> str | None:
        given["directory"] = options["directory"]
        try:
            if options["forget"]:
                self._forget(archiving.forget_archived(**given))
                return None
            done = archiving.archive_runs(**given, before=_day(options["before"]))
        except OSError as error:
            why = f"The archive cannot be written or read: {error.strerror}."
            raise CommandError(why, returncode=REFUSED) from error
        numbers = _numbers(done.archives)
        runs = with_unit(done.runs, "runs")
        text = f"Archived {runs} (archive {numbers})." if numbers else "Nothing was archived."
        if done.unsealed:
            text += (
                f"\nArchive {_numbers(done.unsealed)} is written and not sealed: the database "
                "keeps its events. Run this again after the next seal."
            )
        return text

    def _forget(self, done: archiving.Forgotten) -> None:
        self.stdout.write(f"Emptied the archived texts of {with_unit(done.runs, 'runs')}.")
        missing, unknown = _numbers(done.elsewhere), _numbers(done.unknown)
        why = []
        if missing:
            why.append(
                f"The files of archive {missing} are not in this directory as they were written, "
                "and have texts of runs that were erased: run this where they are too."
            )
        if unknown:
            why.append(
                f"Archive {unknown} in this directory is not one of this database: look in it for "
                "what was erased."
            )
        if why:
            raise CommandError(" ".join(why), returncode=REFUSED)


def _numbers(archives: tuple[int, ...]) -> str:
    return ", ".join(map(str, archives))


def _day(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise CommandError(f"{text!r}: not a date like 2026-01-31.", returncode=BAD_USAGE) from None
