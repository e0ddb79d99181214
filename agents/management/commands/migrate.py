"""Migrate the database to this version, even if the record's triggers are missing.

Triggers are dropped before the first migration and created after the last or a failed one. The
check for missing triggers does not stop this command, which creates them.
"""

from typing import Any

from django.core.management.commands import migrate
from django.db import connections

from agents.audit import protection


class Command(migrate.Command):
    def check(self, *args: Any, **options: Any) -> None:
        super().check(*args, **{**options, "databases": None})

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            super().handle(*args, **options)
        except Exception:
            protection.protect(connections[options["database"]])
            raise
