"""Bring the database to this version, also where the triggers of the record are missing.

They are lifted before the first migration and made again after the last. Where one fails they are
made again as well, and the check that says they are missing does not stop what makes them.
"""

from __future__ import annotations

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
