"""Seal the record now: for a timer of the host's, and before a backup."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from agents.audit.sealing import HeadsDiffer, NoKey, Unreadable, seal
from agents.management.exit_codes import REFUSED


class Command(BaseCommand):
    help = "Seal what is new in the record into a head. Exit code: 0 sealed, 3 refused."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--begin-file",
            action="store_true",
            help="write a lost file of heads again, with all heads of the database",
        )

        parser.add_argument(
            "--lost-key",
            metavar="ID",
            default="",
            help="continue from a head sealed with this key, which is lost",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            made = seal(
                at=timezone.now(), begin_file=options["begin_file"], lost_key=options["lost_key"]
            )
        except (HeadsDiffer, NoKey) as error:
            self.stderr.write(str(error))
            sys.exit(REFUSED)
        except Unreadable as error:
            raise CommandError(f"In the file of heads, {error}.", returncode=REFUSED) from error
        except OSError as error:
            text = f"The file of heads cannot be written: {error.strerror}."
            raise CommandError(text, returncode=REFUSED) from error
        for head in made:
            moved = [len(hashes) for _, hashes in head.chains()]
            self.stdout.write(f"Head {head.number}: {sum(moved)} events of {len(moved)} chains.")
        if not made:
            self.stdout.write("Nothing is new since the last head.")
