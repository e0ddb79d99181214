"""Import customers and charges into a workspace's book."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from agents.desks.refunds.importing import COLUMNS, import_customers
from agents.management.command_arguments import ACTOR, refusals, workspace_named
from agents.management.exit_codes import BAD_USAGE


class Command(BaseCommand):
    help = (
        f"Import a CSV file with the columns {','.join(COLUMNS)}: one line a charge, all or "
        "nothing. Exit code: 0 imported, 3 refused, 2 bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workspace", help="its short name")
        parser.add_argument("file", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = workspace_named(options["workspace"])
        try:
            text = options["file"].read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(
                f"{options['file']} cannot be read as UTF-8 text ({type(error).__name__}).",
                returncode=BAD_USAGE,
            ) from None
        with refusals():
            done = import_customers(
                workspace=workspace,
                lines=text.splitlines(keepends=True),
                at=timezone.now(),
                actor=ACTOR,
            )
        self.stdout.write(
            f"{workspace.slug}: {done.customers} customers and {done.charges} charges are new; "
            f"{done.known} lines were there before."
        )
        if done.erased:
            numbers = ", ".join(map(str, done.erased))
            self.stdout.write(f"Erased, and stay so: {numbers} (lines left out: {done.left_out}).")
