"""Import customers and charges into a workspace's book."""

import io
from pathlib import Path
from typing import Any

from agents.desks.refunds.books import (
    BATCH,
    COLUMNS,
    ENCODINGS,
    REFERENCE,
    decode_table,
    import_customers,
)
from agents.management.exit_codes import BadUsage
from agents.management.operation_command import WORKSPACE, OperationCommand, argument
from agents.shell.refusal import Refused

SHOWN = 10  # groups of equal lines
STRETCH = 2_000  # lines between two reports of progress


class Command(OperationCommand):
    help = (
        f"Import a CSV file with the columns {','.join(COLUMNS)} and, where wanted, {REFERENCE}: "
        "one line a charge. Nothing is imported if a line has a fault. Exit code: 0 imported, "
        "3 refused, 2 bad usage."
    )
    arguments = (
        WORKSPACE,
        argument("file", type=Path),
        argument(
            "--encoding", choices=ENCODINGS, help="of the file (default: UTF-8 or marked UTF-16)"
        ),
    )

    def act(self, options: dict[str, Any], **given: Any) -> str:
        try:
            text = decode_table(options["file"].read_bytes(), options["encoding"])
        except OSError as error:
            raise BadUsage(f"{options['file']} cannot be read ({type(error).__name__}).") from None
        except ValueError as error:
            raise Refused("bad_table", f"Nothing was imported: {error}.") from None
        done = import_customers(**given, lines=io.StringIO(text, newline=""), tell=self._tell)
        lines = [
            f"{given['workspace'].slug}: {done.customers} customers and {done.charges} charges are "
            f"new; {done.known} lines were there before."
        ]
        if done.equal:
            more = f"; and {len(done.equal) - SHOWN} more" if len(done.equal) > SHOWN else ""
            lines.append(
                f"Equal, and each a charge: {'; '.join(done.equal[:SHOWN])}{more}. A column "
                f"{REFERENCE} tells them apart."
            )
        if done.erased:
            numbers = ", ".join(map(str, done.erased))
            lines.append(f"Erased, and stay so: {numbers} (lines left out: {done.left_out}).")
        return "\n".join(lines)

    def _tell(self, done: int, total: int) -> None:
        """Show the progress of a large table."""
        if total > STRETCH and done % STRETCH < BATCH:
            self.stderr.write(f"{done:,} of {total:,} lines")
