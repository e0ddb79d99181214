"""Write a verifiable copy of the record for scripts/verify_bundle.py."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TextIO

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from agents.audit import copies
from agents.management.exit_codes import BAD_USAGE, REFUSED
from agents.models import Workspace


class Command(BaseCommand):
    help = "Write the record with its heads as JSON lines, to check it without this program."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--workspace", help="only this workspace (its short name)")
        parser.add_argument("--output", type=Path, help="a new file (default: standard output)")

    def handle(self, *args: Any, **options: Any) -> None:
        workspaces, slug, at = Workspace.objects.all(), options["workspace"], timezone.now()
        if slug:
            workspaces = workspaces.filter(slug=slug)
        if not workspaces:
            raise CommandError(f"There is no workspace {slug!r}.", returncode=BAD_USAGE)
        try:
            with _open_new(options["output"]) as file:
                for workspace in workspaces:
                    facts = {"bundle": copies.FORMAT}
                    copies.record_command_export(workspace=workspace, facts=facts, at=at)
                for line in copies.lines(workspaces, at=at):
                    (file or self.stdout).write(line)
        except OSError as error:
            if options["output"]:
                options["output"].unlink()
            why = f"The copy could not be written to its end: {error.strerror}."
            raise CommandError(why, returncode=REFUSED) from error


def _open_new(path: Path | None) -> AbstractContextManager[TextIO | None]:
    """Open a new file that only its owner can read. Raises CommandError if it cannot be made."""
    if path is None:
        return nullcontext()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        why = f"The copy cannot be written there: {error.strerror}."
        raise CommandError(why, returncode=BAD_USAGE) from error
    return os.fdopen(handle, "w", encoding="utf-8")
