"""Import customers and charges into a workspace's book."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from agents.desks.refunds.importing import COLUMNS, import_customers
from agents.management.exit_codes import BAD_USAGE
from agents.management.operation_command import WORKSPACE, OperationCommand, argument


class Command(OperationCommand):
    help = (
        f"Import a CSV file with the columns {','.join(COLUMNS)}: one line a charge, all or "
        "nothing. Exit code: 0 imported, 3 refused, 2 bad usage."
    )
    arguments = (WORKSPACE, argument("file", type=Path))

    def act(self, options: dict[str, Any], **given: Any) -> str:
        try:
            text = options["file"].read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(
                f"{options['file']} cannot be read as UTF-8 text ({type(error).__name__}).",
                returncode=BAD_USAGE,
            ) from None
        done = import_customers(**given, lines=text.splitlines(keepends=True))
        new = (
            f"{given['workspace'].slug}: {done.customers} customers and {done.charges} charges are "
            f"new; {done.known} lines were there before."
        )
        if not done.erased:
            return new
        numbers = ", ".join(map(str, done.erased))
        return f"{new}\nErased, and stay so: {numbers} (lines left out: {done.left_out})."
