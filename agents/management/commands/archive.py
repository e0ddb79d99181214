"""Move the events of runs that ended long ago into files, checking that nothing is lost."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from agents import operations
from agents.core.units import with_unit
from agents.management.command_arguments import ACTOR, refusals, workspace_named
from agents.management.exit_codes import BAD_USAGE, REFUSED


class Command(BaseCommand):
    help = (
        "Archive the runs of a workspace that ended before a day (UTC), or empty the texts of "
        "archived runs that were erased since. Run it again where it was interrupted. Exit code: "
        "0 done, 3 refused, 2 bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workspace", help="its short name")
        parser.add_argument("directory", type=Path, help="where its archives are kept")
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--before", metavar="DATE", help="runs that ended before it: 2026-01-31")
        what.add_argument("--forget", action="store_true", help="empty texts that were erased")

    def handle(self, *args: Any, **options: Any) -> None:
        given = {
            "workspace": workspace_named(options["workspace"]),
            "directory": options["directory"],
            "actor": ACTOR,
            "at": timezone.now(),
        }
        try:
            with refusals():
                if options["forget"]:
                    self._forget(operations.forget_archived(**given))
                    return
                done = operations.archive_runs(**given, before=_day(options["before"]))
        except OSError as error:
            why = f"The archive cannot be written or read: {error.strerror}."
            raise CommandError(why, returncode=REFUSED) from error
        numbers = _numbers(done.archives)
        runs = with_unit(done.runs, "runs")
        said = f"Archived {runs} (archive {numbers})." if numbers else "Nothing was archived."
        self.stdout.write(said)
        if done.unsealed:
            self.stdout.write(
                f"Archive {_numbers(done.unsealed)} is written and not sealed: the database keeps "
                "its events. Run this again after the next seal."
            )

    def _forget(self, done: operations.Forgotten) -> None:
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
